"""The health of a program that runs for months, in a file that other programs can read.

The program's own loop writes the file, so a file that is not replaced any more says that the loop
does not run, also when the process exists and its port accepts connections. A probe then needs no
connection, no secret and no other service: whether Kafka or a coordinator answers has no influence
on whether this program is alive, only on whether it is ready.

Other programs may read the file directly: it is one JSON object with the fields of ``Health``.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from lycosa.base.system.frames import UNREADABLE

EVERY_S = 5.0
"""Time between two writes."""
OUTDATED_S = 60.0
"""An older file says that the program does not run, or hangs."""


class Health(msgspec.Struct, frozen=True):
    """``updated`` is the wall clock when it was written, ``state`` one line for people.

    ``is_ready``: the program does its work now. What that means is the program's to say.
    """

    updated: float
    pid: int
    is_ready: bool
    state: str


class HealthFile:
    """The file of one program; without a path nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, is_ready: bool, state: str) -> None:
        """Replace the file. Raises ``OSError``."""
        if self._path is None:
            return
        health = Health(round(time.time(), 3), os.getpid(), is_ready, state)
        # Not synced, because it is meaningless after a crash; renamed for its readers.
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        temporary.write_bytes(msgspec.json.encode(health) + b"\n")
        temporary.replace(self._path)

    async def keep(self, measured: Callable[[], tuple[bool, str]]) -> None:
        """Write ``measured()``, whether ready and the state, until it is cancelled.

        It is written by the loop itself and not by a thread: that is what it proves. A disk error
        is no reason to end; the file gets old then, and says so.
        """
        while True:
            with suppress(OSError):
                self.write(*measured())
            await asyncio.sleep(EVERY_S)

    def remove(self) -> None:
        """Delete the file at the end of the program."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def read_health(path: Path) -> Health:
    """The content of the file. Raises ``OSError`` and ``ValueError``."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Health)
    except UNREADABLE as error:
        raise ValueError(f"{path} is not a health file: {error}") from error


def fault_of(health: Health, wall: float) -> str:
    """Why the program does not run, as one line; empty when it does.

    ``wall`` is the time of the wall clock. A clock that was set back does not make a file old.
    """
    age = wall - health.updated
    if age <= OUTDATED_S:
        return ""
    return f"process {health.pid} has written nothing for {age:.0f} s; then: {health.state}"
