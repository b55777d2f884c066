"""A run over a crawl folder that carries out an operator's decisions about dead letters.

It fetches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import HostState
from lycosa.model.completed import UrlState
from lycosa.model.dead_letter import LetterAction, LetterDecision, ListedLetter
from lycosa.processes.idle_run import idle_worker
from lycosa.urls.identity import hash8

_COMMIT_URLS = 5000


async def decide_letters(
    folder: Path, letters: Sequence[ListedLetter], action: LetterAction, by: str
) -> int:
    """Carry out the decision and commit it; returns how many URLs were still dead letters.

    Raises the errors of ``Session``, and ``ManifestError`` when the folder is not a crawl.
    """
    async with idle_worker(folder) as assembled:
        worker, clock, count = assembled.worker, assembled.clock, 0
        for start in range(0, len(letters), _COMMIT_URLS):
            for letter in letters[start : start + _COMMIT_URLS]:
                date_us = int(clock.wall() * 1_000_000)
                decision = LetterDecision(action, by, date_us, letter.number)
                partition = worker.frontier.partitions[letter.partition]
                count += decide_letter(partition, letter, decision, clock.time())
            await worker.committer.commit()
        await worker.committer.finish()
        return count


def decide_letter(
    partition: Partition, letter: ListedLetter, decision: LetterDecision, now: float
) -> bool:
    """Carry out one decision at crawl time ``now``; ``False`` when the URL is no dead letter."""
    host8, url8 = hash8(letter.host), hash8(letter.url)
    record, host = partition.find_record(host8, url8), partition.visits.find_host(host8)
    if record is None or host is None or record.state is not UrlState.FAILED:
        return False
    partition.dead_letters.note_decision(host8 + url8, decision)
    if decision.action is LetterAction.RETRY:
        # as for a seed: the operator has a reason to think that the host answers again
        if host.record.state is HostState.RETIRED:
            partition.aside.reopen(host, now)
        partition.queue_again(host, url8, record)
    return True
