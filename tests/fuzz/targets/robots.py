"""robots.txt: any bytes give rules and verdicts, bounded, and the verdicts are those of a
second, simpler matcher.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from itertools import islice

import google_robots
from fuzz.judging import MAX_BYTES, shared, vectors
from lycosa.base.urls.path_patterns import normal_pattern, normal_target
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.stages.politeness.robots_rules import (
    Matcher,
    RobotsRule,
    RobotsVerdict,
    robots_target,
)

_PRODUCT = "lycosa"
_TARGETS = ("/", "/a", "/a/b.html?x=1&y", "/robots.txt", "/%7Ejoe/%2A$", "/\u30c4 b", "/index.html")
_COMPARED = 40  # rules; the second matcher tries each

WORDS = (
    *(
        "User-agent: *\n",
        "User-agent: lycosa\n",
        "Disallow: /",
        "Allow: /",
        "Crawl-delay: 1.5",
        "user agent",
    ),
    *(
        "Sitemap: http://a.org/s.xml",
        "index.html",
        "%2A",
        "%24",
        "%7E",
        "$",
        "*",
        "\r\r\n",
        "#",
        "\ufeff",
        "dissallow:",
        "Disallow: /*?a=*&b=$\n",
    ),
)


def check(data: bytes) -> None:
    rules = parse_robots(data, _PRODUCT)
    lines = len(data) + 1 if data[:2] in (b"\xff\xfe", b"\xfe\xff") else len(data.splitlines())
    assert len(rules.rules) <= lines and len(rules.sitemaps) <= lines
    # three octets of UTF-8 for two of UTF-16, each as %XX
    assert sum(len(pattern) for _, pattern, _ in rules.rules) <= 9 * len(data)
    assert rules.crawl_delay_s == -1 or 0 <= rules.crawl_delay_s < 1e10
    assert all(0 < line <= lines for _, _, line in rules.rules)
    matcher = Matcher(rules)
    for target in _asked(rules.rules):
        verdict = matcher.judge_target(target)
        assert 0 <= verdict.line <= lines
        if len(rules.rules) <= _COMPARED:
            expected = _by_trying_each(rules.rules, target)
            assert verdict == expected, (
                f"{target!r}: {verdict}, but trying each rule gives {expected}"
            )
    _is_read_as_google_reads(data, matcher)
    text = data[:2000].decode("utf-8", "replace")
    assert robots_target(text).startswith("/")
    matcher.judge_target(robots_target(text))


def _asked(rules: list[RobotsRule]) -> Iterator[str]:
    yield from _TARGETS
    for _, pattern, _ in rules[:8]:
        literal = pattern[:300].replace("%2A", "*").replace("%24", "$")
        yield literal.replace("*", "x/")
        yield literal.replace("*", "").rstrip("$") + "tail"


def _is_read_as_google_reads(data: bytes, matcher: Matcher) -> None:
    """Groups, lines and verdicts by the other reader; only the spelling of octets is ours, as
    RFC 9309 2.2.2 has it.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16, which Google does not read
        return
    read = google_robots.read(data, _PRODUCT.encode())
    ours, everyones = (
        [(allows, normal_pattern(pattern).encode()) for allows, pattern in pairs]
        for pairs in read[:2]
    )
    rules = google_robots.Rules(ours, everyones, read.names_us)
    # to Google %2A and * are two
    for target in (each for each in _TARGETS if each != "/robots.txt" and "%" not in each):
        allowed = google_robots.is_allowed(rules, normal_target(target).encode())
        assert matcher.judge_target(target).allowed == allowed, (
            f"{target!r}: by Google's matcher {'allowed' if allowed else 'disallowed'}"
        )


def _by_trying_each(rules: list[RobotsRule], target: str) -> RobotsVerdict:
    """RFC 9309 2.2.2 in the plainest way: of all rules that match the longest, Allow before
    Disallow, the first of equals.
    """
    if target == "/robots.txt":
        return RobotsVerdict()
    normal, best, found = normal_target(target), (-1, False), RobotsVerdict()
    for allow, pattern, line in rules:
        folder, slash, name = pattern.rpartition("/")
        tried = (
            [pattern, f"{folder}/$"]
            if allow and slash and name.startswith("index.htm")
            else [pattern]
        )
        for each in tried:
            rank = (len(each), allow)
            if rank > best and _matches(each, normal):
                best, found = (
                    rank,
                    RobotsVerdict(allow, line, f"{'Allow' if allow else 'Disallow'}: {pattern}"),
                )
    return found


def _matches(pattern: str, target: str) -> bool:
    """All places at once, as bits: bit n is set when the pattern so far may end before the
    target's character n.
    """
    anchored = pattern.endswith("$")
    places, everywhere = 1, (1 << len(target) + 1) - 1
    where: dict[str, int] = {}
    for at, character in enumerate(target):
        where[character] = where.get(character, 0) | 1 << at
    for part_number, part in enumerate((pattern[:-1] if anchored else pattern).split("*")):
        if part_number:
            places = everywhere & -(places & -places)
        for character in part.replace("%2A", "*").replace("%24", "$"):
            places = (places & where.get(character, 0)) << 1
            if not places:
                return False
    return bool(places >> len(target)) if anchored else True


def samples() -> Iterator[bytes]:
    yield (
        b"User-agent: lycosa\nCrawl-delay: 2\nUser-agent: *\nDisallow: /a*b$\nAllow:"
        b" /a/index.html\nSitemap: http://a.org/s.xml\n"
    )
    yield (
        b"\xef\xbb\xbfuser agent *\r\rDissallow /x%7ey\rAllow: /x~y#z\0q\n\nUSER-AGENT: Lycosa/2.0"
        b" (see)\nDisallow:\n"
    )
    yield "User-agent: *\nDisallow: /\u30c4\n".encode("utf-16")
    yield b"User-agent: *\n" + b"Disallow: /*a*a*a*a*b\n" * 40
    yield (
        b"User-agent: other\nDisallow: /\nuser-agent: *\nuser-agent: lycosa\nallow:"
        b" /p/*.gif$\ndisallow: /p/%2A%24?q=\n"
    )
    yield (
        b"<!DOCTYPE html><title>Disallow: /</title>\nUser-agent:*\nDisallow:/a#b\nAllow : /a"
        b" \t\nDisallow: */c*\nSite-map: /s.xml\n"
    )
    yield from vectors("robots/google-*.jsonl", "robots")
    for path in shared("robots/real-robots-txt.tgz"):
        with tarfile.open(path) as archive:
            small = (
                member for member in archive if member.isfile() and member.size <= MAX_BYTES // 16
            )
            for member in islice(small, 0, 2000, 20):
                if (file := archive.extractfile(member)) is not None:
                    yield file.read()
