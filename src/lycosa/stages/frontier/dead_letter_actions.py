"""Carries out operators' decisions about dead letters, for a running crawl and a stopped one."""

from __future__ import annotations

from lycosa.base.model.dead_letter import DeadLetterAction, DecidedDeadLetter
from lycosa.base.model.url_state import UrlState
from lycosa.stages.frontier.cold_urls import NEVER_SO_DEEP
from lycosa.stages.frontier.dead_letters import decisions_of
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState
from lycosa.state.cold.cold_rows import ColdNote, ReturnCause


def carry_out_decision(
    partition: Partition, host8: bytes, url8: bytes, decision: DecidedDeadLetter, now: float
) -> bool:
    """Carry out a decision about one URL at crawl time ``now``; return whether it had an effect.

    It has none when the URL is no dead letter: it has not failed, or this dead letter of it or a
    newer one was decided. A URL that fails after a decision has a new dead letter.
    """
    record, host = partition.find_record(host8, url8), partition.visits.find_host(host8)
    if record is None and (note := partition.cold.find(host8 + url8)) is not None:
        return _decide_cold(partition, host8 + url8, note, decision, now)
    if record is None or host is None or record.state is not UrlState.FAILED:
        return False
    if _is_decided(partition, host8 + url8, decision.number):
        return False
    partition.dead_letters.note_decision(host8 + url8, decision)
    if decision.action is DeadLetterAction.RETRY:
        # as for a seed: the operator has a reason to think that the host answers again
        if host.record.state is HostState.RETIRED and not host.is_barred:
            partition.set_aside_hosts.reopen(host, now)
        partition.queue_again(host, url8, record)
    return True


def _decide_cold(
    partition: Partition, url: bytes, note: ColdNote, decision: DecidedDeadLetter, now: float
) -> bool:
    """The same for a URL whose record is cold: one that is retried comes back first."""
    if note.state != UrlState.FAILED or _is_decided(partition, url, decision.number):
        return False
    partition.dead_letters.note_decision(url, decision)
    if decision.action is DeadLetterAction.RETRY:
        partition.cold.note_return(url, ReturnCause.OPERATOR, NEVER_SO_DEEP, now)
    return True


def _is_decided(partition: Partition, url: bytes, number: int) -> bool:
    """Whether the dead letter of ``url`` (host8 and url8) with this number or a newer one was
    decided.
    """
    return any(each.number >= number for each in decisions_of(partition.table.get, url))
