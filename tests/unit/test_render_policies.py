"""Which pages are rendered: the settings, and the rules for hosts and patterns."""

from __future__ import annotations

import pytest

from lycosa.base.config.render_policies import check_render_policies, render_book
from lycosa.base.config.render_section import RenderMode, RenderSection
from lycosa.base.config.sources import SettingsError, settings

POLICIES = (
    "app.example /static/* never",
    "host:www.app.example always",
    "app.example auto",
    "re:[?&]view=map always",
)
SECTION = RenderSection(policies=POLICIES)


@pytest.mark.parametrize(
    ("url", "mode", "rule"),
    [
        ("https://app.example/static/a.html", RenderMode.NEVER, 1),
        ("https://www.app.example/static/a.html", RenderMode.NEVER, 1),
        ("https://www.app.example/a", RenderMode.ALWAYS, 2),
        ("https://a.b.app.example/", RenderMode.AUTO, 3),
        ("https://other.example/?view=map", RenderMode.ALWAYS, 4),
        ("https://other.example/", RenderMode.NEVER, 0),
    ],
)
def test_the_first_rule_for_a_url_counts_before_the_mode(
    url: str, mode: RenderMode, rule: int
) -> None:
    book = render_book(SECTION)
    assert (book.mode_of(url), book.rule_of(url)) == (mode, rule)


def test_without_rules_the_mode_counts() -> None:
    book = render_book(RenderSection(mode=RenderMode.AUTO))
    assert book.mode_of("http://a.example/") is RenderMode.AUTO
    assert book.rule_of("http://a.example/") == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("app.example", "write MATCHER MODE"),
        ("app.example allways", "did you mean always?"),
        ("app.example auto weight=2", "write never, auto or always"),
        ("sitemap:https://a.example/s.xml auto", "a sitemap cannot choose"),
        ("https://app.example/ auto", "is no domain"),
        ("re:[ auto", "re:"),
        ("app.example /docs/*", "has no mode"),
    ],
)
def test_a_rule_that_cannot_be_read_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_render_policies(["a.example never", text])
    assert str(refused.value).startswith("line 2: ")
    assert said in str(refused.value) or said == "re:"


def test_wrong_rules_stop_the_start() -> None:
    with pytest.raises(SettingsError) as refused:
        settings({"render.policies": ["app.example sometimes"]})
    assert "render.policies: line 1" in str(refused.value)


@pytest.mark.parametrize(
    ("section", "is_on"),
    [
        (RenderSection(), False),
        (RenderSection(mode=RenderMode.AUTO), True),
        (RenderSection(policies=("a.example never",)), False),
        (RenderSection(policies=("a.example never", "b.example auto")), True),
        (RenderSection(mode=RenderMode.ALWAYS, policies=("a.example never",)), True),
    ],
)
def test_a_renderer_is_needed_when_any_page_may_be_rendered(
    section: RenderSection, is_on: bool
) -> None:
    assert section.is_on == is_on
