"""A crawl as its callers reach it: the owners of its partitions, and its coordinator if it runs.

On one machine owners answer on Unix sockets in the crawl's private folder, on a cluster at the
addresses that the coordinator knows. Both speak the protocol that workers use among themselves. The
folder of a crawl that is stopped is opened by its caller (``processes.callable_folder``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from lycosa.base.calls import Call, CallReply, StateQuestion, decode_reply, encode_call
from lycosa.base.config.cluster_file import ClusterFile, read_cluster_file
from lycosa.base.config.profile_texts import PrivateUrls
from lycosa.base.config.sections import Config
from lycosa.base.messages.coordinator_messages import ClusterStatus
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.urls.identity import Canonicalizer, Sites, host_of, partition_of
from lycosa.cluster.network.credentials import Credentials, credentials_of
from lycosa.cluster.network.inquiry import NetworkInquiry
from lycosa.cluster.network.sockets import SocketExchange
from lycosa.cluster.serve.caller import CoordinatorPlace
from lycosa.cluster.shards.stored_crawl import read_crawl, stored_sites
from lycosa.inspect.queries.question_thread import StateReader
from lycosa.service.api.api_job import COORDINATOR_SOCKET, ApiJob
from lycosa.service.api.stored_state import StoredState
from lycosa.state.exchange.exchange_errors import CallRefused, NoAnswer
from lycosa.state.folder.folder_notes import settings_of
from lycosa.state.folder.manifest import load_manifest
from lycosa.state.folder.names import crawl_sites
from lycosa.state.objects.store_opening import open_store
from lycosa.state.shard.folder_view import recent_views

_SHARE = 0.5  # of a core that questions may use while nothing is crawled
_LONGEST_CALL_S = 60.0  # callers set their own, shorter deadlines


class PartitionFinder:
    """From a URL or host, as a caller writes it, to the partition that owns it."""

    def __init__(self, config: Config, sites: Sites, names: Sequence[str] = ()) -> None:
        self.config, self.partitions = config, config.frontier.partitions
        self.names = tuple(names)
        """What operators call the crawl, besides its id."""
        self._canonicalizer, self._sites = Canonicalizer(config.canonical), sites
        self._private = PrivateUrls(config.requests.rules)

    def canonical(self, url: str) -> str:
        """The canonical form. Raises ``InvalidUrl``."""
        return self._canonicalizer.canonical(url)

    def host(self, text: str) -> str:
        """The host that an operator means by its name or a URL of it. Raises ``InvalidUrl``."""
        return self._canonicalizer.host_named(text)

    def of_host(self, host: str) -> int:
        """The partition of a canonical host."""
        return partition_of(self._sites.site_of(host), self.partitions)

    def site_of(self, host: str) -> str:
        """The site of a canonical host."""
        return self._sites.site_of(host)

    def may_show(self, url: str, site: str) -> bool:
        """Whether a page of a site may be rendered with the capture of a canonical URL.

        Scripts of other sites do not get to see what was fetched with credentials.
        """
        return url not in self._private or self.site_of(host_of(url)) == site

    def of_url(self, url: str) -> int:
        """The partition of a URL in any spelling. Raises ``InvalidUrl``."""
        return self.of_host(host_of(self.canonical(url)))


class CallableCrawl(Protocol):
    """A crawl whose owners of partitions can be called: the only way to change it."""

    addressing: PartitionFinder

    def shard_of(self, partition: int) -> int:
        """The shard whose worker owns the partition; -1 while it has no owner."""
        ...

    async def call_owner(self, partition: int, call: Call) -> CallReply:
        """Call the owner. Raises ``CallRefused`` and ``NoAnswer``."""
        ...


class CoordinatedCrawl(CallableCrawl, Protocol):
    """A crawl with a coordinator, which knows the owners. It may have ended."""

    coordinator: CoordinatorPlace
    credentials: Credentials

    def follow(self, status: ClusterStatus) -> None:
        """Use the owners of this state from now on."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class FolderCrawl:
    """A crawl folder on this machine; ``sockets`` is the folder of its sockets.

    While its crawl is stopped, questions are answered from the folder.
    """

    def __init__(self, folder: Path, sockets: Path) -> None:
        manifest = load_manifest(folder)
        sites = crawl_sites(folder, manifest.identity.suffixes)
        self.folder = folder
        self.addressing = PartitionFinder(
            settings_of(folder), sites, (manifest.crawl, folder.resolve().name)
        )
        address = f"unix:{sockets / COORDINATOR_SOCKET}"
        self.coordinator = CoordinatorPlace(manifest.crawl, (address,), f"crawl {folder} again")
        self.credentials = Credentials()
        self._crawl, self._sockets = manifest.crawl, sockets
        self._running: list[bool] = []
        self._run = -1
        self._exchange: SocketExchange | None = None
        self._reader: StateReader | None = None  # while the crawl does not run
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, status: ClusterStatus) -> None:
        self._running = [shard.state == "running" for shard in status.shards]
        if not status.is_over and self._reader is not None:
            _end(self._closing, self._reader.close())
            self._reader = None
        elif status.is_over and self._reader is None:
            self._reader = StateReader(recent_views(self.folder), _SHARE)
        if status.coordinator != self._run:
            self._run = status.coordinator
            if self._exchange is not None:
                _end(self._closing, self._exchange.close())
            self._exchange = SocketExchange(
                self._sockets / "caller", self._socket, f"{self._crawl}:{self._run}"
            )

    def shard_of(self, partition: int) -> int:
        shard = partition % len(self._running) if self._running else 0
        is_there = self._reader is not None or (self._running and self._running[shard])
        return shard if is_there else -1

    async def call_owner(self, partition: int, call: Call) -> CallReply:
        if self._reader is not None and isinstance(call, StateQuestion):
            return await self._reader.answer(partition, call)
        if self._exchange is None or self._reader is not None:
            raise NoAnswer("the crawl does not run; resume it")
        return _read_reply(await self._exchange.call_owner(partition, encode_call(call)))

    async def close(self) -> None:
        for last in (self._reader, self._exchange):
            if last is not None:
                _end(self._closing, last.close())
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _socket(self, partition: int) -> Path:
        return self._sockets / f"w{partition % len(self._running)}"


