"""The messages between coordinator, nodes and callers.

They are MessagePack, over sockets or within a process:

    node -> coordinator        NodeReport   everything that the node runs, every second and
                               after each change
                               Said         a message of one of its workers
                               Superseded   the answer to a coordinator that has a successor
    coordinator -> node        Assignments  everything that the node should run, in answer to
                               every report and after each change
                               Relay        a message for one of its workers
    caller -> coordinator      MoreAsks, Ask, NoMoreAsks, StopCrawl, ChangeSettings, ChangeCode,
                               Drain, Move, UpgradeFormats, StatusQuery
    coordinator -> caller      Answered, ClusterStatus, and Accepted or Refused for the others
    coordinator -> control     the records of ``control``

Any message may be lost, repeated, late or overtaken. Messages that are sent repeatedly contain a
complete state (reports, assignments, a worker's status). Their sender numbers them, so that an
older one is recognised. Everything that a coordinator sends has its number. The greatest number
received is obeyed; a coordinator with a lower one is told so and ends.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from lycosa.base.messages.control_records import Record
from lycosa.base.messages.progress import ProcessMemory, Progress
from lycosa.base.messages.worker_messages import Request, ToldCoordinator, ToldWorker
from lycosa.base.model.code_version import CodeVersion
from lycosa.base.model.compatibility import FIRST_FORMATS, PROTOCOL

CALLER, CONTROL = "caller", "control"
"""Names of senders and receivers that are not nodes.

``CALLER`` sends requests; ``CONTROL`` is the record of decisions.
"""


NOT_READY = "the coordinator does not have the crawl yet"
"""How the refusal of a coordinator begins that is still starting."""


class CoordinatorHello(msgspec.Struct, frozen=True):
    """The first message on a connection to a coordinator.

    ``role`` is ``node`` or ``caller``, ``name`` the node's name, ``crawl`` the name in
    ``cluster.toml``. A node names the ``generation`` of the crawl that it read when it started, and
    its UUID ``crawl_id`` (empty = of a version that did not tell it): another bucket may have a
    crawl of the same name.
    """

    role: str
    name: str
    crawl: str
    protocol: int = PROTOCOL
    generation: str = ""
    crawl_id: str = ""


class ServedCrawl(msgspec.Struct, frozen=True):
    """The crawl that a coordinator has read from its bucket, as a node must have read it too.

    ``formats`` are those that the bucket names. ``code`` is the user code with which the crawl
    begins.
    """

    crawl_id: str = ""
    generation: str = ""
    formats: int = FIRST_FORMATS
    code: dict[str, CodeVersion] = {}


class ShardState(Enum):
    """The state of a shard that a node was assigned, in its report."""

    STARTING = "starting"  # a process was started; it has sent nothing yet
    RUNNING = "running"  # its owner has sent its status
    STOPPING = "stopping"  # told to end, because the shard is no longer this node's
    WAITING = "waiting"  # its process died, or cannot run here, and is restarted after a pause
    # fenced, or an append of unknown outcome: it restarts only under a greater assignment number
    ASKING = "asking"
    ENDED = "ended"  # its worker reached the end of the crawl
    FAILED = "failed"  # its worker cannot continue, and a restart would not help


class ShardReport(msgspec.Struct, frozen=True):
    """One shard of a node.

    ``assignment`` is the number of the assignment under which it runs; ``term`` is the one that its
    worker reported (-1 = none yet). ``end`` is set for a worker that has ended; ``why`` is one line
    about a failure. ``is_local`` says that the worker could not run for a reason of this machine,
    so that another one should have the shard.
    """

    shard: int
    assignment: int
    term: int
    state: ShardState
    end: str = ""
    why: str = ""
    is_local: bool = False


class NodeReport(msgspec.Struct, frozen=True, tag=True):
    """Everything that a node runs.

    ``began`` is when the node's program started, by its wall clock, and ``serial`` numbers its
    reports since then. ``coordinator`` is the greatest number received, ``obeyed`` the version of
    that coordinator's assignments. ``wall`` is the node's clock; ``free_disk`` and ``free_memory``
    are bytes. The node can run ``most_shards`` at the same time (0 = any number). With
    ``is_leaving`` it stops its workers, and the shards that it no longer lists may be given to
    others. ``deaths`` counts worker processes that died since the program started; ``memory`` is
    that of the node's own process. ``echo`` is the ``at`` of the last ``Assignments`` of this
    ``coordinator`` (0 = none), which came ``echo_age_s`` seconds before the report. ``code`` are
    the digests of the user code that its machine allows, and that it has.
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
    most_shards: int = 0
    is_leaving: bool = False
    deaths: int = 0
    memory: ProcessMemory | None = None
    echo: float = 0.0
    echo_age_s: float = 0.0
    code: tuple[str, ...] = ()


