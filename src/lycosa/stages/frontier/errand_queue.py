"""Errands that wait at a host, and the open questions of a host.

These are plain functions over the tuples in its visit record and the partition's count of open
questions.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.parcel_items import Asker, Errand, Question
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState

MAX_WAITING = 100
"""Maximum number of askers whose errands wait at one host.

Thousands of hosts may redirect to one. This bounds the cost for its owner.
"""


KEY_ASKER, ROBOTS_ASKER = b"indexnow", b"inrobots"
"""In place of the hash of a host: a host asks itself for a key file, and for robots.txt before."""


OWN_ASKER = b"own-file"
"""The same for the file that proves a host of the operator."""


def is_for_key(errand: Errand) -> bool:
    """Whether an errand is for a key file (``visit.key_files``), or proves an own host."""
    return any(asker.host8 in (KEY_ASKER, OWN_ASKER) for asker in errand.askers)


def is_for_own(errand: Errand) -> bool:
    """Whether an errand is for the file of an own host (``visit.own_files``)."""
    return any(asker.host8 == OWN_ASKER for asker in errand.askers)


def with_asker(waiting: tuple[Errand, ...], url: str, asker: Asker) -> tuple[Errand, ...] | None:
    """The queue with one more asker, or ``None`` when it is full.

    A newer question of an origin replaces its older one.
    """
    kept = without_origin(waiting, asker)
    if asker_count(kept) >= MAX_WAITING:
        return None
    for at, errand in enumerate(waiting):
        # It keeps its place in the queue, even if only this origin has asked for it so far.
        if errand.url == url:
            others = tuple(each for each in errand.askers if not _is_same_origin(each, asker))
            before = without_origin(waiting[:at], asker)
            return (
                *before,
                Errand(url, (*others, asker)),
                *without_origin(waiting[at + 1 :], asker),
            )
    return (*kept, Errand(url, (asker,)))


def without_origin(waiting: tuple[Errand, ...], asker: Asker) -> tuple[Errand, ...]:
    """The queue without one origin's requests; errands without other askers are dropped."""
    kept = []
    for errand in waiting:
        if any(_is_same_origin(each, asker) for each in errand.askers):
            others = tuple(each for each in errand.askers if not _is_same_origin(each, asker))
            errand = msgspec.structs.replace(errand, askers=others)
        if errand.askers:
            kept.append(errand)
    return tuple(kept)


def asker_count(waiting: tuple[Errand, ...]) -> int:
    """Number of askers of all errands."""
    return sum(len(errand.askers) for errand in waiting)


def find_errand(waiting: tuple[Errand, ...], url: str) -> Errand | None:
    return next((errand for errand in waiting if errand.url == url), None)


def find_question(questions: tuple[Question, ...], secure: bool) -> Question | None:
    return next((question for question in questions if question.secure == secure), None)


def with_question(questions: tuple[Question, ...], question: Question) -> tuple[Question, ...]:
    """The questions with one more; an origin has at most one."""
    return (*without_question(questions, question.secure), question)


def without_question(questions: tuple[Question, ...], secure: bool) -> tuple[Question, ...]:
    """The questions without that of one origin."""
    return tuple(each for each in questions if each.secure != secure)


def has_question(host: VisitState, question: Question) -> bool:
    """Whether the host still has exactly this question, unanswered and not replaced."""
    return find_question(host.record.questions, question.secure) == question


def put_question(partition: Partition, host: VisitState, question: Question) -> None:
    """Add a question to the host, or replace that of the same origin."""
    old = find_question(host.record.questions, question.secure)
    partition.counters.asking += (not question.is_late) - (old is not None and not old.is_late)
    host.record.questions = with_question(host.record.questions, question)
    partition.visits.mark_changed(host)


def drop_question(partition: Partition, host: VisitState, secure: bool) -> None:
    """Remove the question of an origin."""
    question = find_question(host.record.questions, secure)
    if question is not None:
        partition.counters.asking -= not question.is_late
        host.record.questions = without_question(host.record.questions, secure)
        partition.visits.mark_changed(host)


def _is_same_origin(one: Asker, other: Asker) -> bool:
    return (one.partition, one.host8, one.secure) == (other.partition, other.host8, other.secure)
