"""Statements about the use of pages: any bytes as a header value, metas, robots.txt, tdmrep.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fuzz.judging import shared
from lycosa.base.preferences.page_statements import header_statements, markup_statements
from lycosa.base.preferences.preference_model import (
    MAX_STATEMENT_CHARACTERS,
    Preferences,
    PreferenceSource,
    Statement,
    Use,
    combine,
    gather_preferences,
    nested_answers,
)
from lycosa.base.preferences.tdm_file import MAX_TDM_RULES, TdmRules, parse_tdmrep
from lycosa.base.preferences.usage_values import MAX_STATEMENTS
from lycosa.base.urls.path_patterns import normal_target
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.stages.politeness.usage_rules import (
    MAX_LICENSES,
    MAX_USAGE_CHARACTERS,
    MAX_USAGE_LINES,
    UsageRules,
    robots_statements,
)

_FIELDS = (
    *("content-usage", "content-signal", "x-robots-tag", "tdm-reservation", "tdm-policy", "link"),
    "content-type",
)
_METAS = ("robots", "lycosa", "tdm-reservation", "tdm-policy", "description")
_TARGETS = ("/", "/a", "/a/b.html?x=1&y", "/%7Ejoe/%2A$", "/\u30c4 b", "/" + "ab" * 500)
_TDM = (PreferenceSource.TDM_FILE, PreferenceSource.TDM_HEADER, PreferenceSource.TDM_META)

WORDS = (
    *("train-ai=n", "search=y", "bots=n", "ai-input=?0", "ai-train;a=1", "=(", ', "', ":=", "%"),
    *("search=yes,ai-train=no", "noai", "noimageai", "lycosa: ", "image/png", "1", "0"),
    *("User-agent: *\n", "User-agent: lycosa\n", "Content-Usage: /a", "Content-Signal: ", "\n"),
    *("License: https://a.org/l.xml\n", "<l.xml>; rel=license", "Allow: /\n", "$", "*", "%2A"),
    *('[{"location": "/', '", "tdm-reservation": 1', '"}]', '"tdm-policy": "', "},{"),
)


def check(data: bytes) -> None:
    text = data.decode("latin-1")
    # A header block and metas: line n is the value of field n.
    values = text.split("\n")
    fields = [(_FIELDS[n % len(_FIELDS)], value) for n, value in enumerate(values)]
    metas = [(_METAS[n % len(_METAS)], value) for n, value in enumerate(values)]
    of_headers = header_statements(fields, "lycosa")
    of_markup = markup_statements(metas, values[:40], "lycosa")
    rules = parse_robots(data, "lycosa").usage
    _of_robots(rules)
    tdm = parse_tdmrep(data)
    assert len(tdm.rules) <= MAX_TDM_RULES
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(tdm), type=TdmRules) == tdm
    for target in (*_TARGETS, text[:200]):
        of_robots = robots_statements(rules, target)
        of_file = tdm.statement(target)
        everything = (*of_robots, *of_headers, *of_markup, *((of_file,) if of_file else ()))
        _of_statements(everything)
        if rules is not None and not rules.unread:
            _is_the_longest(rules, target, of_robots)


def _of_robots(rules: UsageRules | None) -> None:
    if rules is None:
        return
    assert len(rules.usage) + len(rules.signals) <= MAX_USAGE_LINES
    assert len(rules.licenses) <= MAX_LICENSES
    # each octet becomes at most three, as %XX or as what stands for an octet that is no UTF-8
    kept = sum(len(pattern) + len(text) for pattern, text, _ in (*rules.usage, *rules.signals))
    assert kept <= 3 * MAX_USAGE_CHARACTERS
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(rules), type=UsageRules) == rules


def _of_statements(statements: Sequence[Statement]) -> None:
    assert len(statements) <= MAX_STATEMENTS * len(PreferenceSource)
    known = {use.value for use in Use}
    for each in statements:
        assert len(each.text) <= MAX_STATEMENT_CHARACTERS and each.answers.keys() <= known
    combined = combine(statements)
    assert combine(statements[::-1]) == combine([*statements, *statements]) == combined
    for each in statements:
        for use, allowed in nested_answers(each.answers).items():
            assert allowed or combined[use] is False or each.source in _TDM
    preferences = gather_preferences(statements)
    assert msgspec.json.decode(msgspec.json.encode(preferences), type=Preferences) == preferences


def _is_the_longest(rules: UsageRules, target: str, found: Sequence[Statement]) -> None:
    """The lines that count, by trying each: attach-05 section 3.1 in the plainest way."""
    normal = normal_target(target)
    for listed, source in (
        (rules.usage, PreferenceSource.USAGE_ROBOTS),
        (rules.signals, PreferenceSource.SIGNAL_ROBOTS),
    ):
        matching = [rule for rule in listed if _matches(rule[0], normal)]
        longest = max((len(pattern) for pattern, _, _ in matching), default=0)
        expected = [line for pattern, _, line in matching if len(pattern) == longest]
        lines = [each.line for each in found if each.source is source]
        assert lines == expected[: len(lines)] and len(lines) == min(len(expected), MAX_STATEMENTS)


def _matches(pattern: str, target: str) -> bool:
    """All places at once: the lengths of the target's beginning that the pattern so far matches."""
    anchored = pattern.endswith("$")
    places = {0}
    for number, part in enumerate((pattern[:-1] if anchored else pattern).split("*")):
        literal = part.replace("%2A", "*").replace("%24", "$")
        if number and places:
            places = set(range(min(places), len(target) + 1))
        places = {at + len(literal) for at in places if target.startswith(literal, at)}
    return len(target) in places if anchored else bool(places)


def samples() -> Iterator[bytes]:
    yield b"train-ai=n, search=y\nsearch=yes, ai-train=no\nlycosa: noai\n1\nhttps://a.org/p.json\n"
    yield b'train-ai;x="?", bots=n\n\nnoimageai\n0\n\n<https://a.org/l.xml>; rel="license"\nimage/png'
    yield (
        b"User-Agent: *\nAllow: /\nDisallow: /never/\nContent-Usage: train-ai=n\n"
        b"Content-Usage: /ai-ok/ train-ai=y\n\nUser-Agent: ExampleBot\nContent-Usage: train-ai=y\n"
    )
    yield (
        b"License: https://a.org/l.xml\nUser-agent: lycosa\nContent-Signal: /a* search=no\n"
        b"Content-Signal: /a search=yes\nUser-agent: *\nContent-Usage: /*b$ bots=n\n"
    )
    yield b"User-agent: *\n" + b"Content-Usage: /*a*b*a search=n\n" * 320
    yield (
        b'[{"location": "/a", "tdm-reservation": 1, "tdm-policy": "https://a.org/p"},'
        b'{"location": "/*.jpg$", "tdm-reservation": 0}, {"location": "/"}]'
    )
    yield b'a=1;b;c=:YQ==:, d=(x y;z), e=@1, f=%"%e3"\n' * 30
    for path in shared("structured-fields/*.json"):
        yield path.read_bytes()[:4000]
