"""The user code that one worker runs, as its crawl's settings and its machine decide.

The settings say which code the crawl runs from a version on; every commit names the version that
the worker follows. The machine says which digests may run at all. Code that the machine does not
allow, or has no copy of, is not run: what the worker ran before under that name continues, until
the shard moves to a machine that has it. The header of each segment names the code that made the
rows in it, so a change ends the open segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.base.model.code_version import CodeTable, CodeVersion
from lycosa.worker.job import RunCode


class RunningCode(msgspec.Struct, frozen=True):
    """Code to run: its name in the settings, its SHA-256, and the copy that has it."""

    name: str
    digest: str
    path: Path


class CodeRunner(Protocol):
    """What runs user code for the worker."""

    def use_code(self, codes: Sequence[RunningCode]) -> None:
        """Run exactly this code from now on, and end the open segment.

        A page that is with earlier code is given to the new one.
        """
        ...


class CodeInUse:
    """One per worker; ``run`` is what its job says. ``runner`` is told what changes later."""

    def __init__(self, run: RunCode, runner: CodeRunner | None = None) -> None:
        self._runner = runner
        self._run = run
        self._kept: dict[str, CodeVersion] = {}  # what runs although it is not in force any more
        self.codes = self._chosen()

    @property
    def in_force(self) -> CodeTable:
        """The code of the settings that this worker follows."""
        return self._run.code

    @property
    def lacking(self) -> list[str]:
        """The names of code that the crawl runs and this worker cannot."""
        wanted = {(name, each.digest) for name, each in self._run.code.items()}
        return sorted(
            name for name, _ in wanted - {(each.name, each.digest) for each in self.codes}
        )

    def follow(self, code: CodeTable) -> None:
        """Run the code of the settings from now on, as far as this machine allows it."""
        if code != self._run.code:
            self._change(msgspec.structs.replace(self._run, code=dict(code)))

    def allow(self, digests: tuple[str, ...]) -> None:
        """Follow what the machine allows now."""
        if digests != self._run.allowed:
            self._change(msgspec.structs.replace(self._run, allowed=digests))

    def _change(self, run: RunCode) -> None:
        self._run, before = run, self.codes
        self._kept = {each.name: CodeVersion(each.digest) for each in before}
        self.codes = self._chosen()
        if self.codes != before and self._runner is not None:
            self._runner.use_code(self.codes)

    def _chosen(self) -> tuple[RunningCode, ...]:
        """What to run: by name, the code in force or else the one that ran before."""
        found = []
        for name, each in sorted(self._run.code.items()):
            for version in (each, self._kept.get(name)):
                path = self._run.copy_of(version.digest) if version is not None else None
                if version is not None and path is not None:
                    found.append(RunningCode(name, version.digest, path))
                    break
        return tuple(found)
