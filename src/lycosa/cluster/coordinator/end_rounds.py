"""Detects that a crawl of several shards is finished.

The proof is two rounds of probes in which all shards are idle and nothing happened in between.
Within one round the answers are of different instants, so a shard may get work from another one
that was asked later. But suppose that every answer of the second round has the same owner, commits
and activity as in the first. Then each shard did nothing from its first answer to its second. All
these intervals contain the instant between the rounds, at which no shard had work and none was in
flight.
"""

from __future__ import annotations

from lycosa.base.messages.worker_messages import Probe, ProbeAnswer, is_over
from lycosa.cluster.coordinator.owner_requests import Owner


class EndRounds:
    """The rounds of probes of one coordinator.

    In each tick call ``completes_proof`` first, then ``probes_due`` for the shards whose answer is
    missing.
    """

    def __init__(self) -> None:
        self._round = 0
        self._answers: dict[int, tuple[Owner, ProbeAnswer]] = {}
        # the answers of the last complete round
        self._before: dict[int, tuple[Owner, int, int]] | None = None
        self._is_open = False

    def __repr__(self) -> str:
        return (
            f"<EndRounds round={self._round} open={self._is_open} answers={sorted(self._answers)}>"
        )

    def start_over(self) -> None:
        """Discard all answers, because a shard still has work."""
        self._is_open, self._before = False, None

    def record_answer(self, shard: int, owner: Owner, answer: ProbeAnswer) -> None:
        """Store the answer of a current owner."""
        if self._is_open and answer.round == self._round:
            self._answers[shard] = owner, answer

    def completes_proof(self, owners: dict[int, Owner], captures: int) -> bool:
        """Whether the open round completes the proof.

        ``captures`` are those that owners have reported. All shards must have an owner; otherwise
        call ``start_over`` instead.
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
        answers = [answer for _, answer in self._answers.values()]
        # Reports have committed captures only, and an idle owner may have made its first just now.
        if not is_over(answers, max(captures, sum(each.captures for each in answers))):
            self._before = None
            return False
        said = {
            shard: (owner, answer.commits, answer.activity)
            for shard, (owner, answer) in self._answers.items()
        }
        is_proof, self._before = said == self._before, said
        return is_proof

    def probes_due(self, shards: dict[int, Owner]) -> list[tuple[int, Probe]]:
        """The probes to send now, by shard; begins a round when none is open.

        They are repeated in every tick until all have answered.
        """
        if not self._is_open:
            self._round, self._is_open, self._answers = self._round + 1, True, {}
        return [(shard, Probe(self._round)) for shard in shards if shard not in self._answers]
