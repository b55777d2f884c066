"""Robots verdicts against vectors recorded from other parsers and against thousands of real files.

Google's reference matcher is the bar; RFC 9309 wins where it and Google differ. Every miss is
listed with its reason, by row number, and a listed row that begins to pass fails the test as well.
"""

from __future__ import annotations

import base64
import json
import re
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from costs import cost_in_units, count_calls
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.stages.politeness.robots_rules import Matcher, RobotsRules, RobotsVerdict, robots_target

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "robots"

pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason="the conformance vectors are not beside the checkout"
    ),
]

Row = dict[str, Any]
Misses = dict[str, set[int]]

_DECODED = (
    "RFC 9309 2.2.2: percent-encoded unreserved characters are decoded on both sides; Google"
    " decodes nothing"
)
_ENCODED = (
    "RFC 9309 2.2.2: octets outside ASCII are percent-encoded on both sides; Google wants the"
    " caller to have done it to the URL"
)
_ROBOTS_TXT = "RFC 9309 2.2.2: /robots.txt is implicitly allowed"
_WHOLE_TOKEN = (
    "RFC 9309 2.2.1: a user-agent line has one product token; several names on it are one name with"
    " remarks"
)
_FIRST_TOKEN = (
    "RFC 9309 2.2.1: the token is read from the start of the value, not found inside it; Google"
    " agrees"
)
_NO_TOKEN = (
    "RFC 9309 2.2.1: a product token has only letters, hyphen and underscore; Google reads up to"
    " the first other character"
)
_UNION = (
    "asked with several agents: here one product token, whose group is the first that one of"
    " them has"
)
_OPEN_RUN = (
    "RFC 9309 2.2.4: an unknown line between two user-agent lines does not end the group; Google"
    " agrees"
)
_TYPO = "only the misspellings that Google accepts are accepted"
_LONG_DELAY = "a long Crawl-delay is capped, not read as a ban (settings)"
_MARKUP = "markup before the name of a line makes it another name; Google agrees"
_DOLLAR = (
    "RFC 9309 2.2.3: a dollar sign at the end is the end of the URL, never also the character;"
    " Google agrees"
)
_ABSOLUTE = (
    "RFC 9309 2.2.2: a rule is a path; one with scheme and host matches nothing; Google agrees"
)
_OTHER_RECORD = (
    "Request-rate and Visit-time are in no standard; Crawl-delay is the only rate that is read"
)
_THREE_WORDS = "a blank stands for a forgotten colon only between two words; Google agrees"
_BARE_SITEMAP = "a URL without Sitemap: before it is not a sitemap line"

GOOGLE_TEST: Misses = {_ENCODED: {63, 65}, _DECODED: {66}}
GOOGLE_SPEC: Misses = {_ENCODED: {110, 112}, _DECODED: {113}, _ROBOTS_TXT: {193, 199, 203, 344}}
CRAWLER_COMMONS: Misses = {
    _WHOLE_TOKEN: {130, 133, 142, 151, 220, 266, 267},
    _UNION: {177, 179, 181, 185, 187, 213, 272},
    _FIRST_TOKEN: {270},
    _MARKUP: {311},
    _TYPO: {376, 379},
    _NO_TOKEN: {446},
    _LONG_DELAY: {447},
}
CRAWLER_COMMONS_PARSES: Misses = {_MARKUP: {112}, _BARE_SITEMAP: {148}, _LONG_DELAY: {152}}
PROTEGO: Misses = {
    _OTHER_RECORD: {49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 324, 325},
    _NO_TOKEN: {120, 126, 128, 131, 267, 268, 269},
    _OPEN_RUN: {256, 257, 258},
    _THREE_WORDS: {265},
    _DOLLAR: {312, 313},
    _ABSOLUTE: {315},
}


def judge_for(body: bytes, product: str, url: str) -> RobotsVerdict:
    return Matcher(parse_robots(body, product)).judge_target(robots_target(url))


def _rows(name: str) -> list[Row]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").split("\n") if line]


def _body(row: Row) -> bytes:
    if "robots_b64" in row:
        return base64.b64decode(row["robots_b64"])
    return str(row["robots"]).encode("utf-8", "surrogatepass")


_LETTERS = str.maketrans("0123456789", "ABCDEFGHIJ")
_AGENT_LINE = re.compile(
    rb"((?:^|[\r\n])[ \t]*user[- ]?agent[ \t]*:?[ \t]*)([^\s#]+)", re.IGNORECASE
)


def _asked_as(body: bytes, agent: str) -> tuple[bytes, str]:
    """File and product token for an agent of a vector: its version is cut off; digits, which no
    product token may have, become letters in both.
    """
    product = agent.split("/")[0]
    if any(character.isdigit() for character in product):
        product = product.translate(_LETTERS)
        body = _AGENT_LINE.sub(
            lambda found: (
                found[1] + found[2].decode("utf-8", "replace").translate(_LETTERS).encode()
            ),
            body,
        )
    return body, product


def _rules_for_any(body: bytes, agents: Iterable[str]) -> RobotsRules:
    """The rules of the first of several names that the file addresses."""
    rules = RobotsRules()
    for agent in agents:
        rules = parse_robots(*_asked_as(body, agent))
        if rules.group not in ("", "*"):
            break
    return rules


def _compare(name: str, total: int, missed: set[int], known: Misses) -> None:
    listed = set().union(*known.values()) if known else set()
    print(f"{name}: passed {total - len(missed)} of {total}")
    for reason, rows in known.items():
        print(f"  {len(rows)} missed: {reason}")
    assert missed - listed == set(), f"new misses in {name}"
    assert listed - missed == set(), f"listed rows of {name} pass now"


