"""Requests to the owners of shards: each is told until it is answered, to whoever owns the shard by
then.

Requests are idempotent: the caller named each, an owner answers a repeated one as before, and a new
owner does it again. An answer counts whichever owner gave it, because it was given when its commit
was in the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from lycosa.cluster.messages import Answered
from lycosa.cluster.worker_messages import Request, Taken

_ANSWERS = 1000  # that are kept for a caller that repeats its request

Owner = tuple[int, int]
"""Assignment and term: one process that owns a shard."""


class _Open:
    """A request that not all have answered."""

    __slots__ = ("missing", "refused", "request", "told")

    def __init__(self, request: Request, shards: Iterable[int]) -> None:
        self.request = request
        self.missing = set(shards)
        self.refused: list[tuple[str, str]] = []
        self.told: dict[int, tuple[Owner, float]] = {}  # by shard: to whom and when


class Requests:
    """All requests of this coordinator; one that is not answered within ``repeat_s`` is told
    again.
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
        """Whether none is open."""
        return not self._open

    def are_open_for(self, shard: int) -> bool:
        """Whether the shard owes an answer."""
        return any(shard in each.missing for each in self._open.values())

    def ask(self, request: Request, shards: Iterable[int]) -> Answered | None:
        """A caller's request; gives the answer when it was answered before."""
        if request.call not in self._answered and request.call not in self._open:
            self._open[request.call] = _Open(request, shards)
        return self._answered.get(request.call)

    def due(self, shard: int, owner: Owner, now: float) -> list[Request]:
        """What the shard's owner has to be told now."""
        found = []
        for each in self._open.values():
            if shard not in each.missing:
                continue
            told_to, at = each.told.get(shard, ((-1, -1), now))
            if told_to != owner or now - at >= self._repeat_s:
                each.told[shard] = owner, now
                found.append(each.request)
        return found

    def taken(self, shard: int, answer: Taken) -> Answered | None:
        """A shard's answer; gives that to the caller when it was the last one missing."""
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
