"""One number for the memory of a crawl, dealt out over its processes and what they keep.

**How.** What a process needs to live at all is set aside first (measured, see
docs/decisions/memory.md). Everything else is a *part* with a least size, below which it stops being
useful, a most size, which its own setting states, and a weight. Each part gets its least; what is
left is dealt by weight, and what a part cannot use goes to the others. So settings such as
``fetch.open_bytes`` stay upper bounds, a part never shrinks when there is more memory, and the sum
never exceeds the whole. Sizes are bytes.

**Why no measuring.** The split is a pure function of settings, so that the same settings give the
same crawl and the least memory can be told before anything starts. That the processes stay under it
is seen to by ``memory_relief``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from lycosa.config.sections import Config, SeenUrls
from lycosa.config.units import show_bytes

MB = 1_000_000
RECOVERY_BYTES = (16 * MB, 4 * MB)
"""The tables' cache while a crawl is recovered, and of it what is being written."""
_PROGRAM = 65 * MB  # code that is mapped, the same pages in every process
_SUPERVISOR = 80 * MB  # 45 when it only watches; the rest is recovery's, when a worker died
_WORKER = 70 * MB  # interpreter, suffix list, what libraries keep
_COMPACTION = 40 * MB  # table files on their way to the disk
_PARSER, _LANGUAGE = 35 * MB, 75 * MB
# address space that the parse child has mapped before the first document, memory or not
_PARSER_CODE = 300 * MB
_DOCUMENT = 48 * MB  # a page of 3 MB
# bytes of memory for each byte of a document: 16 was the most among pages of nothing but links,
# tags or text
_TREE = 20
_SAVING = 12 * MB  # URL-seen writes one partition's file at a time
_SET_ENTRY = 100  # a hash in a Python set
_YOUNG = 210_000  # of them, a partition's newest
_DELTA_ENTRY = 16
_DELTAS = (1 << 15, 1 << 18)  # hashes of a partition that are not in its file yet
_HOST = (
    9000  # a visit state, and one more that is kept though nobody has it; without the queue's head
)
_HEAD_ENTRY = 128
_HOST_NOTES = 500  # a host's bounds, and who owns it
_NAME = 500
_RULE = 512  # a line of a robots.txt file, ready to be asked
# a connection in use with all that goes with a request; one that is kept
_SLOT, _IDLE = (
    100_000,
    50_000,
)
_BODIES = 1.5  # of what is being received, half as much again waits for the parser
# a commit begins at one, no more is fetched at four, and its writes to the tables are as much again
_BATCHES = 9
_DEFAULT_WORKER = 1500 * MB


class TooLittleMemory(ValueError):
    """The memory is too little for so many workers. The message says the least."""


class MemoryPlan(msgspec.Struct, frozen=True):
    """Who may have how much. ``supervisor``, each ``worker`` and its ``parser`` are whole
    processes; the others are parts of a worker.
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
        """Of each worker and its parser together."""
        return self.worker + self.parser

    @property
    def document(self) -> int:
        """What the parser may need for one document, beyond what it always has."""
        return self.parser - _PARSER

    @property
    def memtable(self) -> int:
        """Of one partition, at which it is written to a file."""
        return min(max(self.memtables // (2 * self.owned), 256 << 10), 4 << 20)

    @property
    def delta(self) -> int:
        """Hashes of one partition that URL-seen keeps until it writes its file."""
        return max(((self.seen - _SAVING) // self.owned - _YOUNG) // _DELTA_ENTRY, 1000)

    @property
    def batch(self) -> int:
        """Bytes that wait in memory at which a commit begins."""
        return self.batches // _BATCHES

    @property
    def rules(self) -> int:
        """Lines of robots.txt files kept ready."""
        return self.robots // _RULE

    @property
    def note_hosts(self) -> int:
        """Hosts of which notes are kept, so that known links cost no look-up."""
        return self.notes // _HOST_NOTES


class _Part(NamedTuple):
    least: int
    most: int
    weight: int


def plan_memory(config: Config, workers: int, machine_bytes: int) -> MemoryPlan:
    """Deals ``config.memory_bytes`` out, or where that is 0 the default for a machine (or control
    group) of ``machine_bytes``.

    Raises ``TooLittleMemory``. The default is never too little: a small machine is asked for the
    least.
    """
    owned = math.ceil(config.frontier.partitions / workers)
    parts = _parts(config, owned)
    fixed = _WORKER + _COMPACTION
    least = _PROGRAM + _SUPERVISOR + workers * (fixed + sum(part.least for part in parts.values()))
    default = max(min(workers * _DEFAULT_WORKER, machine_bytes // 2), least)
    total = config.memory_bytes or default
    if total < least:
        needed = show_bytes(math.ceil(least / MB) * MB)
        few = f"{workers} workers" if workers > 1 else "one worker"
        raise TooLittleMemory(
            f"memory_bytes: {show_bytes(total)} is too little for {few}: the least is"
            f" {needed}{'; fewer workers need less' if workers > 1 else ''} (so do fewer"
            " fetch.slots, and parse.language = false)"
        )
    dealt = _deal((total - _PROGRAM - _SUPERVISOR) // workers - fixed, parts)
    worker = fixed + sum(size for name, size in dealt.items() if name != "parser")
    return MemoryPlan(
        total=total,
        workers=workers,
        program=_PROGRAM,
        supervisor=_SUPERVISOR,
        worker=worker,
        owned=owned,
        **dealt,
    )


def fitted(config: Config, plan: MemoryPlan) -> Config:
    """The settings with which a worker stays in its part: each bound is the smaller of what was
    set and what there is memory for.
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
    seen = _bloom_bytes(config, owned) if config.seen.urls is SeenUrls.BLOOM else 0
    deltas = [_SAVING + owned * (_YOUNG + delta * _DELTA_ENTRY) for delta in _DELTAS]
    return {
        "parser": _Part(parser + _DOCUMENT, parser + document, 4),
        "cache": _Part(12 * MB, 512 * MB, 6),
        # again, beside the cache that they are charged to: those on their way to the disk
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
    """A part that keeps so many things of one cost."""
    return _Part(int(min(least, most) * cost), int(most * cost), weight)


def _host_cost(config: Config) -> int:
    return _HOST + config.frontier.head * _HEAD_ENTRY


def _bloom_bytes(config: Config, owned: int) -> int:
    """Each partition's first filter, and a copy of one that is being written. Later ones, of
    twice the size, come on top.
    """
    bits = -config.seen.bloom_urls * math.log(config.seen.bloom_error) / math.log(2) ** 2
    return int((owned + 1) * bits / 8)


def _deal(room: int, parts: Mapping[str, _Part]) -> dict[str, int]:
    """Each part its least, and what is left by weight, until all have their most."""
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
