"""An operator's decision about parts of many partitions of a crawl that runs: calls to the owners.

It is about dead letters, or about documents that are to be parsed again.

Each owner commits its part, in pieces. A call that was not answered, or not completely, is made
again under the same id, so it takes effect once; meanwhile the owner may be on another machine. The
owners of a cluster's crawl that is finished have ended, so it continues for the decision, and then
as long as there is work.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Iterator

from lycosa.base.calls import DeadLetterAction, DeadLetterDecision, DecisionAnswer, ReparseDecision
from lycosa.base.messages.coordinator_messages import (
    CallerMessage,
    ClusterStatus,
    MoreAsks,
    NoMoreAsks,
)
from lycosa.base.model.dead_letter import LetterAction, ListedLetter
from lycosa.base.model.end import End
from lycosa.base.urls.identity import hash8
from lycosa.cluster.serve.caller import CoordinatorFinder
from lycosa.service.api.answers import OwnerSilent
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.owner_calls import WRITE_S, OwnerCalls
from lycosa.service.api.places import ReachedCrawl

_URLS = 1000  # of a call
_MOST_GROUPS = 50
_AGAIN_S = 1.0


class Undecided(Exception):
    """Owners did not answer in time; the same decision may be made again.

    ``changed`` URLs were changed before.
    """

    def __init__(self, why: str, changed: int) -> None:
        super().__init__(
            f"{why}; {changed} URLs were changed before, and the same command changes the others"
        )
        self.changed = changed


Decision = DeadLetterDecision | ReparseDecision


class DecisionCalls:
    """Makes the calls of one decision. ``tell`` gets lines about owners that do not answer."""

    def __init__(
        self, place: ReachedCrawl, tell: Callable[[str], None], patience_s: float = 60.0
    ) -> None:
        self._place, self._tell, self._patience_s = place, tell, patience_s
        self._calls = OwnerCalls(place, ApiLimits())
        self._finder = CoordinatorFinder(place.coordinator, place.credentials, tell)

    def __repr__(self) -> str:
        return f"<DecisionCalls {self._place!r}>"

    async def decide_letters(
        self, letters: Iterable[ListedLetter], action: LetterAction, by: str, why: str = ""
    ) -> int:
        """Carry out a decision, with a remark; returns how many URLs were still dead letters.

        Of ``letters`` only some are held at a time. Raises the errors of ``decide``.
        """
        decision_id = uuid.uuid4().hex
        return await self.decide(
            (
                partition,
                DeadLetterDecision(
                    f"{decision_id}-{number}",
                    by,
                    DeadLetterAction(action.value),
                    [hash8(each.url).hex() for each in part],
                    host=host,
                    why=why,
                    numbers=[each.number for each in part],
                ),
            )
            for number, (partition, part, host) in enumerate(_parts(letters))
        )

    async def reparse(self, with_killed: bool, by: str, why: str = "") -> int:
        """Have documents of all partitions parsed again; returns how many.

        ``with_killed`` includes those that crashed the parser or used its processor time. Raises
        the errors of ``decide``.
        """
        decision = ReparseDecision(uuid.uuid4().hex, by, with_killed, why)
        partitions = range(self._place.addressing.partitions)
        return await self.decide((partition, decision) for partition in partitions)

    async def decide(self, decisions: Iterable[tuple[int, Decision]]) -> int:
        """Have owners carry out these decisions, each with its partition, one after the other.

        Returns how many URLs they changed. Raises ``Undecided``, ``NoCoordinator``,
        ``RequestRefused`` or ``ServiceRefusal``.
        """
        changed, is_resumed = 0, False
        try:
            status = await self._follow()
            if status.end and status.end != End.FINISHED.value:
                raise Undecided(f"the crawl has ended ({status.end}); resume it first", 0)
            if status.end:
                is_resumed = True
                await self._request(MoreAsks())
                await self._await_owners()
            for partition, decision in decisions:
                changed += await self._decided(partition, decision, changed)
        finally:
            if is_resumed:
                await self._request(NoMoreAsks())
            await self._place.close()
        return changed

    async def _decided(self, partition: int, decision: Decision, before: int) -> int:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                reply = await self._calls.call(partition, decision, WRITE_S)
            except OwnerSilent as error:
                if time.monotonic() >= deadline:
                    raise Undecided(str(error), before) from error
                self._tell(f"{error}; trying again")
                await asyncio.sleep(_AGAIN_S)
                # The shard may have another owner by now.
                await self._follow()
            else:
                assert isinstance(reply, DecisionAnswer)
                if reply.is_complete:
                    return reply.changed
                deadline = time.monotonic() + self._patience_s

    async def _await_owners(self) -> None:
        """Wait until all shards of a crawl that continues run, for as long as that is useful."""
        deadline = time.monotonic() + self._patience_s
        while any(each.state != "running" for each in (await self._follow()).shards):
            if time.monotonic() >= deadline:
                return  # the calls tell which owner is missing
            await asyncio.sleep(_AGAIN_S)

    async def _follow(self) -> ClusterStatus:
        """Learn from the coordinator who owns which partition now."""
        async with await self._finder.connect(self._patience_s) as connection:
            status = await connection.status()
        self._place.follow(status)
        return status

    async def _request(self, message: CallerMessage) -> None:
        async with await self._finder.connect(self._patience_s) as connection:
            await connection.request(message)


def _parts(
    letters: Iterable[ListedLetter],
) -> Iterator[tuple[int, list[ListedLetter], str]]:
    """The letters of each call, with their partition.

    Those of earlier versions have no number; the owner finds them if it is told the host. They are
    listed by partition and host, so few groups are open at a time.
    """
    groups: dict[tuple[int, str], list[ListedLetter]] = {}
    for each in letters:
        key = each.partition, "" if each.number else each.host
        group = groups.setdefault(key, [])
        group.append(each)
        if len(group) == _URLS:
            yield key[0], groups.pop(key), key[1]
        elif len(groups) > _MOST_GROUPS:
            first = next(iter(groups))
            yield first[0], groups.pop(first), first[1]
    for (partition, host), group in groups.items():
        yield partition, group, host
