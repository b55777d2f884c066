"""Patterns of the operator in a whole crawl, when pages choose what is searched."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from crawling import QUICK, Pages, crawl_folder, page
from lycosa.base.config.sections import Config, ScopeSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.saved_settings import PureRules, SettingsUnreadable, load_saved_settings

HOME = "http://a.test/"


def crawled(folder: Path, *exclude: str) -> dict[str, UrlState]:
    links = [f"{HOME}{'a' * 60}!", *(f"{HOME}{number}" for number in range(5))]
    web = Pages({HOME: page(*links), **{link: page() for link in links}})
    crawl_folder(folder, web, [HOME], replace(QUICK, scope=ScopeSection(exclude=exclude)))
    return {each.url: each.state for each in read_folder(folder).urls()}


def test_a_link_that_makes_other_engines_backtrack_costs_the_page_no_link(tmp_path: Path) -> None:
    states = crawled(tmp_path / "c", "/(a+)+$", "(x|y)$")
    assert states == dict.fromkeys(
        [HOME, f"{HOME}{'a' * 60}!", *(f"{HOME}{number}" for number in range(5))], UrlState.FETCHED
    )


def test_a_folder_with_a_pattern_that_is_not_supported_tells_the_way_out(tmp_path: Path) -> None:
    """Earlier versions accepted every pattern of Python's ``re``."""
    crawled(tmp_path / "c", "/3$")
    reader = read_folder(tmp_path / "c")
    saved = load_saved_settings(reader)
    assert (
        PureRules(reader, saved).judge_url(f"{HOME}3", LinkKind.A, depth=1, wall=0.0).reason
        is Reason.EXCLUDED
    )
    older = replace(saved, config=Config(scope=ScopeSection(exclude=("/x", "/3(?!4)"))))
    with pytest.raises(SettingsUnreadable) as refused:
        PureRules(reader, older)
    told = str(refused.value)
    assert told.startswith("saved with the crawl: scope.exclude[1]: '/3(?!4)' is not")
    assert "character 3" in told and "resume the crawl with a pattern that is supported" in told
