"""What coordinator, nodes and callers say to each other: MessagePack, over sockets or within a
process.

    node -> coordinator        NodeReport   all that the node runs, every second and after each
                               change
                               Said         what one of its workers says
                               Superseded   the answer to a coordinator that another has followed
    coordinator -> node        Assignments  all that the node should run, in answer to every report
                               and after each change
                               Relay        a message for one of its workers
    caller -> coordinator      Ask, StopCrawl, NoMoreAsks, ChangeSettings, Drain, Move
    coordinator -> caller      Answered
    coordinator -> control     PermitSaved, SettingsSaved, EndSaved (``control``)

Any message may be lost, repeated, late or overtaken. What is sent again and again is a state as a
whole (reports, assignments, a worker's status), and its sender numbers it, so that an older one is
recognised. All that a coordinator sends bears its number: the greatest that was heard is obeyed,
and one that is lower is told so and ends.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from lycosa.cluster.control import Record
from lycosa.cluster.worker_messages import Request, ToldCoordinator, ToldWorker

CALLER, CONTROL = "caller", "control"
"""Names of senders and receivers that are no nodes: whoever asks for something, and the record
of what was decided.
"""

PROTOCOL = 1
"""Nodes of another number get no shards."""


class ShardState(Enum):
    """What a node says of a shard that it was told to run."""

    STARTING = "starting"  # a process was started; it has not spoken yet
    RUNNING = "running"  # its owner has spoken
    STOPPING = "stopping"  # told to end, because the shard is no longer this node's
    WAITING = "waiting"  # its process died and is started again after a pause
    # fenced, or an append of unknown outcome: it starts only under a greater assignment number
    ASKING = "asking"
    ENDED = "ended"  # its worker came to the end of the crawl
    FAILED = "failed"  # its worker cannot go on, and another try would not help


class ShardReport(msgspec.Struct, frozen=True):
    """One shard of a node, the number of the assignment by which it runs, and the term that its
    worker told (-1 = none yet). ``end`` is that of a worker that ended, ``why`` one line about a
    failure.
    """

    shard: int
    assignment: int
    term: int
    state: ShardState
    end: str = ""
    why: str = ""


class NodeReport(msgspec.Struct, frozen=True, tag=True):
    """All that the node runs. ``began`` is when the node's program started, by its wall clock, and
    ``serial`` numbers the reports since. ``coordinator`` is the greatest number heard, ``obeyed``
    the version of its assignments. ``wall`` is the node's clock, the rest what it has free.
    """

    began: float
    serial: int
    coordinator: int
    obeyed: int
    wall: float
    free_disk: int
    free_memory: int
    shards: list[ShardReport]
    protocol: int = PROTOCOL


class Said(msgspec.Struct, frozen=True, tag=True):
    """What a worker says, with the assignment by which its node runs it and the term that it
    told.
    """

    shard: int
    assignment: int
    term: int
    message: ToldCoordinator


class Superseded(msgspec.Struct, frozen=True, tag=True):
    """There is a coordinator of that number."""

    coordinator: int


class Assignments(msgspec.Struct, frozen=True, tag=True):
    """All shards that the node should run, with their assignment numbers. Of two lists the one of
    the greater ``version`` counts.

    ``upon`` is the serial of the report that the coordinator knew: a shard that first stood in a
    later one is not stopped because it is missing here. ``end`` (not empty: see ``End``) ends all
    workers; with ``at_once`` what is in flight is broken off.
    """

    coordinator: int
    version: int
    upon: int
    shards: dict[int, int]
    end: str = ""
    at_once: bool = False


class Relay(msgspec.Struct, frozen=True, tag=True):
    """A message for the worker of a shard, and for no other term of it."""

    coordinator: int
    shard: int
    term: int
    message: ToldWorker


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A request to the owners of some shards (none = all). Answered by ``Answered`` when all
    have; repeated as often as is liked.
    """

    request: Request
    shards: tuple[int, ...] = ()


class NoMoreAsks(msgspec.Struct, frozen=True, tag=True):
    """The crawl may end when what was asked is answered. Before this is said, it is never
    finished.
    """


class StopCrawl(msgspec.Struct, frozen=True, tag=True):
    """Ends the crawl: ``end`` as in ``End``. With ``at_once`` what is in flight is broken off."""

    end: str
    at_once: bool = False


class ChangeSettings(msgspec.Struct, frozen=True, tag=True):
    """Settings that change while the crawl runs, by name; all workers are told."""

    values: dict[str, str]


class Drain(msgspec.Struct, frozen=True, tag=True):
    """The node gets no more shards, and those that it runs move. With ``is_over`` it gets some
    again.
    """

    node: str
    is_over: bool = False


class Move(msgspec.Struct, frozen=True, tag=True):
    """The shard moves to that node, if it can have it."""

    shard: int
    node: str


class Answered(msgspec.Struct, frozen=True, tag=True):
    """All shards have answered a request: its ``call``, and what they refused, with the reason."""

    call: str
    refused: list[tuple[str, str]]


ToCoordinator = (
    NodeReport | Said | Superseded | Ask | NoMoreAsks | StopCrawl | ChangeSettings | Drain | Move
)
ToNode = Assignments | Relay
Sendable = Assignments | Relay | Answered | Record


class Outgoing(msgspec.Struct, frozen=True):
    """A message that a coordinator wants sent: to a node by its name, to ``CALLER``, or to be
    recorded (``CONTROL``).
    """

    receiver: str
    message: Sendable


encode = msgspec.msgpack.Encoder().encode
decode_to_coordinator = msgspec.msgpack.Decoder(ToCoordinator).decode
decode_to_node = msgspec.msgpack.Decoder(ToNode).decode
