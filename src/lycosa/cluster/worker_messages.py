"""What a worker and those who direct it say to each other: MessagePack in frames over a socket
pair.

A node gives a worker process its ``WorkerJob`` first, then passes on what the coordinator tells it,
and hears it. Between coordinator and worker a message may be lost, repeated, late or overtaken, so
none of them is needed twice and each is repaired by a later one: a worker tells its
``WorkerStatus`` about twice a second, and what it lacks by that is told again. Requests
(``Request``) are named by whoever asks (``call``); a worker answers a repeated one with the first
answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from lycosa.model.parsed import ParserHealth
from lycosa.model.uploads import UploadState


class Seeds(msgspec.Struct, frozen=True, tag=True):
    """Seeds as the operator wrote them. Answered by ``SeedsTaken`` once they are committed.

    All workers get all seeds, because each needs the scope; the owner takes them.
    """

    call: str
    raw: list[str]


class NoMoreCalls(msgspec.Struct, frozen=True, tag=True):
    """Nothing more is waited for before the crawl may end: all seeds were given, and this worker
    answered every request.
    """


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Finish what is in flight, commit, end. ``end`` is the reason (see ``End``). With
    ``at_once`` what is in flight is broken off.
    """

    end: str
    at_once: bool = False


class JoinScope(msgspec.Struct, frozen=True, tag=True):
    """Places that belong to the crawl: those of the coordinator's list from index ``first`` on."""

    first: int
    urls: list[str]


class Permit(msgspec.Struct, frozen=True, tag=True):
    """The worker may have so many captures in all. ``serial`` numbers the permits of a shard:
    only a greater one is followed.
    """

    serial: int
    captures: int


class LiveSettings(msgspec.Struct, frozen=True, tag=True):
    """Settings that change while the crawl runs, by name, and the number of the change. A worker
    notes it, and applies none yet.
    """

    version: int
    values: dict[str, str]


class JoinedTaken(msgspec.Struct, frozen=True, tag=True):
    """The first ``upto`` places that this worker passed on are known. ``places`` is how long the
    coordinator's list is when this worker knows all of it, else 0.
    """

    upto: int
    places: int = 0


class Probe(msgspec.Struct, frozen=True, tag=True):
    """Are you idle? Answered by ``ProbeAnswer``."""

    round: int


class Memory(msgspec.Struct, frozen=True, tag=True):
    """What all processes of the crawl hold together, bytes: told when that is near the bound, or
    was.
    """

    total_bytes: int


class WorkerStatus(msgspec.Struct, frozen=True, tag=True):
    """How the worker stands with its coordinator: the first word of a process, then about twice a
    second, and when it wants permits.

    ``term`` is the owner's number, ``counted`` the captures that it found committed when it began.
    It may have ``may`` captures in all by the permit ``serial`` (0 = none was heard; then it is
    ``counted``), and by its own word less than that permit says when it gave the rest back.
    ``wants``: it has none left. ``places`` is how many of the coordinator's list it knows, from the
    front.
    """

    term: int
    counted: int
    serial: int
    may: int
    wants: bool = False
    expects_more: bool = True
    places: int = 0
    settings: int = 0


class SeedsTaken(msgspec.Struct, frozen=True, tag=True):
    """The seeds of that request that this worker owns are committed; those that it refused, with
    the reason.
    """

    call: str
    refused: list[tuple[str, str]]


class Joined(msgspec.Struct, frozen=True, tag=True):
    """Places that this worker found to belong to the crawl: those that it found from the
    ``first`` on. Told until ``JoinedTaken``.
    """

    first: int
    urls: list[str]


class ProbeAnswer(msgspec.Struct, frozen=True, tag=True):
    """Whether the worker is idle, its outboxes empty and its inbox read to the end, or would be but
    for hosts that cannot be reached; ``activity`` rises with all that it does, ``commits`` with
    each commit.
    """

    round: int
    is_idle: bool
    activity: int
    reaches_nobody: bool = False
    commits: int = 0


class HostNote(msgspec.Struct, frozen=True):
    """A host that will keep the crawl waiting: URLs in its queue, its delay, seconds until it
    may be fetched.
    """

    host: str
    waiting: int
    delay_s: float
    next_in_s: float
    reason: str = ""

    @property
    def need_s(self) -> float:
        """The least time in which the host's known URLs can be fetched."""
        return self.waiting * self.delay_s + self.next_in_s


class ProcessMemory(msgspec.Struct, frozen=True):
    """One process: ``part`` is ``worker``, ``parser`` or ``supervisor``, with the worker's number
    when there are several; ``cpu_s`` is the processor time that it has used so far.
    """

    part: str
    own_bytes: int
    mapped_bytes: int
    cpu_s: float = 0.0


