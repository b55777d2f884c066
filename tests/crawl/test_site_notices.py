"""Notices of sites that their pages have changed: the key in a file of the host, and what a notice
may cost and change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, html, moved, page, robots
from judging import stored_rows
from lycosa.base.calls import (
    AnnounceChanges,
    Call,
    CallReply,
    GivenUrl,
    GivenVerdicts,
    SiteNotice,
    decode_reply,
    encode_call,
)
from lycosa.base.config.sections import (
    Config,
    IndexNowSection,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
)
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.urls.identity import hash8
from lycosa.cli.main import main
from lycosa.inspect.committed_state import read_folder
from lycosa.synthetic import Response, VirtualClock
from lycosa.worker.assemble import Assembled

A, KEY = "http://a.test/", "1234abcd-EF"
FILE = f"{A}{KEY}.txt"
DAY_S = 86_400.0
SETTINGS = msgspec.structs.replace(
    QUICK,
    indexnow=IndexNowSection(accept=True),
    refetch=RefetchSection(rule=RefetchRule.ADAPTIVE, min_s=3600, first_s=30 * DAY_S),
    politeness=PolitenessSection(delay_s=1.0, adaptive_factor=0.0, jitter=0.0),
)
Meanwhile = Callable[[Assembled], Coroutine[Any, Any, None]]


def text(body: str, status: int = 200) -> Response:
    return Response(status, [("Content-Type", "text/plain")], body.encode())


def web(**more: Response | Sequence[Response]) -> Pages:
    named = {name.replace("_", "/"): answer for name, answer in more.items()}
    return Pages(
        {
            A: page("/one", "/shop/two", "/no/three"),
            f"{A}one": [page(text="first"), page(text="second"), page(text="third")],
            f"{A}shop/two": [page(text="first"), page(text="second")],
            **{f"{A}{name}": answer for name, answer in named.items()},
        }
    )


def asked(pages: Pages) -> list[str]:
    return [url for url in pages.asked if not url.endswith("robots.txt")]


def told(folder: Path, pages: Pages, meanwhile: Meanwhile, config: Config = SETTINGS) -> list[str]:
    """What a web is asked for by a run two days after the crawl, in which something is told."""
    crawl_folder(folder, pages, [A], config)
    before = len(asked(pages))
    crawl_folder(folder, pages, [], config, start=2 * DAY_S, meanwhile=meanwhile)
    assert main(["audit", str(folder)]) == 0
    return asked(pages)[before:]


async def call(assembled: Assembled, value: Call) -> CallReply:
    partition = assembled.intake.partition_of_host("a.test")
    return decode_reply(await assembled.calls.answer_call(partition, encode_call(value)))


def notice(*paths: str, key: str = KEY, file: str = "", at: float = 2 * DAY_S + 1) -> SiteNotice:
    urls = [path if "://" in path else f"{A}{path}" for path in paths]
    return SiteNotice("a.test", key, file or f"{A}{key}.txt", urls, 1e12 if at < 0 else at + 1e9)


def sends(*notices: SiteNotice, pause_s: float = 20.0) -> Meanwhile:
    async def send(assembled: Assembled) -> None:
        for each in notices:
            now = VirtualClock().wall()
            reply = await call(assembled, msgspec.structs.replace(each, at=now))
            assert reply == GivenVerdicts([])  # whatever the crawl knows
            await asyncio.sleep(pause_s)

    return send


def test_a_notice_has_its_pages_fetched_when_its_key_is_in_the_file(tmp_path: Path) -> None:
    pages = web(**{f"{KEY}.txt": text(f"{KEY}\n")})
    found = told(tmp_path / "c", pages, sends(notice("one", "shop/two")))
    assert found[0] == FILE and sorted(found[1:]) == [f"{A}one", f"{A}shop/two"]
    rows = read_folder(tmp_path / "c").partition_views()
    truths = [
        record.signals for view in rows if (record := view.host_record(hash8("a.test"))) is not None
    ]
    (known,) = truths
    assert known[SignalSource.INDEXNOW].right > 190


@pytest.mark.parametrize(
    "answer",
    [
        text("another-key"),
        text(KEY, status=404),
        text(f"{KEY}{KEY}"),
        moved(f"{A}elsewhere.txt"),
        html("x" * 20_000),
        text(""),
    ],
)
def test_without_the_key_in_its_file_nothing_is_fetched(tmp_path: Path, answer: Response) -> None:
    pages = web(**{f"{KEY}.txt": answer, "elsewhere.txt": text(KEY)})
    assert told(tmp_path / "c", pages, sends(notice("one"), notice("one"))) == [FILE]


def test_a_key_speaks_for_what_is_below_the_folder_of_its_file(tmp_path: Path) -> None:
    pages = web(**{"shop_key.txt": text(KEY)})
    file = f"{A}shop/key.txt"
    found = told(tmp_path / "c", pages, sends(notice("one", "shop/two", file=file)))
    assert found == [file, f"{A}shop/two"]
    others = told(
        tmp_path / "d", web(**{"shop_key.txt": text(KEY)}), sends(notice("one", file=file))
    )
    assert others == []


def test_no_url_becomes_known_by_a_notice(tmp_path: Path) -> None:
    pages = web(**{f"{KEY}.txt": text(KEY)})
    unknown = notice("new", "http://b.test/", "nonsense", "one/../new?x=1")
    assert told(tmp_path / "c", pages, sends(unknown)) == []
    assert read_folder(tmp_path / "c").find_url(f"{A}new") is None
    assert read_folder(tmp_path / "c").find_url(FILE) is None


def test_a_key_file_is_requested_at_most_once_an_hour(tmp_path: Path) -> None:
    keys = [f"wrong-key-{number}" for number in range(20)]
    pages = web()
    many = [notice("one", key=key) for key in keys for _ in range(3)]
    found = told(tmp_path / "c", pages, sends(*many, pause_s=100.0))
    assert found == [f"{A}{keys[0]}.txt", f"{A}{keys[12]}.txt"]  # 6,000 s


def test_a_known_key_needs_no_further_request(tmp_path: Path) -> None:
    pages = web(**{f"{KEY}.txt": text(KEY)})
    found = told(
        tmp_path / "c", pages, sends(notice("one"), notice("shop/two"), notice("shop/two"))
    )
    assert found == [FILE, f"{A}one", f"{A}shop/two"]


def test_robots_txt_is_obeyed_and_requested_first(tmp_path: Path) -> None:
    pages = web(
        **{f"{KEY}.txt": text(KEY), "robots.txt": robots("User-agent: *", "Disallow: /*.txt")}
    )
    crawl_folder(tmp_path / "c", pages, [A], SETTINGS)
    pages.asked.clear()
    sending = sends(notice("one"))
    crawl_folder(tmp_path / "c", pages, [], SETTINGS, start=2 * DAY_S, meanwhile=sending)
    assert pages.asked == [f"{A}robots.txt"]  # it had expired
    assert main(["audit", str(tmp_path / "c")]) == 0


def test_a_flood_costs_no_fetches(tmp_path: Path) -> None:
    """100,000 notices with all sorts of keys, for hosts and pages that the crawl knows or not."""
    pages = web()

    async def flood(assembled: Assembled) -> None:
        keys = assembled.calls._handlers[SiteNotice]
        partition = assembled.worker.frontier.partitions[
            assembled.intake.partition_of_host("a.test")
        ]
        now = VirtualClock().wall()
        for number in range(100_000):
            known = number % 1000 == 0
            host = "a.test" if number % 2 == 0 else f"h{number}.test"
            url = f"http://{host}/{'one' if known else number}"
            key = f"key-{number:08}"
            await keys(partition, SiteNotice(host, key, f"http://{host}/{key}.txt", [url], now))
        await asyncio.sleep(60)
        rows = sum(1 for _ in partition.table.scan(b"i", b"j"))
        assert rows <= 1

    assert len(told(tmp_path / "c", pages, flood)) == 1


def test_it_is_off_by_default(tmp_path: Path) -> None:
    off = msgspec.structs.replace(SETTINGS, indexnow=IndexNowSection())
    pages = web(**{f"{KEY}.txt": text(KEY)})
    assert told(tmp_path / "c", pages, sends(notice("one")), off) == []


def test_what_waits_for_a_key_survives_the_end_of_a_run(tmp_path: Path) -> None:
    """The row and the errand are in one commit: the next run requests the file."""
    pages = web(**{f"{KEY}.txt": text(KEY)})
    folder = tmp_path / "c"
    crawl_folder(folder, pages, [A], SETTINGS)
    pages.asked.clear()

    async def stop(assembled: Assembled) -> None:
        asking = asyncio.ensure_future(call(assembled, notice("one", at=-1)))
        await asyncio.sleep(0)
        assembled.worker.stop()
        await asyncio.wait([asking])

    crawl_folder(folder, pages, [], SETTINGS, start=2 * DAY_S, meanwhile=stop)
    crawl_folder(folder, pages, [], SETTINGS, start=2 * DAY_S + 60)
    assert asked(pages) == [FILE, f"{A}one"]


def test_a_program_announces_changes_with_a_verdict_each(tmp_path: Path) -> None:
    pages = web(new=page())

    async def announce(assembled: Assembled) -> None:
        urls = [GivenUrl(f"{A}{path}") for path in ("one", "one", "new", "no/three")]
        urls += [GivenUrl("http://c.test/"), GivenUrl("mailto:x@a.test")]
        reply = await call(assembled, AnnounceChanges("feeder", urls))
        assert isinstance(reply, GivenVerdicts)
        verdicts = [each.verdict.value for each in reply.verdicts]
        assert verdicts == ["sooner", "kept", "not_known", "ended", "rejected", "rejected"]
        reply = await call(assembled, AnnounceChanges("feeder", urls[2:3], adds=True))
        assert isinstance(reply, GivenVerdicts)
        assert [each.verdict.value for each in reply.verdicts] == ["accepted"]
        await asyncio.sleep(30)

    assert sorted(told(tmp_path / "c", pages, announce)) == [f"{A}new", f"{A}one"]


def test_requests_of_key_files_are_in_the_archive_as_what_they_are(tmp_path: Path) -> None:
    pages = web(**{f"{KEY}.txt": text(KEY)})
    told(tmp_path / "c", pages, sends(notice("one")))
    kinds = {row.url: row.kind for row in stored_rows(tmp_path / "c")}
    assert kinds[FILE] is FetchKind.KEY_FILE and kinds[f"{A}one"] is FetchKind.PAGE
