"""A share of the processors for some processes, by a control group of our own (Linux, version 1 or
2): a machine that is as small as we say.

A quota makes a crawl CPU-bound at a known rate however busy the machine is, as long as the group is
served first; so it also gets the greatest weight. Needs the right to make groups, as root in most
containers has it.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

_PERIOD_US = 20_000
_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


class Quota:
    """A context manager; ``prefix`` begins a command that runs in the group, ``cores`` 0 is a
    group without a bound but with weight.
    """

    def __init__(self, name: str, cores: float) -> None:
        self._folder = (_V1 if _is_v1() else _V2) / f"{name}-{os.getpid()}"
        self._cores = cores

    @staticmethod
    def is_possible() -> bool:
        """Whether groups with a share of the processors can be made here."""
        if _is_v1():
            return os.access(_V1, os.W_OK)
        controllers = _V2 / "cgroup.subtree_control"
        return (
            os.access(_V2, os.W_OK)
            and controllers.exists()
            and "cpu" in controllers.read_text().split()
        )

    @property
    def prefix(self) -> list[str]:
        """Joins the group, then becomes the command."""
        return ["sh", "-c", f'echo $$ > {self._folder}/cgroup.procs && exec "$@"', "sh"]

    def join(self, pid: int) -> None:
        """Moves a process into the group."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def __enter__(self) -> Quota:
        self._folder.mkdir()
        quota = int(self._cores * _PERIOD_US)
        if _is_v1():
            (self._folder / "cpu.shares").write_text("100000")
            (self._folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            if quota:
                (self._folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self._folder / "cpu.weight").write_text("10000")
            (self._folder / "cpu.max").write_text(f"{quota or 'max'} {_PERIOD_US}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.rmdir()  # all its processes have ended: whoever started one waited for it


def _is_v1() -> bool:
    return (_V1 / "cpu.cfs_quota_us").exists() or (_V1 / "cpu.shares").exists()
