"""What supervisor and worker say to each other: MessagePack in frames over a socket pair."""

from __future__ import annotations

import msgspec

from lycosa.config import Config
from lycosa.manifest import Manifest


class Start(msgspec.Struct, frozen=True, tag=True):
    """First message to a worker: its job."""

    folder: str
    config: Config
    manifest: Manifest
    number: int
    owned: tuple[int, ...]
    software: str
    user_agent: str
    last_commit: float


class Seeds(msgspec.Struct, frozen=True, tag=True):
    """Seeds as the operator wrote them; ``is_last`` says that no more will come. Answered by ``SeedsTaken`` once they are committed."""

    raw: list[str]
    is_last: bool


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Finish what is in flight, commit, end. With ``at_once`` what is in flight is broken off."""

    at_once: bool = False
    is_limit: bool = False


class SeedsTaken(msgspec.Struct, frozen=True, tag=True):
    """How many seeds were taken, and the others with the reason."""

    taken: int
    refused: list[tuple[str, str]]


class HostNote(msgspec.Struct, frozen=True):
    """A host that will keep the crawl waiting: URLs in its queue, its delay, seconds until it may be fetched."""

    host: str
    waiting: int
    delay_s: float
    next_in_s: float
    reason: str = ""


class Progress(msgspec.Struct, frozen=True, tag=True):
    """About twice a second; its absence is how a worker that hangs is recognised."""

    discovered: int = 0
    states: dict[str, int] = {}
    captures: int = 0
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
    commits: int = 0


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The worker's run is over and everything is on disk."""

    end: str
    progress: Progress


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The worker cannot go on. ``kind`` is the error's class; ``text`` is one line for people; ``trace`` for the log."""

    kind: str
    text: str
    trace: str


ToWorker = Start | Seeds | Stop
ToSupervisor = SeedsTaken | Progress | Ended | Failed

encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_to_supervisor = msgspec.msgpack.Decoder(ToSupervisor).decode