class Said(msgspec.Struct, frozen=True, tag=True):
    """A message of a worker.

    It has the assignment under which its node runs it and the term that it reported.
    """

    shard: int
    assignment: int
    term: int
    message: ToldCoordinator


class Superseded(msgspec.Struct, frozen=True, tag=True):
    """There is a coordinator with that greater number."""

    coordinator: int


class Assignments(msgspec.Struct, frozen=True, tag=True):
    """All shards that the node should run, with their assignment numbers.

    Of two lists the one with the greater ``version`` counts. ``upon`` is the serial of the report
    that the coordinator knew: a shard that was first reported later is not stopped for being absent
    from the list. A non-empty ``end`` (see ``End``) ends all workers; with ``at_once`` work in
    flight is broken off. ``is_over`` says that the workers of all shards have ended. ``notice``
    says why the node gets no shards, for its operator; it is empty when the node may have some.
    ``formats`` are the formats in force (``model.compatibility``). ``at`` is the time by a clock
    that only this coordinator has: nodes send it back, which bounds how long their reports travel.
    ``code`` is the user code that the crawl runs: a node starts no worker if it lacks any of it.
    ``render`` are the live settings of rendering, by which a node keeps a renderer or does not.
    """

    coordinator: int
    version: int
    upon: int
    shards: dict[int, int]
    end: str = ""
    at_once: bool = False
    is_over: bool = False
    notice: str = ""
    formats: int = FIRST_FORMATS
    at: float = 0.0
    code: dict[str, CodeVersion] = {}
    render: dict[str, str] = {}


