"""Real robots.txt files, asked about paths that their own rules suggest: the answers are those of
Google's matcher.

The matcher is ``google_robots``, which first has to give all the answers that Google's own tests
record.
"""

from __future__ import annotations

import base64
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import google_robots
from lycosa.base.config.sections import CanonicalSection
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, target_of
from lycosa.base.urls.path_patterns import normal_pattern, normal_target
from lycosa.stages.politeness.robots_parser import MAX_BYTES, parse_robots
from lycosa.stages.politeness.robots_rules import Matcher

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "robots"
REAL = DATA / "real-robots-txt.tgz"
QUESTIONS = 3  # a file
SPELLING = (
    "RFC 9309 2.2.2: octets that cannot stand in a URL, and those that need no encoding, are"
    " respelled on both sides"
)
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not REAL.is_file(), reason="the conformance vectors are not beside the checkout"
    ),
]

_CANONICALIZER = Canonicalizer(
    CanonicalSection(drop_session_ids=False, drop_tracking=False, drop_empty_query=False)
)
_NAMED = re.compile(rb"(?im)^user-agent:[ \t]*([a-z_-]+)[ \t]*\r?$")


@pytest.mark.parametrize("name", ["google-robots_test.jsonl", "google-spec-test.jsonl"])
def test_the_matcher_that_is_compared_with_answers_as_google_recorded(name: str) -> None:
    for line in (DATA / name).read_text("utf-8").split("\n"):
        if line:
            row = json.loads(line)
            body = (
                base64.b64decode(row["robots_b64"])
                if "robots_b64" in row
                else row["robots"].encode("utf-8", "surrogatepass")
            )
            rules = google_robots.read(body, (row["agent"] or "").encode())
            assert (
                google_robots.is_allowed(rules, row["url"].encode("utf-8", "surrogatepass"))
                == row["allowed"]
            ), row


def test_real_files_answer_as_googles_matcher_does() -> None:
    asked, misses, longer = 0, Counter[str](), 0
    with tarfile.open(REAL) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is None:
                continue
            body, chance = file.read(), Random(member.name)
            longer += len(body) > MAX_BYTES
            body = body[: body.rfind(b"\n", 0, MAX_BYTES)] if len(body) > MAX_BYTES else body
            agent = chance.choice([b"lycosa", b"googlebot", *_NAMED.findall(body)])
            rules, matcher = (
                google_robots.read(body, agent),
                Matcher(parse_robots(body, agent.decode())),
            )
            for url in _questions(rules, chance):
                asked += 1
                ours, theirs = (
                    matcher.judge_target(target_of(url)).allowed,
                    google_robots.is_allowed(rules, url.encode()),
                )
                if ours != theirs:
                    same = (
                        google_robots.is_allowed(
                            _respelled(rules), normal_target(target_of(url)).encode()
                        )
                        == ours
                    )
                    misses[
                        (
                            SPELLING
                            if same
                            else f"{member.name}, {agent!r}, {url}: {ours}, Google {theirs}"
                        )
                    ] += 1
    print(
        f"real-robots-txt.tgz, asked as Google's matcher: passed {asked - misses.total()} of"
        f" {asked}"
    )
    for reason, count in misses.items():
        print(f"  {count} missed: {reason}")
    print(
        f"real-robots-txt.tgz: {longer} files are longer than the 500 KiB that are read (RFC 9309"
        " 2.5), and were asked without the rest"
    )
    assert set(misses) <= {SPELLING}


def _questions(rules: google_robots.Rules, chance: Random) -> Iterator[str]:
    """Canonical URLs whose paths are near the rules: what a rule matches, a part of it, more
    than it, two in a row.
    """
    patterns = [pattern.decode("latin-1") for _, pattern in rules.ours + rules.everyones] or ["/"]
    for _ in range(QUESTIONS):
        path = (
            chance.choice(patterns)
            .replace("*", chance.choice(("", "x", "a/b", "?q=1&", "index.html")))
            .removesuffix("$")
        )
        path += chance.choice(
            (
                "",
                "",
                "/",
                "a",
                ".html",
                "?a=b",
                "index.html",
                "%20",
                chance.choice(patterns).replace("*", "z"),
            )
        )
        path = chance.choice((path, path, path.swapcase(), path[: chance.randrange(len(path) + 1)]))
        try:
            url = _CANONICALIZER.canonical(f"http://www.example.org/{path.lstrip('/')}")
        except InvalidUrl:  # longer than any URL that is crawled
            continue
        if target_of(url) != "/robots.txt":  # RFC 9309 2.2.2: implicitly allowed
            yield url


def _respelled(rules: google_robots.Rules) -> google_robots.Rules:
    def each(pairs: list[tuple[bool, bytes]]) -> list[tuple[bool, bytes]]:
        return [(allows, normal_pattern(pattern).encode()) for allows, pattern in pairs]

    return rules._replace(ours=each(rules.ours), everyones=each(rules.everyones))