class ClusterCrawl:
    """The crawl of a cluster. ``tell`` gets lines about changed files of ``[tls]``.

    While it has ended, questions are answered from storage.
    """

    def __init__(self, given: ClusterFile, tell: Callable[[str], None] = lambda line: None) -> None:
        crawl = read_crawl(open_store(given.objects), given)
        self.addressing = PartitionFinder(
            crawl.config, stored_sites(crawl.suffixes), (crawl.manifest.crawl, given.name)
        )
        remedy = f"start one with `lycosa serve --cluster {given.path}`"
        self.coordinator = CoordinatorPlace(given.name, tuple(given.coordinators), remedy)
        self.credentials = credentials_of(given, tell)
        self._inquiry = NetworkInquiry(
            self.credentials, crawl.manifest.crawl, call_s=_LONGEST_CALL_S
        )
        self._addresses: dict[int, str] = {}
        self._given = given
        self._stored: StoredState | None = None  # while the crawl has ended
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, status: ClusterStatus) -> None:
        if status.is_over and self._stored is None:
            self._stored = StoredState(self._given)
        elif not status.is_over and self._stored is not None:
            _end(self._closing, self._stored.close())
            self._stored = None
        addresses = {each.shard: each.address for each in status.shards if each.address}
        if addresses != self._addresses:
            self._addresses = addresses
            self._inquiry.follow_routes(addresses)

    def shard_of(self, partition: int) -> int:
        return partition if partition in self._addresses or self._stored is not None else -1

    async def call_owner(self, partition: int, call: Call) -> CallReply:
        if self._stored is not None:
            return await self._stored.answer(partition, call)
        return _read_reply(await self._inquiry.call_owner(partition, encode_call(call)))

    async def close(self) -> None:
        if self._stored is not None:
            _end(self._closing, self._stored.close())
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._inquiry.close()


def _read_reply(body: bytes) -> CallReply:
    try:
        reply: CallReply = decode_reply(body)
    except UNREADABLE as error:  # an owner of another version: the next call gets the same
        raise CallRefused(f"the owner's answer cannot be read: {error}") from error
    return reply


def _end(closing: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Close what is no longer used, without waiting for it here."""
    task = asyncio.get_running_loop().create_task(work)
    closing.add(task)
    task.add_done_callback(closing.discard)


def reach_crawl(job: ApiJob, tell: Callable[[str], None]) -> CoordinatedCrawl:
    """The crawl of a job; ``tell`` as in ``ClusterCrawl``.

    Blocks; raises what reading the crawl's own files raises.
    """
    if job.cluster_file:
        return ClusterCrawl(read_cluster_file(Path(job.cluster_file)), tell)
    return FolderCrawl(Path(job.folder), Path(job.sockets))
