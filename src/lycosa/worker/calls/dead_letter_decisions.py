"""Decisions of operators about dead letters, as the owner of their partition carries them out.

A decision may be about ten million dead letters, so it is carried out in pieces. A call does one
piece, about 5,000 dead letters, and answers how many were changed and whether it must be made
again. How far the decision has come is in its row in the log of decisions, which is in the same
commit as what was changed: a call that is repeated, also after a crash or at another owner,
continues there and changes nothing twice.

Dead letters are read from the newest to the oldest of those that there were at the first call. So
URLs that fail again meanwhile are not met again, and of a URL with several dead letters the newest
is met first.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import NamedTuple

import msgspec

from lycosa.base.calls import MAX_WORDS, CallRefusal, DeadLetterDecision, DecisionAnswer
from lycosa.base.model.dead_letter import DecidedDeadLetter
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.dead_letter_actions import carry_out_decision
from lycosa.stages.frontier.dead_letters import decode_letter
from lycosa.stages.frontier.decision_log import ActionRow
from lycosa.stages.frontier.partition import Partition
from lycosa.state.kv.table_records import dead_letter_key, prefix_end, url_key
from lycosa.worker.intake.intake import Intake

MAX_READ = 20_000
"""Dead letters that one call reads."""
MAX_DECIDED = 5000
"""Dead letters that one call changes, and as many again as one step has."""

_AT_ONCE = 200  # read and judged in one step of the loop: 5 ms
_HASH_DIGITS = 16
# where a decision continues: the kind of step and a place
_LISTED, _LETTERS, _HOST = "listed", "letters", "host"


class _Step(NamedTuple):
    """What one step did, and where the next one begins (empty = there is none)."""

    read: int
    changed: int
    rest: str


class DeadLetterHandler:
    """One per worker."""

    def __init__(self, intake: Intake, clock: CrawlClock, max_decided: int = MAX_DECIDED) -> None:
        self._intake, self._clock, self._max_decided = intake, clock, max_decided
        self._turn = asyncio.Lock()

    async def decide_dead_letters(
        self, partition: Partition, decision: DeadLetterDecision
    ) -> DecisionAnswer | CallRefusal:
        """Retry or drop dead letters, as many as one call may."""
        if problem := _problem_of(decision):
            return CallRefusal(problem)
        # The row of the decision is in the table, so a repeated call finds it also at another
        # owner.
        log = partition.decisions
        # A call may be repeated while it is still being carried out; the second finds the effect.
        async with self._turn:
            row = log.find(decision.call)
            if row is None:
                row = self._first_row(partition, decision)
                log.add(row)
            work = _Work(partition, decision, self._host8(decision.host), self._clock)
            read = decided = 0
            while row.rest and read < MAX_READ and decided < self._max_decided:
                step = work.step(row.rest)
                read, decided = read + step.read, decided + step.changed
                row = msgspec.structs.replace(
                    row, changed=row.changed + step.changed, rest=step.rest
                )
                log.renew(row)
                # Other tasks run between two steps, and a commit cut here has the row and its
                # effect.
                await self._clock.sleep(0)
            return DecisionAnswer(row.changed, is_complete=not row.rest)

    def _first_row(self, partition: Partition, decision: DeadLetterDecision) -> ActionRow:
        last = partition.dead_letters.last
        return ActionRow(
            decision.call,
            decision.by[:MAX_WORDS],
            int(self._clock.wall() * 1_000_000),
            decision.action.value,
            _subject_of(decision),
            decision.why[:MAX_WORDS],
            rest=f"{_LISTED} 0" if decision.numbers else f"{_LETTERS} {last}",
        )

    def _host8(self, host: str) -> bytes:
        if not host:
            return b""
        try:
            return hash8(self._intake.host_named(host))
        except InvalidUrl:
            # A hash that matches no dead letter, so nothing is decided. Empty bytes would match all
            # of them.
            return hash8(host)


class _Work:
    """One call's part of a decision."""

    def __init__(
        self, partition: Partition, decision: DeadLetterDecision, host8: bytes, clock: CrawlClock
    ) -> None:
        self._partition, self._decision, self._host8 = partition, decision, host8
        self._clock = clock
        self._wanted = {bytes.fromhex(each) for each in decision.hashes}
        self._reason = Reason[decision.reason.upper()] if decision.reason else None

    def step(self, rest: str) -> _Step:
        """Carry out the decision for some dead letters, from ``rest`` on."""
        kind, _, place = rest.partition(" ")
        if kind == _LISTED:
            return self._decide_listed(int(place))
        if kind == _LETTERS:
            return self._decide_dead_letters(int(place))
        return self._decide_urls(bytes.fromhex(place))

    def _decide_listed(self, start: int) -> _Step:
        """Decide dead letters whose numbers the caller knows."""
        named = zip(self._decision.hashes, self._decision.numbers, strict=True)
        some = list(islice(named, start, start + _AT_ONCE))
        changed = 0
        for digits, number in some:
            url8 = bytes.fromhex(digits)
            if not number:
                changed += bool(self._host8) and self._decide(self._host8 + url8, 0)
                continue
            value = self._partition.table.get(dead_letter_key(number))
            if value is not None and (url := decode_letter(value).url)[8:] == url8:
                changed += self._decide(url, number)
        following = start + len(some)
        is_end = following >= len(self._decision.hashes)
        return _Step(len(some), changed, "" if is_end else f"{_LISTED} {following}")

    def _decide_dead_letters(self, newest: int) -> _Step:
        """Decide those among the dead letters from this number downwards."""
        oldest, changed = max(newest - _AT_ONCE, 0), 0
        searches = bool(self._wanted)
        for number in range(newest, oldest, -1):
            value = self._partition.table.get(dead_letter_key(number))
            if value is None:
                continue
            url = decode_letter(value).url
            if not url.startswith(self._host8) or (searches and url[8:] not in self._wanted):
                continue
            self._wanted.discard(url[8:])
            changed += self._decide(url, number)
        # A list of hashes ends when all were found; otherwise everything older is searched.
        if oldest and (self._wanted or not searches):
            rest = f"{_LETTERS} {oldest}"
        elif self._host8 and (self._wanted or not searches):
            rest = f"{_HOST} "  # failures of an earlier version have no dead letter
        else:
            rest = ""
        return _Step(newest - oldest, changed, rest)

    def _decide_urls(self, start: bytes) -> _Step:
        """Decide failed URLs of the host that have no dead letter."""
        if self._decision.hashes:
            urls = [self._host8 + url8 for url8 in sorted(self._wanted)]
            return _Step(len(urls), sum(self._decide(url, 0) for url in urls), "")
        first, end = url_key(self._host8, start), prefix_end(url_key(self._host8, b""))
        keys = [key for key, _ in self._partition.table.scan(first, end, _AT_ONCE)]
        changed = sum(self._decide(key[1:], 0) for key in keys)
        is_end = len(keys) < _AT_ONCE
        following = b"" if is_end else keys[-1][9:] + b"\0"
        return _Step(len(keys), changed, "" if is_end else f"{_HOST} {following.hex()}")

    def _decide(self, url: bytes, number: int) -> bool:
        """Carry out the decision about one URL; return whether it had an effect."""
        if self._reason is not None:
            record = self._partition.find_record(url[:8], url[8:])
            known = record or self._partition.cold.find(url)
            if known is None or known.reason != self._reason:
                return False
        noted = DecidedDeadLetter(
            self._decision.action,
            self._decision.by[:MAX_WORDS],
            int(self._clock.wall() * 1_000_000),
            number,
        )
        return carry_out_decision(self._partition, url[:8], url[8:], noted, self._clock.time())


def _problem_of(decision: DeadLetterDecision) -> str:
    """Why the decision cannot be carried out, in words; empty when it can."""
    for each in decision.hashes:
        if len(each) != _HASH_DIGITS or not set(each) <= set("0123456789abcdef"):
            return f"{each[:80]!r} is not the hash of a URL: give 16 lower-case hexadecimal digits"
    if decision.numbers and len(decision.numbers) != len(decision.hashes):
        return f"{len(decision.numbers)} numbers for {len(decision.hashes)} hashes: give one each"
    if decision.reason and decision.reason.upper() not in Reason.__members__:
        return f"{decision.reason[:80]!r} is not a reason; `lycosa dlq list` shows those that occur"
    return ""


def _subject_of(decision: DeadLetterDecision) -> str:
    """The dead letters that are meant, in words."""
    number = len(decision.hashes)
    parts = [
        f"{number} URL{'' if number == 1 else 's'}" if number else "dead letters",
        f"of {decision.host}" if decision.host else "",
        f"with {decision.reason}" if decision.reason else "",
    ]
    return " ".join(part for part in parts if part)[:MAX_WORDS]
