"""A folder that is crawled again day after day with the default settings, and one that began with
the earlier default.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from crawling import page
from judging import are_balanced, quick_config
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.config.sources import SAVED, load_settings
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.folder.folder_notes import saved_settings
from lycosa.synthetic import VIRTUAL_EPOCH
from scripted import Answer, scripted_crawl
from several_workers import run_workers

DAY = 86_400
HOST = "http://news.example/"
STILL = 10
# Each time that the front page is asked for it is another one.
FRONT: Answer = lambda earlier, _: page(  # noqa: E731  an answer of a table
    *(f"/{number}" for number in range(STILL)),
    text=" ".join(f"word{earlier * 7919 + number * 104_729}" for number in range(40)),
)
WEB: dict[str, Answer] = {HOST: FRONT} | {
    f"{HOST}{number}": page(text=f"page {number}") for number in range(STILL)
}
DAYS = 21


def test_runs_of_seconds_fetch_what_changes_daily_and_press_nothing_else(tmp_path: Path) -> None:
    config = quick_config()
    assert config.refetch.rule is RefetchRule.VALUE and config.refetch.budget == "50%"
    crawl, web = scripted_crawl(tmp_path / "c", WEB, config)
    run_workers(crawl, 1, [HOST])
    for _ in range(DAYS):
        crawl.now += DAY
        run_workers(crawl, 1, [])
    are_balanced(crawl)
    assert [each.name for each in audit(crawl.folder).checks if each.breaches] == []
    # The front page is one of the usual rate until its second fetch.
    assert web.asked[HOST] > (DAYS - 7) * 0.6
    still = [web.asked[f"{HOST}{number}"] for number in range(STILL)]
    assert all(2 <= each <= 4 for each in still), still
    reader = read_folder(crawl.folder)
    found = crawl_status(reader, load_saved_settings(reader), VIRTUAL_EPOCH + crawl.now)
    assert found.refetches is not None and found.refetches.budget == "50%"
    assert 0 < found.refetches.price < 1 and found.refetches.probes == 0
    assert found.addresses == []


@pytest.mark.parametrize("lacks", [(), ("budget",)])
def test_a_crawl_that_began_with_halving_and_growing_keeps_it(
    tmp_path: Path, lacks: tuple[str, ...]
) -> None:
    config = quick_config(refetch=RefetchSection(rule=RefetchRule.ADAPTIVE, budget=""))
    crawl, _ = scripted_crawl(tmp_path / "c", WEB, config)
    crawl.run([HOST])
    # What an earlier program saved: all of its settings, none of those that came after it.
    saved = msgspec.to_builtins(config)
    for name in lacks:
        del saved["refetch"][name]
    (crawl.folder / "settings.json").write_text(json.dumps(saved))
    base = saved_settings(crawl.folder)
    assert base is not None
    found = load_settings(None, {}, base=base)
    assert found.config.refetch.rule is RefetchRule.ADAPTIVE
    assert found.origin("refetch.rule") == SAVED
    changed = load_settings(None, {}, ["refetch.rule=value"], base=base)
    assert changed.config.refetch.rule is RefetchRule.VALUE
