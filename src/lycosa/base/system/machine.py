"""The cores and the memory that this process may use.

The system and its control groups (Linux, versions 1 and 2) limit both. A process that ignores the
limit of its container starts too many workers, or is killed for using memory that the machine has
and the container has not. The limits of all parent groups apply too, so every level is read.
``root`` is where the file systems are mounted, for tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_V2 = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
_GROUP_FILES = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
_UNBOUND = 1 << 60  # version 1 writes "no limit" as the largest number of pages


def cores(root: Path = _ROOT) -> int:
    """The number of cores that may run this process at once, at least 1.

    That is its CPU affinity, but no more than the whole cores that its groups' quota allows.
    """
    try:
        found = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        found = os.cpu_count() or 1
    for quota, period in _quotas(root):
        found = min(found, quota // period)
    return max(found, 1)


def memory_bytes(root: Path = _ROOT) -> int:
    """Bytes of memory that this process may use: the machine's, or a group's limit if lower."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for folder in _folders(root, "memory"):
        for name, _ in _GROUP_FILES:
            text = _text(folder / name)
            if text.isdecimal() and 0 < int(text) < _UNBOUND:
                found = min(found, int(text))
    return found


def free_memory_bytes(root: Path = _ROOT) -> int:
    """Bytes of memory that are available now, also within the limits of this process's groups.

    A group's file cache counts as available. Where nothing says what is available (macOS), all
    memory counts as such.
    """
    free = memory_bytes(root)
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = min(free, int(line.split()[1]) * 1024)
    for folder in _folders(root, "memory"):
        for most, used in _GROUP_FILES:
            limit, held = _text(folder / most), _text(folder / used)
            if limit.isdecimal() and held.isdecimal() and 0 < int(limit) < _UNBOUND:
                cache = sum(
                    int(line.split()[1])
                    for line in _text(folder / "memory.stat").splitlines()
                    if line.startswith(("inactive_file ", "active_file "))
                )
                free = min(free, max(int(limit) - max(int(held) - cache, 0), 0))
    return free


def _quotas(root: Path) -> Iterator[tuple[int, int]]:
    """The CPU quota and its period, in microseconds, of each group that has one."""
    for folder in _folders(root, "cpu"):
        words = _text(folder / "cpu.max").split()
        if len(words) != 2:
            words = [_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")]
        if all(word.isdecimal() and int(word) for word in words):  # "max" and -1 are no quota
            yield int(words[0]), int(words[1])


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's group and of its parents, for one controller."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, group = line.split(":", 2)
        names = controllers.split(",")
        if number == "0" and not controllers:
            bases = [root / base for base in _V2]
        elif controller in names:
            bases = [root / "sys/fs/cgroup" / name for name in {controller, controllers}]
        else:
            continue
        parts = Path(group.lstrip("/")).parts
        for base in bases:
            # Inside a container the path may be that of the host, which is not mounted here, so the
            # levels that exist are read.
            yield from (base.joinpath(*parts[:length]) for length in range(len(parts), -1, -1))


def _text(path: Path) -> str:
    """A file's text without surrounding whitespace, or nothing when it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
