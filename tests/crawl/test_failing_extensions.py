"""Whole crawls whose rules or sinks raise: the same pages as without them, each with a remark."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from dying import runs_that_may_die
from judging import are_balanced, outcomes, quick_config, stored_rows
from lycosa.base.model.discovered import Discovered
from lycosa.base.model.end import End
from lycosa.base.reasons import Reason
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.parse.page import Page
from lycosa.state.store.journal_rows import remarks_of
from scripted import ScriptedWeb, moved, page, scripted_crawl
from virtual_crawl import VirtualCrawl

A = "http://a.test/"
ANSWERS = {
    A: page(*(f"{A}{n}" for n in range(8)), f"{A}moved", f"{A}same"),
    f"{A}same": page(text="the deep page 1 "),  # the body of that page
    **{f"{A}{n}": page(f"{A}deep/{n}", text=f"page number {n} ") for n in range(8)},
    **{f"{A}deep/{n}": page(text=f"the deep page {n} ") for n in range(8)},
    f"{A}moved": moved(f"{A}bad/target"),
    f"{A}bad/target": page(text="the target"),
}


def raising_sink(found: Page) -> None:
    raise KeyError(found.url)


def raising_rule(found: Discovered) -> Refusal | None:
    if "/deep/" in found.url or "/bad/" in found.url:
        raise KeyError(found.url)
    return None


def crawl_at(folder: Path) -> tuple[VirtualCrawl, ScriptedWeb]:
    return scripted_crawl(folder, ANSWERS, quick_config())


def remarks(folder: Path) -> dict[str, list[tuple[Reason, str]]]:
    return {
        row.url: [(each.reason, each.detail) for each in remarks_of(row)]
        for row in stored_rows(folder)
        if not row.kind.is_of_origin
    }


def test_a_sink_that_raises_at_every_page_changes_nothing_but_their_remarks(
    tmp_path: Path,
) -> None:
    plain, _ = crawl_at(tmp_path / "plain")
    assert plain.run([A]).end is End.FINISHED
    crawl, web = crawl_at(tmp_path / "c")
    seen: list[str] = []
    crawl.sinks = (raising_sink, lambda found: seen.append(found.url))
    assert crawl.run([A]).end is End.FINISHED
    assert set(seen) == set(ANSWERS) == {url for url in web.asked if "robots" not in url}
    for url, noted in remarks(crawl.folder).items():
        assert noted[-1][0] is Reason.EXTENSION_FAILED, url
        assert "test_failing_extensions:raising_sink: KeyError" in noted[-1][1]
    found, without = outcomes(crawl), outcomes(plain)
    assert {url: state for url, (state, _) in found.items()} == {
        url: state for url, (state, _) in without.items()
    }
    assert found[A][1] is Reason.EXTENSION_FAILED
    assert found[f"{A}moved"][1] is Reason.REDIRECTED  # the remark is in its row
    same = (f"{A}same", f"{A}deep/1")
    assert {without[url][1] for url in same} == {Reason.NONE, Reason.DUPLICATE}
    assert {found[url][1] for url in same} == {Reason.EXTENSION_FAILED}, "a copy has the remark too"
    are_balanced(crawl)


def test_a_rule_that_raises_refuses_the_url_and_the_page_with_the_link_has_the_remark(
    tmp_path: Path,
) -> None:
    crawl, web = crawl_at(tmp_path / "c")
    crawl.rules = (raising_rule,)
    assert crawl.run([A]).end is End.FINISHED
    assert not any("/deep/" in url or "/bad/" in url for url in web.asked)
    noted = remarks(crawl.folder)
    assert noted.pop(A) == noted.pop(f"{A}same") == []
    assert len(noted) == 9  # eight pages with a deep link, and the redirect
    for found in noted.values():
        ((reason, detail),) = found
        assert reason is Reason.EXTENSION_FAILED and ":raising_rule: KeyError" in detail
    assert are_balanced(crawl).rule_refusals == {Reason.RULE_FAILED: 9}


def test_a_rule_that_returns_something_else_refuses_too(tmp_path: Path) -> None:
    crawl, web = crawl_at(tmp_path / "c")
    crawl.rules = (lambda found: found.depth > 0 or None,)  # type: ignore[arg-type, return-value]
    assert crawl.run([A]).end is End.FINISHED
    assert {url for url in web.asked if "robots" not in url} == {A}


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_around_a_raising_sink_or_rule_loses_nothing(seed: int, tmp_path: Path) -> None:
    chance, folder = random.Random(seed), tmp_path / "c"
    crawl, _ = crawl_at(folder)
    crawl.sinks, crawl.rules = (raising_sink,), (raising_rule,)
    assert any(list(runs_that_may_die(crawl, [A], chance, tmp_path)))
    assert crawl.run([A]).end is End.FINISHED
    rows = Counter(row.url for row in stored_rows(crawl.folder) if not row.kind.is_of_origin)
    assert set(rows) == {url for url in ANSWERS if "deep" not in url and "bad" not in url}
    assert max(rows.values()) == 1
    for url, noted in remarks(crawl.folder).items():
        assert any(reason is Reason.EXTENSION_FAILED for reason, _ in noted), url
    are_balanced(crawl)
