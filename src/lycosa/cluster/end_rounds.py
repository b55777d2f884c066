"""Finds out that a crawl of several shards is finished: two rounds of asking in which all are idle
and nothing happened in between.

Within one round the answers are of different instants, so a shard may get work from another one
that was asked later. But when every answer of the second round names the same owner, commits and
activity as in the first, then each shard did nothing from its first answer to its second, and all
these spans contain the instant between the rounds: there nobody had work or any on the way.
"""

from __future__ import annotations

from lycosa.cluster.requests import Owner
from lycosa.cluster.worker_messages import Probe, ProbeAnswer, is_over


class EndRounds:
    """``tell`` of the coordinator's tick: ``judge`` first, then ``probes`` for those whose
    answer is missing.
    """

    def __init__(self) -> None:
        self._round = 0
        self._answers: dict[int, tuple[Owner, ProbeAnswer]] = {}
        self._before: dict[int, tuple[Owner, int, int]] | None = (
            None  # what the last complete round said
        )
        self._is_open = False

    def __repr__(self) -> str:
        return (
            f"<EndRounds round={self._round} open={self._is_open} answers={sorted(self._answers)}>"
        )

    def reset(self) -> None:
        """Something goes on: whatever was answered is worth nothing."""
        self._is_open, self._before = False, None

    def hear(self, shard: int, owner: Owner, answer: ProbeAnswer) -> None:
        """A current owner's answer."""
        if self._is_open and answer.round == self._round:
            self._answers[shard] = owner, answer

    def judge(self, owners: dict[int, Owner], captures: int) -> bool:
        """Whether the round that is open completes the proof. All shards have an owner; else
        ``reset`` is called instead.
        """
        if not self._is_open:
            return False
        self._answers = {
            shard: (owner, answer)
            for shard, (owner, answer) in self._answers.items()
            if owners[shard] == owner
        }
        if len(self._answers) < len(owners):
            return False
        self._is_open = False
        if not is_over([answer for _, answer in self._answers.values()], captures):
            self._before = None
            return False
        said = {
            shard: (owner, answer.commits, answer.activity)
            for shard, (owner, answer) in self._answers.items()
        }
        is_proof, self._before = said == self._before, said
        return is_proof

    def probes(self, shards: dict[int, Owner]) -> list[tuple[int, Probe]]:
        """Questions to ask now, by shard; begins a round when none is open. Repeated in every
        tick until all have answered.
        """
        if not self._is_open:
            self._round, self._is_open, self._answers = self._round + 1, True, {}
        return [(shard, Probe(self._round)) for shard in shards if shard not in self._answers]