@pytest.mark.parametrize(
    ("name", "known"),
    [("google-robots_test.jsonl", GOOGLE_TEST), ("google-spec-test.jsonl", GOOGLE_SPEC)],
)
def test_agrees_with_googles_matcher(name: str, known: Misses) -> None:
    rows = _rows(name)
    missed = {
        n
        for n, row in enumerate(rows)
        if judge_for(_body(row), row["agent"], row["url"]).allowed != row["allowed"]
    }
    _compare(name, len(rows), missed, known)


def _crawler_commons_misses(rows: list[Row]) -> set[int]:
    return {
        number
        for number, row in enumerate(rows)
        if Matcher(_rules_for_any(_body(row), row["agents"]))
        .judge_target(robots_target(row["url"]))
        .allowed
        != row["allowed"]
    }


def test_agrees_with_crawler_commons() -> None:
    rows = _rows("crawler-commons-allow.jsonl")
    _compare(
        "crawler-commons-allow.jsonl", len(rows), _crawler_commons_misses(rows), CRAWLER_COMMONS
    )


def test_agrees_wherever_all_three_parsers_agree() -> None:
    rows = _rows("crawler-commons-allow.jsonl")
    common = {
        number
        for number, row in enumerate(rows)
        if row["allowed"] == row["google"] == row["protego"]
    }
    missed: set[int] = set()
    for number in common:
        body, product = _asked_as(_body(rows[number]), rows[number]["agents"][0])
        if judge_for(body, product, rows[number]["url"]).allowed != rows[number]["allowed"]:
            missed.add(number)
    _compare("rows on which crawler-commons, Google and protego agree", len(common), missed, {})


def test_reads_crawl_delays_and_sitemaps_as_crawler_commons_does() -> None:
    rows = _rows("crawler-commons-parse.jsonl")
    missed: set[int] = set()
    for number, row in enumerate(rows):
        rules = _rules_for_any(_body(row), row["agents"])
        delay_ms = int(rules.crawl_delay_s * 1000) if rules.crawl_delay_s >= 0 else -(2**63)
        sitemaps = [urljoin(row["robots_url"], sitemap) for sitemap in rules.sitemaps]
        if (delay_ms, sitemaps) != (row["crawl_delay_ms"], row["sitemaps"]):
            missed.add(number)
    _compare("crawler-commons-parse.jsonl", len(rows), missed, CRAWLER_COMMONS_PARSES)


def _protego_answer(row: Row) -> bool | float | None:
    if row["fn"] == "can_fetch":
        url, agent = row["args"]
        body, product = _asked_as(_body(row), agent)
        return judge_for(body, product, url).allowed
    body, product = _asked_as(_body(row), row["args"][0])
    delay_s = parse_robots(body, product).crawl_delay_s
    return delay_s if delay_s >= 0 else None


def test_agrees_with_protego() -> None:
    rows = _rows("protego-tests.jsonl")
    answered = {
        number for number, row in enumerate(rows) if row["fn"] in ("can_fetch", "crawl_delay")
    }
    missed = {
        number
        for number, row in enumerate(rows)
        if number not in answered or _protego_answer(row) != row["ret"]
    }
    _compare("protego-tests.jsonl", len(rows), missed, PROTEGO)


Reader = Callable[[bytes], object]

_COUNTED_BYTES = 16_000  # the cost of a short file is its fixed part


def _read_and_judge(body: bytes) -> None:
    Matcher(parse_robots(body, "lycosa")).judge_target("/some/page.html?with=a&query=string")


def _too_costly(read: Reader, body: bytes) -> str:
    """How ``read`` costs more than in proportion to the file; empty when it does not."""
    if len(body) > _COUNTED_BYTES:
        calls, most = count_calls(lambda: read(body)), 50 * len(body.splitlines()) + 200
        if calls > most:
            return f"{calls:,} calls, {most:,} are allowed"
    allowed = 8 + 0.2 * len(body) / 1000
    units = cost_in_units(lambda: read(body), enough=allowed)
    return "" if units < allowed else f"{units:.0f} units, {allowed:.0f} are allowed"


def test_the_cost_of_every_real_file_is_in_proportion_to_its_length() -> None:
    count, costly = 0, dict[str, str]()
    with tarfile.open(DATA / "real-robots-txt.tgz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None:
                continue
            count += 1
            if said := _too_costly(_read_and_judge, content.read()):
                costly[member.name] = said
    print(f"real-robots-txt.tgz: passed {count - len(costly)} of {count}")
    assert count == 4231
    assert costly == {}


def _with_a_list(body: bytes) -> None:
    """Looks for each line in a list: a loop inside the interpreter."""
    seen: list[bytes] = []
    for line in body.splitlines():
        if line not in seen:
            seen.append(line)


def _with_an_expression(body: bytes) -> None:
    """Looks from each place for an end that never comes: a loop inside a library."""
    re.findall(rb"[a-z/]+;", body[:10_000].replace(b"\n", b"/"))


def _with_calls(body: bytes) -> None:
    """Compares each line with each of the last hundred."""
    lines = body.splitlines()
    for number, line in enumerate(lines):
        any(line.startswith(other) for other in lines[max(0, number - 100) : number])


@pytest.mark.parametrize("read", [_with_a_list, _with_an_expression, _with_calls])
def test_a_reader_that_costs_more_than_in_proportion_is_found(read: Reader) -> None:
    letters = bytes.maketrans(b"0123456789", b"abcdefghij")
    body = b"".join(b"disallow/%d\n" % n for n in range(6000)).translate(letters)
    assert _too_costly(_read_and_judge, body) == ""
    assert _too_costly(read, body)
