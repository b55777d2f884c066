"""Submits seeds to a crawl on many machines, and follows it to its end.

    MoreAsks ─> Ask, answered ─> Ask, answered ─> ... ─> NoMoreAsks ─> status until the end

Each batch of seeds has a name, so it may be given again when the coordinator is lost before it
answers. A crawl that had ended continues. If an operator ends it meanwhile, the rest of the seeds
is not given.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable

import msgspec

from lycosa.base.messages.coordinator_messages import Ask, ClusterStatus, MoreAsks, NoMoreAsks
from lycosa.base.messages.worker_messages import Seeds
from lycosa.base.ports import SeedFeed
from lycosa.cluster.serve.caller import (
    CoordinatorConnection,
    CoordinatorFinder,
    LostCoordinator,
    NoCoordinator,
    RequestRefused,
)

_BATCH = 1000
_STATUS_S = 1.0


class NothingToCrawl(Exception):
    """No seed was given, and the crawl has none."""


class SeedsOutcome(msgspec.Struct, frozen=True):
    """The last state, and what became of the seeds.

    ``status`` is ``None`` when no coordinator was found. ``captured`` counts captures since the
    first state. ``given`` counts committed seeds; ``are_all_given`` is false when the rest was not
    given. ``is_running``: the caller left, and the crawl continues.
    """

    status: ClusterStatus | None
    captured: int
    given: int
    are_all_given: bool
    refused: list[tuple[str, str]]
    is_running: bool
    duration_s: float


class SeedCaller:
    """One caller with its seeds. ``on_status`` gets each state, ``tell`` lines for the operator."""

    def __init__(
        self,
        finder: CoordinatorFinder,
        seeds: SeedFeed,
        on_status: Callable[[ClusterStatus], None],
        tell: Callable[[str], None],
    ) -> None:
        self._finder, self._seeds = finder, seeds
        self._on_status, self._tell = on_status, tell
        self._name = f"seeds {uuid.uuid4().hex[:12]}"
        self._batches = 0
        self._batch: Seeds | None = None  # that is not answered
        self._has_begun = False
        self._are_taken = False  # no more can be taken from the source
        self._is_closed = False  # NoMoreAsks was accepted
        self._given = 0
        self._refused: list[tuple[str, str]] = []
        self._status: ClusterStatus | None = None
        self._first_captures = 0
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Return from ``run`` soon; the crawl continues."""
        self._leaving.set()

    async def run(self) -> SeedsOutcome:
        """Give all seeds, and return at the end of the crawl, or after ``leave``.

        Raises ``RequestRefused`` and ``NothingToCrawl``.
        """
        began = time.monotonic()
        leaving = asyncio.create_task(self._leaving.wait())
        following = asyncio.create_task(self._follow())
        try:
            await asyncio.wait([leaving, following], return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            for task in (leaving, following):
                task.cancel()
            await asyncio.gather(leaving, following, return_exceptions=True)
        is_running = not (self._status is not None and _is_over(self._status))
        if is_running and not self._is_closed:
            await self._say_no_more()
        return SeedsOutcome(
            self._status,
            self._status.progress.captures - self._first_captures if self._status else 0,
            self._given,
            self._are_taken and self._batch is None,
            self._refused,
            is_running,
            time.monotonic() - began,
        )

    async def _follow(self) -> None:
        while True:
            try:
                async with await self._finder.connect() as connection:
                    await self._converse(connection)
                    return
            except LostCoordinator as error:
                self._tell(f"{error}; connecting again")

    async def _converse(self, connection: CoordinatorConnection) -> None:
        """Give what is left and follow the crawl; returns at its end."""
        status = await connection.status()
        await self._begin(connection, status)
        asked = ""
        while True:
            asked = await self._give(connection, asked)
            status = await connection.status()
            self._note(status)
            self._take_answers(connection)
            if status.end and not self._is_closed:
                self._abandon_seeds()
            if _is_over(status):
                return
            if self._batch is None and not self._is_closed:
                continue  # the next batch follows at once
            await connection.await_answer(_STATUS_S)
            self._take_answers(connection)

    async def _begin(self, connection: CoordinatorConnection, status: ClusterStatus) -> None:
        """Let the crawl wait for seeds, or continue after its end."""
        if not self._has_begun:
            if self._batch is None and not self._are_taken:
                self._take_batch()
            is_empty = status.expects_asks and not status.progress.discovered
            if self._batch is None and is_empty and not status.open_requests:
                raise NothingToCrawl("no seed given, and the crawl has none; give a SEED")
            if status.end:
                self._tell(f"the crawl had ended ({status.end}); it continues")
            self._first_captures = status.progress.captures
        elif status.end and not self._is_closed:
            self._abandon_seeds()
        if not self._is_closed:
            await connection.request(MoreAsks())
        self._has_begun = True

    async def _give(self, connection: CoordinatorConnection, asked: str) -> str:
        """Ask for the present batch, unless this connection was; returns its name."""
        if self._is_closed:
            return asked
        if self._batch is None and not self._are_taken:
            self._take_batch()
        if self._batch is None:
            await connection.request(NoMoreAsks())
            self._is_closed = True
        elif self._batch.call != asked:
            await connection.send(Ask(self._batch))
            return self._batch.call
        return asked

    def _take_batch(self) -> None:
        taken = self._seeds.take_seeds(_BATCH)
        self._are_taken = len(taken) < _BATCH
        if taken:
            self._batches += 1
            self._batch = Seeds(f"{self._name} {self._batches}", taken)

    def _take_answers(self, connection: CoordinatorConnection) -> None:
        for answered in connection.answered:
            if self._batch is not None and answered.call == self._batch.call:
                self._given += len(self._batch.raw)
                self._refused += answered.refused
                self._batch = None
                self._seeds.note_committed()
        connection.answered.clear()

    def _abandon_seeds(self) -> None:
        """The crawl was ended while seeds were given: an operator wanted that."""
        if self._batch is not None or not self._are_taken:
            self._tell("the crawl was ended before all seeds were given; the rest is not given")
        self._is_closed = True

    def _note(self, status: ClusterStatus) -> None:
        if (before := self._status) and status.progress.captures < before.progress.captures:
            # a new coordinator knows no progress before the workers have reported it
            status = msgspec.structs.replace(status, progress=before.progress)
        self._status = status
        self._on_status(status)

    async def _say_no_more(self) -> None:
        """Tell the coordinator, if it answers, that the crawl need not wait for this caller."""
        try:
            async with asyncio.timeout(3.0), await self._finder.connect(2.0) as connection:
                await connection.request(NoMoreAsks())
        except (NoCoordinator, RequestRefused, OSError):
            return  # the coordinator finds it out after a minute


def _is_over(status: ClusterStatus) -> bool:
    return bool(status.end) and status.is_over
