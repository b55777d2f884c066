"""A run over a crawl folder that carries out an operator's decisions about dead letters.

It fetches nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from lycosa.base.model.dead_letter import LetterAction, LetterDecision, ListedLetter
from lycosa.base.urls.identity import hash8
from lycosa.processes.idle_run import idle_worker
from lycosa.stages.frontier.decision_log import ActionRow
from lycosa.stages.frontier.letter_decisions import carry_out_decision

_COMMIT_URLS = 5000


async def decide_letters(
    folder: Path, letters: Iterable[ListedLetter], action: LetterAction, by: str, why: str = ""
) -> int:
    """Carry out the decision and commit it, with a remark for the log of actions.

    Returns how many URLs were still dead letters.

    Of ``letters`` only some are held at a time.

    Raises the errors of ``Session``, and ``ManifestError`` when the folder is not a crawl.
    """
    changed: Counter[int] = Counter()
    async with idle_worker(folder) as assembled:
        worker, clock = assembled.worker, assembled.clock
        partitions = worker.frontier.partitions
        waiting = iter(letters)
        while part := list(islice(waiting, _COMMIT_URLS)):
            for letter in part:
                date_us = int(clock.wall() * 1_000_000)
                decision = LetterDecision(action, by, date_us, letter.number)
                host8, url8 = hash8(letter.host), hash8(letter.url)
                changed[letter.partition] += carry_out_decision(
                    partitions[letter.partition], host8, url8, decision, clock.time()
                )
            await worker.committer.commit()
        for number, count in changed.items():
            date_us = int(clock.wall() * 1_000_000)
            call = f"stopped crawl {date_us}"
            row = ActionRow(call, by, date_us, action.value, "dead letters", why, count)
            partitions[number].decisions.add(row)
        await worker.committer.finish()
        return changed.total()