class Progress(msgspec.Struct, frozen=True, tag=True):
    """About twice a second; its absence is how a worker that hangs is recognised.

    ``memory`` is that of each process, ``memory_bytes`` what counts towards ``memory_bound`` (0 =
    none is known): what they have of their own, and in the supervisor's sum the program's code
    once. ``relief`` says what is done to stay under it, for people, and ``undelivered`` which
    parcel another worker has not taken for long. ``parser`` is the parser's health; of several
    workers the sums, and the first reason why one is away. ``unparsed`` stored bodies wait to be
    parsed again, ``reparsed`` were in this run. ``longest_turn_s`` is the most processor time that
    one turn of a worker's loop took in this run: all steps that were ready at once.
    """

    discovered: int = 0
    states: dict[str, int] = {}
    captures: int = 0
    committed: int = 0
    pages: int = 0
    requests: int = 0
    body_bytes: int = 0
    reasons: dict[str, int] = {}
    rule_refusals: dict[str, int] = {}
    running: int = 0
    hosts_ready: int = 0
    hosts_snoozed: int = 0
    hosts_benched: int = 0
    hosts_front: int = 0
    hosts_parked: int = 0
    hosts_retired: int = 0
    hosts: int = 0
    next_in_s: float = -1.0
    slowest: list[HostNote] = []
    memory_bytes: int = 0
    memory_bound: int = 0
    memory: list[ProcessMemory] = []
    relief: str = ""
    commits: int = 0
    is_idle: bool = False
    lacks_room: bool = False
    reaches_nobody: bool = False
    parser: ParserHealth = ParserHealth()
    unparsed: int = 0
    reparsed: int = 0
    undelivered: str = ""
    longest_turn_s: float = 0.0
    uploads: UploadState | None = None


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The worker's run is over and everything is on disk."""

    end: str
    progress: Progress


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The worker cannot go on. ``kind`` is the error's class; ``text`` is one line for people;
    ``trace`` for the log; ``errno`` and ``filename`` of a system's error, where it has them.
    ``is_passing``: the system had no thread or memory to give. Fenced, or with an append of unknown
    outcome (``lycosa.commit``), it ended as it should: that is no crash.
    """

    kind: str
    text: str
    trace: str
    errno: int = 0
    filename: str = ""
    is_passing: bool = False


Request = Seeds
"""What is asked of a shard's owner and answered when its commit is in the log. Others join it:
decisions of operators, leases.
"""
Taken = SeedsTaken

ToldWorker = Seeds | NoMoreCalls | JoinScope | JoinedTaken | Permit | LiveSettings | Probe
"""What a coordinator tells a worker."""
ToldCoordinator = WorkerStatus | SeedsTaken | Joined | ProbeAnswer | Progress
"""What a worker tells its coordinator."""
ToWorker = Stop | Memory | ToldWorker
FromWorker = ToldCoordinator | Ended | Failed

encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode


def is_over(answers: Sequence[Progress | ProbeAnswer], captures: int) -> bool:
    """Whether workers that say this have nothing left: where nothing was captured, hosts that
    nobody can reach are not waited for.
    """
    return all(answer.is_idle or (not captures and answer.reaches_nobody) for answer in answers)


def total(reports: list[Progress]) -> Progress:
    """The counts of several workers together."""
    if len(reports) == 1:
        return reports[0]
    waits = [report.next_in_s for report in reports if report.next_in_s >= 0]
    sums: dict[str, Any] = {
        name: sum(getattr(report, name) for report in reports) for name in _SUMMED
    }
    tables: dict[str, Any] = {
        name: _merged([getattr(report, name) for report in reports]) for name in _TABLES
    }
    slowest = sorted(
        (note for report in reports for note in report.slowest), key=lambda note: -note.need_s
    )
    return Progress(
        **sums,
        **tables,
        next_in_s=min(waits, default=-1.0),
        slowest=slowest[:5],
        is_idle=all(report.is_idle for report in reports),
        lacks_room=any(report.lacks_room for report in reports),
        relief=next((report.relief for report in reports if report.relief), ""),
        undelivered=next((report.undelivered for report in reports if report.undelivered), ""),
        longest_turn_s=max(report.longest_turn_s for report in reports),
        parser=_health([report.parser for report in reports]),
    )


def _health(parsers: list[ParserHealth]) -> ParserHealth:
    """Of the parsers of several workers."""
    return ParserHealth(
        waiting=sum(each.waiting for each in parsers),
        away_s=max(each.away_s for each in parsers),
        away_why=next((each.away_why for each in parsers if each.away_why), ""),
        away_total_s=sum(each.away_total_s for each in parsers),
        deaths=sum(each.deaths for each in parsers),
        tried_again=sum(each.tried_again for each in parsers),
    )


_TABLES = ("states", "reasons", "rule_refusals")
_SUMMED = (
    "discovered",
    "captures",
    "committed",
    "pages",
    "requests",
    "body_bytes",
    "running",
    "hosts_ready",
    "hosts_snoozed",
    "hosts_benched",
    "hosts_front",
    "hosts_parked",
    "hosts_retired",
    "hosts",
    "memory_bytes",
    "commits",
    "unparsed",
    "reparsed",
)


def _merged(tables: list[dict[str, int]]) -> dict[str, int]:
    merged: dict[str, int] = {}
    for table in tables:
        for name, number in table.items():
            merged[name] = merged.get(name, 0) + number
    return merged
