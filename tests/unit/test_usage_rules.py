"""Content-Usage, Content-Signal and License lines of robots.txt, clause by clause of
draft-ietf-aipref-attach-05 section 3.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs import run_below
from lycosa.base.preferences.preference_model import PreferenceSource, Statement, combine
from lycosa.stages.politeness.robots_cache import RobotsRecord
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.stages.politeness.robots_rules import Matcher, RobotsRules
from lycosa.stages.politeness.usage_rules import (
    MAX_LICENSES,
    MAX_USAGE_CHARACTERS,
    MAX_USAGE_LINES,
    robots_statements,
)

S = PreferenceSource
# section 3.5
EXAMPLE = """\
User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""


def stated(text: str, target: str = "/", product: str = "lycosa") -> tuple[Statement, ...]:
    return robots_statements(parse_robots(text.encode(), product).usage, target)


def answers(text: str, target: str = "/", product: str = "lycosa") -> dict[str, bool]:
    return combine(stated(text, target, product))


@pytest.mark.parametrize(
    ("product", "path", "allowed", "answer", "line"),
    [
        ("lycosa", "/test", True, False, 4),
        ("lycosa", "/never/test", False, None, 0),
        ("lycosa", "/ai-ok/test", True, True, 5),
        ("ExampleBot", "/test", True, True, 9),
        ("ExampleBot", "/never/test", True, True, 9),
        ("ExampleBot", "/ai-ok/test", True, True, 9),
    ],
)
def test_the_example_of_the_draft(
    product: str, path: str, allowed: bool, answer: bool | None, line: int
) -> None:
    rules = parse_robots(EXAMPLE.encode(), product)
    assert Matcher(rules).judge_target(path).allowed is allowed
    if allowed:  # a path that is disallowed has no statements, so nobody asks for them
        (found,) = robots_statements(rules.usage, path)
        assert (found.answers, found.line) == ({"ai-train": answer}, line)


def test_the_statement_is_kept_as_sent_with_its_line() -> None:
    found = stated("user-agent: *\n\ncontent-usage :\t/a  search=n,  x=1 # why\n", "/a")
    assert found == (Statement(S.USAGE_ROBOTS, "search=n,  x=1", 3, {"search": False}),)


def test_the_longest_path_wins_and_an_absent_path_is_the_shortest() -> None:
    text = "User-agent: *\nContent-Usage: search=n\nContent-Usage: / search=y\n"
    assert answers(text) == {"search": True}
    text += "Content-Usage: /a/b search=n\nContent-Usage: /a search=y\n"
    assert answers(text, "/a/bc") == {"search": False}
    assert answers(text, "/a/c") == {"search": True}


def test_the_length_counts_octets_of_the_encoded_path() -> None:
    text = "User-agent: *\nContent-Usage: /\u30c4* search=n\nContent-Usage: /%E3%83* search=y\n"
    assert answers(text, "/%E3%83%84") == {"search": False}


def test_patterns_are_those_of_allow_and_disallow() -> None:
    text = "User-agent: *\nContent-Usage: /*.gif$ train-ai=n\n"
    assert answers(text, "/a/b.gif") == {"ai-train": False}
    assert answers(text, "/a/b.gif?x") == {}


def test_identical_paths_apply_separately_and_a_conflict_is_a_no() -> None:
    text = (
        "User-agent: *\nContent-Usage: /a train-ai=y, search=y\nContent-Usage: /a train-ai=n\n"
        "Content-Usage: / search=n\n"
    )
    assert [each.line for each in stated(text, "/a")] == [2, 3]
    assert answers(text, "/a") == {"ai-train": False, "search": True}


def test_a_rule_that_cannot_be_read_still_is_the_longest() -> None:
    text = "User-agent: *\nContent-Usage: search=n\nContent-Usage: /a SEARCH=n\n"
    assert stated(text, "/a") == (Statement(S.USAGE_ROBOTS, "SEARCH=n", 3),)
    assert stated("User-agent: *\nContent-Usage: /a\n", "/a") == (Statement(S.USAGE_ROBOTS, "", 2),)


def test_rules_are_interleaved_with_others_in_any_order() -> None:
    lines = ["Allow: /x", "Content-Usage: search=n", "Disallow: /y", "Content-Usage: /a search=y"]
    for order in (lines, lines[::-1]):
        text = "User-agent: *\n" + "\n".join(order)
        assert answers(text, "/b") == {"search": False} and answers(text, "/a") == {"search": True}


def test_a_group_for_us_replaces_the_one_for_everyone() -> None:
    text = "User-agent: *\nContent-Usage: search=n\nUser-agent: Lycosa\nAllow: /\n"
    assert answers(text) == {}
    assert answers(text, product="other") == {"search": False}


def test_groups_for_us_are_merged() -> None:
    text = (
        "User-agent: lycosa\nContent-Usage: search=n\nUser-agent: b\nAllow: /\n"
        "User-agent: lycosa\nContent-Usage: train-ai=n\n"
    )
    assert answers(text) == {"search": False, "ai-train": False}


def test_a_line_before_any_group_belongs_to_none() -> None:
    assert stated("Content-Usage: search=n\nContent-Signal: search=no\n") == ()


