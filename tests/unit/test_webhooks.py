"""Webhooks: signed requests in order, at one's own pace, to allowed addresses alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_folder_feed import SMALL, WEB, A

from crawling import crawl_folder
from lycosa.__main__ import main
from lycosa.base.config.checks import check_webhooks
from lycosa.base.config.feature_sections import WebhookSection
from lycosa.base.config.sections import Config
from lycosa.base.config.sources import load_settings
from lycosa.feeds.export_port import ExportRow, Overtaken, TargetAway, TargetError
from lycosa.feeds.export_tables import changes_table
from lycosa.feeds.exporters.http_sender import AddressRefused, HttpSender
from lycosa.feeds.exporters.webhook_target import WebhookTarget, read_secret, retry_wait, signature
from lycosa.feeds.feed_position import BadPosition
from lycosa.feeds.webhook_delivery import (
    Webhooks,
    move_webhook,
    webhook_folder,
    webhook_names,
    webhook_states,
)
from lycosa.inspect.queries.changed_list import ChangesCursor, cursor_text
from lycosa.processes.changes_feed import folder_changes
from lycosa.stages.fetch.guard import Guard
from webhook_receiver import Receiver, receiver

SECRET = b"0123456789abcdef0123456789abcdef"
CRAWL = "0c1d2e3f-1111-2222-3333-444455556666"
TABLE = changes_table()


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def section(tmp_path: Path, *urls: str, **changes: Any) -> WebhookSection:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    values = {"urls": urls, "secret_file": str(path), "allow_http": True, **changes}
    return WebhookSection(**values)


def target(tmp_path: Path, url: str, now: float = 1_700_000_000.0, **changes: Any) -> WebhookTarget:
    given = section(tmp_path, url, **changes)
    return WebhookTarget(url, "hook", tmp_path / "state.json", given, CRAWL, lambda: now)


def change(number: int) -> ExportRow:
    row = {"url": f"http://a.test/{number}", "id": f"{number:032x}", "date": float(number)}
    return ExportRow(TABLE, msgspec.json.encode({**row, "change": "new"}))


def test_a_request_is_signed_as_standard_webhooks_says(tmp_path: Path, hook: Receiver) -> None:
    sender = target(tmp_path, hook.url)
    assert sender.open() == ""
    sender.write([change(1), change(2)], "", "p1")
    sender.close()
    headers, body = hook.requests[0]
    stamp, identity = headers["webhook-timestamp"], headers["webhook-id"]
    signed = f"{identity}.{stamp}.".encode() + body
    digest = hmac.new(SECRET, signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert stamp == "1700000000"
    sent = json.loads(body)
    assert sent["type"] == "pages.changed" and sent["data"]["crawl"] == CRAWL
    assert [each["url"] for each in sent["data"]["changes"]] == [
        "http://a.test/1",
        "http://a.test/2",
    ]


def test_the_signature_of_the_specification_is_ours() -> None:
    # standardwebhooks.com, "Signature scheme": the vector of its reference libraries
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_position_moves_when_a_request_was_accepted(tmp_path: Path, hook: Receiver) -> None:
    hook.status = lambda number: 500 if number == 1 else 200
    sender = target(tmp_path, hook.url)
    sender.open()
    with pytest.raises(TargetAway, match="answered 500"):
        sender.write([change(1)], "", "p1")
    state = sender.state
    assert (state.position, state.failures, state.next_try - state.failing_since) == ("", 1, 1.0)
    with pytest.raises(Overtaken):
        sender.write([change(1)], "p0", "p1")
    sender.write([change(1)], "", "p1")
    sender.close()
    again = target(tmp_path, hook.url)
    assert again.open() == "p1" and again.state.failures == 0 and again.state.delivered == 1
    again.close()
    first, second = (headers["webhook-id"] for headers, _ in hook.requests)
    assert first == second, "a receiver can tell that the request is the same"


def test_redirects_are_not_followed(tmp_path: Path, hook: Receiver) -> None:
    hook.status = lambda number: 302
    sender = target(tmp_path, hook.url)
    sender.open()
    with pytest.raises(TargetAway, match="redirects are not followed"):
        sender.write([change(1)], "", "p1")
    sender.close()
    assert len(hook.requests) == 1


def test_nothing_is_sent_to_an_address_that_the_guard_refuses(
    tmp_path: Path, hook: Receiver
) -> None:
    # the guard sees the address of the connection: a name may resolve to anything
    url = hook.url.replace("http://127.0.0.1", "https://localhost")
    sender = target(tmp_path, url, allow_http=False)
    sender.open()
    with pytest.raises(TargetAway, match=r"is loopback|does not answer"):
        sender.write([change(1)], "", "p1")
    sender.close()
    sender_of_all = HttpSender(refusal=Guard(()).refusal)
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1 is loopback"):
        sender_of_all.send("POST", hook.url, b"{}")
    sender_of_all.close()
    plain = target(tmp_path, hook.url)
    guarded = plain._refusal("10.0.0.1"), plain._refusal("93.184.216.34")
    assert all(each and "not encrypted" in each for each in guarded)
    encrypted = target(tmp_path, "https://hooks.test/", allow_http=False)
    assert encrypted._refusal("10.0.0.1") == "private"
    assert encrypted._refusal("127.0.0.1") == "loopback"
    assert encrypted._refusal("93.184.216.34") is None
    inside = target(tmp_path, "https://hooks.test/", allow_addresses=("10.0.0.0/8",))
    assert inside._refusal("10.0.0.1") is None
    assert hook.requests == []


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        (["http://hooks.test/"], "not encrypted"),
        (["http://10.0.0.1/"], "not encrypted"),
        (["http://localhost/"], "not encrypted"),
        (["ftp://hooks.test/"], "write https://HOST/PATH"),
        (["https://user:pw@hooks.test/"], "has a password"),
        (["https://hooks.test/"] * 2, "named twice"),
        ([f"https://hooks.test/{n}" for n in range(17)], "at most 16"),
    ],
)
def test_urls_that_are_refused(urls: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_webhooks(urls)
    check_webhooks(["https://hooks.test/x?y=1", "http://127.0.0.1:8000/", "http://[::1]/"])


def test_settings_with_which_nothing_can_be_sent_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="allow_http"):
        target(tmp_path, "http://127.0.0.1/", allow_http=False)
    with pytest.raises(TargetError, match="secret_file is missing"):
        target(tmp_path, "https://hooks.test/", secret_file="")
    short = tmp_path / "short"
    short.write_text("too short")
    with pytest.raises(TargetError, match="less than 24 bytes"):
        read_secret(short)
    (tmp_path / "base64").write_text("whsec_" + base64.b64encode(SECRET).decode())
    assert read_secret(tmp_path / "base64") == SECRET


def test_waits_grow_to_a_bound() -> None:
    assert [retry_wait(n, 60.0) for n in (0, 1, 2, 5, 6, 1000)] == [1, 2, 4, 32, 60, 60]


def test_names_tell_hosts_and_no_paths() -> None:
    urls = ["https://a.test/secret", "https://b.test/x", "https://a.test/other"]
    assert webhook_names(urls) == ["a.test (1)", "b.test", "a.test (2)"]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hooks") / "crawl"
    crawl_folder(folder, WEB, [f"{A}/"], SMALL)
    return folder


def test_each_url_gets_every_change_in_order_while_another_is_dead(
    crawl: Path, tmp_path: Path
) -> None:
    with receiver() as good, receiver() as dead:
        good.status = lambda number: 503 if number == 2 else 200
        dead.status = lambda number: 500
        given = section(tmp_path, good.url, dead.url, batch=10)
        lines: list[str] = []

        def deliver() -> None:
            feed = folder_changes(crawl)
            open_feed = lambda after: folder_changes(crawl, after)  # noqa: E731
            Webhooks(tmp_path / "states", given, feed.crawl, open_feed, lines.append).run(True)

        deliver()  # ends at the second request, which fails
        assert len(good.accepted) == 10
        deliver()
        wanted = [json.loads(row) for row in folder_changes(crawl).new_rows()]
        assert good.accepted == wanted and len(wanted) == 41
        assert len(dead.requests) == 2 and dead.accepted == []
    first, second = webhook_states(tmp_path / "states", given)
    assert (first.delivered, first.failures) == (41, 0)
    assert (second.delivered, second.failures, second.why) == (
        0,
        2,
        f"webhook {second.name} answered 500",
    )
    assert [line for line in lines if "answered 503" in line]


def test_kinds_that_are_left_out_move_the_position(crawl: Path, tmp_path: Path) -> None:
    from lycosa.processes.changes_feed import ChangesFeed, FolderReaders, WantedChanges

    with receiver() as hook:
        given = section(tmp_path, hook.url, kinds=("gone",))
        identity = folder_changes(crawl).crawl

        def open_feed(after: str) -> ChangesFeed:
            return ChangesFeed(identity, FolderReaders(crawl), after, WantedChanges(("gone",)))

        Webhooks(tmp_path / "states", given, identity, open_feed, print).run(True)
        assert hook.requests == []
    (state,) = webhook_states(tmp_path / "states", given)
    assert state.position and not list(folder_changes(crawl, state.position).new_rows())


def test_a_position_of_another_crawl_is_refused(crawl: Path) -> None:
    with pytest.raises(BadPosition, match="cursor of the crawl"):
        folder_changes(crawl, "changes/ffffffff/0:0.1")


def test_after_any_position_come_exactly_the_changes_behind_it(crawl: Path) -> None:
    feed = folder_changes(crawl)
    rows, positions = [], [""]
    for row in feed.new_rows():
        rows.append(row)
        positions.append(feed.position)
    for at, position in list(enumerate(positions))[::7]:
        assert list(folder_changes(crawl, position).new_rows()) == rows[at:]


def test_a_webhook_that_lacks_changes_continues_where_it_is_told(
    crawl: Path, tmp_path: Path
) -> None:
    with receiver() as hook:
        given, lines = section(tmp_path, hook.url), list[str]()
        identity, states = folder_changes(crawl).crawl, tmp_path / "states"
        (name,) = webhook_names(given.urls)

        def deliver() -> None:
            open_feed = lambda after: folder_changes(crawl, after)  # noqa: E731
            Webhooks(states, given, identity, open_feed, lines.append).run(True)

        # a position behind the last change, as after a restore from an older copy
        move_webhook(states, given, name, f"changes/{identity[:8]}/0:0.999999")
        with pytest.raises(TargetError, match="continue with"):
            deliver()
        (state,) = webhook_states(states, given)
        assert f"lycosa webhooks --name '{name}' --since 0" in state.why and state.failures == 1
        with pytest.raises(TargetError, match=f"no webhook other.test: {name}"):
            move_webhook(states, given, "other.test", "")
        wanted = [json.loads(row) for row in folder_changes(crawl).new_rows()]
        times = sorted(row["noted"] for row in wanted)
        since = cursor_text(identity, ChangesCursor(since_s=times[-1] + 1))
        move_webhook(states, given, name, since)
        deliver()
        assert hook.accepted == []
        (state,) = webhook_states(states, given)
        assert state.failures == 0 and state.position not in ("", since)
        move_webhook(states, given, name, "")
        deliver()
        assert hook.accepted == wanted


def test_the_command_says_where_a_webhook_continues(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(crawl, tmp_path / "crawl"))
    given = section(tmp_path, "https://hooks.test/x")
    (folder / "settings.json").write_bytes(msgspec.json.encode(Config(webhooks=given)))
    move = ["webhooks", str(folder), "--name", "hooks.test", "--since"]
    assert main([*move, "2026-11-01"]) == 0
    (state,) = webhook_states(webhook_folder(folder), given)
    assert "/@17" in state.position
    assert main([*move, "0"]) == 0
    (state,) = webhook_states(webhook_folder(folder), given)
    assert state.position == ""
    assert main([*move, "yesterday"]) == 2
    assert main(["webhooks", str(folder), "--since", "0"]) == 2
    capsys.readouterr()
    # `lycosa status` reads the state of a crawl that does not run
    assert main(["status", str(folder)]) == 0
    assert "0 changes told" in capsys.readouterr().out
    assert main(["status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["webhooks"][0]["name"] == "hooks.test"


def test_a_secret_file_is_found_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "crawl.toml"
    file.write_text('[webhooks]\nsecret_file = "secret"\n')
    monkeypatch.chdir(tmp_path)
    found = load_settings(Path("conf/crawl.toml"), {})
    assert found.config.webhooks.secret_file == str(tmp_path / "conf" / "secret")
    assert found.origin("webhooks.secret_file").endswith("crawl.toml:2")
    of_pairs = load_settings(None, {}, ["webhooks.secret_file=secret"])
    assert of_pairs.config.webhooks.secret_file == str(tmp_path / "secret")
    of_env = load_settings(None, {"LYCOSA_WEBHOOKS__SECRET_FILE": "/etc/secret"})
    assert of_env.config.webhooks.secret_file == "/etc/secret"
