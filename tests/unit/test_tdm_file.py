"""/.well-known/tdmrep.json: the report's examples, files that are not as they should be, bounds."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs import run_below
from lycosa.base.preferences.preference_model import PreferenceSource, Statement
from lycosa.base.preferences.tdm_file import MAX_FILE_BYTES, MAX_TDM_RULES, TdmRules, parse_tdmrep

POLICY = "https://provider.com/policies/policy.json"
# TDMRep, "TDM File on the Origin Server", both examples
ALL = [{"location": "/", "tdm-reservation": 1}]
GROUPS = [
    {"location": "/directory-a/", "tdm-reservation": 1},
    {"location": "/directory-b/html/", "tdm-reservation": 1, "tdm-policy": POLICY},
    {"location": "/directory-b/images/*.jpg", "tdm-reservation": 0},
]


def answer(listed: object, path: str) -> bool | None:
    found = parse_tdmrep(json.dumps(listed).encode()).statement(path)
    return found.answers.get("tdm") if found else None


def test_a_site_that_reserves_everything() -> None:
    assert answer(ALL, "/") is answer(ALL, "/a/b?c") is False


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/directory-a/x.pdf", False),
        ("/directory-b/html/", False),
        ("/directory-b/images/a/b.jpg", True),
        ("/directory-b/images/a.png", None),
        ("/Directory-A/x.pdf", None),  # case-sensitive
        ("/", None),
    ],
)
def test_groups_of_files(path: str, expected: bool | None) -> None:
    assert answer(GROUPS, path) is expected


def test_the_statement_has_the_policy() -> None:
    rules = parse_tdmrep(json.dumps(GROUPS).encode())
    assert rules.statement("/directory-b/html/x") == Statement(
        PreferenceSource.TDM_FILE, f"tdm-reservation: 1; tdm-policy: {POLICY}", 0, {"tdm": False}
    )


def test_the_first_match_in_sequence_decides() -> None:
    rules = [
        {"location": "/a", "tdm-reservation": 0},
        {"location": "/a/b", "tdm-reservation": 1},
    ]
    assert answer(rules, "/a/b") is True
    assert answer(rules[::-1], "/a/b") is False


@pytest.mark.parametrize(
    ("location", "path", "matches"),
    [
        ("/this/path/exactly$", "/this/path/exactly", True),
        ("/this/path/exactly$", "/this/path/exactly/", False),
        ("/this/*/then", "/this/and/then/some", True),
        ("/this/*/then", "/this/then", False),
        ("/path/foo-%24", "/path/foo-$", True),
        ("/path/foo-%2A", "/path/foo-*", True),
        ("/%7ejoe", "/~joe/x", True),  # an encoded unreserved character is decoded
        ("/a%2Fb", "/a/b", False),  # a reserved one is not
        ("/\u30c4", "/%E3%83%84", True),
        ("*.pdf$", "/a/b.pdf", True),
        ("a/b", "/a/b", True),  # a forgotten slash
        ("/a*a$", "/a", False),  # head and tail may not be the same octet
        ("/*a*a$", "/a", False),
        ("/*a*a$", "/aa", True),
    ],
)
def test_patterns(location: str, path: str, matches: bool) -> None:
    expected = False if matches else None
    assert answer([{"location": location, "tdm-reservation": 1}], path) is expected


@pytest.mark.parametrize("value", [2, -1, "yes", 10**30])
def test_another_value_is_unset_and_the_rule_still_decides(value: object) -> None:
    rules = [{"location": "/a", "tdm-reservation": value}, *ALL]
    assert answer(rules, "/a") is None
    assert answer(rules, "/b") is False


@pytest.mark.parametrize(
    "entry",
    [
        {"location": "/"},
        {"tdm-reservation": 1},
        {"location": "", "tdm-reservation": 1},
        {"location": 1, "tdm-reservation": 1},
        {"location": "/", "tdm-reservation": None},
        {"location": "/", "tdm-reservation": [1]},
        "x",
        [],
    ],
)
def test_an_entry_without_both_properties_is_left_out(entry: object) -> None:
    assert answer([entry, {"location": "/", "tdm-reservation": 0}], "/") is True
    assert parse_tdmrep(json.dumps([entry]).encode()).problem == "1 entries are no rules"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff\xfe[",
        b'"x"',
        b"3",
        b"[" * 100_000,
        b'[{"location": "\xff"}]',
        b"null",
        b'{"a":' * 5_000,
    ],
)
def test_a_file_that_cannot_be_read_states_nothing(body: bytes) -> None:
    rules = parse_tdmrep(body)
    assert rules.rules == [] and rules.problem and rules.statement("/") is None


def test_tolerated_spellings() -> None:
    assert answer(ALL[0], "/") is False  # without the brackets
    assert answer([{"location": "/", "tdm-reservation": "1"}], "/") is False
    assert answer([{"location": "/", "tdm-reservation": True}], "/") is False
    assert parse_tdmrep(b"\xef\xbb\xbf" + json.dumps(ALL).encode()).statement("/") is not None


def test_what_a_limit_cuts_counts_as_reserved() -> None:
    many = [{"location": f"/{n}/", "tdm-reservation": 0} for n in range(MAX_TDM_RULES + 1)]
    assert answer(many, "/0/") is True
    assert answer(many, f"/{MAX_TDM_RULES}/") is answer(many, "/x") is False
    assert answer(many[:-1], "/x") is None
    rules = parse_tdmrep(b" " * MAX_FILE_BYTES + b"[]")
    found = rules.statement("/")
    assert found is not None and found.answers == {"tdm": False}


@given(st.binary(max_size=200), st.text(max_size=20))
def test_any_bytes_give_rules_that_can_be_stored(body: bytes, path: str) -> None:
    rules = parse_tdmrep(body)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(rules), type=TdmRules) == rules
    rules.statement(path)


@pytest.mark.parametrize("piece", ["*a", "*", "*aab", "a"])
def test_the_cost_of_a_hostile_file_is_bounded(piece: str) -> None:
    listed = [{"location": "/" + piece * (60 // len(piece)) + "b$"} for _ in range(5_000)]
    body = json.dumps([each | {"tdm-reservation": 1} for each in listed]).encode()
    rules, target = run_below(500, lambda: parse_tdmrep(body)), "/" + "a" * 8_000
    run_below(100, lambda: rules.statement(target))
