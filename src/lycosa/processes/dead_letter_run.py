"""A run over a crawl folder that carries out an operator's decisions about dead letters.

It is a run as any other: it holds the folder's lock, its changes are commits, and it fetches
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import HostState
from lycosa.kv.rocks import opener_within
from lycosa.model.completed import UrlState
from lycosa.model.dead_letter import LetterAction, LetterDecision, ListedLetter
from lycosa.processes.reparse_run import settings_of
from lycosa.processes.session import memory_plan, open_session
from lycosa.urls.identity import hash8
from lycosa.worker.assembly import assemble
from lycosa.worker.real_ports import cache_of, real_ports

_COMMIT_URLS = 5000


async def decide_letters(
    folder: Path, letters: Sequence[ListedLetter], action: LetterAction, by: str
) -> int:
    """Carry out the decision and commit it; returns how many URLs were still dead letters.

    Raises the errors of ``Session``, and ``ManifestError`` when the folder is not a crawl.
    """
    config = settings_of(folder)
    plan = memory_plan(msgspec.structs.replace(config, workers=1))
    with open_session(folder, config) as session:
        job = session.job(0, tuple(range(config.frontier.partitions)), plan)
        ports = real_ports(job, opener_within(cache_of(plan)))
        assembled = assemble(job, ports)
        try:
            worker, count = assembled.worker, 0
            for start in range(0, len(letters), _COMMIT_URLS):
                for letter in letters[start : start + _COMMIT_URLS]:
                    decision = LetterDecision(
                        action, by, int(ports.clock.wall() * 1_000_000), letter.number
                    )
                    partition = worker.frontier.partitions[letter.partition]
                    count += decide_letter(partition, letter, decision, assembled.clock.time())
                await worker.committer.commit()
            await worker.committer.finish()
            return count
        finally:
            await ports.parser.close()
            await assembled.sender.close()
            assembled.close()


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
