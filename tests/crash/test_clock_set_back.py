"""A wall clock that was wrong during a run and is right at the next start, or the other way
round.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from judging import are_balanced, asked, host_states, is_polite, new_folder, quick_config
from lycosa.base.config.sections import BudgetSection, RetrySection
from lycosa.base.model.end import End
from lycosa.base.model.url_state import UrlState
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.commit import Commit, CommitLog
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.synthetic import Crash, Faults, SyntheticWeb, WebPlan
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from scripted import error, first, page, robots, scripted_crawl
from virtual_crawl import VirtualCrawl, in_memory

DAY = 86400.0
A, B, C = "http://a.example/", "http://b.test/", "http://c.example/"


def die(crawl: VirtualCrawl, seeds: list[str], turn: int) -> None:
    """A run that is killed at a turn of its loop."""
    crawl.open_table = in_memory(stores := MemoryTables())
    with pytest.raises(Crash):
        crawl.run(seeds, Faults(random.Random(1), crash_at=turn, crash_point="turn"))
    stores.crash()


def forget_crawl_time(folder: Path) -> None:
    """The last commit becomes one of an older program, made after the clock was right again."""
    log = CommitLog(folder / "log", 0)
    log.append(
        Commit(
            term=log.last.term,
            sequence=log.next_sequence,
            wall=VIRTUAL_EPOCH,
            lengths=log.last.lengths,
        )
    )
    log.close()


@pytest.mark.parametrize("ahead_s", [400 * DAY, DAY, 3600.0])
def test_a_crawl_goes_on_at_once_after_its_clock_was_set_back(
    ahead_s: float, tmp_path: Path
) -> None:
    web = SyntheticWeb(WebPlan(seed=5, hosts=8, pages=12, cross_links=0.3, error_rate=0.1))
    crawl = VirtualCrawl(new_folder(tmp_path / "c"), web, quick_config())
    crawl.clock.jump(ahead_s)
    die(crawl, [web.seed_url(0), web.seed_url(1)], 1000)
    crawl.clock.jump(-ahead_s)
    run = crawl.run()
    assert (run.end, run.counters.count_in(UrlState.QUEUED)) == (End.FINISHED, 0)
    assert set(asked(crawl.log)) == web.survey([web.seed_url(0), web.seed_url(1)]).requested
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)


@pytest.mark.parametrize("ahead_s", [400 * DAY, DAY, 3600.0])
def test_each_kind_of_wait_keeps_its_length_when_the_clock_is_set_back(
    ahead_s: float, tmp_path: Path
) -> None:
    answers = {
        A: first(1, error(429, ("Retry-After", "900")), page()),  # a host that asked to wait
        B: first(1, error(500), page()),  # a URL that is tried again
        # a host whose robots.txt could not be fetched
        f"{C}robots.txt": first(1, error(503), robots("")),
        C: page("/1", "/2", "/3"),  # a host that is parked after two pages
        **{f"{C}{n}": page() for n in (1, 2, 3)},
    }
    config = quick_config(
        retry=RetrySection(first_s=700.0),
        budgets=BudgetSection(host_pages=2, park_s=2000.0),
    )
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    crawl.clock.jump(ahead_s)
    began = crawl.now
    crawl.run([A, B, C])
    crawl.clock.jump(-ahead_s)
    for _ in range(40):
        crawl.now += 100.0
        crawl.run()
    answered = {
        f"http://{each.host}{each.path}": each.start - began
        for each in crawl.log.exchanges
        if each.status == 200
    }
    assert 900 <= answered[A] < 1300
    assert 700 <= answered[B] < 1100
    assert answered[C] < 400
    assert host_states(crawl)["c.example"].parks > 1
    are_balanced(crawl)
    assert audit(crawl.folder).is_clean


def test_a_time_that_nothing_can_have_set_is_due_at_once(tmp_path: Path) -> None:
    """A folder in which an older program stored times a year ahead, and then committed at the
    right time.
    """
    answers = {
        A: first(1, error(429, ("Retry-After", "900")), page()),
        B: first(1, error(500), page()),
        C: page("/1", "/2"),
        **{f"{C}{n}": page() for n in (1, 2)},
    }
    config = quick_config(
        retry=RetrySection(first_s=700.0), budgets=BudgetSection(host_pages=2, park_s=2000.0)
    )
    crawl, web = scripted_crawl(tmp_path / "c", answers, config)
    crawl.clock.jump(400 * DAY)
    crawl.run([A, B, C])
    crawl.clock.jump(-400 * DAY)
    forget_crawl_time(crawl.folder)
    crawl.now += 100.0
    crawl.run()
    # hosts wait a day: how long they were asked to wait is not known any more
    crawl.now += 1.2 * DAY
    crawl.run()
    assert (web.asked[A], web.asked[B], host_states(crawl)["c.example"].parks) == (2, 2, 2)
    are_balanced(crawl)
    assert audit(crawl.folder).is_clean
