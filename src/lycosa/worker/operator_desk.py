"""Decisions of operators, as the owner of the host or of the dead letters carries them out.

They are a third input of a partition, beside ``Discovered`` and ``Completed``. Each is committed
together with its row in the log of decisions. A decision about many dead letters may take several
commits; its row is in the last one, so after a crash between them the caller's second call carries
out the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from lycosa.calls import (
    MOST_WORDS,
    CallRefusal,
    DeadLetterDecision,
    DecisionAnswer,
    HostAction,
    HostDecision,
)
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.dead_letters import LETTERS, decode_letter, number_of
from lycosa.frontier.decision_log import ActionRow
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.letter_decisions import carry_out_decision
from lycosa.frontier.partition import Partition
from lycosa.frontier.taking_hosts import withdraw_host
from lycosa.frontier.visit_state import HostPause, HostState, VisitState
from lycosa.kv.records import prefix_end, url_key
from lycosa.model.dead_letter import LetterAction, LetterDecision
from lycosa.reasons import Reason
from lycosa.urls.identity import InvalidUrl, hash8, host_of
from lycosa.worker.intake import Intake

_ROWS_AT_ONCE = 200  # read and judged in one step of the loop: 5 ms
_HASH_DIGITS = 16


class OperatorDesk:
    """One per worker."""

    def __init__(self, frontier: Frontier, intake: Intake, clock: CrawlClock) -> None:
        self._frontier, self._intake, self._clock = frontier, intake, clock

    def __repr__(self) -> str:
        return f"<OperatorDesk {self._frontier!r}>"

    # -- hosts

    async def decide_host(
        self, partition: Partition, decision: HostDecision
    ) -> DecisionAnswer | CallRefusal:
        """Pause, resume or retire a host. A host that the crawl has not met yet may be decided."""
        known = partition.decisions.changed_by(decision.call)
        if known is not None:
            return DecisionAnswer(known)
        try:
            name = host_of(self._intake.canonical(f"http://{decision.host}/"))
        except InvalidUrl as error:
            return CallRefusal(f"{decision.host!r} is not a host: {error.detail or error.reason}")
        if self._intake.partition_of_host(name) != partition.number:
            return CallRefusal(f"{name} does not belong to partition {partition.number}")
        host = partition.visits.find_host(hash8(name))
        if host is None and decision.action is HostAction.RESUME:
            changed = 0
        else:
            host = host or partition.meet_host(hash8(name), f"http://{name}/")
            changed = self._change_host(partition, host, decision)
        self._note(partition, decision, name, changed)
        return DecisionAnswer(changed)

    def _change_host(self, partition: Partition, host: VisitState, decision: HostDecision) -> int:
        record, aside = host.record, partition.aside
        by, why = decision.by[:MOST_WORDS], decision.why[:MOST_WORDS]
        if decision.action is HostAction.PAUSE:
            if record.pause is not None:
                return 0
            aside.pause(host, HostPause(by, self._now_us(), why))
            withdraw_host(self._frontier, host)
        elif decision.action is HostAction.RETIRE:
            if record.reason is Reason.RETIRED_BY_OPERATOR:
                return 0
            aside.retire(host, Reason.RETIRED_BY_OPERATOR, f"by {by}: {why}" if why else f"by {by}")
            withdraw_host(self._frontier, host)
        else:
            if record.pause is None and record.state is not HostState.RETIRED:
                return 0
            aside.resume(host)
            if record.state is HostState.RETIRED:
                aside.reopen(host, self._clock.time())
        return 1

    # -- dead letters

    async def decide_letters(
        self, partition: Partition, decision: DeadLetterDecision
    ) -> DecisionAnswer | CallRefusal:
        """Retry or drop dead letters, some hundred in one step of the loop."""
        known = partition.decisions.changed_by(decision.call)
        if known is not None:
            return DecisionAnswer(known)
        problem = _problem_of(decision)
        if problem:
            return CallRefusal(problem)
        changed = 0
        numbers = await self._numbers(partition, decision)
        for at, (url, number) in enumerate(numbers.items(), 1):
            changed += self._decide_letter(partition, url, number, decision)
            if at % _ROWS_AT_ONCE == 0:
                await self._clock.sleep(0)
        self._note(partition, decision, _subject_of(decision), changed)
        return DecisionAnswer(changed)

    async def _numbers(
        self, partition: Partition, decision: DeadLetterDecision
    ) -> dict[bytes, int]:
        """The URLs (host8 and url8) that may be meant, with the newest dead letter of each.

        Failures of an earlier version have no number. They are found if their host is given.
        """
        host8 = hash8(self._host_of(decision.host)) if decision.host else b""
        wanted = {bytes.fromhex(each) for each in decision.hashes}
        numbers = dict.fromkeys((host8 + url8 for url8 in wanted), 0) if host8 else {}
        if host8 and not wanted:
            async for key, _ in self._rows(partition, url_key(host8, b"")):
                numbers[key[1:]] = 0
        async for key, value in self._rows(partition, LETTERS):
            url = decode_letter(value).url
            if url.startswith(host8) and (not wanted or url[8:] in wanted):
                numbers[url] = number_of(key)
        return numbers

    async def _rows(
        self, partition: Partition, prefix: bytes
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """All rows with a prefix, some in each step of the loop."""
        start, end = prefix, prefix_end(prefix)
        while rows := list(partition.table.scan(start, end, _ROWS_AT_ONCE)):
            for row in rows:
                yield row
            start = rows[-1][0] + b"\0"
            await self._clock.sleep(0)

    def _decide_letter(
        self, partition: Partition, url: bytes, number: int, decision: DeadLetterDecision
    ) -> bool:
        if decision.reason:
            record = partition.find_record(url[:8], url[8:])
            if record is None or record.reason is not Reason[decision.reason.upper()]:
                return False
        action = LetterAction(decision.action.value)
        noted = LetterDecision(action, decision.by[:MOST_WORDS], self._now_us(), number)
        return carry_out_decision(partition, url[:8], url[8:], noted, self._clock.time())

    def _host_of(self, host: str) -> str:
        try:
            return host_of(self._intake.canonical(f"http://{host}/"))
        except InvalidUrl:
            return host

    # -- the log

    def _note(
        self,
        partition: Partition,
        decision: HostDecision | DeadLetterDecision,
        subject: str,
        changed: int,
    ) -> None:
        partition.decisions.add(
            ActionRow(
                decision.call,
                decision.by[:MOST_WORDS],
                self._now_us(),
                decision.action.value,
                subject,
                decision.why[:MOST_WORDS],
                changed,
            )
        )

    def _now_us(self) -> int:
        return int(self._clock.wall() * 1_000_000)


def _problem_of(decision: DeadLetterDecision) -> str:
    """Why the decision cannot be carried out, in words; empty when it can."""
    for each in decision.hashes:
        if len(each) != _HASH_DIGITS or not set(each) <= set("0123456789abcdef"):
            return f"{each[:80]!r} is not the hash of a URL: give 16 lower-case hexadecimal digits"
    if decision.reason and decision.reason.upper() not in Reason.__members__:
        return f"{decision.reason[:80]!r} is not a reason; `lycosa dlq list` shows those that occur"
    return ""


def _subject_of(decision: DeadLetterDecision) -> str:
    """The dead letters that are meant, in words."""
    parts = [
        f"{len(decision.hashes)} URLs" if decision.hashes else "dead letters",
        f"of {decision.host}" if decision.host else "",
        f"with {decision.reason}" if decision.reason else "",
    ]
    return " ".join(part for part in parts if part)[:MOST_WORDS]
