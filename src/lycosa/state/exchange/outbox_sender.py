"""Empties an outbox: sends each destination its parcels in order, a few at a time.

When a parcel fails, sending starts again from it after a wait that doubles. The receiver takes no
parcel before the one in front of it, so the later ones count as failed too. A row is deleted only
when its parcel and all before it are handed over (``Handover``).

After a lost connection or without an answer, the sender waits without a limit, because the
supervisor starts another worker; the delay is reported. A receiver that answers and refuses the
first parcel will not change its answer, so that is a failure after ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from lycosa.state.exchange.exchange_errors import ExchangeError, ParcelRefused, ParcelsStuck
from lycosa.state.exchange.exchange_port import Lateness, Parcel, Post
from lycosa.state.exchange.outbox import Outbox

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0
REFUSED_S = 600.0
"""How long the first parcel may be refused before that is a failure."""


class Stalled(NamedTuple):
    """A first parcel that is not acknowledged.

    It has been tried for ``seconds``; ``why`` is the reason of the last failure.
    """

    source: int
    destination: int
    sequence: int
    seconds: float
    why: str


class _Trouble(NamedTuple):
    """Why the first parcel cannot be delivered, and since when.

    Times are seconds of the loop's clock; ``refused_since`` is -1 when it is not refused.
    """

    sequence: int
    since: float
    refused_since: float
    why: str


class OutboxSender:
    """Sends one partition's outbox.

    ``sleep`` is the clock's. At most ``window`` parcels of a destination are in flight. With
    ``lateness``, a destination with few waiting URLs is sent to later, unless
    ``send_without_delay`` was called. ``on_failure`` is called when sending to a destination cannot
    continue.
    """

    def __init__(
        self,
        outbox: Outbox,
        post: Post,
        sleep: Callable[[float], Awaitable[None]],
        window: int = 8,
        lateness: Lateness | None = None,
        on_failure: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self._outbox, self._post, self._sleep, self._window, self._lateness = (
            outbox,
            post,
            sleep,
            window,
            lateness,
        )
        self._running: dict[int, asyncio.Task[None]] = {}
        # destinations whose parcels are delayed: set when more was committed for them
        self._more: dict[int, asyncio.Event] = {}
        self._sends_without_delay = False
        self.failures = 0
        """Posts that did not hand over all their parcels; the rest is retried."""
        self._on_failure = on_failure
        self._troubles: dict[int, _Trouble] = {}

    def send_to(self, destinations: Iterable[int]) -> None:
        """Send the committed parcels for these partitions.

        At the start call ``send_to(outbox.destinations())``.
        """
        for destination in destinations:
            if destination in self._more:
                self._more[destination].set()
            if destination not in self._running:
                task = self._running[destination] = asyncio.get_running_loop().create_task(
                    self._send(destination)
                )
                task.add_done_callback(self._ended)

    def send_without_delay(self, is_on: bool) -> None:
        """Delay nothing from now on (``is_on``), or delay again."""
        self._sends_without_delay = is_on
        for event in self._more.values() if is_on else ():
            event.set()

    def stalled(self) -> list[Stalled]:
        """Destinations that did not take the first parcel at the last try."""
        now = asyncio.get_running_loop().time()
        return [
            Stalled(
                self._outbox.source, destination, trouble.sequence, now - trouble.since, trouble.why
            )
            for destination, trouble in self._troubles.items()
        ]

    @property
    def waiting(self) -> int:
        """Number of destinations with parcels that are not handed over."""
        return len(self._running)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was given to ``send_to`` is handed over."""
        return not self._running

    async def close(self) -> None:
        """Stop sending. Unacknowledged parcels stay in the outbox."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, destination: int) -> None:
        wait_s = _FIRST_WAIT_S
        try:
            # Read again after each try: what was handed over is gone, and what was committed
            # meanwhile is there.
            while parcels := self._outbox.pending_parcels(destination, self._window):
                if self._lateness is not None and self._is_little(parcels, self._lateness):
                    parcels = await self._later(destination, self._lateness)
                if await self._hand_over(parcels):
                    wait_s = _FIRST_WAIT_S
                else:
                    # Not shorter for new parcels: the first one is what fails, and parcels go in
                    # order.
                    await self._sleep(wait_s)
                    wait_s = min(_LONGEST_WAIT_S, wait_s * 2)
        finally:
            del self._running[destination]
            self._troubles.pop(destination, None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    def _is_little(self, parcels: list[Parcel], lateness: Lateness) -> bool:
        """Whether so few URLs wait for a destination that they may be delayed.

        Parcels that were tried before are not delayed.
        """
        if (
            self._sends_without_delay
            or parcels[0].destination in self._troubles
            or len(parcels) >= self._window
            or any(
                each.errands or each.answers or each.places or each.wants or each.settled
                for each in parcels
            )
        ):
            return False
        waiting = sum(
            len(each.discovered) + len(each.contents) + len(each.fingerprints) + len(each.verdicts)
            for each in parcels
        )
        return waiting < lateness.fewer_than

    async def _later(self, destination: int, lateness: Lateness) -> list[Parcel]:
        """Wait for more parcels or the end of the delay; returns what there is then."""
        more = self._more[destination] = asyncio.Event()
        parcels = self._outbox.pending_parcels(destination, self._window)
        try:
            async with asyncio.timeout(lateness.seconds):
                while self._is_little(parcels, lateness):
                    await more.wait()
                    more.clear()
                    parcels = self._outbox.pending_parcels(destination, self._window)
        except TimeoutError:
            pass  # send what there is
        finally:
            del self._more[destination]
        return parcels

    async def _hand_over(self, parcels: list[Parcel]) -> bool:
        """Post parcels and delete the rows of those that were handed over, in the next commit.

        Returns whether all were.
        """
        handed = await self._post.post_parcels(parcels)
        count, failure = handed.count, handed.failure
        if count:
            self._outbox.acknowledge(parcels[0].destination, parcels[count - 1].sequence)
        if failure is not None:
            self.failures += 1
        self._note(parcels[0], None if count else failure)
        return failure is None

    def _note(self, front: Parcel, result: ExchangeError | None) -> None:
        """Record the result for the first parcel. Raises ``ParcelsStuck``."""
        if result is None:
            self._troubles.pop(front.destination, None)
            return
        now = asyncio.get_running_loop().time()
        before = self._troubles.get(front.destination) or _Trouble(front.sequence, now, -1.0, "")
        refused_since = -1.0
        if isinstance(result, ParcelRefused):
            refused_since = before.refused_since if before.refused_since >= 0 else now
            if now - refused_since > REFUSED_S:
                raise ParcelsStuck(
                    front.source,
                    front.destination,
                    front.sequence,
                    now - refused_since,
                    str(result),
                )
        self._troubles[front.destination] = _Trouble(
            front.sequence, before.since, refused_since, str(result)
        )
