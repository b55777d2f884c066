"""What supervisor and worker say to each other: MessagePack in frames over a socket pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from lycosa.config.sections import Config
from lycosa.folder.manifest import Manifest
from lycosa.model.parsed import ParserHealth
from lycosa.system.memory_plan import MemoryPlan
from lycosa.worker.plugins import Plugins


class Start(msgspec.Struct, frozen=True, tag=True):
    """First message to a worker: its job. ``sockets`` are the exchange's, by worker; ``places`` the URLs whose places are in scope,
    ``plan`` its part of the memory, ``time_base`` crawl time minus monotonic time, ``machine_table`` the machine's
    address table, empty where the crawl uses its own; ``is_careful`` as in ``Job``."""

    folder: str
    config: Config
    manifest: Manifest
    number: int
    owned: tuple[int, ...]
    software: str
    user_agent: str
    last_commit: float
    sockets: tuple[str, ...]
    places: list[str]
    plan: MemoryPlan
    time_base: float
    machine_table: str
    plugins: Plugins
    is_careful: bool = False


class Seeds(msgspec.Struct, frozen=True, tag=True):
    """Seeds as the operator wrote them; ``is_last`` says that no more will come. Answered by ``SeedsTaken`` once they are committed.

    All workers get all seeds, because each needs the scope; the owner takes them.
    """

    raw: list[str]
    is_last: bool


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Finish what is in flight, commit, end. ``end`` is the reason (see ``End``). With ``at_once`` what is in flight is broken off."""

    end: str
    at_once: bool = False


class JoinScope(msgspec.Struct, frozen=True, tag=True):
    """Places that another worker found to belong to the crawl."""

    urls: list[str]


class Grant(msgspec.Struct, frozen=True, tag=True):
    """Permits for so many more captures; 0 says that there are none now."""

    captures: int


class Probe(msgspec.Struct, frozen=True, tag=True):
    """Are you idle? Answered by ``ProbeAnswer``."""

    round: int


class Memory(msgspec.Struct, frozen=True, tag=True):
    """What all processes of the crawl hold together, bytes: told when that is near the bound, or was."""

    total_bytes: int


class SeedsTaken(msgspec.Struct, frozen=True, tag=True):
    """The seeds of the last batch that this worker owns are committed; those that it refused, with the reason."""

    refused: list[tuple[str, str]]


class Joined(msgspec.Struct, frozen=True, tag=True):
    """Places that belong to the crawl from now on."""

    urls: list[str]


class WantGrant(msgspec.Struct, frozen=True, tag=True):
    """The worker has used its permits, or gives ``returned`` back because it has nothing to use them for."""

    returned: int = 0


class ProbeAnswer(msgspec.Struct, frozen=True, tag=True):
    """Whether the worker is idle with its outboxes empty, or would be but for hosts that cannot be reached; ``activity`` rises with all
    that it does."""

    round: int
    is_idle: bool
    activity: int
    reaches_nobody: bool = False


class HostNote(msgspec.Struct, frozen=True):
    """A host that will keep the crawl waiting: URLs in its queue, its delay, seconds until it may be fetched."""

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
    """One process: ``part`` is ``worker``, ``parser`` or ``supervisor``, with the worker's number when there are several; ``cpu_s`` is the
    processor time that it has used so far."""

    part: str
    own_bytes: int
    mapped_bytes: int
    cpu_s: float = 0.0


class Progress(msgspec.Struct, frozen=True, tag=True):
    """About twice a second; its absence is how a worker that hangs is recognised.

    ``memory`` is that of each process, ``memory_bytes`` what counts towards ``memory_bound`` (0 = none is known): what they have of their
    own, and in the supervisor's sum the program's code once. ``relief`` says what is done to stay under it, for people, and
    ``undelivered`` which parcel another worker has not taken for long. ``parser`` is the
    parser's health; of several workers the sums, and the first reason why one is away.
    ``unparsed`` stored bodies wait to be parsed again, ``reparsed`` were in this run.
    ``longest_turn_s`` is the most processor time that one turn of a worker's loop took in this run: all steps that were ready at once.
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


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The worker's run is over and everything is on disk."""

    end: str
    progress: Progress


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The worker cannot go on. ``kind`` is the error's class; ``text`` is one line for people; ``trace`` for the log; ``errno`` and
    ``filename`` of a system's error, where it has them. ``is_passing``: the system had no thread or memory to give."""

    kind: str
    text: str
    trace: str
    errno: int = 0
    filename: str = ""
    is_passing: bool = False


ToWorker = Start | Seeds | Stop | JoinScope | Grant | Probe | Memory
ToSupervisor = SeedsTaken | Joined | WantGrant | ProbeAnswer | Progress | Ended | Failed

encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_to_supervisor = msgspec.msgpack.Decoder(ToSupervisor).decode


def is_over(answers: Sequence[Progress | ProbeAnswer], captures: int) -> bool:
    """Whether workers that say this have nothing left: where nothing was captured, hosts that nobody can reach are not waited for."""
    return all(answer.is_idle or (not captures and answer.reaches_nobody) for answer in answers)


def total(reports: list[Progress]) -> Progress:
    """The counts of several workers together."""
    if len(reports) == 1:
        return reports[0]
    waits = [report.next_in_s for report in reports if report.next_in_s >= 0]
    sums: dict[str, Any] = {name: sum(getattr(report, name) for report in reports) for name in _SUMMED}
    tables: dict[str, Any] = {name: _merged([getattr(report, name) for report in reports]) for name in _TABLES}
    slowest = sorted((note for report in reports for note in report.slowest), key=lambda note: -note.need_s)
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
    "discovered", "captures", "committed", "pages", "requests", "body_bytes", "running", "hosts_ready", "hosts_snoozed", "hosts_benched",
    "hosts_front", "hosts_parked", "hosts_retired", "hosts", "memory_bytes", "commits",
    "unparsed", "reparsed",
)  # fmt: skip


def _merged(tables: list[dict[str, int]]) -> dict[str, int]:
    merged: dict[str, int] = {}
    for table in tables:
        for name, number in table.items():
            merged[name] = merged.get(name, 0) + number
    return merged
