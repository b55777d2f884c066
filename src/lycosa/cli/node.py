"""``lycosa node``: this machine's share of a crawl on many machines."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from lycosa.base.logs.log_records import LogLevel
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.cli.cluster_parts import (
    CLUSTER_FILE,
    check_redis_client,
    health_option,
    object_store,
    reachable_cluster,
)
from lycosa.cli.log_options import log_options, program_log
from lycosa.cli.output import ExitCode, Unbroken, clean
from lycosa.inspect.printable import json_text

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.base.system.frame_stream import FrameStream
    from lycosa.base.system.health_file import HealthFile
    from lycosa.cluster.network.credentials import Credentials
    from lycosa.cluster.shards.stored_crawl import StoredCrawl
    from lycosa.processes.cluster.cluster_node import NodeEnd
    from lycosa.processes.cluster.cluster_session import ClusterSession
    from lycosa.processes.cluster.node_code import NodeCode
    from lycosa.processes.rendering.renderer_keeper import RendererKeeper

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_EPILOG = """
\b
Examples:
  lycosa node --cluster cluster.toml                     one node a machine
  lycosa node --cluster cluster.toml --listen 10.0.0.12  where other machines reach its workers
  lycosa node --cluster cluster.toml --name b            a second one on the same machine
  lycosa node --cluster cluster.toml --allow ./shop.py   with an extension that you trust
  lycosa node --cluster cluster.toml --most-shards 0     a machine that only renders pages

The first Ctrl-C (or SIGTERM) lets workers commit what is in flight, so that other nodes continue
without a pause; the second ends at once. A node that is killed loses nothing either: others take
its shards and wait until it can no longer send requests.

\b
Exit codes: 0 left the cluster in order, 1 internal error, 2 bad usage or settings,
            4 ended at once