@pytest.mark.parametrize("first", ["*", "lycosa", "other"])
@pytest.mark.parametrize("second", ["*", "lycosa", "other"])
def test_a_usage_rule_ends_a_run_of_agents_for_usage_rules_only(first: str, second: str) -> None:
    """Section 3: it is a rule, so the next User-agent line begins a group. To what Allow and
    Disallow apply, it makes no difference: it must never open what is closed without it.
    """
    text = (
        f"User-agent: {first}\nContent-Usage: search=n\n"
        f"User-agent: {second}\nContent-Usage: train-ai=n\nDisallow: /x\n"
    )
    expected: dict[str, bool] = {}
    for agent, answer in ((first, "search"), (second, "ai-train")):
        wanted = "lycosa" if "lycosa" in (first, second) else "*"
        if agent == wanted:
            expected[answer] = False
    assert answers(text) == expected
    without = "\n".join(line for line in text.splitlines() if "Content" not in line)
    for target in ("/x", "/y"):
        assert (
            Matcher(parse_robots(text.encode(), "lycosa")).judge_target(target).allowed
            == Matcher(parse_robots(without.encode(), "lycosa")).judge_target(target).allowed
        )


def test_signals_are_a_source_of_their_own() -> None:
    text = (
        "User-Agent: *\nContent-Signal: search=yes,ai-train=no\nAllow: /\n"
        "Content-Usage: train-ai=y\n"
    )
    assert stated(text) == (
        Statement(S.USAGE_ROBOTS, "train-ai=y", 4, {"ai-train": True}),
        Statement(
            S.SIGNAL_ROBOTS, "search=yes,ai-train=no", 2, {"search": True, "ai-train": False}
        ),
    )
    assert answers(text) == {"search": True, "ai-train": False}


def test_licences_belong_to_the_whole_file() -> None:
    text = (
        "License: https://example.com/license.xml\nUser-agent: Googlebot\nAllow: /\n"
        "License: https://example.com/other.xml\nLicense:\nLicense: https://example.com/license.xml\n"
    )
    assert stated(text) == (
        Statement(S.LICENSE_ROBOTS, "https://example.com/license.xml", 1),
        Statement(S.LICENSE_ROBOTS, "https://example.com/other.xml", 4),
    )


def test_a_file_without_such_lines_costs_nothing_to_keep_or_ask() -> None:
    rules = parse_robots(b"User-agent: *\nDisallow: /a\nSitemap: http://a.org/s.xml\n", "lycosa")
    assert rules.usage is None
    assert robots_statements(rules.usage, "/a") == ()
    # one octet more than before the field existed
    assert msgspec.msgpack.encode(rules)[-1:] == msgspec.msgpack.encode(None)


def test_records_from_before_are_read() -> None:
    old = RobotsRules([(False, "/a", 2)], "*", 1.5, ["http://a.org/s.xml"])
    raw = msgspec.msgpack.decode(msgspec.msgpack.encode(RobotsRecord(old, "v", 200, 1.0, 2.0)))
    raw[0] = raw[0][:4]
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(raw), type=RobotsRecord)
    assert read.rules == old and read.rules.usage is None


def test_records_come_back_as_they_were() -> None:
    rules = parse_robots((EXAMPLE + "License: https://a.org/l.xml\n").encode(), "lycosa")
    raw = msgspec.msgpack.encode(RobotsRecord(rules))
    assert msgspec.msgpack.decode(raw, type=RobotsRecord).rules == rules


def test_lines_beyond_the_limit_count_as_a_no() -> None:
    line = "Content-Usage: /a%d search=y\n"
    most = "User-agent: *\n" + "".join(line % n for n in range(MAX_USAGE_LINES))
    assert answers(most, "/a0") == {"search": True} and answers(most, "/b") == {}
    more = most + line % 9999
    assert answers(more, "/a0")["search"] is answers(more, "/b")["ai-train"] is False
    assert [each.line for each in stated(more, "/b")] == [MAX_USAGE_LINES + 2]


def test_what_is_stored_of_a_hostile_file_is_bounded() -> None:
    text = "User-agent: *\n" + "Content-Usage: /%s search=y\n" % ("x" * 3000) * 150
    text += "".join(f"License: https://a.org/{n}\n" for n in range(1000))
    rules = parse_robots(text.encode(), "lycosa").usage
    assert rules is not None and len(rules.licenses) == MAX_LICENSES
    assert len(msgspec.msgpack.encode(rules)) < MAX_USAGE_CHARACTERS + 5_000


@pytest.mark.parametrize("piece", ["*a", "*", "*aab", "a", "*ab*ba"])
def test_the_cost_of_a_hostile_file_is_bounded(piece: str) -> None:
    path = "/" + piece * (60 // len(piece)) + "c$"
    text = "User-agent: *\n" + f"Content-Usage: {path} search=y\n" * 7000
    rules = parse_robots(text.encode(), "lycosa").usage
    target = "/" + "a" * 8_000
    run_below(100, lambda: robots_statements(rules, target))


@given(
    st.lists(
        st.sampled_from(
            [
                "User-agent: *",
                "User-agent: lycosa",
                "User-agent: b",
                "Allow: /a",
                "Disallow: /",
                "Content-Usage: /a search=n",
                "Content-Usage: search=y",
                "Content-Signal: search=no",
                "License: https://a.org/",
            ]
        ),
        max_size=12,
    )
)
def test_lines_about_use_never_change_what_may_be_fetched(lines: list[str]) -> None:
    plain = [line for line in lines if line.startswith(("User", "Allow", "Dis"))]
    one, other = (
        Matcher(parse_robots("\n".join(each).encode(), "lycosa")) for each in (lines, plain)
    )
    for target in ("/", "/a", "/b"):
        assert one.judge_target(target).allowed == other.judge_target(target).allowed
