"""Strings written to make a parser work: each costs a bounded amount, whatever stage looks at
it.
"""

from __future__ import annotations

import pytest

from costs import run_below
from lycosa.base.config.sections import CanonicalSection, TrapSection
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, surt
from lycosa.stages.admit.traps import Traps

LONGEST = 65_000
START = "http://example.org/"
HOSTILE = {
    "one long segment": "a" * LONGEST + " ",
    "many segments": "a/" * (LONGEST // 2) + " ",
    "many ups": "../" * (LONGEST // 3) + "\x01",
    "one long label": "http://" + "a" * LONGEST,
    "many labels": "http://" + "a-b." * (LONGEST // 4) + "_/",
    "many hyphens": "http://" + "a-" * (LONGEST // 2),
    "layers of percent": START + "%" + "25" * (LONGEST // 2),
    "mixed layers of percent": START + "%" + "%325" * (LONGEST // 4),
    "encoded letters": START + "%61" * (LONGEST // 3),
    "many parameters": START + "?" + "a&" * (LONGEST // 2),
    "many session names": START + "?" + "cfid=" * (LONGEST // 5) + "&cftoken=",
    "many path parameters": START + ";sid=a1" * (LONGEST // 7),
    "many parentheses": START + "(S(" * (LONGEST // 3),
    "many cookieless sessions": START + ("(" + "a" * 24 + ")/") * (LONGEST // 27),
    "many dates": START + "2044/01/" * (LONGEST // 8) + "x",
    "many equal segments but one": START + "a/b/" * (LONGEST // 4),
    "many digits": START + "?year=" + "1" * LONGEST,
    "many year names": START + "?" + "year-" * (LONGEST // 5) + "=2050&month=1",
    "many characters of a random value": START + "?sid=" + "a1" * (LONGEST // 2) + "_",
    "international": "http://" + "ü" * 20_000 + ".org/",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_cost_of_a_hostile_url_is_bounded(raw: str) -> None:
    wide = Traps(TrapSection(max_url_length=65536, max_path_depth=100, max_parameters=100), 2026)
    canonicalizer = Canonicalizer(CanonicalSection(drop_index_files=False))

    def read() -> None:
        try:
            url = canonicalizer.canonical(raw, "http://example.org/a/b/c")
        except InvalidUrl:
            return
        wide.judge_url(url)
        surt(url)

    run_below(500, read)
