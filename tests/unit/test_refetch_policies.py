"""Refetch policies: which URL has which, what is refused, and what a lookup costs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs import count_calls, run_below
from lycosa.base.config.fields import fields
from lycosa.base.config.policy_classes import (
    ADAPTIVE_CLASS,
    NEVER_CLASS,
    VALUE_CLASS,
    class_bounds,
    policy_class,
    promised_s,
)
from lycosa.base.config.refetch_policies import (
    MAX_CLASSES,
    PolicyKind,
    RefetchPolicy,
    check_policies,
    class_of,
    find_policy,
    find_rule,
    policies_version,
    policy_book,
    read_policy,
)
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.listing_kind import NOT_LISTED
from lycosa.stages.schedule.refetch import kept_interval, longest_interval, next_interval

SECTION = RefetchSection(
    policies=(
        "news.example /archive/* never",
        "host:www.news.example daily",
        "news.example every 1h",
        "re:[?&]page=[0-9]+ monthly weight=0.5",
        "/feed* every 10m",
        "site:shop.example value min=6h max=30d",
        "shop.example:8080 /x adaptive",
        "* adaptive weight=2",
    ),
    intervals=("late.example 2h",),
)


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("https://news.example/", 3),
        ("https://www.news.example/x", 2),
        ("https://www.news.example/archive/2020?page=1", 1),  # the first that is for it counts
        ("https://a.www.news.example/x", 3),  # host: is that host alone
        ("http://www.news.example:8080/x", 3),
        ("https://badnews.example/", 8),
        ("https://other.example/list?page=12", 4),
        ("https://other.example/feed.xml", 5),
        ("https://a.shop.example/x", 6),
        ("http://shop.example:8080/x", 6),
        ("http://[::1]:8080/y", 8),
        ("http://late.example/y", 8),
    ],
)
def test_the_first_rule_that_is_for_a_url_counts(url: str, line: int) -> None:
    rule = find_rule(SECTION, url)
    assert rule is not None
    assert (rule.number, rule.setting) == (line, "refetch.policies")
    assert rule.text == SECTION.policies[line - 1]


def test_fixed_intervals_come_after_the_policies() -> None:
    section = RefetchSection(policies=("a.example never",), intervals=("example 2h", "* 1h"))
    rule = find_rule(section, "http://b.example/")
    assert rule is not None
    assert (rule.setting, rule.number, rule.policy.seconds) == ("refetch.intervals", 1, 7200.0)
    assert find_policy(section, "http://a.example/").kind is PolicyKind.NEVER


def test_without_a_rule_the_rule_of_the_section_decides_and_off_is_stronger_than_all() -> None:
    assert find_policy(RefetchSection(), "http://a.example/").kind is PolicyKind.VALUE
    off = RefetchSection(rule=RefetchRule.OFF, policies=("* every 1h",))
    assert next_interval(off, "http://a.example/", 10.0, changed=True, is_first=False) == 0.0


_HOSTS = st.sampled_from(["a.example", "b.a.example", "b.a.example:81", "c.example", "[::1]"])
_PATTERNS = st.sampled_from(["", "/a*", "/*b", "*", "/a.c", "/a*b*c", "/[x]"])
_TARGETS = st.sampled_from(["/", "/a", "/ab", "/a.c", "/abc", "/axc", "/[x]", "/a?b=c"])
_DOMAINS = st.sampled_from(["a.example", "example", "b.a.example", "b.a.example:81", "*"])


@given(st.lists(st.tuples(_DOMAINS, _PATTERNS), max_size=30), _HOSTS, _TARGETS)
def test_the_first_of_many_rules_is_found_as_each_alone_is(
    given_rules: list[tuple[str, str]], host: str, target: str
) -> None:
    """Searching many patterns together finds what one comparison after the other finds."""
    policies = tuple(
        " ".join(filter(None, (domain, pattern, f"every {number}h")))
        for number, (domain, pattern) in enumerate(given_rules, 1)
    )
    url = f"http://{host}{target}"
    together = find_rule(RefetchSection(policies=policies), url)
    alone = (find_rule(RefetchSection(policies=(each,)), url) for each in policies)
    first = next(filter(None, alone), None)
    assert (together.text if together else None) == (first.text if first else None)


@given(st.sets(st.integers(0, 99), max_size=40), st.integers(0, 99))
def test_the_first_of_many_expressions_is_found(numbers: set[int], number: int) -> None:
    texts = tuple(f"re:[?&]p{each}= every {each + 1}h" for each in sorted(numbers))
    rule = find_rule(RefetchSection(policies=texts), f"http://a.example/?p{number}=1")
    assert (rule.policy.seconds if rule else None) == (
        (number + 1) * 3600.0 if number in numbers else None
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no policy"),
        ("news.example", "no policy"),
        ("news.example /a /b", "is no policy"),
        ("news.example 1h", "is no policy"),
        ("news.example evry 1h", "did you mean every"),
        ("news.example every", "every what"),
        ("news.example every soon", "not a duration"),
        ("news.example every 0.5s", "too short"),
        ("news.example every 4000d", "too long"),
        ("https://news.example/ daily", "no domain"),
        ("*.news.example daily", "no domain"),
        ("host:* daily", "no domain"),
        ("/a*", "no policy"),
        ("re:(a daily", "not a regular expression"),
        ("re:(?!x) daily", "look-around"),
        ("sitemap:news.example/sitemap.xml hourly", "no address of a sitemap"),
        ("sitemap:https://*/sitemap.xml hourly", "no address of a sitemap"),
        ("sitemap:https://news.example/sitemap.xml", "no policy"),
        ("sitemap:https://news.example/s.xml /live/* hourly", "is no policy"),
        ("news.example daily now", "no option"),
        ("news.example adaptive speed=2", "no option"),
        ("news.example adaptive min=1h min=2h", "twice"),
        ("news.example adaptive min=2d max=1d", "longer than max"),
        ("news.example daily min=2d", "not between"),
        ("news.example never weight=2", "no options"),
        ("news.example value weight=0", "no weight"),
        ("news.example value weight=nan", "no weight"),
        (f"news.example /{'*' * 30} daily", "asterisks"),
        (f"news.example /{'a' * 3000} daily", "no policy"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_line_and_what_to_write(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        check_policies(["* adaptive", text])
    assert str(refused.value).startswith("line 2: ")


def test_too_many_rules_and_too_many_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="1001 policies"):
        check_policies(["* daily"] * 1001)
    classes = [f"a{n}.example value min={n + 1}h max={n + 1}h" for n in range(60)]
    check_policies([f"a{n}.example every {n + 1}h" for n in range(60)])  # one class
    spread = [f"a.example value min=1m max={t}" for t in ("5m", "1h", "6h", "1d", "4d", "30d")]
    check_policies(spread)
    many = [f"a.example value min={low} max=365d" for low in ("1m", "5m", "1h", "3h", "6h", "12h")]
    more = [f"a.example value min={low} max=30d" for low in ("1m", "5m", "1h", "3h", "6h", "12h")]
    with pytest.raises(ValueError, match=f"at most {MAX_CLASSES}"):
        check_policies(spread + many + more)
    assert len({policy_class(read_policy(each).policy) for each in classes}) <= 15


def test_texts_of_the_setting_are_checked_and_may_have_commas() -> None:
    field = fields()["refetch.policies"]
    texts = ("a.example /x,y* daily", "re:a{1,3} never")
    assert field.read(field.show(texts)) == texts
    with pytest.raises(ValueError, match="line 1"):
        field.read("a.example sometimes")


@pytest.mark.parametrize(
    ("name", "hours"), [("hourly", 1), ("daily", 24), ("weekly", 168), ("monthly", 720)]
)
def test_named_classes_are_every_of_their_time_with_half_and_twice_of_it_as_bounds(
    name: str, hours: int
) -> None:
    policy = read_policy(f"* {name}").policy
    assert (policy.kind, policy.seconds) == (PolicyKind.EVERY, hours * 3600.0)
    assert (policy.min_s, policy.max_s) == (hours * 1800.0, hours * 7200.0)
    assert read_policy(f"* {policy.show()}").policy == policy


def test_an_interval_keeps_the_bounds_of_its_rule() -> None:
    section = RefetchSection(
        rule=RefetchRule.ADAPTIVE,
        policies=("a.example adaptive min=2h max=3h", "b.example every 90s"),
    )

    def after(url: str, interval_s: float, changed: bool) -> float:
        return next_interval(section, url, interval_s, changed=changed, is_first=False)

    assert after("http://a.example/", 7200.0, True) == 7200.0
    assert after("http://a.example/", 7200.0, False) == 10_800.0
    assert after("http://b.example/", 7200.0, False) == 90.0
    assert after("http://c.example/", 7200.0, True) == section.min_s
    assert kept_interval(section, "http://a.example/", 604_800.0) == 10_800.0
    assert kept_interval(section, "http://c.example/", 0.0) == section.first_s
    assert longest_interval(section) == section.max_s
    section = msgspec.structs.replace(section, rule=RefetchRule.VALUE)
    assert longest_interval(section) == 4 * section.max_s, "by its value a page may be due later"
    years = RefetchSection(rule=RefetchRule.ADAPTIVE, policies=("* every 800d",))
    assert longest_interval(years) == 800 * 86_400.0


def test_a_bound_of_a_rule_is_stronger_than_one_of_the_section() -> None:
    section = RefetchSection()
    kind = PolicyKind.ADAPTIVE
    assert RefetchPolicy(kind, max_s=3600.0).bounds(section) == (3600.0, 3600.0)
    assert RefetchPolicy(kind, min_s=2e7).bounds(section) == (2e7, 2e7)


def test_the_class_of_bounds_has_its_meaning_in_itself() -> None:
    assert class_of(RefetchSection(), "http://a.example/") == 0
    assert [
        policy_class(read_policy(f"* {text}").policy)
        for text in ("never", "adaptive min=1h", "value")
    ] == [NEVER_CLASS, ADAPTIVE_CLASS, VALUE_CLASS]
    bounded = policy_class(read_policy("* value min=1h max=30d").policy)
    assert class_bounds(bounded) == (3600.0, 2_592_000.0)
    assert class_bounds(VALUE_CLASS) == (0.0, 0.0)


_TIMES = st.one_of(st.just(0.0), st.floats(1.0, 3650 * 86_400.0))


@given(_TIMES, _TIMES)
def test_a_class_of_bounds_is_a_byte_that_is_no_other_class(low: float, high: float) -> None:
    if low and high and low > high:
        low, high = high, low
    number = policy_class(RefetchPolicy(PolicyKind.VALUE, min_s=low, max_s=high))
    assert 0 < number < 256 and number not in (NEVER_CLASS, ADAPTIVE_CLASS)
    assert not promised_s(number)
    one, other = class_bounds(number)
    assert (bool(one), bool(other)) == (bool(low), bool(high))
    assert not (one and other) or one <= other


@given(st.floats(1.0, 3650 * 86_400.0))
def test_the_class_of_a_promise_says_its_time_nearly(seconds: float) -> None:
    number = policy_class(RefetchPolicy(PolicyKind.EVERY, seconds))
    assert 0 < number < 256 and class_bounds(number) == (0.0, 0.0)
    assert abs(promised_s(number) / seconds - 1) < (0.5 if seconds < 10 else 0.23)
    usual = (60, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800, 31_536_000)
    for exact in usual:
        assert promised_s(policy_class(RefetchPolicy(PolicyKind.EVERY, exact))) == exact


def test_promises_of_many_times_are_not_too_many_classes() -> None:
    check_policies([f"h{n}.example every {n + 1}h" for n in range(100)])


def test_the_version_is_that_of_the_rules_alone() -> None:
    plain = RefetchSection()
    assert policies_version(plain) == policies_version(RefetchSection(min_s=60.0)) == b""
    versions = {
        policies_version(each)
        for each in (
            RefetchSection(rule=RefetchRule.OFF),
            RefetchSection(policies=("* daily",)),
            RefetchSection(policies=("* hourly",)),
            RefetchSection(intervals=("* 1h",)),
        )
    }
    assert len(versions) == 4 and {len(each) for each in versions} == {8}


def test_a_lookup_does_not_try_a_thousand_rules_one_by_one() -> None:
    """3 to 6 microseconds were measured, a hundredth of a unit at most."""
    books = [
        RefetchSection(policies=tuple(f"s{n}.example /a/* every {n + 1}h" for n in range(1000))),
        RefetchSection(policies=tuple(f"* /a{n}/*/b every {n + 1}h" for n in range(1000))),
        RefetchSection(policies=tuple(f"re:[?&]p{n}= every {n + 1}h" for n in range(1000))),
    ]
    for section in books:

        def look_up(times: int = 1) -> None:
            for _ in range(times):
                find_rule(section, "https://www.other.example/q/1?x=1")  # noqa: B023 (called at once)

        look_up()
        assert count_calls(look_up) < 40
        run_below(3, lambda: look_up(100))


NEWS_MAP, OLD_MAP = "https://news.example/news-1.xml", "https://news.example/old.xml"
LISTED = RefetchSection(
    policies=(
        "news.example /live/* every 10m",
        "sitemap:https://News.example/news-*.xml hourly",
        "news.example daily",
        f"sitemap:{OLD_MAP} never",
        "sitemap:https://news.example/* weekly",
    )
)


def test_a_rule_by_sitemap_is_for_the_pages_with_its_mark() -> None:
    book = policy_book(LISTED)
    news, old = book.mark_of(NEWS_MAP), book.mark_of(OLD_MAP)
    assert book.names_sitemaps and not policy_book(SECTION).names_sitemaps
    assert len({news, old, book.mark_of("https://news.example/x"), NOT_LISTED}) == 4
    assert book.mark_of("https://other.example/news-1.xml") == NOT_LISTED

    def line(url: str, listed: int) -> int:
        rule = find_rule(LISTED, url, listed)
        return rule.number if rule is not None else 0

    page, live = "https://news.example/1", "https://news.example/live/1"
    assert [line(page, each) for each in (NOT_LISTED, news, old)] == [3, 2, 3]
    assert [line(live, each) for each in (NOT_LISTED, news, old)] == [1, 1, 1]
    other = "https://other.example/1"
    assert [line(other, each) for each in (NOT_LISTED, news, old)] == [0, 2, 4]
    assert class_of(LISTED, other, old) == NEVER_CLASS


@given(st.permutations(LISTED.policies))
def test_a_mark_keeps_its_meaning_when_rules_move(policies: list[str]) -> None:
    book, moved = policy_book(LISTED), policy_book(RefetchSection(policies=tuple(policies)))
    for each in (NEWS_MAP, OLD_MAP):
        # Of several rules that name it the first counts; its text is that of its mark.
        assert moved.rules[moved.place_of(moved.mark_of(each))].matcher.sitemap.startswith(
            "https://news"
        )
        before = book.rules[book.place_of(book.mark_of(each))]
        assert moved.rules[moved.place_of(book.mark_of(each))].text == before.text
    gone = policy_book(RefetchSection(policies=("* daily",)))
    assert gone.place_of(book.mark_of(OLD_MAP)) == 1  # no rule
