"""The ports of a worker. A real crawl uses ``real_ports``; virtual time and tests bring others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

import msgspec

from lycosa.base.ports import Addresses, Clock, Fetcher, Offload, Parser, Resolver
from lycosa.state.commit import ShardLease, folder_lease
from lycosa.state.exchange.exchange_port import ExchangeEnds
from lycosa.state.kv.kv_port import Opener
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.worker.job import WorkerJob


class Ports(msgspec.Struct, frozen=True):
    """Everything that takes time or depends on chance, and the free space of the disk."""

    clock: Clock
    offload: Offload
    fetcher: Fetcher
    resolver: Resolver
    parser: Parser
    open_table: Opener
    reach: FaultPoint
    free_bytes: Callable[[], int] = lambda: sys.maxsize
    lease: ShardLease = msgspec.field(default_factory=folder_lease)
    addresses: Callable[[WorkerJob], Addresses] | None = None
    """The slots of addresses that the worker shares with others.

    The default is the table of the machine, or else the crawl's table.
    """
    exchange: ExchangeEnds | None = None
    """The exchange with other workers; ``None`` for a worker that is alone."""
    objects: ObjectStore | None = None
    """Where closed attempt logs are sent, in a cluster."""

    @property
    def has_topic(self) -> bool:
        """Whether the worker is one shard of a cluster, with one partition and an inbox topic."""
        return self.exchange is not None and self.exchange.inbound is not None


class FaultPoint(Protocol):
    """Called at named points, so that a test can crash there. In ordinary runs it does nothing."""

    def __call__(self, point: str) -> None: ...