class Relay(msgspec.Struct, frozen=True, tag=True):
    """A message for the worker of a shard in exactly that term."""

    coordinator: int
    shard: int
    term: int
    message: ToldWorker


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A request to the owners of some shards (none = all).

    ``Answered`` follows when all have answered. The request may be repeated at any time.
    """

    request: Request
    shards: tuple[int, ...] = ()


class MoreAsks(msgspec.Struct, frozen=True, tag=True):
    """Requests will follow: a crawl that ended continues, and does not end before ``NoMoreAsks``.

    A new crawl waits for requests without this message.
    """


class NoMoreAsks(msgspec.Struct, frozen=True, tag=True):
    """No more requests will follow, so the crawl may end when all are answered.

    Without this message a new crawl never finishes.
    """


class StopCrawl(msgspec.Struct, frozen=True, tag=True):
    """End the crawl; ``end`` as in ``End``. With ``at_once`` work in flight is broken off.

    ``by`` is the operator, empty when none decided it (a limit, a signal), ``why`` a remark.
    """

    end: str
    at_once: bool = False
    by: str = ""
    why: str = ""


class ChangeSettings(msgspec.Struct, frozen=True, tag=True):
    """Settings by name that change while the crawl runs; all workers receive them.

    ``by`` is the operator, ``why`` a remark. ``shown`` are values that the operator was shown: the
    change is refused when one of them is another one now.
    """

    values: dict[str, str]
    by: str = ""
    why: str = ""
    shown: dict[str, str] = {}


class ChangeCode(msgspec.Struct, frozen=True, tag=True):
    """Run other user code from the next version of the settings on.

    ``digests`` are by name; an empty one ends the use of a name. Refused while a connected node has
    not reported one of them. ``by`` is the operator, ``why`` a remark.
    """

    digests: dict[str, str]
    by: str = ""
    why: str = ""


class PauseCrawl(msgspec.Struct, frozen=True, tag=True):
    """Request nothing until the crawl is resumed, which is the same message with ``False``.

    Requests in flight are finished. A paused crawl does not end by itself. The pause is recorded,
    so it survives the coordinator; a crawl that ended and continues is not paused. ``by`` is the
    operator, ``why`` a remark.
    """

    is_paused: bool
    by: str = ""
    why: str = ""


class Drain(msgspec.Struct, frozen=True, tag=True):
    """Give the node no more shards and move those that it runs.

    With ``is_over`` it gets shards again. It is refused when no other node can have them, unless
    ``is_forced``.
    """

    node: str
    is_over: bool = False
    is_forced: bool = False


class Move(msgspec.Struct, frozen=True, tag=True):
    """Move a shard to that node, if the node can have it."""

    shard: int
    node: str


class UpgradeFormats(msgspec.Struct, frozen=True, tag=True):
    """Let programs write the formats of this number from the next start of each worker on.

    Refused while a connected node cannot read them.
    """

    number: int


class StatusQuery(msgspec.Struct, frozen=True, tag=True):
    """A question for the ``ClusterStatus``."""


class Answered(msgspec.Struct, frozen=True, tag=True):
    """All shards have answered the request ``call``.

    ``refused`` has what they refused, with the reasons.
    """

    call: str
    refused: list[tuple[str, str]]


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """The request was recorded, where it has to be, and is followed."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The request is refused, or the connection; ``reason`` is a line for an operator.

    With ``is_final`` the same request will be refused again.
    """

    reason: str
    is_final: bool = True


class NodeStatus(msgspec.Struct, frozen=True):
    """One node, as the coordinator knows it.

    ``silent_s`` is the time since its last report. ``refusal`` says why it gets no shards, and is
    empty when it may have some. ``ahead_s`` is its clock minus the coordinator's. Free resources
    are in bytes. ``shards`` are those that it reports, none once it is lost; ``memory`` is that of
    its process. ``clock`` is a ``ClockState``. ``trouble`` says why a shard could not run there
    in the last minutes, though it may run on another node. ``is_spare``: it gets none only because
    the maximum number of nodes has shards. ``code`` are the digests of user code that it allows.
    """

    name: str
    silent_s: float
    is_lost: bool
    is_draining: bool
    refusal: str
    ahead_s: float
    free_disk: int
    free_memory: int
    shards: list[int]
    protocol: int = PROTOCOL
    is_leaving: bool = False
    memory: ProcessMemory | None = None
    clock: str = "right"
    trouble: str = ""
    is_spare: bool = False
    code: tuple[str, ...] = ()


class ShardStatus(msgspec.Struct, frozen=True):
    """One shard.

    ``node`` is empty while it has none. ``state`` is that of ``ShardState``, empty while the node
    has not reported the assignment. ``wanted`` is the node that an operator chose. ``queued`` URLs
    wait. ``waits_for`` is what its worker waits for outside itself. ``is_unable``: its node cannot
    run it, for a reason of that machine.
    """

    shard: int
    node: str
    assignment: int
    term: int
    state: str
    why: str
    wanted: str
    is_leaving: bool
    address: str
    captures: int
    commits: int
    queued: int
    is_idle: bool
    waits_for: str = ""
    is_unable: bool = False


class ClusterStatus(msgspec.Struct, frozen=True, tag=True):
    """Everything that a coordinator knows about the crawl.

    ``is_quiet``: it assigns nothing yet, because nodes have not had the time to report. ``end`` is
    how the crawl ends, empty while it does not, and ``is_over`` says that all workers have ended.
    ``expects_asks``: it waits for more requests of a caller. ``waits_for`` is what the coordinator
    itself waits for, for example Kafka. ``progress`` is the sum over all shards; ``settings`` are
    the live ones. ``is_paused``: an operator paused the crawl. ``worker_deaths`` counts worker
    processes that died while this coordinator listened. ``clock`` is what the nodes' clocks say of
    the coordinator's (``ClockState``); ``clock_alarm`` is a line for operators.
    ``code`` is the user code that the crawl runs.
    """

    crawl: str
    coordinator: int
    nodes: list[NodeStatus]
    most_nodes: int
    shards: list[ShardStatus]
    progress: Progress
    end: str
    at_once: bool
    is_over: bool
    is_quiet: bool
    expects_asks: bool
    open_requests: int
    settings_version: int
    settings: dict[str, str]
    waits_for: str = ""
    is_paused: bool = False
    protocol: int = PROTOCOL
    formats: int = FIRST_FORMATS
    worker_deaths: int = 0
    clock_alarm: str = ""
    clock: str = "right"
    code: dict[str, CodeVersion] = {}


CallerMessage = (
    MoreAsks
    | Ask
    | NoMoreAsks
    | StopCrawl
    | ChangeSettings
    | ChangeCode
    | PauseCrawl
    | Drain
    | Move
    | UpgradeFormats
    | StatusQuery
)
ToCaller = Answered | Accepted | Refused | ClusterStatus
ToCoordinator = (
    NodeReport
    | Said
    | Superseded
    | MoreAsks
    | Ask
    | NoMoreAsks
    | StopCrawl
    | ChangeSettings
    | ChangeCode
    | PauseCrawl
    | Drain
    | Move
    | UpgradeFormats
)
ToNode = Assignments | Relay
Sendable = Assignments | Relay | Answered | Record


class OutgoingMessage(msgspec.Struct, frozen=True):
    """A message that a coordinator wants to send.

    ``receiver`` is a node's name, ``CALLER``, or ``CONTROL`` for a record.
    """

    receiver: str
    message: Sendable


encode_node_message = msgspec.msgpack.Encoder().encode
decode_to_coordinator = msgspec.msgpack.Decoder(ToCoordinator).decode
decode_from_caller = msgspec.msgpack.Decoder(CallerMessage).decode
decode_to_caller = msgspec.msgpack.Decoder(ToCaller).decode
decode_to_node = msgspec.msgpack.Decoder(ToNode | Refused).decode
decode_hello = msgspec.msgpack.Decoder(CoordinatorHello).decode
