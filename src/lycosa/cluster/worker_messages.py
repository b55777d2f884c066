"""The messages between a worker and its node and coordinator.

A node gives a worker process its ``WorkerJob`` first, as MessagePack in a frame over a socket pair,
then passes on the coordinator's messages, and receives the worker's. Between coordinator and worker
a message may be lost, repeated, late or overtaken, so each may be repeated and each is repaired by
a later one: a worker sends its ``WorkerStatus`` about twice a second, and what it lacks by that is
sent again. The caller names each request (``Request``, field ``call``); a worker answers a repeated
one with the first answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from lycosa.cluster.control import CrawlAction
from lycosa.model.parsed import ParserHealth
from lycosa.model.uploads import UploadState


class Seeds(msgspec.Struct, frozen=True, tag=True):
    """Seeds as the operator wrote them; ``SeedsTaken`` answers once they are committed.

    All workers get all seeds, because each needs the scope; the owner of a seed takes it.
    ``importance`` is in [0, 1], as that of a link.
    """

    call: str
    raw: list[str]
    importance: float = 1.0


class NoMoreCalls(msgspec.Struct, frozen=True, tag=True):
    """The crawl may end without waiting for more requests.

    All seeds were given, and this worker has answered every request.
    """


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Finish what is in flight, commit and end.

    ``end`` is the reason (see ``End``). With ``at_once`` work in flight is broken off.
    """

    end: str
    at_once: bool = False


class Permit(msgspec.Struct, frozen=True, tag=True):
    """The worker may have ``captures`` captures in all.

    ``serial`` numbers the permits of a shard; only a greater one is followed.
    """

    serial: int
    captures: int


class LiveSettings(msgspec.Struct, frozen=True, tag=True):
    """Settings by name that change while the crawl runs (``config.live``), and their version.

    While the crawl ``is_paused`` nothing is requested. ``actions`` are the latest ones of operators
    on the whole crawl, oldest first.
    """

    version: int
    values: dict[str, str]
    is_paused: bool = False
    actions: list[CrawlAction] = []


class Routes(msgspec.Struct, frozen=True, tag=True):
    """The addresses at which the owners of shards answer, by shard, and the version of this table.

    Only a greater version is followed. A shard whose owner is unknown is absent.
    """

    version: int
    addresses: dict[int, str]


class Probe(msgspec.Struct, frozen=True, tag=True):
    """A question whether the worker is idle. ``ProbeAnswer`` answers."""

    round: int


class Memory(msgspec.Struct, frozen=True, tag=True):
    """The memory of all processes of the crawl, in bytes.

    Sent while it is near the bound, and until no worker takes relief steps any more.
    """

    total_bytes: int


class WorkerStatus(msgspec.Struct, frozen=True, tag=True):
    """The state of the worker towards its coordinator.

    It is the first message of a process, and is sent about twice a second and whenever the worker
    wants permits. ``term`` is the owner's number, ``counted`` the captures that were committed when
    it began. The worker may have ``may`` captures in all under the permit ``serial`` (0 = none was
    received; then ``may`` is ``counted``); ``may`` is less than the permit when the worker gave the
    rest back. ``wants`` says that it has no permits left. ``settings`` is the version of the
    live settings that it applies. ``address`` is where it
    answers other workers (``HOST:PORT``, empty on one machine), ``routes`` the version of the
    addresses of others that it uses.
    """

    term: int
    counted: int
    serial: int
    may: int
    wants: bool = False
    expects_more: bool = True
    settings: int = 0
    address: str = ""
    routes: int = 0


class SeedsTaken(msgspec.Struct, frozen=True, tag=True):
    """The seeds of that request that this worker owns are committed.

    ``refused`` has those that it refused, with the reasons.
    """

    call: str
    refused: list[tuple[str, str]]


class ProbeAnswer(msgspec.Struct, frozen=True, tag=True):
    """Whether the worker is idle, its outboxes are empty and its inbox is read to the end.

    ``reaches_nobody`` says that it would be idle except for unreachable hosts. ``activity``
    increases with everything that it does, ``commits`` with each commit.
    """

    round: int
    is_idle: bool
    activity: int
    reaches_nobody: bool = False
    commits: int = 0


