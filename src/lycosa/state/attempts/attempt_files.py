"""The value of one attempt, and the files of a folder that contain attempts.

A worker's files are ``attempts-w000-000001.log``, numbered from 1 without reuse; a closed one
becomes ``.log.zst``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.base.system.durable import DiskFull, named, sync_data, sync_folder

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ATTEMPT_LOG_FORMAT = 1
ATTEMPT_LOG_DAMAGE = (zstd.ZstdError, EOFError)
"""What reading a damaged compressed file raises."""


class Attempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One request on the wire.

    ``started`` and ``ended`` are seconds on the monotonic clock of ``boot``; the ``_wall`` fields
    are seconds since 1970. For an attempt that never ended (``is_finished`` is false), the end is
    the latest moment at which it can still have been running, as far as the log shows: the start of
    the worker's next run or of the crawl's next term, otherwise the last line of its run.
    ``duration_s`` of such an attempt is the time for which it was certainly running: until the last
    line of its run. ``delay_s`` is the effective delay decided at its end. ``term`` and ``place``
    are those of its file (``AttemptHead``). ``slot`` says how the slot of its address was given
    (``SlotNote``). ``is_own``: the delay was decided for a proved host of the operator.
    ``at_once`` is how many open requests the host might have when this one began.
    """

    worker: int
    run: str
    boot: str
    number: int
    kind: FetchKind
    host: str
    address: str
    url: str
    started: float
    started_wall: float
    ended: float
    ended_wall: float
    is_finished: bool = True
    outcome: Reason = Reason.NONE
    status: int = 0
    duration_s: float = 0.0
    delay_s: float = 0.0
    term: int = 0
    place: str = ""
    slot: str = ""
    is_own: bool = False
    at_once: int = 1

    @property
    def open_s(self) -> float:
        """The seconds for which the request was certainly on the wire."""
        return self.ended - self.started if self.is_finished else self.duration_s


def boot_id() -> str:
    """An identifier of the time since the machine was booted.

    Empty where the system has none; an empty one is never equal to another.
    """
    if sys.platform == "darwin":
        asked = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"],
            capture_output=True,
            text=True,
            check=False,
        )
        return asked.stdout.strip()
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def attempt_files_of(folder: Path) -> dict[int, list[Path]]:
    """The files of each worker, oldest first.

    A compressed file replaces the plain file that it was made from.
    """
    found: dict[int, dict[int, Path]] = {}
    # .log sorts before .log.zst, which replaces it
    for path in sorted(folder.glob("attempts-w*.log*")):
        if path.name.endswith((".log", ".log.zst")):
            found.setdefault(int(path.name.split("-")[1][1:]), {})[attempt_file_number(path)] = path
    return {
        worker: [numbered[number] for number in sorted(numbered)]
        for worker, numbered in sorted(found.items())
    }


def attempt_file_number(path: Path) -> int:
    """The number of a file among those of its worker."""
    return int(path.name.split("-")[2].split(".")[0])


def tidy(folder: Path, worker: int, kept: int, current: Path | None) -> None:
    """Compress the closed files of a worker and delete the oldest beyond ``kept``.

    ``current`` is the open file, ``None`` when all are closed. Blocks. It is safe to repeat after a
    crash.
    """
    closed = [
        path
        for path in attempt_files_of(folder).get(worker, [])
        if current is None or attempt_file_number(path) < attempt_file_number(current)
    ]
    for path in closed[: max(0, len(closed) - kept)]:
        path.unlink()
    for path in closed[max(0, len(closed) - kept) :]:
        if path.suffix == ".zst":
            path.with_suffix("").unlink(missing_ok=True)  # a crash came after the rename
        else:
            _compress(path)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading its uncompressed bytes.

    Its worker may compress it at any time, so a missing plain file is looked for under its
    compressed name. Raises ``OSError``; ``FileNotFoundError`` when the worker deleted it as one of
    the oldest.
    """
    if path.suffix != ".zst":
        try:
            return path.open("rb")
        except FileNotFoundError:
            # The worker compressed it between the listing and this call.
            path = path.with_name(path.name + ".zst")
    return cast(BinaryIO, zstd.open(path, "rb"))


def _compress(path: Path) -> None:
    target = path.with_name(path.name + ".zst")
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        with path.open("rb") as source, temporary.open("wb") as sink:
            packer = zstd.ZstdCompressor(level=3)
            while block := source.read(1 << 20):
                sink.write(packer.compress(block))
            sink.write(packer.flush())
            sink.flush()
            sync_data(sink.fileno())
        temporary.replace(target)
        sync_folder(path.parent)
    except OSError as error:
        # Compression only saves room: without any, the plain file is as good.
        temporary.unlink(missing_ok=True)
        if isinstance(named(error, target), DiskFull):
            return  # it stays uncompressed until there is room
        raise
    path.unlink()
