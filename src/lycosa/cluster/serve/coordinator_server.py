"""``lycosa serve``: a port for nodes and callers, around one coordinator.

node   ── reports, workers' messages ──>  ┐                      ┌──> records (Kafka)
caller ── requests, questions ─────────>  ├─> RunningCoordinator ─┼──> nodes
clock  ── ticks ───────────────────────>  ┘                      └──> callers
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from contextlib import suppress

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.config.sections import Config, LimitSection
from lycosa.base.messages.coordinator_messages import (
    NOT_READY,
    CoordinatorHello,
    Refused,
    ServedCrawl,
    decode_hello,
    decode_to_coordinator,
    encode_node_message,
)
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.system.kept_tasks import KeptTasks
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.endpoints import RefusedConnection
from lycosa.cluster.network.frame_server import FrameServer
from lycosa.cluster.serve.caller_service import (
    LEFT_S,
    MAX_CALLER_BYTES,
    CallerHandler,
    caller_refusal,
)
from lycosa.cluster.serve.coordinator_links import PeerLink
from lycosa.cluster.serve.running_coordinator import RunningCoordinator, ServeEnd, TellOperator
from lycosa.state.commit import LEASE_S, Fenced, OutcomeUnknown
from lycosa.state.objects.object_errors import ObjectError

_READY_S = 5.0  # a connection waits no longer until the crawl is claimed: it would be kept in vain
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EADDRINUSE)
ReadLimits = Callable[[], LimitSection]
"""Reads the limits of the stored settings again; blocks. Raises ``ObjectError``."""


class CannotListen(Exception):
    """No address can be used; the text says why for each."""


def cluster_rules(
    given: ClusterFile,
    config: Config,
    protocol: int = PROTOCOL,
    crawl: ServedCrawl = ServedCrawl(),  # noqa: B008 (frozen)
) -> ClusterRules:
    """The rules of a crawl's cluster, for a coordinator of that number.

    What the store says of formats and of user code counts for the first coordinator.
    """
    return ClusterRules(
        # a worker stops fetching below store.min_free_bytes, so its shard moves before
        low_disk=2 * config.store.min_free_bytes,
        most_nodes=given.nodes,
        vacant_s=LEASE_S + config.fetch.total_s,
        protocol=protocol,
        formats=crawl.formats,
        code=crawl.code,
    )


class CoordinatorServer:
    """The port of one coordinator. A caller that left may come back for ``left_s``.

    Nodes that were started for another crawl than ``crawl``, or another generation, are refused.
    """

    def __init__(
        self,
        given: ClusterFile,
        runner: RunningCoordinator,
        read_limits: ReadLimits,
        tell: TellOperator,
        left_s: float = LEFT_S,
        crawl: ServedCrawl = ServedCrawl(),  # noqa: B008 (frozen)
        protocol: int = PROTOCOL,
    ) -> None:
        self._crawl, self._protocol = crawl, protocol
        self._given, self._runner = given, runner
        self._read_limits, self._tell = read_limits, tell
        self._caller_handler = CallerHandler(runner, self._follow_limits, self._fail, left_s)
        self._tasks = KeptTasks(self._fail)

    async def run(
        self, credentials: Credentials, addresses: Sequence[str], config: Config
    ) -> ServeEnd:
        """Listen at the first of ``addresses`` that this machine has and that is free, and serve.

        The port is opened before the crawl is claimed: a coordinator that cannot listen must not
        supersede one that does. Raises ``CannotListen``, ``RefusedConnection`` and
        ``ControlDamaged``.
        """
        server = FrameServer(
            credentials,
            self._serve,
            MAX_CALLER_BYTES,
            on_refusal=lambda line: self._tell(f"connection refused: {line}"),
        )
        self._tell(f"listening at {await _open(server, addresses)}")
        try:
            self._tasks.begin(self._work(config))
            return await self._runner.over
        finally:
            await self._tasks.cancel()
            # In this order: nothing may be begun for a connection that is about to be closed.
            await self._caller_handler.close()
            self._runner.part_from_peers()
            await server.close()

    async def _work(self, config: Config) -> None:
        """Claim the crawl and be its coordinator. An error ends the service (``_fail``)."""
        runner = self._runner
        try:
            rules = cluster_rules(self._given, config, self._protocol, self._crawl)
            await runner.claim(self._given.shards, config.limits, rules)
            self._tasks.begin(self._caller_handler.await_callers())
            await runner.run()
        except OutcomeUnknown:
            return  # it was ended while it waited
        except Fenced:
            runner.finish(ServeEnd(is_superseded=True))

    def _fail(self, error: BaseException) -> None:
        """End the service with an error."""
        if not self._runner.over.done():
            self._runner.over.set_exception(error)

    # -- connections

    async def _serve(self, stream: FrameStream, hello: bytes, peer: str) -> None:
        try:
            greeting = decode_hello(hello)
        except UNREADABLE:
            reason = "the first message is not of a form that this program reads"
            await stream.send(_encoded_refusal(reason))
            return
        if reason := self._refusal(greeting):
            self._tell(f"{greeting.role} {greeting.name!r} from {peer} is refused: {reason}")
            await stream.send(_encoded_refusal(reason))
            return
        if reason := await self._await_claim(stream, greeting):
            await stream.send(_encoded_refusal(reason, is_final=False))
            return
        link = PeerLink(stream, greeting.name, peer)
        sending = asyncio.create_task(link.run())
        try:
            if greeting.role == "node":
                await self._serve_node(link)
            else:
                await self._caller_handler.serve_caller(link)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _await_claim(self, stream: FrameStream, hello: CoordinatorHello) -> str:
        """Wait until the crawl is claimed; why it is not.

        The wait is short: a connection whose peer has left meanwhile would be kept.
        """
        ready = self._runner.ready
        if hello.role == "node":
            # Not ready in time is no error: the refusal below says so, and the node connects again.
            with suppress(TimeoutError):
                async with asyncio.timeout(_READY_S):
                    await ready.wait()
        if ready.is_set():
            return ""
        if hello.role == "caller":
            await stream.receive()  # its first request, which is refused
        why = self._runner.waits_for or "it has just started"
        return f"{NOT_READY}: {why}"

    def _refusal(self, hello: CoordinatorHello) -> str:
        """Why a connection is refused; empty when it is not."""
        if reason := caller_refusal(hello, self._given.name):
            return reason
        if hello.role == "node" and hello.crawl_id not in ("", self._crawl.crawl_id):
            return (
                f"its bucket has the crawl {hello.crawl_id}, and the coordinator's"
                f" ({self._given.objects}) has the crawl {self._crawl.crawl_id} of the same name:"
                " give the same objects.url in cluster.toml on all machines"
            )
        if hello.role == "node" and hello.generation != self._crawl.generation:
            return (
                "the crawl was imported into other shards after this node or this coordinator was"
                " started; start the older one again, with the same shards in cluster.toml"
            )
        if hello.role == "node":
            return self._runner.nodes.refusal(hello.name)
        return ""

    async def _serve_node(self, link: PeerLink) -> None:
        runner = self._runner
        runner.nodes.add(link)
        self._tell(f"node {link.name} connected from {link.peer}")
        try:
            while (frame := await link.receive()) is not None:
                await runner.receive(link.name, decode_to_coordinator(frame))
        finally:
            runner.nodes.remove(link)
            if not runner.over.done():
                self._tell(f"node {link.name} disconnected")

    async def _follow_limits(self) -> None:
        """A crawl that ended by a limit continues under the limits that are stored now."""
        try:
            self._runner.follow_limits(await asyncio.to_thread(self._read_limits))
        except ObjectError as error:
            # The limits of the start are valid ones. A coordinator that waited for object storage
            # could not even be stopped.
            self._tell(f"the stored limits cannot be read ({error}); those of the start stay")


def _encoded_refusal(reason: str, is_final: bool = True) -> bytes:
    return encode_node_message(Refused(reason, is_final))


async def _open(server: FrameServer, addresses: Sequence[str]) -> str:
    """Open the first address that this machine has and that is free. Raises ``CannotListen``."""
    failures = []
    for address in addresses:
        try:
            return await server.open(address)
        except RefusedConnection:
            raise
        except OSError as error:
            failures.append(error.strerror or str(error))
            # Only an address of another machine, or one in use, lets the next be tried. Any other
            # error would be the same there.
            if error.errno not in _NOT_HERE:
                break
    raise CannotListen(
        f"{'; '.join(failures)}; a coordinator may run here already, or give --listen HOST:PORT"
        " with an address of this machine that is free"
    )
