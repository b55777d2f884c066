"""What the system lets this process have: machine, affinity, control groups of both versions, at
every level.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lycosa.base.system.machine import cores, free_memory_bytes, memory_bytes

_MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_groups_it_is_the_machine(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path) == _MACHINE
    assert 1 <= cores(tmp_path) <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max\n", _MACHINE), ("50000000\n", 50_000_000), ("999999999999999\n", _MACHINE)],
)
def test_a_group_of_version_2_bounds_memory(tmp_path: Path, text: str, expected: int) -> None:
    _put(
        tmp_path,
        {"proc/self/cgroup": "0::/a.slice/b\n", "sys/fs/cgroup/a.slice/b/memory.max": text},
    )
    assert memory_bytes(tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("9223372036854771712\n", _MACHINE), ("50000000\n", 50_000_000)]
)
def test_a_group_of_version_1_bounds_memory(tmp_path: Path, text: str, expected: int) -> None:
    _put(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/4711\n3:cpu,cpuacct:/docker/4711\n",
            "sys/fs/cgroup/memory/docker/4711/memory.limit_in_bytes": text,
        },
    )
    assert memory_bytes(tmp_path) == expected


def test_the_groups_above_count_too(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/a/memory.max": "40000000",
        "sys/fs/cgroup/a/b/memory.max": "50000000",
        "proc/self/cgroup": "0::/a/b\n",
    }
    assert memory_bytes(_put(tmp_path, files)) == 40_000_000


def test_a_container_that_sees_the_path_of_its_host_reads_its_own_root(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:memory:/docker/4711\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "60000000",
    }
    assert memory_bytes(_put(tmp_path, files)) == 60_000_000


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 1 << 20),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/a\n",
                "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "100000",
                "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000",
            },
            1,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/a\n",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            },
            1 << 20,
        ),
    ],
)
def test_a_quota_of_processor_time_bounds_the_cores(
    tmp_path: Path, files: dict[str, str], most: int
) -> None:
    assert cores(_put(tmp_path, files)) == min(most, cores(tmp_path / "no groups"))


def test_free_memory_is_what_the_system_says_and_what_groups_leave(tmp_path: Path) -> None:
    files = {"proc/meminfo": "MemTotal: 9999 kB\nMemFree: 10 kB\nMemAvailable: 4000 kB\n"}
    assert free_memory_bytes(_put(tmp_path, files)) == 4_096_000
    group = {
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/memory.max": "3000000",
        "sys/fs/cgroup/a/memory.current": "2500000",
        "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 400000\nactive_file 100000\n",
        "sys/fs/cgroup/a/b/memory.max": "max",
        "sys/fs/cgroup/a/b/memory.current": "2500000",
    }
    assert free_memory_bytes(_put(tmp_path, group)) == 1_000_000


def test_a_group_above_its_limit_has_nothing_free(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "3:memory:/a\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000000",
        "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1200000",
    }
    assert free_memory_bytes(_put(tmp_path, files)) == 0
