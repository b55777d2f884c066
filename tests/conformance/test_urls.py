"""Published vectors for URL resolution, host names and public suffixes, each with its rate and
its known misses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, Sites, resolve

pytestmark = pytest.mark.shared_data
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "urls"
CANONICALIZER = Canonicalizer(CanonicalSection())

# Each key is the case as the report shows it; each value says why it misses.
KNOWN_MISSES: dict[str, dict[str, str]] = {
    "wpt/urltestdata.json": dict.fromkeys(
        ["'http://./' on None", "'http://../' on None", "'http://foo.09..' on None"],
        "resolved as the standard says, but refused afterwards: without the dot of an absolute name"
        " the host would end in an empty label",
    ),
    "wpt/toascii.json": {},
    "wpt/IdnaTestV2.json": {
        "": "an empty name cannot be put into a URL: https:///x names the host x"
    },
    "wpt/percent-encoding.json": {
        "'\\ue5e5' in gb18030": (
            "Python's encoder maps this one private-use character; the standard's has no place"
            " for it"
        ),
        "'\\x0eA' in iso-2022-jp": (
            "a shift control in ASCII text goes out as %0E; it would have to become a replacement"
            " character"
        ),
    },
    "rfc3986-5.4.json": {
        "http:g": (
            "RFC 3986 section 5.4.2 lets backward-compatible parsers read it as g; the WHATWG"
            " standard does"
        )
    },
    "test_psl.txt": {},
}


def load(name: str) -> Any:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name}: the conformance vectors are not beside the checkout")
    return (
        json.loads(path.read_text(encoding="utf-8"))
        if path.suffix == ".json"
        else path.read_text(encoding="utf-8")
    )


def report(name: str, results: Iterable[tuple[str, bool]]) -> None:
    """Print the rate; fail on a miss that is not listed and on a listed one that is none."""
    known, total, missed = KNOWN_MISSES[name], 0, set()
    for case, passed in results:
        total += 1
        if not passed:
            missed.add(case)
    print(f"{name}: passed {total - len(missed)} of {total}")
    for case in sorted(missed & known.keys()):
        print(f"  miss {case!r}: {known[case]}")
    assert missed == known.keys(), (
        f"unlisted misses {sorted(missed - known.keys())}, listed but passing"
        f" {sorted(known.keys() - missed)}"
    )


def attempt(function: Callable[..., str], *arguments: str | None) -> str | None:
    try:
        return function(*arguments)
    except InvalidUrl:
        return None


def test_references_resolve_as_the_whatwg_vectors_say() -> None:
    cases = [case for case in load("wpt/urltestdata.json") if isinstance(case, dict)]

    def judge(case: dict[str, Any]) -> bool:
        raw, base = case["input"], case["base"]
        if case.get("failure"):
            return attempt(CANONICALIZER.canonical, raw, base) is None
        canonical = attempt(CANONICALIZER.canonical, raw, base)
        crawlable = case["protocol"] in ("http:", "https:")
        return resolve(raw, base) == case["href"] and (canonical is not None) == crawlable

    report(
        "wpt/urltestdata.json",
        ((f"{case['input']!r} on {case['base']!r}", judge(case)) for case in cases),
    )


def test_canonical_forms_of_the_whatwg_vectors_agree_with_their_parts() -> None:
    """What the vectors call host, path and query is what the canonical form keeps, but for its
    documented steps.
    """
    bare = Canonicalizer(CanonicalSection(drop_session_ids=False, drop_tracking=False))
    checked = 0
    for case in load("wpt/urltestdata.json"):
        if (
            not isinstance(case, dict)
            or case.get("failure")
            or case["protocol"] not in ("http:", "https:")
        ):
            continue
        if f"{case['input']!r} on {case['base']!r}" in KNOWN_MISSES["wpt/urltestdata.json"]:
            continue
        plain = f"{case['protocol']}//{case['host']}{case['pathname']}{case['search']}"
        assert bare.canonical(case["input"], case["base"]) == bare.canonical(plain)
        if "%" not in plain and not case["hostname"].endswith("."):
            assert bare.canonical(case["input"], case["base"]) == plain
        checked += 1
    print(f"wpt/urltestdata.json: canonical form agrees on {checked} of {checked}")
    assert checked == 247 - len(KNOWN_MISSES["wpt/urltestdata.json"])


def test_international_names_become_ascii() -> None:
    cases = [case for case in load("wpt/toascii.json") if isinstance(case, dict)]

    def judge(case: dict[str, Any]) -> bool:
        href = attempt(resolve, f"https://{case['input']}/x")
        return href == (None if case["output"] is None else f"https://{case['output']}/x")

    report("wpt/toascii.json", ((case["input"], judge(case)) for case in cases))


def test_the_unicode_idna_vectors_become_ascii() -> None:
    cases = [case for case in load("wpt/IdnaTestV2.json") if isinstance(case, dict)]

    def judge(case: dict[str, Any]) -> bool:
        href = attempt(resolve, f"https://{case['input']}/x")
        return href == (None if case["output"] is None else f"https://{case['output']}/x")

    report("wpt/IdnaTestV2.json", ((case["input"], judge(case)) for case in cases))


def test_canonical_names_are_stable_on_every_idna_vector() -> None:
    for name in ("wpt/toascii.json", "wpt/IdnaTestV2.json"):
        for case in load(name):
            url = (
                attempt(CANONICALIZER.canonical, f"https://{case['input']}/x")
                if isinstance(case, dict)
                else None
            )
            assert url is None or CANONICALIZER.canonical(url) == url


def test_text_beyond_ascii_is_encoded_in_the_charset_of_the_page() -> None:
    bare = Canonicalizer(CanonicalSection())

    def judge(text: str, charset: str, expected: str) -> bool:
        # The canonical form has decoded what is unreserved; a tilde is all there is of that here.
        return (
            bare.canonical(f"https://example.org/?{text}#", None, charset)
            == f"https://example.org/?{expected}"
        )

    cases = [case for case in load("wpt/percent-encoding.json") if isinstance(case, dict)]
    report(
        "wpt/percent-encoding.json",
        (
            (f"{case['input']!r} in {charset}", judge(case["input"], charset, expected))
            for case in cases
            for charset, expected in case["output"].items()
        ),
    )


def test_the_reference_examples_of_rfc_3986() -> None:
    data = load("rfc3986-5.4.json")
    base = data["base"]

    def same(ref: str, expected: str) -> bool:
        # The standard's syntax-based normalisation (section 6.2.3) gives an empty path of http its
        # slash.
        return resolve(ref, base) == re.sub(r"^(http://[^/?#]+)(?=$|[?#])", r"\1/", expected)

    report(
        "rfc3986-5.4.json",
        ((case["ref"], same(case["ref"], case["expected"])) for case in data["cases"]),
    )


def test_registrable_domains_of_the_public_suffix_list() -> None:
    sites = Sites()
    lines = re.findall(
        r"^checkPublicSuffix\((null|'[^']*'), (null|'[^']*')\);", load("test_psl.txt"), re.MULTILINE
    )

    def judge(host: str, expected: str | None) -> bool:
        url = attempt(CANONICALIZER.canonical, f"http://{host}/")
        name = url.split("/")[2] if url else host
        wanted = (
            name
            if expected is None
            else CANONICALIZER.canonical(f"http://{expected}/").split("/")[2]
        )
        return sites.site_of(name) == wanted

    cases = [
        (host.strip("'"), None if site == "null" else site.strip("'"))
        for host, site in lines
        if host != "null"
    ]
    report("test_psl.txt", ((host, judge(host, site)) for host, site in cases))
    print(f"test_psl.txt: {len(lines) - len(cases)} case asks about no name at all")
