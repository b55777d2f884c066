"""The settings that may change while a crawl runs: which they are, and what a worker does with
them.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from judging import new_folder, quick_config
from lycosa.base.config.fields import fields
from lycosa.base.config.live_settings import LIVE, check_live, with_live
from lycosa.base.config.sections import (
    Config,
    FetchSection,
    PolitenessSection,
    RenderMode,
    RenderSection,
)
from lycosa.base.config.sources import SettingsError
from lycosa.base.messages.control_records import CrawlAction
from lycosa.stages.frontier.decision_log import ACTIONS, ActionRow, decode_action
from lycosa.stages.frontier.visit_state import VisitRecord, VisitState
from lycosa.state.kv.table_records import prefix_end
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.worker.assemble import Assembled
from lycosa.worker.worker_progress import ProgressReport
from several_workers import run_workers
from virtual_crawl import VirtualCrawl


def test_all_live_settings_exist() -> None:
    assert set(LIVE) <= fields().keys()


def test_values_are_read_as_the_command_line_reads_them() -> None:
    config = with_live(Config(), {"politeness.delay_s": "2m", "fetch.slots": "7"})
    assert (config.politeness.delay_s, config.fetch.slots) == (120.0, 7)
    assert config.politeness.jitter == Config().politeness.jitter


def test_what_cannot_change_now_is_refused_and_says_why() -> None:
    check_live({"politeness.delay_s": "2s"})
    with pytest.raises(SettingsError) as refused:
        check_live({"no.such": "1", "frontier.partitions": "4", "politeness.jitter": "2"})
    problems = refused.value.problems
    assert "no such setting" in problems[0] and "cannot change" in problems[1]
    assert "politeness.jitter" in problems[2]


def test_what_is_refused_is_left_out() -> None:
    config = with_live(Config(), {"no.such": "1", "politeness.jitter": "2", "fetch.slots": "9"})
    assert config.politeness == PolitenessSection() and config.fetch.slots == 9


def crawl_of(tmp_path: Path) -> VirtualCrawl:
    web = SyntheticWeb(WebPlan(seed=3, hosts=1, pages=12, page_bytes=300, links=6))
    config = quick_config(
        politeness=PolitenessSection(delay_s=2.0, jitter=0.0, adaptive_factor=0.0),
        fetch=FetchSection(slots=8),
    )
    return VirtualCrawl(new_folder(tmp_path / "crawl"), web, config)


def test_hosts_rest_by_the_delay_that_is_followed(tmp_path: Path) -> None:
    crawl = crawl_of(tmp_path)

    def change(assembled: Assembled) -> None:
        assembled.live.follow(2, {"politeness.delay_s": "5"})
        assembled.live.follow(1, {"politeness.delay_s": "1"})  # older, and late
        assert assembled.live.version == 2

    crawl.run([crawl.web.seed_url(0)], meanwhile=change)
    (host,) = crawl.log.hosts()
    assert min(crawl.log.gaps(host)) >= 5.0


OTHER = {
    "scope.surts": '["-http://(org,example,"]',
    "scope.include": '["/wanted"]',
    "scope.exclude": '["/unwanted"]',
    "scope.one_hop_out": "true",
    "copies.probe_turns": "321",
    "copies.probe_turns_alone": "321",
    "copies.exempt": '["news.example"]',
    "fetch.own_pages": "false",
    "refetch.budget": "4321/d",
    "fetch.slots": "3",
    "fetch.hours": "22:00-06:00 UTC",
    "scope.languages": "en, de",
    "politeness.jitter": "0.77",
    "politeness.max_backoff_s": "12345",
    "refetch.rule": "off",
    "refetch.intervals": "news.example 1h",
    "refetch.least_chance": "0.43",
    "refetch.probes": "0.2",
    "refetch.share": "0.3",
    "refetch.policies": "news.example daily",
    "render.mode": "always",
    "render.policies": "app.example auto",
    "render.pages": "3",
}


@pytest.mark.parametrize("key", LIVE)
def test_what_decides_by_a_live_setting_follows_it(tmp_path: Path, key: str) -> None:
    """For a setting of another section, or another one of ``fetch``, name here what reads it."""
    if key == "priority.ranks":
        return  # names files, which test_rank_crawls.py has
    section, _, name = key.partition(".")
    text = OTHER.get(key, "4321")
    crawl, seen = crawl_of(tmp_path), list[object]()
    if section == "render":
        with_renders = RenderSection(mode=RenderMode.AUTO)
        crawl.config = msgspec.structs.replace(crawl.config, render=with_renders)

    def read_by(assembled: Assembled) -> list[object]:
        worker, rules = assembled.worker, assembled.worker.frontier.partitions[0].rules
        if key == "fetch.slots":
            return [worker._max_running]
        if key == "fetch.own_pages":
            return [worker._pipeline.fetches_pages]
        if section == "fetch":
            return [getattr(worker._pace.section, name)]
        if section == "render":
            # The renderer process reads `render.pages` of the coordinator's status.
            assert worker._renders is not None
            return [getattr(worker._renders.section, name)]
        readers = {
            "politeness": [assembled.pacing.section],
            "refetch": [assembled.grids.prices.section, rules.forward.section],
            "scope": [assembled.intake.admission.scope.section],
            "copies": [each.copies.section for each in worker.frontier.partitions.values()],
        }
        return [getattr(each, name) for each in readers[section]]

    def change(assembled: Assembled) -> None:
        assembled.live.follow(1, {key: text})
        seen.extend(read_by(assembled))
        assembled.live.follow(2, {})

    crawl.run([crawl.web.seed_url(0)], meanwhile=change)
    assert seen and set(seen) == {fields()[key].read(text)}


def test_a_host_waits_by_the_delay_that_is_followed_after_a_takeover(tmp_path: Path) -> None:
    crawl = crawl_of(tmp_path)
    crawl.told = lambda job: msgspec.structs.replace(job, held_until=50.0)

    def change(assembled: Assembled) -> None:
        assembled.live.follow(1, {"politeness.delay_s": "100"})
        host = VisitState(0, b"12345678", VisitRecord("a.example"), 4)
        assert assembled.worker.frontier._delay_of(host) == 100.0
        assembled.live.follow(2, {})

    crawl.run([crawl.web.seed_url(0)], meanwhile=change)


def test_the_time_that_hosts_need_is_reported_by_the_delay_that_is_followed(
    tmp_path: Path,
) -> None:
    crawl, needs = crawl_of(tmp_path), list[float]()

    def change(assembled: Assembled) -> None:
        for version, delay in ((1, "2"), (2, "100"), (3, "2")):
            assembled.live.follow(version, {"politeness.delay_s": delay})
            host = VisitState(0, b"12345678", VisitRecord("a.example"), 4)
            needs.append(ProgressReport(assembled, crawl.config)._note(host, 0.0).delay_s)

    crawl.run([crawl.web.seed_url(0)], meanwhile=change)
    assert needs == [2.0, 100.0, 2.0]


def test_slots_follow_the_settings_below_those_of_the_start_and_the_memory(tmp_path: Path) -> None:
    seen: list[int] = []

    def change(assembled: Assembled) -> None:
        worker = assembled.worker
        for version, slots in enumerate(("3", "100", "5"), 1):
            assembled.live.follow(version, {"fetch.slots": slots})
            seen.append(worker._max_running)
        worker.fetch_at_most(2)
        seen.append(worker._max_running)
        assembled.live.follow(9, {})
        worker.fetch_at_most(256)
        seen.append(worker._max_running)

    crawl = crawl_of(tmp_path)
    crawl.run([crawl.web.seed_url(0)], meanwhile=change)
    assert seen == [3, 8, 5, 2, 8]


def test_an_owner_that_expects_settings_starts_nothing_before_it_knows_those_of_the_last_commit(
    tmp_path: Path,
) -> None:
    crawl = crawl_of(tmp_path)
    seed = crawl.web.seed_url(0)
    crawl.run([seed], meanwhile=lambda each: each.live.follow(4, {}))
    requests = len(crawl.log)
    seen: list[bool] = []

    def expect(assembled: Assembled) -> None:
        worker, live = assembled.worker, assembled.live
        seen.append(worker.lacks_settings)
        live.follow(3, {})
        seen.append(worker.lacks_settings)
        assert worker._may_start is False
        live.follow(4, {})
        seen.append(worker.lacks_settings)

    run_workers(crawl, 1, [], meanwhile=expect)  # they have a coordinator
    assert seen == [True, True, False]
    assert len(crawl.log) == requests


def test_an_action_on_the_crawl_is_logged_once_however_many_decisions_follow_it(
    tmp_path: Path,
) -> None:
    told = [CrawlAction(f"1/{n}", "ada", n, "set", "{}") for n in range(1, 5)]

    def logged(assembled: Assembled) -> list[str]:
        rows = assembled.worker.frontier.partitions[0].table.scan(ACTIONS, prefix_end(ACTIONS))
        return [row.call for _, value in rows if "/" in (row := decode_action(value)).call]

    def steer(assembled: Assembled) -> None:
        log = assembled.worker.frontier.partitions[0].decisions
        assembled.live.follow(2, {}, actions=told[:2])
        for number in range(1100):
            log.add(ActionRow(f"host {number}", "bob", 5, "pause", "a.example"))
        assembled.live.follow(3, {}, actions=told[:3])
        assert logged(assembled) == ["1/1", "1/2", "1/3"]

    def steer_again(assembled: Assembled) -> None:
        assembled.live.follow(4, {}, actions=told[1:])
        assert logged(assembled) == ["1/1", "1/2", "1/3", "1/4"]

    crawl = crawl_of(tmp_path)
    crawl.run([crawl.web.seed_url(0)], meanwhile=steer)
    crawl.run(meanwhile=steer_again)
