"""Which URLs belong to a crawl."""

from __future__ import annotations

import pytest

from lycosa.base.config.sections import ScopeRule, ScopeSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Sites
from lycosa.stages.admit.scope import Scope

SITES = Sites()
SEED = "https://www.example.co.uk/docs/start.html"


def scope_of(*seeds: str, **settings: object) -> Scope:
    scope = Scope(ScopeSection(**settings), SITES.site_of)  # type: ignore[arg-type]
    for seed in seeds or (SEED,):
        scope.add_seed(seed)
    return scope


def reason_of(
    scope: Scope, url: str, kind: LinkKind = LinkKind.A, depth: int = 1, nofollow: bool = False
) -> Reason:
    refusal = scope.judge_url(url, kind, depth, nofollow)
    return refusal.reason if refusal else Reason.NONE


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        (
            ScopeRule.HOST,
            ["https://www.example.co.uk/", "http://www.example.co.uk/x?y"],
            [
                "https://example.co.uk/",
                "https://www.example.co.uk:8443/",
                "https://evil.org/www.example.co.uk/",
                "https://www.example.co.uk.evil.org/",
            ],
        ),
        (
            ScopeRule.SITE,
            ["https://example.co.uk/", "http://a.b.example.co.uk:8080/"],
            ["https://other.co.uk/", "https://co.uk/", "https://notexample.co.uk/"],
        ),
        (
            ScopeRule.PREFIX,
            [
                "https://www.example.co.uk/docs/",
                "http://www.example.co.uk/docs/a/b?c=/x",
                "https://www.example.co.uk/docs/?/../x",
            ],
            [
                "https://www.example.co.uk/",
                "https://www.example.co.uk/docs",
                "https://www.example.co.uk/docs2/",
                "https://example.co.uk/docs/",
            ],
        ),
        (ScopeRule.ANY, ["https://evil.org/"], []),
    ],
)
def test_the_rule_says_what_is_inside(
    rule: ScopeRule, inside: list[str], outside: list[str]
) -> None:
    scope = scope_of(rule=rule)
    assert [reason_of(scope, url) for url in inside] == [Reason.NONE] * len(inside)
    assert [reason_of(scope, url) for url in outside] == [Reason.OUT_OF_SCOPE] * len(outside)


def test_a_refusal_names_rule_and_value_in_one_line() -> None:
    refusal = scope_of().judge_url("https://other.org/a", LinkKind.A, 1)
    assert refusal is not None
    assert str(refusal) == "out_of_scope: outside the crawl's scope (scope.rule = host: other.org)"


def test_a_prefix_of_the_root_is_the_whole_host() -> None:
    scope = scope_of("http://example.org/", "http://example.com/a/b/", rule=ScopeRule.PREFIX)
    assert reason_of(scope, "http://example.org/x/y") is Reason.NONE
    assert reason_of(scope, "http://example.com/a/c") is Reason.OUT_OF_SCOPE


def test_the_redirect_target_of_a_seed_joins_the_scope() -> None:
    scope = scope_of("http://example.org/")
    target = "https://www.example.org/"
    assert reason_of(scope, target, LinkKind.REDIRECT, 0) is Reason.OUT_OF_SCOPE
    scope.joins(target)
    assert reason_of(scope, target, LinkKind.REDIRECT, 0) is Reason.NONE
    assert reason_of(scope, "https://www.example.org/a") is Reason.NONE


def test_a_seed_is_refused_by_exclude_alone() -> None:
    scope = scope_of(include=("/blog/",), exclude=(r"\.pdf$",), max_depth=0)
    assert reason_of(scope, "https://elsewhere.org/", LinkKind.SEED, 0) is Reason.NONE
    refusal = scope.judge_url("https://elsewhere.org/a.pdf", LinkKind.SEED, 0)
    assert refusal is not None
    assert (refusal.reason, refusal.rule, refusal.value) == (
        Reason.EXCLUDED,
        "scope.exclude[0]",
        r"\.pdf$",
    )


def test_include_and_exclude_search_the_whole_url() -> None:
    scope = scope_of(include=("/docs/", r"\?page="), exclude=("^http:", "print=1"))
    assert reason_of(scope, "https://www.example.co.uk/docs/a") is Reason.NONE
    assert reason_of(scope, "https://www.example.co.uk/?page=2") is Reason.NONE
    assert reason_of(scope, "https://www.example.co.uk/x") is Reason.NOT_INCLUDED
    assert reason_of(scope, "https://www.example.co.uk/docs/a?print=1") is Reason.EXCLUDED
    assert reason_of(scope, "http://www.example.co.uk/docs/a") is Reason.EXCLUDED


