"""Divides one number, the memory of a crawl, among its processes and their caches.

**How.** The memory that a process needs to run at all is set aside first (measured, see
docs/decisions/memory.md). Everything else is a *part*. It has a minimum size, below which it stops
being useful; a maximum size, which its setting states; and a weight. Each part gets its minimum.
The rest is divided by weight, and memory that a part cannot use goes to the other parts. So
settings such as ``fetch.open_bytes`` stay upper bounds, a part never shrinks when there is more
memory, and the sum never exceeds the total. Sizes are bytes.

**Why nothing is measured.** The division is a pure function of the settings. The same settings give
the same crawl, and the minimum memory is known before anything starts. ``memory_relief`` keeps the
running processes below the bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from lycosa.base.config.sections import Config, SeenUrlsKind
from lycosa.base.config.sources import SettingsError
from lycosa.base.config.units import show_bytes
from lycosa.base.system import machine

MB = 1_000_000
RECOVERY_BYTES = (16 * MB, 4 * MB)
"""The block cache of the tables during recovery, and the part of it for write buffers."""
_PROGRAM = 65 * MB  # mapped code, the same pages in every process
_UPLOAD = 50 * MB  # four parts of a file in flight, and one that is compared
_SUPERVISOR = 80 * MB  # 45 when it only watches; the rest is for recovery after a worker died
_WORKER = 70 * MB  # interpreter, suffix list, what libraries keep
_COMPACTION = 40 * MB  # table files that are being written
_PARSER, _LANGUAGE = 35 * MB, 75 * MB
# address space that the parse child maps before the first document, resident or not
_PARSER_CODE = 300 * MB
_DOCUMENT = 48 * MB  # a page of 3 MB
# bytes of memory per byte of a document: 16 was the maximum measured for pages that consist of
# nothing but links, tags or text
_TREE = 20
_SAVING = 12 * MB  # URL-seen writes one partition's file at a time
_SET_ENTRY = 100  # a hash in a Python set
_YOUNG = 210_000  # memory of a partition's newest hashes, which are such a set
_DELTA_ENTRY = 16
_DELTAS = (1 << 15, 1 << 18)  # hashes of a partition that are not yet in its file
# a visit state, and a second one that stays allocated unused; without the head of the queue
_HOST = 9000
_HEAD_ENTRY = 128
_HOST_NOTES = 500  # the known bounds of a host, and its owner
_NAME = 500
_RULE = 512  # one line of a robots.txt file, compiled
# a connection in use with everything that belongs to a request; an idle one that is kept
_SLOT, _IDLE = 100_000, 50_000
# bytes that are being received, and half as many that wait for the parser
_BODIES = 1.5
# a commit begins at one of these units, fetching stops at four, and the writes to the tables take
# as much again
_BATCHES = 9
_DEFAULT_WORKER = 1500 * MB


class TooLittleMemory(ValueError):
    """The memory is too small for that many workers. The message gives the minimum."""


class MemoryPlan(msgspec.Struct, frozen=True):
    """How many bytes each process, and each part of a worker, may use.

    ``supervisor``, each ``worker`` and its ``parser`` are whole processes. The others are parts of
    a worker.
    """

    total: int
    workers: int
    program: int
    supervisor: int
    worker: int
    parser: int
    cache: int
    memtables: int
    seen: int
    recent: int
    hosts: int
    notes: int
    robots: int
    names: int
    bodies: int
    batches: int
    connections: int
    owned: int

    @property
    def share(self) -> int:
        """A worker and its parser together."""
        return self.worker + self.parser

    @property
    def document(self) -> int:
        """Memory for one document, beyond what the parser always needs."""
        return self.parser - _PARSER

    @property
    def memtable(self) -> int:
        """Size at which one partition's write buffer is flushed to a file."""
        return min(max(self.memtables // (2 * self.owned), 256 << 10), 4 << 20)

    @property
    def delta(self) -> int:
        """Hashes of one partition that URL-seen keeps in memory until it writes its file."""
        return max(((self.seen - _SAVING) // self.owned - _YOUNG) // _DELTA_ENTRY, 1000)

    @property
    def batch(self) -> int:
        """Bytes waiting in memory at which a commit begins."""
        return self.batches // _BATCHES

    @property
    def rules(self) -> int:
        """Compiled lines of robots.txt files to cache."""
        return self.robots // _RULE

    @property
    def note_hosts(self) -> int:
        """Hosts whose bounds and owner are cached, so that known links need no lookup."""
        return self.notes // _HOST_NOTES


class _Part(NamedTuple):
    least: int
    most: int
    weight: int


def plan_memory(config: Config, workers: int, machine_bytes: int) -> MemoryPlan:
    """Divide ``config.memory_bytes`` among the processes.

    If that is 0, the default for a machine (or control group) of ``machine_bytes`` is divided.
    Raises ``TooLittleMemory``. The default is never too little: it is at least the minimum.
    """
    owned = math.ceil(config.frontier.partitions / workers)
    parts = _parts(config, owned)
    fixed = _WORKER + _COMPACTION
    supervisor = _supervisor(config)
    least = _PROGRAM + supervisor + workers * _min_share(parts)
    # Half of the machine at most: the page cache of the kernel serves RocksDB and the journals.
    default = max(min(workers * _DEFAULT_WORKER, machine_bytes // 2), least)
    total = config.memory_bytes or default
    if total < least:
        needed = show_bytes(math.ceil(least / MB) * MB)
        few = f"{workers} workers" if workers > 1 else "one worker"
        raise TooLittleMemory(
            f"memory_bytes: {show_bytes(total)} is too little for {few}: the minimum is"
            f" {needed}{'; fewer workers need less' if workers > 1 else ''} (so do fewer"
            " fetch.slots, and parse.language = false)"
        )
    # The program code is shared and there is one supervisor; the rest is split evenly.
    dealt = _divide_memory((total - _PROGRAM - supervisor) // workers - fixed, parts)
    worker = fixed + sum(size for name, size in dealt.items() if name != "parser")
    return MemoryPlan(
        total=total,
        workers=workers,
        program=_PROGRAM,
        supervisor=supervisor,
        worker=worker,
        owned=owned,
        **dealt,
    )


def node_config(config: Config, workers: int) -> Config:
    """The settings of a cluster's crawl as the plan of one of its nodes needs them.

    Each worker of a node has one partition.
    """
    frontier = msgspec.structs.replace(config.frontier, partitions=workers)
    return msgspec.structs.replace(config, frontier=frontier)


def most_workers(config: Config, machine_bytes: int) -> int:
    """How many workers with one partition each have room: the most that ``plan_memory`` accepts.

    The memory is ``config.memory_bytes``, or half of the machine's.
    """
    room = (config.memory_bytes or machine_bytes // 2) - _PROGRAM - _supervisor(config)
    return max(room // _min_share(_parts(config, 1)), 0)


def _supervisor(config: Config) -> int:
    return _SUPERVISOR + (_UPLOAD if config.upload.url else 0)


def _min_share(parts: Mapping[str, _Part]) -> int:
    """The minimum for one worker and its parser."""
    return _WORKER + _COMPACTION + sum(part.least for part in parts.values())


def fitted(config: Config, plan: MemoryPlan) -> Config:
    """The settings that keep a worker within its part.

    Each bound is the smaller of the configured value and the value that the memory allows.
    """

    def lower(section: msgspec.Struct, **bounds: int) -> msgspec.Struct:
        return msgspec.structs.replace(
            section, **{name: min(getattr(section, name), bound) for name, bound in bounds.items()}
        )

    slots = config.fetch.slots
    space = _PARSER_CODE + plan.document
    return msgspec.structs.replace(
        config,
        fetch=lower(
            config.fetch,
            open_bytes=int(plan.bodies / _BODIES),
            connections=(plan.connections - slots * _SLOT) // _IDLE,
        ),
        seen=lower(config.seen, recent=plan.recent // _SET_ENTRY),
        frontier=lower(config.frontier, workbench=plan.hosts // _host_cost(config)),
        dns=lower(config.dns, cache_entries=plan.names // _NAME),
        parse=msgspec.structs.replace(
            config.parse, memory_bytes=min(config.parse.memory_bytes or space, space)
        ),
    )


def _parts(config: Config, owned: int) -> dict[str, _Part]:
    """The parts of one worker and its parser."""
    fetch, host = config.fetch, _host_cost(config)
    parser = _PARSER + (_LANGUAGE if config.parse.language else 0)
    document = max(_TREE * config.parse.max_bytes, _DOCUMENT)
    seen = _bloom_bytes(config, owned) if config.seen.urls is SeenUrlsKind.BLOOM else 0
    deltas = [_SAVING + owned * (_YOUNG + delta * _DELTA_ENTRY) for delta in _DELTAS]
    return {
        "parser": _Part(parser + _DOCUMENT, parser + document, 4),
        "cache": _Part(12 * MB, 512 * MB, 6),
        # again, in addition to the cache they are charged to: buffers that are being written to
        # disk
        "memtables": _Part(4 * MB, 64 * MB, 2),
        "seen": _Part(seen + deltas[0], seen + deltas[1], 2),
        "recent": _between(1000, config.seen.recent, _SET_ENTRY, 1),
        "hosts": _between(fetch.slots, config.frontier.workbench, host, 6),
        "notes": _between(5000, 200_000, _HOST_NOTES, 2),
        "robots": _between(10_000, 1_000_000, _RULE, 3),
        "names": _between(1000, config.dns.cache_entries, _NAME, 1),
        "bodies": _between(4 * MB, fetch.open_bytes, _BODIES, 6),
        "batches": _between(MB, 32 * MB, _BATCHES, 4),
        "connections": _Part(
            fetch.slots * _SLOT, fetch.slots * _SLOT + fetch.connections * _IDLE, 1
        ),
    }


def _between(least: int, most: int, cost: float, weight: int) -> _Part:
    """A part that holds between ``least`` and ``most`` items of ``cost`` bytes each."""
    return _Part(int(min(least, most) * cost), int(most * cost), weight)


def _host_cost(config: Config) -> int:
    return _HOST + config.frontier.head * _HEAD_ENTRY


def _bloom_bytes(config: Config, owned: int) -> int:
    """Each partition's first filter, and a copy of the one that is being written.

    Later filters, each twice the size of the one before, are not included.
    """
    bits = -config.seen.bloom_urls * math.log(config.seen.bloom_error) / math.log(2) ** 2
    return int((owned + 1) * bits / 8)


def _divide_memory(room: int, parts: Mapping[str, _Part]) -> dict[str, int]:
    """Give each part its minimum, then the rest by weight, up to each part's maximum."""
    given = {name: part.least for name, part in parts.items()}
    left = room - sum(given.values())
    hungry = {name: part for name, part in parts.items() if part.most > part.least}
    while hungry and left > 0:
        weights = sum(part.weight for part in hungry.values())
        full = [
            name
            for name, part in hungry.items()
            if given[name] + left * part.weight // weights >= part.most
        ]
        if not full:
            for name, part in hungry.items():
                given[name] += left * part.weight // weights
            break
        for name in full:
            left -= hungry[name].most - given[name]
            given[name] = hungry.pop(name).most
    return given


def worker_count(config: Config) -> int:
    """The number of workers of a run: by the settings, or one per core.

    There are never more workers than partitions.
    """
    return min(config.workers or machine.cores(), config.frontier.partitions)


def memory_plan(config: Config) -> MemoryPlan:
    """The division of this machine's memory for a run.

    Raises ``SettingsError`` when it is too little.
    """
    try:
        return plan_memory(config, worker_count(config), machine.memory_bytes())
    except TooLittleMemory as error:
        raise SettingsError([str(error)]) from error
