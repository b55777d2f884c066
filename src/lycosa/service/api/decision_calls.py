"""Operators' decisions as calls to the owners of partitions: API, page and commands make them here.

Each owner commits its part, in pieces. A call that was not answered, or not completely, is made
again under the same id, so it takes effect once; meanwhile the owner may be on another machine.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any

import msgspec

from lycosa.base.calls import (
    MOST_ORDERED,
    DeadLetterDecision,
    DecisionAnswer,
    GivenVerdict,
    GivenVerdicts,
    HostDecision,
    HostQuery,
    HostsQuery,
    OrderRenders,
    ReparseDecision,
    UrlVerdict,
    new_call,
)
from lycosa.base.model.dead_letter import DeadLetterAction, ListedDeadLetter
from lycosa.base.urls.identity import InvalidUrl, hash8
from lycosa.base.urls.near_hosts import HostUnknown, near_names, near_searches
from lycosa.service.api.answers import OwnerSilent
from lycosa.service.api.merging import decoded_rows
from lycosa.service.api.owner_calls import OwnerCalls, gathered
from lycosa.service.api.places import PartitionFinder

_URLS = 1000  # of a call
_MAX_GROUPS = 50
_NEAR = 50  # candidates for a mistyped name of a host, for each search and partition
_PIECES_S = 8.0  # after that a decision about many dead letters is continued by the next request


class Undecided(Exception):
    """The crawl did not answer in time, or has ended; the same decision may be made again."""


class OperatorDecisions:
    """Makes decisions about a crawl. Raises what ``OwnerCalls`` and ``PartitionFinder`` raise.

    ``note`` gets what was decided, the operator and the remark, after the commit.
    """

    def __init__(
        self,
        addressing: PartitionFinder,
        calls: OwnerCalls,
        note: Callable[[str, str, str], None] = lambda what, by, why: None,
    ) -> None:
        self._addressing, self._calls, self._note = addressing, calls, note

    def __repr__(self) -> str:
        return f"<OperatorDecisions {self._addressing!r} {self._calls!r}>"

    # -- about hosts

    async def find_host(self, text: str) -> dict[str, Any] | None:
        """One host by its name or a URL of it; ``None`` when the crawl does not know it."""
        host = self._addressing.host(text)
        found = await self._calls.ask(self._addressing.of_host(host), HostQuery(host))
        return next(iter(decoded_rows(found)), None)

    async def known_host(self, text: str) -> str:
        """The canonical name of a host that the crawl knows. Raises ``HostUnknown``."""
        host = self._addressing.host(text)
        if await self.find_host(host) is None:
            raise HostUnknown(host, await self._near_hosts(host))
        return host

    async def decide_host(self, decision: HostDecision) -> DecisionAnswer:
        """Apply a decision about a host or its site; returns after the commit.

        Raises ``HostUnknown`` when the crawl never met it.
        """
        host = self._addressing.host(decision.host)
        decision = msgspec.structs.replace(decision, host=host)
        partition = self._addressing.of_host(host)
        answer = await self._calls.call_for(partition, decision, DecisionAnswer)
        if answer.hosts == []:
            raise HostUnknown(host, await self._near_hosts(host))
        self._note(f"{decision.action.value} the host {host}", decision.by, decision.why)
        return answer

    async def _near_hosts(self, host: str) -> list[str]:
        """Hosts of the crawl with a similar name, as far as they are found quickly."""
        found: set[str] = set()
        # the last one has the first hosts by name: all of a small crawl
        for search in (*near_searches(self._addressing.site_of(host)), ""):
            query = HostsQuery(search, most=_NEAR)
            answers, _ = await self._calls.answers(query, range(self._addressing.partitions))
            found.update(row["host"] for each in answers.values() for row in decoded_rows(each))
        return near_names(host, found)

    # -- about dead letters and documents

    async def decide_dead_letters(self, decision: DeadLetterDecision) -> DecisionAnswer:
        """Apply a decision about dead letters of all partitions; returns after the commits.

        It is carried out in pieces, for some seconds. When the answer is not complete, or an owner
        does not answer, the same decision is to be given again; what was done is not repeated.
        """
        partitions: Iterable[int] = range(self._addressing.partitions)
        if decision.host:
            decision = msgspec.structs.replace(decision, host=await self.known_host(decision.host))
            partitions = [self._addressing.of_host(decision.host)]
        until = asyncio.get_running_loop().time() + _PIECES_S
        replies = await gathered(
            lambda partition: self._decide_pieces(partition, decision, until), partitions
        )
        for reply in replies:
            if isinstance(reply, OwnerSilent):
                raise reply
        chosen = f"{len(decision.hashes)} chosen" if decision.hashes else "all"
        about = [f" of {each}" for each in (decision.reason, decision.host) if each]
        what = f"{decision.action.value} {chosen} dead letters{''.join(about)}"
        self._note(what, decision.by, decision.why)
        answers = [each for each in replies if isinstance(each, DecisionAnswer)]
        return DecisionAnswer(
            sum(each.changed for each in answers), all(each.is_complete for each in answers)
        )

    async def _decide_pieces(
        self, partition: int, decision: DeadLetterDecision | ReparseDecision, until: float = inf
    ) -> DecisionAnswer:
        """The owner's last answer: the decision is complete, or the time is over."""
        while True:
            answer = await self._calls.call_for(partition, decision, DecisionAnswer)
            if answer.is_complete or asyncio.get_running_loop().time() >= until:
                return answer

    async def decide_listed(
        self, letters: Iterable[ListedDeadLetter], action: DeadLetterAction, by: str, why: str = ""
    ) -> int:
        """Decide about these dead letters; returns how many URLs still were dead letters.

        Of ``letters`` only some are held at a time. Raises ``Undecided``.
        """
        decision_id = uuid.uuid4().hex
        return await self._decide_all(
            (
                partition,
                DeadLetterDecision(
                    f"{decision_id}-{number}",
                    by,
                    action,
                    [hash8(each.url).hex() for each in part],
                    host=host,
                    why=why,
                    numbers=[each.number for each in part],
                ),
            )
            for number, (partition, part, host) in enumerate(_parts(letters))
        )

    async def order_renders(
        self, urls: Sequence[str], by: str, why: str = ""
    ) -> list[GivenVerdict]:
        """Have captured pages rendered, before others; returns a verdict for each URL.

        It is ``UNKNOWN`` for those of silent owners: they may be given again. Raises
        ``ServiceRefusal`` for a crawl that renders no pages.
        """
        verdicts: list[GivenVerdict | None] = [None] * len(urls)
        grouped: dict[int, list[int]] = {}
        for number, url in enumerate(urls):
            try:
                grouped.setdefault(self._addressing.of_url(url), []).append(number)
            except InvalidUrl as error:
                verdicts[number] = GivenVerdict(url, UrlVerdict.REJECTED, error.detail)
        decision_id = new_call("render")

        async def order(partition: int, part: Sequence[int]) -> None:
            call = OrderRenders(
                f"{decision_id}-{part[0]}", by, [urls[number] for number in part], why
            )
            try:
                found = (await self._calls.call_for(partition, call, GivenVerdicts)).verdicts
            except OwnerSilent as error:
                again = f"call again: {error}"
                found = [GivenVerdict(each, UrlVerdict.UNKNOWN, again) for each in call.urls]
            for number, each in zip(part, found, strict=True):
                verdicts[number] = each

        await asyncio.gather(
            *(
                order(partition, numbers[at : at + MOST_ORDERED])
                for partition, numbers in grouped.items()
                for at in range(0, len(numbers), MOST_ORDERED)
            )
        )
        self._note(f"render {len(urls)} pages", by, why)
        return [each for each in verdicts if each is not None]

    async def reparse(self, with_killed: bool, by: str, why: str = "") -> int:
        """Have documents of all partitions parsed again; returns how many.

        ``with_killed`` includes those that crashed the parser or used its processor time. Raises
        ``Undecided``.
        """
        decision = ReparseDecision(uuid.uuid4().hex, by, with_killed, why)
        partitions = range(self._addressing.partitions)
        return await self._decide_all((partition, decision) for partition in partitions)

    async def _decide_all(
        self, decisions: Iterable[tuple[int, DeadLetterDecision | ReparseDecision]]
    ) -> int:
        """Have owners carry out these decisions to their end, one after the other."""
        changed = 0
        for partition, decision in decisions:
            try:
                changed += (await self._decide_pieces(partition, decision)).changed
            except OwnerSilent as error:
                raise Undecided(
                    f"{error}; {changed} URLs were changed before, and the same command changes the"
                    " others"
                ) from error
        return changed


def _parts(
    letters: Iterable[ListedDeadLetter],
) -> Iterator[tuple[int, list[ListedDeadLetter], str]]:
    """The letters of each call, with their partition.

    Those of earlier versions have no number; the owner finds them if it is told the host. They are
    listed by partition and host, so few groups are open at a time.
    """
    groups: dict[tuple[int, str], list[ListedDeadLetter]] = {}
    for each in letters:
        key = each.partition, "" if each.number else each.host
        group = groups.setdefault(key, [])
        group.append(each)
        if len(group) == _URLS:
            yield key[0], groups.pop(key), key[1]
        elif len(groups) > _MAX_GROUPS:
            first = next(iter(groups))
            yield first[0], groups.pop(first), first[1]
    for (partition, host), group in groups.items():
        yield partition, group, host