@pytest.mark.parametrize("setting", ["include", "exclude"])
def test_a_bad_pattern_is_named(setting: str) -> None:
    with pytest.raises(ValueError, match=rf"scope\.{setting}\[1\]: '\(x'"):
        scope_of(**{setting: ("ok", "(x")})


def test_depth_is_limited_and_a_requisite_may_be_one_deeper() -> None:
    scope = scope_of(max_depth=2, requisites=True)
    url = "https://www.example.co.uk/x"
    assert [reason_of(scope, url, depth=depth) for depth in (2, 3)] == [
        Reason.NONE,
        Reason.TOO_DEEP,
    ]
    assert [reason_of(scope, url, LinkKind.IMG, depth) for depth in (3, 4)] == [
        Reason.NONE,
        Reason.TOO_DEEP,
    ]
    assert reason_of(scope_of(max_depth=0), url) is Reason.TOO_DEEP
    assert reason_of(scope_of(), url, depth=10_000) is Reason.NONE


def test_requisites_are_taken_from_any_host_but_only_when_asked_for() -> None:
    image = "https://cdn.example.net/a.png"
    assert reason_of(scope_of(), image, LinkKind.IMG) is Reason.REQUISITE
    assert reason_of(scope_of(requisites=True), image, LinkKind.IMG) is Reason.NONE
    assert (
        reason_of(scope_of(requisites=True, include=("/docs/",)), image, LinkKind.STYLE)
        is Reason.NONE
    )
    assert (
        reason_of(scope_of(requisites=True, exclude=("cdn",)), image, LinkKind.SCRIPT)
        is Reason.EXCLUDED
    )
    assert reason_of(scope_of(requisites=True), image) is Reason.OUT_OF_SCOPE


@pytest.mark.parametrize("kind", [LinkKind.FORM, LinkKind.OTHER])
def test_forms_and_unknown_kinds_are_never_followed(kind: LinkKind) -> None:
    refusal = scope_of(requisites=True, rule=ScopeRule.ANY).judge_url(SEED, kind, 1)
    assert refusal is not None
    assert (refusal.reason, refusal.value) == (Reason.OUT_OF_SCOPE, kind.name.lower())


def test_nofollow_is_followed_unless_the_setting_says_no() -> None:
    assert reason_of(scope_of(), SEED, nofollow=True) is Reason.NONE
    assert reason_of(scope_of(follow_nofollow=False), SEED, nofollow=True) is Reason.NOFOLLOW
    assert reason_of(scope_of(follow_nofollow=False), SEED) is Reason.NONE


def test_the_rules_are_told_in_words() -> None:
    lines = scope_of(rule=ScopeRule.SITE, include=("a",), exclude=("b",), max_depth=3).rules()
    assert (
        lines[0] == "in scope: pages on the sites (registrable domains) of the seeds, any subdomain"
    )
    assert "site: example.co.uk" in lines
    assert "at most 3 links away from a seed" in lines
    many = scope_of(*(f"http://h{number}.org/" for number in range(30)))
    assert any(line.endswith("and 10 more") for line in many.rules())
    assert repr(many) == "<Scope host places=30>"


SURTS = ("+http://(org,other,", "-http://(org,other,)/private", "+http://(org,other,)/private/a/")


def test_surt_prefixes_are_in_scope_next_to_the_seeds() -> None:
    scope = scope_of(rule=ScopeRule.PREFIX, surts=SURTS)
    assert reason_of(scope, SEED) is Reason.NONE
    assert reason_of(scope, "https://www.other.org/") is Reason.NONE
    assert reason_of(scope, "https://other.org/Private/b") is Reason.EXCLUDED
    assert reason_of(scope, "https://other.org/private/b", LinkKind.SEED) is Reason.EXCLUDED
    assert reason_of(scope, "https://other.org/private/a/b") is Reason.NONE
    assert reason_of(scope, "https://www.example.co.uk/else") is Reason.OUT_OF_SCOPE
    assert scope.holds("www.other.org") and not scope.holds("third.org")


def test_the_rule_surt_takes_nothing_from_the_seeds() -> None:
    scope = scope_of(rule=ScopeRule.SURT, surts=SURTS)
    assert reason_of(scope, SEED, LinkKind.SEED) is Reason.NONE
    assert reason_of(scope, "https://www.example.co.uk/docs/") is Reason.OUT_OF_SCOPE
    assert reason_of(scope, "https://other.org/") is Reason.NONE


