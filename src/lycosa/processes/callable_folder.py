"""The folder of a crawl that does not run, opened so that it can be called in this process.

One worker owns all partitions, and its loop does not run: it fetches nothing, and answers calls as
the owners of a running crawl do. It is a run as any other, so it holds the folder's lock, and its
changes are commits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter
from pathlib import Path

import msgspec

from lycosa.base.calls import Call, CallReply, StateQuestion, new_call
from lycosa.base.config.live_settings import check_live
from lycosa.base.messages.control_records import CrawlAction, SettingsSaved
from lycosa.base.system.memory_plan import memory_plan
from lycosa.base.system.plugins import active_plugins, loaded
from lycosa.inspect.queries.answering import StateAnswers
from lycosa.inspect.queries.question_thread import OpenView
from lycosa.inspect.queries.time_budget import TimeBudget
from lycosa.processes.session import open_session
from lycosa.processes.user_code import prepared_extensions
from lycosa.processes.worker_views import views_of_worker
from lycosa.service.api.places import PartitionFinder
from lycosa.state.folder.folder_notes import settings_of
from lycosa.state.folder.names import crawl_sites
from lycosa.state.kv.rocks import opener_within
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.commit.folder_shard import open_folder_shard
from lycosa.worker.commit.reparser import Reparsed
from lycosa.worker.real_ports import cache_of, real_ports

_COMMIT_S = 0.01  # until a call is looked at that may wait for a commit
_WAIT_S = 0.1
_READING_S = 1.0  # for one question


class ReparseReport(msgspec.Struct, frozen=True):
    """The result.

    ``unparsed`` documents are still not parsed; ``new_urls`` joined the crawl.
    """

    done: Reparsed
    unparsed: int
    new_urls: int


class CallableFolder:
    """An open folder; implements ``CallableCrawl``."""

    def __init__(
        self, addressing: PartitionFinder, assembled: Assembled, open_view: OpenView
    ) -> None:
        self.addressing = addressing
        self._clock, self._open_view = assembled.clock, open_view
        self._answers = StateAnswers()
        self._calls, self._reparser = assembled.calls, assembled.worker.reparsing
        self._committer = assembled.worker.committer
        self._frontier = assembled.worker.frontier
        self._partitions = self._frontier.partitions
        self._delay_of = assembled.pacing.delay_of

    def __repr__(self) -> str:
        return f"<CallableFolder {self._calls!r}>"

    def shard_of(self, partition: int) -> int:
        return 0

    async def call_owner(self, partition: int, call: Call) -> CallReply:
        """The owner's reply. Raises the errors of a commit."""
        if isinstance(call, StateQuestion):
            return self._read(partition, call)
        answering = asyncio.create_task(self._calls.answer(partition, call))
        try:
            while not answering.done():
                await asyncio.wait([answering], timeout=_COMMIT_S)
                # The worker's loop does not run here, so the commit is made in its place.
                if self._committer.waiters:
                    await self._committer.commit()
            return answering.result()
        finally:
            answering.cancel()

    def _read(self, partition: int, question: StateQuestion) -> CallReply:
        """Answer a question without a thread, because no fetches wait for the loop here."""
        with self._open_view(partition) as view:
            return self._answers.answer(view, partition, question, TimeBudget(_READING_S))

    async def parse_wanted(self, with_killed: bool) -> ReparseReport:
        """Parse the documents that an operator asked for, and commit the results.

        ``with_killed`` counts as unparsed also those that killed the parser or exceeded its time.
        """
        before = self._discovered()
        await self._reparser.run(self._may_parse, attrgetter("is_wanted"))
        await self._committer.commit()
        unparsed = sum(
            len(each.unparsed.find(lambda body: with_killed or body.waits))
            for each in self._partitions.values()
        )
        return ReparseReport(self._reparser.done, unparsed, self._discovered() - before)

    async def apply_policies(self, longest_s: float) -> None:
        """Apply changed refetch policies to the records, for at most ``longest_s`` seconds.

        The next run continues with the rest.
        """
        deadline = self._clock.monotonic() + longest_s
        while self._frontier.walks_policies and self._clock.monotonic() < deadline:
            self._frontier.step_policies(self._clock.time(), self._delay_of)
            await self._may_parse()
            await self._clock.sleep(0)
        await self._committer.commit()

    async def _may_parse(self) -> bool:
        self._committer.raise_failure()
        self._committer.start_when_due(self._clock.monotonic())
        while self._committer.is_behind:  # what is parsed waits in memory for a commit
            await self._clock.sleep(_WAIT_S)
        return True

    def _discovered(self) -> int:
        return sum(each.counters.discovered for each in self._partitions.values())


def change_stopped_settings(folder: Path, values: Mapping[str, str], by: str, why: str) -> None:
    """Change live settings of a stopped crawl, for its next runs. Blocks.

    Raises ``SettingsError`` for values that are not allowed, the errors of ``Session``,
    ``ManifestError`` when the folder is not a crawl, and ``OSError``.
    """
    config = settings_of(folder)
    check_live(values, config)
    pairs = ", ".join(f"{key}={value}" for key, value in sorted(values.items()))
    date_us = int(time.time() * 1_000_000)
    action = CrawlAction(new_call("lycosa"), by, date_us, "set", pairs, why)
    with open_session(folder, config, fetches=False) as session:
        # "Paused" leaves the note of a pause as it is, whether there is one or not.
        saved = SettingsSaved(1, dict(values), is_paused=True, actions=[action])
        if problem := session.keep_steering(saved):
            raise OSError(problem)


@asynccontextmanager
async def open_stopped_folder(folder: Path) -> AsyncIterator[CallableFolder]:
    """Open the folder for one run.

    Raises the errors of ``Session``, and ``ManifestError`` when the folder is not a crawl.
    """
    config = settings_of(folder)
    plan = memory_plan(msgspec.structs.replace(config, workers=1))
    with open_session(folder, config, fetches=False) as session:
        job = session.job(0, tuple(range(config.frontier.partitions)), plan)
        addressing = PartitionFinder(config, crawl_sites(folder, job.manifest.identity.suffixes))
        ports = real_ports(job, opener_within(cache_of(plan)), fetches=False)
        shard = open_folder_shard(job, ports.open_table)
        # The rules judge what a document that is parsed again links to.
        rules = loaded(active_plugins(config.extensions).rules)
        extensions = prepared_extensions(config.extensions, rules, (), lambda *_: None)
        assembled = assemble(job, ports, shard, extensions)
        committer = assembled.worker.committer
        try:
            try:
                yield CallableFolder(addressing, assembled, views_of_worker(job, shard, assembled))
            finally:
                # Also after a refusal or Ctrl-C: the last commit says that the run ended in order.
                await committer.finish()
        finally:
            await committer.close()
            await ports.parser.close()
            await assembled.sender.close()
            assembled.close()