"""


@click.command("node", epilog=_EPILOG, short_help="Run this machine's share of a cluster's crawl.")
@click.option(
    "--cluster",
    "file",
    required=True,
    type=CLUSTER_FILE,
    help="The crawl's cluster.toml.",
)
@click.option(
    "--work",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Local folder of this node; it may be lost [nodes/CRAWL/NAME].",
)
@click.option("--name", help="Name of this node, unique in the cluster [the host name].")
@click.option(
    "--listen",
    metavar="HOST",
    help="Host name or address at which workers of other nodes reach those of this one [the address"
    " from which this machine reaches the coordinator].",
)
@click.option(
    "--most-shards",
    type=click.IntRange(min=0),
    metavar="N",
    help="Maximum number of shards here; 0 is a machine that only renders pages [as many as the"
    " memory has room for].",
)
@click.option(
    "--renders",
    type=click.IntRange(min=0, max=64),
    metavar="N",
    help="Number of pages that this machine renders at the same time; 0 is none [render.pages of"
    " the crawl, which may change while it runs].",
)
@click.option(
    "--key-file",
    envvar="LYCOSA_AGENT__KEY_FILE",
    type=click.Path(dir_okay=False),
    help="File with this node's private key, by which its requests are signed (`lycosa identity"
    " new`) [agent.key_file of the crawl; environment LYCOSA_AGENT__KEY_FILE].",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="SHA256|FILE",
    help="Let this machine run user code of that SHA-256, or that in this file or folder; may be"
    " repeated [allow of [extensions] in FILE].",
)
@health_option
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@log_options
def command(
    file: Path,
    folder: Path | None,
    name: str | None,
    listen: str | None,
    most_shards: int | None,
    renders: int | None,
    key_file: str | None,
    allow: tuple[str, ...],
    health_file: Path | None,
    as_json: bool,
) -> None:
    """Run this machine's share of the crawl that FILE (cluster.toml) describes.

    The node connects to the coordinators that FILE names and runs a worker process for each shard
    that it is assigned. It stays when the crawl is over, because the crawl can be continued.
    """
    name = name or _own_name()
    if not _NAME.fullmatch(name):
        raise click.UsageError(
            f"--name {name!r}: letters, digits, '.', '_' and '-' are allowed, at most 100"
        )
    log = NodeLog(name, as_json)
    with redirect_stdout(Unbroken(sys.stdout)), redirect_stderr(Unbroken(sys.stderr)):
        given = -1 if renders is None else renders
        own = OwnOptions(listen or "", most_shards or 0, key_file or "", allow, given)
        if most_shards == 0:
            if renders == 0:
                raise click.UsageError("--most-shards 0 and --renders 0 leave nothing to do")
            sys.exit(render_only(file, name, given, log, health_file))
        sys.exit(run(file, folder, name, own, log, health_file))


class OwnOptions(NamedTuple):
    """What is of this machine only.

    ``--listen``, ``--most-shards``, ``--key-file``, ``--allow`` and ``--renders``.
    """

    listen: str = ""
    most_shards: int = 0
    key_file: str = ""
    allow: tuple[str, ...] = ()
    renders: int = -1


class NodeLog:
    """Prints what happens: lines for people on standard error, or JSON on standard output."""

    def __init__(self, name: str, as_json: bool) -> None:
        self._name, self._as_json = name, as_json
        self._log = program_log()

    def show_event(self, text: str, shard: int = -1) -> None:
        now = time.time()
        if self._as_json:
            event = {"time": round(now, 3), "node": self._name, "text": text}
            if shard >= 0:
                event["shard"] = shard
            print(json_text(event), flush=True)
        else:
            self._log.note(LogLevel.INFO, "note", text)
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
            if not self._log.is_on_stderr:
                click.echo(f"{when} {self._name}: {clean(text)}", err=True)


def run(
    file: Path,
    folder: Path | None,
    name: str,
    own: OwnOptions,
    log: NodeLog,
    health_file: Path | None = None,
    protocol: int = PROTOCOL,
) -> ExitCode:
    """Run a node until its end, as a program of the number ``protocol``."""
    from lycosa.base.system.health_file import HealthFile
    from lycosa.base.system.machine import memory_bytes
    from lycosa.cluster.network.credentials import credentials_of
    from lycosa.cluster.shards.stored_crawl import read_crawl
    from lycosa.processes.cluster.cluster_node import NodeEnd
    from lycosa.processes.cluster.cluster_session import ClusterSession, NodeMemory
    from lycosa.processes.cluster.node_code import NodeCode, read_allowed
    from lycosa.processes.cluster.node_folder import NodeFolder

    read_allowed(own.allow)  # a mistake is reported before anything is begun
    given = reachable_cluster(file)
    check_redis_client(given)
    listen = own.listen or _own_address(given.coordinators)
    credentials = credentials_of(given, log.show_event)
    for warning in given.warnings():
        log.show_event(warning)
    health = HealthFile(health_file)
    health.write(False, "starts")
    crawl = with_key(_read_crawl(given, log, health, protocol), own.key_file)

    def read_again() -> StoredCrawl:
        return with_key(read_crawl(object_store(given), given, protocol), own.key_file)

    manifest = crawl.manifest
    memory = NodeMemory(crawl.config, given.shards, given.nodes, memory_bytes(), own.most_shards)
    local = NodeFolder(folder or Path("nodes") / given.name / name)

    local.acquire(manifest.crawl, given.name, name, time.time(), generation=manifest.generation)
    try:
        local.keep_suffixes(crawl.suffixes)
        local.delete_unused_owners()
        session = ClusterSession(given, crawl, local, memory, listen, log.show_event, read_again)
        log.show_event(
            f"node of {given.name} in {local.path}: up to {memory.most} of {given.shards} shards"
        )
        code = NodeCode(local.path, given.path, own.allow, log.show_event)
        keeper = _renderer(given, crawl, name, own.renders, log)
        end = asyncio.run(_work(session, credentials, name, log, health, protocol, code, keeper))
    finally:
        local.release()
        health.remove()
    log.show_event(end.meaning)
    return ExitCode.INTERRUPTED if end is NodeEnd.KILLED else ExitCode.FINISHED


async def _work(
    session: ClusterSession,
    credentials: Credentials,
    name: str,
    log: NodeLog,
    health: HealthFile,
    protocol: int,
    code: NodeCode,
    keeper: RendererKeeper | None,
) -> NodeEnd:
    """Run the node, and write its health until it ends."""
    from lycosa.processes.cluster.cluster_node import ClusterNode

    await check_listen(session.listen, credentials)
    node = ClusterNode(session, credentials, name, log, protocol, code)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, node.stop)

    def measured() -> tuple[bool, str]:
        is_ready, state = node.health()
        is_kept = keeper is not None and keeper.is_wanted
        return is_ready, f"{state}; renderer: {keeper.line()}" if keeper and is_kept else state

    keeping = asyncio.create_task(health.keep(measured))
    if keeper is not None:
        keeper.follow({})
        node.keep_renderer = keeper.follow
    try:
        return await node.run()
    finally:
        keeping.cancel()
        if keeper is not None:
            await keeper.close()


def _renderer(
    given: ClusterFile,
    crawl: StoredCrawl,
    name: str,
    pages: int,
    log: NodeLog,
    is_only: bool = False,
) -> RendererKeeper | None:
    """The keeper of this machine's renderer; none if pages are never rendered here.

    Raises ``click.UsageError`` for a machine that was told to render and has no browser.
    """
    if pages == 0:
        return None
    from lycosa.stages.render.browser_process import NoBrowser, find_browser

    section = crawl.config.render
    try:
        find_browser(section.browser)
    except NoBrowser as error:
        if pages > 0 or is_only:
            option = f"--renders {pages}" if pages > 0 else "--most-shards 0"
            raise click.UsageError(f"{option}: {error}") from error
        if section.is_on:
            log.show_event(f"this machine renders no pages: {error}; --renders 0 says so")
    from lycosa.processes.rendering.renderer_job import RendererJob
    from lycosa.processes.rendering.renderer_keeper import RendererKeeper

    path = str(given.path.resolve())
    job = RendererJob(name, crawl.config.render, cluster_file=path, pages=pages)
    return RendererKeeper(job, log.show_event)


def render_only(
    file: Path, name: str, pages: int, log: NodeLog, health_file: Path | None = None
) -> ExitCode:
    """Render pages of a cluster's crawl on a machine without shards, until a signal."""
    from lycosa.base.system.health_file import HealthFile

    given = reachable_cluster(file)
    for warning in given.warnings():
        log.show_event(warning)
    health = HealthFile(health_file)
    health.write(False, "starts")
    try:
        crawl = _read_crawl(given, log, health, PROTOCOL)
        keeper = _renderer(given, crawl, name, pages, log, is_only=True)
        assert keeper is not None
        log.show_event(f"node of {given.name} that only renders pages")
        if not crawl.config.render.is_on:
            log.show_event(
                "the crawl began without rendering: this node has nothing to do until `lycosa"
                " cluster set render.mode=auto`, or a rule of render.policies, lets pages be"
                " rendered"
            )
        asyncio.run(_keep_rendering(keeper, health))
    finally:
        health.remove()
    log.show_event("left the cluster: pages in work were given back")
    return ExitCode.FINISHED


