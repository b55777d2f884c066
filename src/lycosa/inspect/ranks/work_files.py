"""The files of a computation that takes hours: each is made once, so a killed run continues.

A file is written under a temporary name, synced and renamed. What exists is complete, and is not
made again. A computation of many steps keeps its state in a **checkpoint**, one file that is
replaced as a whole.

Files of a checkpoint that are written in place (``scratch_file``) are not synced. They survive the
end of the process, not that of the machine, so a checkpoint that names some is only used on the
same boot.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lycosa.base.system.durable import publish, replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.objects.work_claims import machine_text
from lycosa.state.ranks.rank_results import RankOptions

Arrays = dict[str, np.ndarray[Any, Any]]
_BOOT = "boot"


class WorkInUse(Exception):
    """Another process computes in this folder."""


class _Run(msgspec.Struct, frozen=True):
    """Which run the files belong to, and what was asked of it."""

    run: str
    options: RankOptions
    levels: tuple[str, ...]


class WorkFolder:
    """The folder of one run. ``run`` is its name; ``is_resumed`` says that it was begun before."""

    def __init__(self, path: Path, options: RankOptions, levels: tuple[str, ...]) -> None:
        self.path = path
        found = _read(path / "run.json")
        self.is_resumed = found is not None and (found.options, found.levels) == (options, levels)
        if found is not None and self.is_resumed:
            self.run = found.run
            return
        for each in path.iterdir():
            if each.name != _LOCK:
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        self.run = uuid.uuid4().hex
        note = _Run(self.run, options, levels)
        replace_file(path / "run.json", msgspec.json.encode(note))

    def make(self, name: str, write: Callable[[Path], object]) -> Path:
        """The file of this name; ``write`` makes it if there is none."""
        path = self.path / name
        if not path.exists():
            temporary = path.with_name(f".{name}")
            temporary.unlink(missing_ok=True)
            write(temporary)
            publish(temporary, path)
        return path

    def make_note(self, name: str, compute: Callable[[], msgspec.Struct]) -> Path:
        """A small file in JSON."""
        return self.make(name, lambda path: path.write_bytes(msgspec.json.encode(compute())))

    def make_arrays(self, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """The arrays of a file; ``compute`` makes them if there is none."""
        return _load(self.make(name, lambda path: _save(path, compute())))

    def save_checkpoint(self, name: str, arrays: Arrays) -> None:
        """Replace the state of a computation."""
        temporary = self.path / f".{name}"
        _save(temporary, {**arrays, _BOOT: np.array(machine_text())})
        publish(temporary, self.path / name)

    def load_checkpoint(self, name: str, has_scratch: bool = False) -> Arrays | None:
        """The state as it was saved; ``None`` if there is none.

        With ``has_scratch`` also if the machine was started since.
        """
        path = self.path / name
        if not path.exists():
            return None
        found = _load(path)
        return None if has_scratch and str(found[_BOOT]) != machine_text() else found

    def scratch_file(
        self, name: str, shape: tuple[int, int], kind: type[np.generic], is_new: bool
    ) -> np.ndarray[Any, Any]:
        """An array in a file that is written in place; its rows are zero if it ``is_new``."""
        path = self.path / name
        return np.memmap(path, dtype=kind, mode="w+" if is_new else "r+", shape=shape)

    def discard(self, *names: str) -> None:
        """Delete files that no step needs any more."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)


_LOCK = "owner.lock"


@contextmanager
def work_folder(path: Path, options: RankOptions, levels: tuple[str, ...]) -> Iterator[WorkFolder]:
    """The work folder at ``path``, made if it is missing, and locked.

    Files of a run with other options are deleted. Raises ``WorkInUse`` or ``OSError``.
    """
    path.mkdir(parents=True, exist_ok=True)
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorkInUse(f"another process computes ranks in {path}; wait for its end") from None
        yield WorkFolder(path, options, levels)
    finally:
        os.close(lock)


def delete_work(path: Path) -> None:
    """Delete a work folder whose result is stored."""
    with suppress(FileNotFoundError):
        shutil.rmtree(path)


def _read(path: Path) -> _Run | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Run)
    except (FileNotFoundError, *UNREADABLE):
        return None


def _save(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its other parameter has another type


def _load(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as found:
        return dict(found)
