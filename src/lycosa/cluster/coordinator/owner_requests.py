"""Requests to the owners of shards, each sent until its shard's current owner answers.

Requests are idempotent. The caller named each of them, an owner answers a repeated one as before,
and a new owner executes it again. An answer of any owner counts, because it is given only when its
commit is in the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from lycosa.base.messages.coordinator_messages import Answered
from lycosa.base.messages.worker_messages import Request, Taken

_ANSWERS = 1000  # kept for callers that repeat their request

Owner = tuple[int, int]
"""Assignment and term: one process that owns a shard."""


class _Open:
    """A request that some shards have not answered."""

    __slots__ = ("missing", "refused", "request", "told")

    def __init__(self, request: Request, shards: Iterable[int]) -> None:
        self.request = request
        self.missing = set(shards)
        self.refused: list[tuple[str, str]] = []
        self.told: dict[int, tuple[Owner, float]] = {}  # by shard: the receiver and the time


class Requests:
    """All requests of this coordinator.

    One that is not answered within ``repeat_s`` is sent again.
    """

    def __init__(self, repeat_s: float) -> None:
        self._repeat_s = repeat_s
        self._open: dict[str, _Open] = {}
        self._answered: dict[str, Answered] = {}

    def __repr__(self) -> str:
        return (
            f"<Requests open={ {call: sorted(each.missing) for call, each in self._open.items()} }>"
        )

    @property
    def are_answered(self) -> bool:
        """Whether no request is open."""
        return not self._open

    @property
    def open_calls(self) -> int:
        return len(self._open)

    def are_open_for(self, shard: int) -> bool:
        """Whether the shard has yet to answer a request."""
        return any(shard in each.missing for each in self._open.values())

    def open_request(self, request: Request, shards: Iterable[int]) -> Answered | None:
        """Add a caller's request; returns the answer if it was answered before."""
        if request.call not in self._answered and request.call not in self._open:
            self._open[request.call] = _Open(request, shards)
        return self._answered.get(request.call)

    def messages_due(self, shard: int, owner: Owner, now: float) -> list[Request]:
        """The requests to send to the shard's owner now."""
        found = []
        for each in self._open.values():
            if shard not in each.missing:
                continue
            told_to, at = each.told.get(shard, ((-1, -1), now))
            if told_to != owner or now - at >= self._repeat_s:
                each.told[shard] = owner, now
                found.append(each.request)
        return found

    def take_answer(self, shard: int, answer: Taken) -> Answered | None:
        """Handle a shard's answer; returns the answer for the caller if this was the last one."""
        each = self._open.get(answer.call)
        if each is None or shard not in each.missing:
            return None
        each.missing.discard(shard)
        each.refused += answer.refused
        if each.missing:
            return None
        del self._open[answer.call]
        if len(self._answered) >= _ANSWERS:
            del self._answered[next(iter(self._answered))]
        answered = self._answered[answer.call] = Answered(answer.call, each.refused)
        return answered