async def _keep_rendering(keeper: RendererKeeper, health: HealthFile) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)

    def measured() -> tuple[bool, str]:
        return not keeper.trouble, f"renderer: {keeper.line()}"

    keeping = asyncio.create_task(health.keep(measured))
    keeper.start()
    try:
        await ended.wait()
    finally:
        keeping.cancel()
        await keeper.close()


def _read_crawl(given: ClusterFile, log: NodeLog, health: HealthFile, protocol: int) -> StoredCrawl:
    """The crawl's identity and settings; waits while the object storage cannot be reached."""
    from lycosa.base.system.shortage import pause_s
    from lycosa.cluster.shards.stored_crawl import read_crawl
    from lycosa.state.objects.object_errors import ObjectError

    store, attempt = object_store(given), 0
    while True:
        try:
            return read_crawl(store, given, protocol)
        except ObjectError as error:
            if not error.is_passing:
                raise
            attempt += 1
            if attempt == 1:
                log.show_event(f"waiting for object storage: {error}")
            health.write(False, f"waits for object storage: {error}")
            time.sleep(pause_s(attempt))


def with_key(crawl: StoredCrawl, key_file: str) -> StoredCrawl:
    """The crawl as this node runs it: with its own key file, if it was given one."""
    if not key_file:
        return crawl
    import msgspec

    agent = msgspec.structs.replace(crawl.config.agent, key_file=key_file)
    config = msgspec.structs.replace(crawl.config, agent=agent)
    return msgspec.structs.replace(crawl, config=config)


async def check_listen(host: str, credentials: Credentials) -> None:
    """Raise ``click.UsageError`` when workers of this node could not listen at that host."""
    from lycosa.cluster.network.endpoints import join_address
    from lycosa.cluster.network.frame_server import FrameServer

    async def serve(stream: FrameStream, hello: bytes, peer: str) -> None:
        stream.close()

    server = FrameServer(credentials, serve)
    try:
        await server.open(join_address(host, 0))
    except OSError as error:
        raise click.UsageError(
            f"workers of this node cannot listen at {host} ({error.strerror or error}); give"
            " --listen HOST, an address of this machine without a port"
        ) from error
    await server.close()


def _own_address(coordinators: Sequence[str]) -> str:
    """The address from which this machine reaches the first coordinator whose name is known."""
    from lycosa.cluster.network.endpoints import split_address

    for address in coordinators:
        host, port = split_address(address)
        try:
            family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(where)  # of a datagram socket: nothing is sent
                return str(probe.getsockname()[0])
        except OSError:
            continue
    raise click.UsageError(
        f"no address of this machine reaches {coordinators[0]}; give --listen HOST, where workers"
        " of other machines reach this one"
    )


def _own_name() -> str:
    return socket.gethostname().partition(".")[0] or "node"
