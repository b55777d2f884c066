"""``lycosa identity``: keys, directory, card and page, and what each refuses."""

from __future__ import annotations

import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, InvalidSignature, MappingKeyResolver
from http_message_signatures.algorithms import ED25519

from lycosa.base.config.sources import SettingsError, load_settings
from lycosa.base.signing.message_signature import DIRECTORY_TAG
from lycosa.base.signing.signing_key import create_key, load_key
from lycosa.cli.identity_files import prefixes_of, site_of
from lycosa.cli.main import main
from lycosa.cli.owner_page import PageFacts, owner_page, robots_examples
from lycosa.stages.fetch.headers import build_user_agent
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.stages.politeness.robots_rules import Matcher

CONTACT = ["--set", "agent.contact=you@example.org"]
WELL_KNOWN = Path(".well-known/http-message-signatures-directory")


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert main(["identity", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["identity", *map(str, arguments)]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    return found.err


def test_the_public_part_of_a_new_key_is_printed_and_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "signing.pem"
    jwk = asked(capsys, "new", path)
    assert jwk == asked(capsys, "show", path)
    assert jwk["kid"] == load_key(path).key_id
    assert jwk.keys() == {"kty", "crv", "kid", "x", "use"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["identity", "show", str(path)]) == 0
    assert jwk["kid"] in capsys.readouterr().out


def test_bad_key_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "signing.pem"
    create_key(path)
    assert "a key is never replaced" in refused(capsys, "new", path)
    path.chmod(0o644)
    assert "chmod 600" in refused(capsys, "show", path)
    assert "no such key file" in refused(capsys, "show", tmp_path / "absent")
    out = ("--url", "https://crawler.example", "--out", tmp_path / "site", *CONTACT)
    assert "chmod 600" in refused(capsys, "directory", path, *out)
    assert "cannot be read" in refused(capsys, "directory", tmp_path / "absent", *out)
    assert "KEY" in refused(capsys, "directory", *out)
    assert not (tmp_path / "site").exists()


def test_the_keys_of_sixteen_nodes_are_one_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for n in range(16):
        jwk = asked(capsys, "new", tmp_path / f"{n}.pem")
        files.append(tmp_path / f"node-{n}.json")
        files[-1].write_text(json.dumps(jwk))
    out = ("--url", "https://Crawler.example/", "--out", tmp_path / "site", *CONTACT)
    done = asked(capsys, "directory", *files, *out)
    path = tmp_path / "site" / WELL_KNOWN
    keys = json.loads(path.read_bytes())["keys"]
    assert len(keys) == 16 and [each["kid"] for each in keys] == done["keys"]
    assert sorted(done["keys"]) == sorted(load_key(tmp_path / f"{n}.pem").key_id for n in range(16))
    assert all("d" not in each for each in keys)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert done["settings"] == {"agent.key_directory": f"https://crawler.example/{WELL_KNOWN}"}
    # One more node, and one listed twice: the old directory is an input as well.
    create_key(tmp_path / "16.pem")
    again = asked(capsys, "directory", path, tmp_path / "16.pem", files[3], *out)
    assert set(again["keys"]) == {*done["keys"], load_key(tmp_path / "16.pem").key_id}
    # The settings that it names are accepted.
    assert load_settings(None, {}, [f"{k}={v}" for k, v in again["settings"].items()])


def test_the_card_names_page_and_addresses_whichever_was_written_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_key(tmp_path / "a.pem")
    cards = []
    for order in ("directory page", "page directory"):
        site = tmp_path / order
        out = ("--url", "https://crawler.example", "--out", site, "--purpose", "search", *CONTACT)
        for name in order.split():
            more = [tmp_path / "a.pem"] if name == "directory" else ["--address", "192.0.2.7"]
            asked(capsys, name, *more, *out)
        cards.append(json.loads((site / "signature-agent-card.json").read_bytes()))
    assert cards[0] == cards[1]
    card = cards[0]
    # draft-meunier-webbotauth-registry-04 section 3: the URL of the card is its client_id
    assert card["client_id"] == "https://crawler.example/signature-agent-card.json"
    assert card["client_uri"] == "https://crawler.example/"
    assert card["contacts"] == ["mailto:you@example.org"]
    assert card["jwks_uri"] == f"https://crawler.example/{WELL_KNOWN}"
    assert "jwks" not in card
    about = card["web_bot_auth"]
    assert about["ips_uri"] == "https://crawler.example/crawlerips.json"
    assert about["rfc9309-compliance"] is True and about["trigger"] == "crawler"
    assert about["purpose"] == "search" and about["rfc9309-product-token"] == "lycosa"
    prefix = about["expected-user-agent"].removesuffix("*")
    assert build_user_agent("lycosa", "1", "").startswith(prefix)


def test_the_addresses_have_the_form_of_the_draft(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses = ("192.0.2.7", "2001:db8::/64", "192.0.2.6/31", "198.51.100.0/25")
    given = [part for each in addresses for part in ("--address", each)]
    out = ("--url", "https://crawler.example", "--out", tmp_path, *CONTACT)
    asked(capsys, "page", *given, *out)
    found = json.loads((tmp_path / "crawlerips.json").read_bytes())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["creationTime"])
    assert found["prefixes"] == [
        {"ipv4Prefix": "192.0.2.6/31"},
        {"ipv4Prefix": "198.51.100.0/25"},
        {"ipv6Prefix": "2001:db8::/64"},
    ]


def test_each_key_proves_the_directory_to_a_verifier_of_another_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [create_key(tmp_path / f"{n}.pem") for n in range(3)]
    url = ("--url", "https://crawler.example:443")
    asked(capsys, "directory", *tmp_path.glob("*.pem"), *url, "--out", tmp_path, *CONTACT)
    published = ("--directory", tmp_path / WELL_KNOWN)
    fields: dict[str, str] = {}
    for n in range(3):
        for name, value in asked(capsys, "prove", tmp_path / f"{n}.pem", *url, *published).items():
            is_list = name in fields and name != "Content-Digest"
            fields[name] = f"{fields[name]}, {value}" if is_list else value

    request = SimpleNamespace(method="GET", url=f"https://crawler.example/{WELL_KNOWN}", headers={})
    response = SimpleNamespace(status_code=200, headers=fields, request=request)
    verifier = HTTPMessageVerifier(
        signature_algorithm=ED25519,
        key_resolver=MappingKeyResolver(
            public_keys={
                key.key_id: Ed25519PublicKey.from_public_bytes(key.public) for key in keys
            },
            private_keys={},
        ),
    )
    body = (tmp_path / WELL_KNOWN).read_bytes()

    def verified(body: bytes) -> list[object]:
        found = verifier.verify(response, expect_tag=DIRECTORY_TAG, body=body)
        return [each.parameters["keyid"] for each in found]

    assert verified(body) == [key.key_id for key in keys]
    with pytest.raises(InvalidSignature):
        verified(body + b" ")
    request.url = request.url.replace("crawler", "attacker")
    with pytest.raises(InvalidSignature):
        verified(body)


def test_a_directory_that_lacks_the_key_is_not_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_key(tmp_path / "a.pem")
    create_key(tmp_path / "b.pem")
    url = ("--url", "https://crawler.example")
    asked(capsys, "directory", tmp_path / "a.pem", *url, "--out", tmp_path, *CONTACT)
    published = ("--directory", tmp_path / WELL_KNOWN)
    said = refused(capsys, "prove", tmp_path / "b.pem", *url, *published)
    assert "does not have the key" in said
    said = refused(capsys, "prove", tmp_path / "a.pem", *url, "--directory", tmp_path / "absent")
    assert "absent cannot be read" in said
    said = refused(capsys, "prove", tmp_path / "a.pem", *url, *published, "--days", 0)
    assert "--days" in said
    said = refused(capsys, "prove", tmp_path / "a.pem", "--url", "http://x", *published)
    assert "write https and a host" in said


def test_without_addresses_there_is_no_list_that_denies_our_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(capsys, "page", "--url", "https://crawler.example", "--out", tmp_path, *CONTACT)
    assert not (tmp_path / "crawlerips.json").exists()
    assert "crawlerips" not in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--url", "http://crawler.example", "write https and a host"),
        ("--url", "https://", "write https and a host"),
        ("--url", "crawler.example", "write https and a host"),
        ("--url", "https://crawler.example/bot", "write https and a host"),
        ("--url", "https://crawler.example/?a", "write https and a host"),
        ("--url", "https://me:secret@crawler.example", "write https and a host"),
        ("--url", 'https://crawler.example"', "write https and a host"),
        ("--url", "https://[::1", "write https and a host"),
        ("--address", "192.0.2.7/24", "has host bits set"),
        ("--address", "crawler.example", "write 192.0.2.7"),
        ("--address", "10.0.0.0/8", "no site sees this address"),
        ("--address", "127.0.0.1", "no site sees this address"),
        ("--address", "fe80::1", "no site sees this address"),
        ("--set", "agent.contact=", "site owners must be able to reach you"),
        ("--set", "agent.contact=nobody", "site owners must be able to reach you"),
        ("--set", "agent.nonsense=1", "agent.nonsense"),
        ("--config", "/nowhere/crawl.toml", "/nowhere/crawl.toml"),
    ],
)
def test_bad_input_of_the_page_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, why: str
) -> None:
    given = {"--url": "https://crawler.example", "--set": "agent.contact=you@example.org"}
    given[option] = value
    options = [part for pair in given.items() for part in pair]
    assert why in refused(capsys, "page", "--out", tmp_path / "site", *options)
    assert not (tmp_path / "site").exists()