class HostNote(msgspec.Struct, frozen=True):
    """A host that will keep the crawl waiting.

    It gives the URLs in its queue, its delay, and the seconds until it may be fetched.
    """

    host: str
    waiting: int
    delay_s: float
    next_in_s: float
    reason: str = ""

    @property
    def need_s(self) -> float:
        """The minimum time in which the host's known URLs can be fetched."""
        return self.waiting * self.delay_s + self.next_in_s


class ProcessMemory(msgspec.Struct, frozen=True):
    """The memory of one process.

    ``part`` is ``worker``, ``parser`` or ``supervisor``, with the worker's number when there are
    several; ``cpu_s`` is its processor time so far.
    """

    part: str
    own_bytes: int
    mapped_bytes: int
    cpu_s: float = 0.0


class Progress(msgspec.Struct, frozen=True, tag=True):
    """A worker's progress, about twice a second; without it the worker counts as hanging.

    ``memory`` lists the processes. ``memory_bytes`` counts towards ``memory_bound`` (0 = unknown):
    the processes' private memory and, in the supervisor's sum, the program's code once. ``relief``
    describes what is done to stay below the bound, and ``undelivered`` the parcel that another
    worker has not taken for long; both are for messages. ``waits_for`` says what the worker waits
    for outside itself (Kafka, object storage), or how much of a snapshot it has restored; before
    its first commit nothing else is known. ``parser`` is the parser's health; for several workers
    it has the sums, and the first reason why one is away. ``unparsed`` stored
    bodies wait to be parsed again; ``reparsed`` were parsed again in this run. ``longest_turn_s``
    is the maximum processor time of one turn of a worker's loop in this run. ``leased`` URLs are
    with outside fetchers.
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
    hosts_paused: int = 0
    leased: int = 0
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
    waits_for: str = ""
    longest_turn_s: float = 0.0
    uploads: UploadState | None = None


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The worker's run is over and everything is on disk."""

    end: str
    progress: Progress


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The worker cannot continue.

    ``kind`` is the error's class, ``text`` one line for messages, ``trace`` for the log, and
    ``errno`` and ``filename`` are from a system error, if it is one. ``is_passing`` says that the
    system had no thread or memory to give. A worker that was fenced, or has an append of unknown
    outcome (``lycosa.commit``), ended as it should: that is not a crash.
    """

    kind: str
    text: str
    trace: str
    errno: int = 0
    filename: str = ""
    is_passing: bool = False


Request = Seeds
"""A request to a shard's owner, answered when its commit is in the log.

Other kinds will join this one: decisions of operators, leases.
"""
Taken = SeedsTaken

ToldWorker = Seeds | NoMoreCalls | Permit | LiveSettings | Routes | Probe
"""The messages of a coordinator to a worker."""
ToldCoordinator = WorkerStatus | SeedsTaken | ProbeAnswer | Progress
"""The messages of a worker to its coordinator."""
ToWorker = Stop | Memory | ToldWorker
FromWorker = ToldCoordinator | Ended | Failed

encode_worker_message = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode


def is_over(answers: Sequence[Progress | ProbeAnswer], captures: int) -> bool:
    """Whether workers with these answers have nothing left to do.

    If nothing was captured, hosts that cannot be reached are not waited for.
    """
    return all(answer.is_idle or (not captures and answer.reaches_nobody) for answer in answers)


def total(reports: list[Progress]) -> Progress:
    """The sums over several workers."""
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
        waits_for=next((report.waits_for for report in reports if report.waits_for), ""),
        longest_turn_s=max(report.longest_turn_s for report in reports),
        parser=_health([report.parser for report in reports]),
    )


def _health(parsers: list[ParserHealth]) -> ParserHealth:
    """The health of several workers' parsers as one."""
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
    "hosts_paused",
    "leased",
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
