"""What a worker does about its coordinator's messages, with a real worker over a folder; and its
side of permits.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from judging import new_folder, quick_config
from lycosa.base.config.sections import LimitSection, ScopeRule, ScopeSection
from lycosa.base.messages.worker_messages import (
    LiveSettings,
    NoMoreCalls,
    Permit,
    Probe,
    ProbeAnswer,
    Seeds,
    SeedsTaken,
    ToldCoordinator,
    WorkerStatus,
)
from lycosa.synthetic import SyntheticWeb, WebPlan, run_virtual
from lycosa.worker.assemble import Assembled
from lycosa.worker.coordinator_link import CoordinatorLink
from lycosa.worker.visit.permits import GrantedPermits
from several_workers import run_workers
from virtual_crawl import VirtualCrawl

LIMITED = LimitSection(max_pages=10)


# -- permits


def has_news(permits: GrantedPermits) -> bool:
    """Whether the coordinator should know at once; then it is told."""
    found = permits.news.is_set()
    permits.news.clear()
    return found


def test_permits_are_asked_for_once_and_a_permit_that_comes_twice_is_one() -> None:
    permits = GrantedPermits(LIMITED, 3)
    assert not permits.take_permit() and has_news(permits)
    assert not permits.take_permit() and not has_news(permits)
    for _ in range(2):
        permits.set_permit(1, 5)
    assert [permits.take_permit() for _ in range(2)] == [True, True] and not has_news(permits)
    assert not permits.take_permit() and has_news(permits)


def test_an_older_permit_that_comes_late_is_not_followed() -> None:
    permits = GrantedPermits(LIMITED, 0)
    permits.set_permit(2, 4)
    permits.set_permit(1, 9)
    assert permits.may == 4


def test_what_was_given_back_does_not_come_back_by_the_same_permit() -> None:
    permits = GrantedPermits(LIMITED, 0)
    permits.set_permit(1, 5)
    assert permits.take_permit()
    permits.use_permit(100)
    assert permits.take_permit()  # one is still in flight
    permits.return_unused()
    permits.set_permit(1, 5)
    assert permits.may == 2 and has_news(permits) and not permits.take_permit()
    permits.return_permit()
    assert permits.take_permit()


def test_without_a_limit_nothing_is_asked() -> None:
    permits = GrantedPermits(LimitSection(), 0)
    assert permits.take_permit() and not has_news(permits)
    permits.return_unused()
    assert not has_news(permits)


# -- messages


class Scene:
    """A worker of one that was put together and does not run."""

    def __init__(self, path: Path) -> None:
        web = SyntheticWeb(WebPlan(seed=1, hosts=2, pages=3))
        self.seed = web.seed_url(0)
        self.crawl = VirtualCrawl(
            new_folder(path / "c"), web, quick_config(scope=ScopeSection(rule=ScopeRule.HOST))
        )
        self.told: list[ToldCoordinator] = []

    def play(self, *messages: object) -> CoordinatorLink:
        """Hears these messages; gives the duties for more."""

        def meanwhile(assembled: Assembled) -> None:
            self.assembled = assembled
            self.duties = CoordinatorLink(assembled, 7, self.told.append)
            assembled.worker.stop()

        async def receive() -> None:
            for message in messages:
                await self.duties.handle_message(message)  # type: ignore[arg-type]

        run = self.crawl._main

        async def main() -> None:
            loop = asyncio.get_running_loop()

            def both(assembled: Assembled) -> None:
                meanwhile(assembled)
                self.hearing = loop.create_task(receive())

            await run([], None, both)
            await self.hearing

        run_virtual(main(), seed=1)
        return self.duties


def test_seeds_are_answered_when_they_are_committed_and_a_repeated_request_as_before(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    scene.play(Seeds("a", [scene.seed, "ftp://no/"]), Seeds("a", [scene.seed, "ftp://no/"]))
    answers = [each for each in scene.told if isinstance(each, SeedsTaken)]
    assert len(answers) == 2 and answers[0] == answers[1] and answers[0].call == "a"
    assert [seed for seed, _ in answers[0].refused] == ["ftp://no/"]
    assert (
        sum(p.counters.discovered for p in scene.assembled.worker.frontier.partitions.values()) == 1
    )


def test_the_rest_is_noted_and_answered(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    duties = scene.play(
        LiveSettings(2, {"fetch.slots": "3", "of.a.later.version": "b"}),
        LiveSettings(1, {}),
        NoMoreCalls(),
        Permit(1, 5),
        Probe(4),
    )
    assert duties.status() == WorkerStatus(7, 0, 0, 0, False, False, 2)
    [answer] = [each for each in scene.told if isinstance(each, ProbeAnswer)]
    assert answer.round == 4 and answer.captures == 0


def test_a_probe_is_answered_with_captures_that_are_not_committed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    duties = scene.play()
    scene.assembled.worker.frontier.partitions[0].counters.captures = 3
    asyncio.run(duties.handle_message(Probe(1)))
    [answer] = [each for each in scene.told if isinstance(each, ProbeAnswer)]
    assert answer.captures == 3 and scene.assembled.worker.committer.counted[0].captures == 0


# -- several workers with a limit


def test_max_pages_is_exact_over_several_workers(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=3, hosts=8, pages=12, cross_links=0.3))
    crawl = VirtualCrawl(
        new_folder(tmp_path / "c"),
        web,
        quick_config(limits=LimitSection(max_pages=25), scope=ScopeSection(rule=ScopeRule.ANY)),
    )
    running = run_workers(crawl, 3, [web.seed_url(0), web.seed_url(1)])
    captures = sum(
        p.counters.captures for each in running for p in each.worker.frontier.partitions.values()
    )
    assert captures == 25