def test_the_rule_page_is_the_seeds_alone() -> None:
    scope = scope_of(rule=ScopeRule.PAGE)
    assert reason_of(scope, SEED.replace("https", "http")) is Reason.NONE
    assert reason_of(scope, "https://www.example.co.uk/docs/") is Reason.OUT_OF_SCOPE


def test_a_seed_has_a_rule_of_its_own() -> None:
    own = ("https://a.org/docs/ prefix", "https://b.org page", "https://c.org/x site")
    scope = scope_of("https://a.org/docs/", "https://b.org/", "https://c.org/x", per_seed=own)
    scope.add_seed("https://d.org/y")
    for url in ("a.org/docs/1", "b.org/", "c.org/", "www.c.org/y", "d.org/"):
        assert reason_of(scope, f"https://{url}") is Reason.NONE, url
    for url in ("a.org/", "b.org/1", "www.d.org/"):
        assert reason_of(scope, f"https://{url}") is Reason.OUT_OF_SCOPE, url
    assert scope.joins("https://www.a.org/docs", of="http://a.org/docs/")
    assert not scope.joins("https://elsewhere.org/", of="https://b.org/")
    assert scope.joins("https://elsewhere.org/", of="https://d.org/y")
    assert all(map(scope.holds, ("a.org", "b.org", "c.org", "www.c.org", "d.org")))


def test_one_hop_out_brings_the_pages_that_pages_in_scope_link_to() -> None:
    scope = scope_of(one_hop_out=True)

    def admits(url: str, via: str, kind: LinkKind = LinkKind.A) -> bool:
        return scope.judge_url(url, kind, 1, via=via) is None

    assert admits("https://out.org/1", SEED)
    assert not admits("https://out.org/2", "https://out.org/1"), "a second hop"
    assert admits(SEED, "https://out.org/1"), "back into the scope"
    assert admits("https://out.org/3", "https://out.org/1", LinkKind.REDIRECT)
    assert not admits("https://out.org/1", "")
    assert scope_of().judge_url("https://out.org/1", LinkKind.A, 1, via=SEED) is not None


def test_other_rules_hold_from_then_on() -> None:
    scope = scope_of()
    assert not scope.judges_waiting
    waiting = "https://elsewhere.org/a"
    assert scope.judge_waiting(waiting, LinkKind.A, 1) is None, "its place is not judged"
    scope.use_section(ScopeSection(exclude=("/a",), max_depth=3))
    assert scope.judges_waiting
    refusal = scope.judge_waiting(waiting, LinkKind.A, 1)
    assert refusal is not None and refusal.reason is Reason.EXCLUDED
    deep = scope.judge_waiting("https://www.example.co.uk/b", LinkKind.A, 4)
    assert deep is not None and deep.reason is Reason.TOO_DEEP
    with pytest.raises(ValueError, match=r"scope\.surts: .*is no SURT prefix"):
        scope.use_section(ScopeSection(surts=("a b",)))
    assert reason_of(scope, "https://www.example.co.uk/a") is Reason.EXCLUDED, "nothing changed"


def test_a_url_among_surt_prefixes_is_told_with_its_folder() -> None:
    lines = ("http://e.org/docs/", "-http://e.org/docs/a", "+http://(org,f,")
    rules = Scope(ScopeSection(surts=lines), SITES.site_of).rules()
    assert "also in scope: http://e.org/docs/" in rules
    assert "also in scope: +http://(org,f," in rules
    assert "refused below: -http://e.org/docs/a, that is (org,e,)/docs/" in rules


def test_kinds_of_links_with_equal_rules_are_judged_alike() -> None:
    """Intake takes one of them for the other when it asks whether a find is recent."""
    apart = {LinkKind.SEED, LinkKind.REDIRECT, LinkKind.SITEMAP_FILE, LinkKind.LICENSE}
    sections = [
        ScopeSection(requisites=requisites, accept=accept, max_depth=1)
        for requisites in (False, True)
        for accept in ((), ("image/png",), ("video",))
    ]
    for section in sections:
        scope = Scope(section, lambda host: host)
        scope.add_seed("http://a.test/")
        judged: dict[int, set[tuple[bool, ...]]] = {}
        for kind in set(LinkKind) - apart:
            verdicts = tuple(
                scope.judge_url(url, kind, depth, via="http://a.test/") is None
                for url in ("http://a.test/x", "http://b.test/x")
                for depth in (1, 2, 3)
            )
            judged.setdefault(kind.rules, set()).add(verdicts)
        assert all(len(each) == 1 for each in judged.values()), section
        assert max(judged) < 16 and not any(each % 2 for each in judged)