def test_all_bad_addresses_are_named_together() -> None:
    with pytest.raises(SettingsError) as found:
        prefixes_of(["192.0.2.1/8", "x", "10.1.1.1", "198.51.100.1"])
    assert len(found.value.problems) == 3
    assert site_of("https://Crawler.example:8443/") == "https://crawler.example:8443"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agent.key_directory", "http://crawler.example/d"),
        ("agent.key_directory", "crawler.example"),
        ("agent.key_directory", 'https://crawler.example/"'),
        ("agent.key_directory", "https://crawler.example/a?b"),
        ("agent.key_directory", "https://me@crawler.example/a"),
        ("agent.key_directory", "https://crawler.example/\u00e9"),
        ("agent.key_directory", "https://crawler.example/\r\nX: 1"),
        ("agent.page", "you@example.org"),
        ("agent.page", "https://crawler.example/(a)"),
        ("agent.page", "ftp://crawler.example/"),
    ],
)
def test_bad_settings_of_the_agent_are_refused(key: str, value: str) -> None:
    with pytest.raises(SettingsError, match=key):
        load_settings(None, {}, [f"{key}={value}"])


# the page


class _Texts(HTMLParser):
    """The tags of a page, and its preformatted texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.pre: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "pre":
            self.pre.append(data)


def facts(**changes: Any) -> PageFacts:
    given: dict[str, Any] = {
        "site": "https://crawler.example",
        "product": "Bot-x",
        "contact": "you@example.org",
        "purposes": ("search",),
        "prefixes": ("192.0.2.0/28",),
        "delay_s": 1.0,
        "max_crawl_delay_s": 30.0,
        "is_signed": True,
    }
    return PageFacts(**(given | changes))


def test_the_examples_of_the_page_do_to_our_parser_what_it_says() -> None:
    page = _Texts()
    page.feed(owner_page(facts()))
    assert page.open == []
    examples = robots_examples("Bot-x", 30.0)
    assert page.pre == [each.text for each in examples]
    targets = ("/", "/private/", "/public/a")

    def verdicts(text: str, agent: str) -> list[bool]:
        matcher = Matcher(parse_robots(text.encode(), agent))
        return [matcher.judge_target(target).allowed for target in targets]

    found = [verdicts(each.text, "Bot-x") for each in examples]
    assert found == [
        [False, False, False],
        [True, False, True],
        [False, False, True],
        [True, True, True],
    ]
    assert parse_robots(examples[3].text.encode(), "Bot-x").crawl_delay_s == 20
    for each in examples:  # other crawlers do not mind
        assert verdicts(each.text, "other") == [True, True, True]


def test_the_page_promises_no_longer_crawl_delay_than_the_crawl_keeps() -> None:
    text = robots_examples("Bot-x", 12.5)[3].text
    assert parse_robots(text.encode(), "Bot-x").crawl_delay_s == 12.5


def test_the_page_is_one_file_with_every_value_escaped() -> None:
    evil = '<script>alert("1")</script>&'
    page = _Texts()
    page.feed(
        text := owner_page(facts(purposes=(evil,), product=evil, contact=evil, prefixes=(evil,)))
    )
    assert "script" not in page.tags and "<script" not in text
    assert page.open == []
    plain = _Texts()
    plain.feed(owner_page(facts()))
    assert plain.links == [
        "mailto:you@example.org",
        f"/{WELL_KNOWN}",
        "/crawlerips.json",
    ]


def test_the_url_of_the_page_stands_in_the_user_agent() -> None:
    config = load_settings(
        None, {}, ["agent.page=https://crawler.example/", "agent.contact=you@example.org"]
    ).config
    agent = build_user_agent("lycosa", "1", config.agent.page or config.agent.contact)
    assert agent == "lycosa/1 (+https://crawler.example/)"


def test_the_purpose_of_the_settings_is_the_default_of_the_page(tmp_path: Path) -> None:
    url = (
        "--url",
        "https://crawler.example/",
        "--set",
        "agent.purpose=ai-train",
        "--set",
        "agent.contact=you@example.org",
    )
    for name, more in {"settings": (), "option": ("--purpose", "archive")}.items():
        given = ["identity", "page", *url, "--out", str(tmp_path / name), *more]
        assert main(given) == 0
    told = {name: (tmp_path / name / "index.html").read_text() for name in ("settings", "option")}
    assert "ai-train" in told["settings"] and "archive" not in told["settings"]
    assert "archive" in told["option"] and "ai-train" not in told["option"]
