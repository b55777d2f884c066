"""A worker's side of the conversation with the coordinator, for worker processes and simulations.

The messages (``worker_messages``) may be lost, repeated, late or reordered. So they carry states:
``report`` is sent about twice a second, and the coordinator sends again whatever is missing in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from lycosa.base.messages.worker_messages import (
    LiveSettings,
    NoMoreCalls,
    Permit,
    PriceFound,
    Probe,
    ProbeAnswer,
    Routes,
    Seeds,
    SeedsTaken,
    ToldCoordinator,
    ToldWorker,
    WorkerStatus,
)
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.worker.assemble import Assembled
from lycosa.worker.visit.permits import GrantedPermits

_SEEDS_AT_ONCE = 50  # in one step of the loop: 10 ms
_ANSWERS = 1000  # kept, so that a repeated request gets the same answer


class Peers(Protocol):
    """The addresses of workers on other machines."""

    @property
    def address(self) -> str:
        """Where this worker answers the others (``HOST:PORT``)."""
        ...

    @property
    def routes(self) -> int:
        """The version of the addresses that are followed."""
        ...

    def follow_routes(self, version: int, addresses: Mapping[int, str]) -> None:
        """Follow the addresses of the owners of shards, unless the version is older."""
        ...


class _NoPeers:
    """One machine, where workers know each other's sockets from the beginning."""

    address, routes = "", 0

    def follow_routes(self, version: int, addresses: Mapping[int, str]) -> None:
        return None


class CoordinatorLink:
    """One per worker process. ``term`` is the owner's number in the shard's sequence of owners.

    ``tell`` sends a message between two reports. One ``handle_message`` runs at a time. The worker
    must have been assembled with a coordinator.
    """

    def __init__(
        self,
        assembled: Assembled,
        term: int,
        tell: Callable[[ToldCoordinator], None],
        peers: Peers | None = None,
    ) -> None:
        self._peers: Peers = peers or _NoPeers()
        self._assembled = assembled
        self._term = term
        self._tell = tell
        self._answers: dict[str, SeedsTaken] = {}
        self._under_way: set[str] = set()
        permits = assembled.permits
        self._counted, self._news = _captures(assembled), asyncio.Event()
        if isinstance(permits, GrantedPermits):
            self._counted, self._news = permits.counted, permits.news

    # -- messages to the coordinator

    def status(self) -> WorkerStatus:
        """The current status of the worker."""
        permits, worker = self._assembled.permits, self._assembled.worker
        serial, may, wants = 0, self._counted, False
        if isinstance(permits, GrantedPermits):
            serial, may, wants = permits.serial, permits.may, permits.is_waiting
        return WorkerStatus(
            self._term,
            self._counted,
            serial,
            may,
            wants,
            worker.expects_more,
            self._assembled.live.version,
            self._peers.address,
            self._peers.routes,
        )

    def report(self) -> list[ToldCoordinator]:
        """The messages that are sent about twice a second, together with the worker's progress.

        A worker without anything to do returns its unused permits here. About once a minute the
        pages by cell of the refetch price are among them.
        """
        permits, worker = self._assembled.permits, self._assembled.worker
        if (worker.is_idle or worker.is_drained) and isinstance(permits, GrantedPermits):
            permits.return_unused()
        # A coordinator of an older program would not know the message, and records have no cells.
        if self._assembled.store.formats < LATE_FIELDS:
            return [self.status()]
        now, version = self._assembled.clock.monotonic(), self._assembled.live.version
        grid = self._assembled.grids.step(now, version)
        return [self.status(), grid] if grid is not None else [self.status()]

    async def send_news(self) -> None:
        """Send the status whenever permits were returned or none is left; until cancelled."""
        while True:
            # The half second between two reports is too long here: without a permit no visit
            # starts.
            await self._news.wait()
            # Cleared before the status is made, so that news after it causes another message.
            self._news.clear()
            self._tell(self.status())

    # -- messages from the coordinator

    async def handle_message(self, message: ToldWorker) -> None:
        """Do what a message says; return when that is done.

        A request is done when its commit is on disk.
        """
        permits, worker = self._assembled.permits, self._assembled.worker
        if isinstance(message, Seeds):
            await self._take_seeds(message)
        elif isinstance(message, NoMoreCalls):
            worker.expects_more = False
        elif isinstance(message, Permit) and isinstance(permits, GrantedPermits):
            permits.set_permit(message.serial, message.captures)
        elif isinstance(message, LiveSettings):
            self._assembled.live.follow(
                message.version,
                message.values,
                message.is_paused,
                message.actions,
                message.code,
            )
        elif isinstance(message, PriceFound):
            self._assembled.grids.follow(message)
        elif isinstance(message, Routes):
            self._peers.follow_routes(message.version, message.addresses)
        elif isinstance(message, Probe):
            lag = await self._assembled.topic.lag()
            # No await in between, so that the answer describes one moment.
            self._tell(self._answer(message, lag))
        worker.wake()

    async def _take_seeds(self, message: Seeds) -> None:
        # The coordinator repeats the message until it is answered, also while the seeds are taken.
        if message.call in self._under_way:
            return
        if message.call not in self._answers:
            self._under_way.add(message.call)
            # The mark must go also when the commit fails, or the repeated message would never be
            # answered.
            try:
                refused = []
                for start in range(0, len(message.raw), _SEEDS_AT_ONCE):
                    refused += self._assembled.intake.take_seeds(
                        message.raw[start : start + _SEEDS_AT_ONCE], message.importance
                    )
                    await asyncio.sleep(0)
                date_us = int(self._assembled.clock.wall() * 1e6)
                self._assembled.live.log_seeds(message, date_us)
                # The answer ends the repetition, so the seeds must be in the log before it.
                await self._assembled.worker.committer.commit()
            finally:
                self._under_way.discard(message.call)
            self._answers[message.call] = SeedsTaken(message.call, refused)
            # The oldest answer: a repetition of its message is the most improbable one.
            if len(self._answers) > _ANSWERS:
                del self._answers[next(iter(self._answers))]
        self._tell(self._answers[message.call])

    def _answer(self, probe: Probe, lag: int) -> ProbeAnswer:
        """The answer to a probe. A worker that has not read its inbox to the end is not idle."""
        worker, outgoing = self._assembled.worker, self._assembled.outgoing
        incoming, topic = self._assembled.incoming, self._assembled.topic
        # Numbers that only grow show the coordinator whether anything happened between two probes.
        requests = sum(
            partition.counters.requests for partition in worker.frontier.partitions.values()
        )
        # Everything that was sent is handed over, and everything that was received is committed.
        is_exchanged = outgoing.is_idle and not topic.uncommitted and not lag
        is_quiet = is_exchanged and not self._under_way
        return ProbeAnswer(
            probe.round,
            worker.is_idle and is_quiet,
            requests + outgoing.activity + incoming.activity + self._assembled.calls.activity,
            worker.reaches_nobody and is_quiet,
            worker.committer.commits,
            _captures(self._assembled),
        )


def _captures(assembled: Assembled) -> int:
    return sum(
        partition.counters.captures for partition in assembled.worker.frontier.partitions.values()
    )
