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

import msgspec

from lycosa.base.messages.control_records import CrawlAction
from lycosa.base.messages.progress import Progress
from lycosa.base.model.code_version import CodeVersion


class Seeds(msgspec.Struct, frozen=True, tag=True):
    """Seeds as the operator wrote them; ``SeedsTaken`` answers once they are committed.

    All workers get all seeds, because each needs the scope; the owner of a seed takes it.
    ``importance`` is in [0, 1], as that of a link. ``by`` is the operator for the log of actions,
    empty for the seeds with which a crawl is started.
    """

    call: str
    raw: list[str]
    importance: float = 1.0
    by: str = ""


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
    """Settings by name that change while the crawl runs (``config.live_settings``), and their
    version.

    While the crawl ``is_paused`` nothing is requested. ``actions`` are the latest ones of operators
    on the whole crawl, oldest first. ``code`` is the user code that the crawl runs from this
    version on.
    """

    version: int
    values: dict[str, str]
    is_paused: bool = False
    actions: list[CrawlAction] = []
    code: dict[str, CodeVersion] = {}


class AllowedCode(msgspec.Struct, frozen=True, tag=True):
    """The digests of all user code that the worker's machine allows now, and has.

    Its node sends it, so it is decided on that machine only.
    """

    digests: tuple[str, ...]


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
    increases with everything that it does, ``commits`` with each commit. ``captures`` counts also
    those that are not committed yet.
    """

    round: int
    is_idle: bool
    activity: int
    reaches_nobody: bool = False
    commits: int = 0
    captures: int = 0


class PriceTerms(msgspec.Struct, frozen=True):
    """What the price of a refetch is found by: the settings of the worker, of this version.

    The budget is ``a_day`` fetches, or that ``share`` of the capacity. ``is_by_value`` is the rule
    of pages without a policy.
    """

    settings: int
    a_day: float
    share: float
    is_by_value: bool
    first_price: float
    min_s: float
    max_s: float
    least_chance: float
    probes: float


class RefetchGrid(msgspec.Struct, frozen=True, tag=True):
    """How many pages of a shard are in each cell of the refetch price, about once a minute.

    ``cells`` are those that changed after the grid ``base``, with their pages now; 0 pages are left
    out of a complete grid, whose ``base`` is 0. ``bound`` hosts have too few turns: their pages are
    not in the grid, and count with ``bound_a_day`` fetches. ``capacity_a_day`` is what the worker
    could fetch. ``price`` is the one that it goes by, with its number (0 = none was found).
    """

    number: int
    base: int
    cells: dict[int, int]
    bound: int
    bound_a_day: float
    capacity_a_day: float
    terms: PriceTerms
    price: float = 0.0
    price_number: int = 0


class PriceFound(msgspec.Struct, frozen=True, tag=True):
    """The price of a refetch, in answer to a grid, of which ``grid`` is the number.

    0 there means that the coordinator needs a complete one. ``number`` numbers the prices of the
    crawl (0 = none yet). ``budget_a_day`` and ``asked_a_day`` are those of the whole
    crawl, for display.
    """

    price: float
    number: int
    grid: int = 0
    budget_a_day: float = 0.0
    asked_a_day: float = 0.0


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The worker's run is over and everything is on disk."""

    end: str
    progress: Progress


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The worker cannot continue.

    ``kind`` is the error's class, ``text`` one line for messages, ``trace`` for the log, and
    ``errno`` and ``filename`` are from a system error, if it is one. ``is_passing`` says that the
    system had no thread or memory to give. A worker that was fenced, or has an append of unknown
    outcome (``lycosa.state.commit``), ended as it should: that is not a crash. ``is_local`` says
    that the reason may be of this machine only, so that a worker of another one may continue.
    """

    kind: str
    text: str
    trace: str
    errno: int = 0
    filename: str = ""
    is_passing: bool = False
    is_local: bool = False


Request = Seeds
"""A request to a shard's owner, answered when its commit is in the log.

Other kinds will join this one: decisions of operators, leases.
"""
Taken = SeedsTaken

ToldWorker = Seeds | NoMoreCalls | Permit | LiveSettings | Routes | Probe | PriceFound
"""The messages of a coordinator to a worker."""
ToldCoordinator = WorkerStatus | SeedsTaken | ProbeAnswer | Progress | RefetchGrid
"""The messages of a worker to its coordinator."""
ToWorker = Stop | Memory | AllowedCode | ToldWorker
FromWorker = ToldCoordinator | Ended | Failed

encode_worker_message = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode


def is_over(answers: Sequence[Progress | ProbeAnswer], captures: int) -> bool:
    """Whether workers with these answers have nothing left to do.

    If nothing was captured, hosts that cannot be reached are not waited for.
    """
    return all(answer.is_idle or (not captures and answer.reaches_nobody) for answer in answers)
