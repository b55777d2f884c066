"""Faults that real machines have, each met by a crawl of several workers that then ends like one
left in peace:

stopped   a worker is stopped (SIGSTOP) for longer than its supervisor allows: it is replaced, and
the others go on meanwhile asleep    the supervisor is stopped for as long, as by Ctrl-Z: when it
goes on no worker is lost sockets   the connections of the exchange between workers are shut down,
again and again full      the disk is full: the crawl ends with a line that says so; the same
command goes on when there is more room, and again readonly  the file system fails and becomes
read-only (ext4's own way: ``remount,abort``), is repaired and mounted again

The last two need a file system of their own, which only root may mount: for others they are left
out, which is said. The short form stops processes for some seconds only.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lycosa.cli.output import ExitCode
from nginx_site import NginxSite
from proofs.crawls import RunningCrawl
from proofs.durability import audit
from proofs.kills import arguments, differences, judge_files, judge_politeness, make_site, site_of
from proofs.watching import Lines

_PIDFD_GETFD = 438  # asm-generic/unistd.h; Linux 5.6
_ALLOWED_S = 60.0
# else the crawl would pause before the disk is full, which is another promise
_ROOM = (
    "--set",
    "store.min_free_bytes=0",
)
_MOST_STARTS = 40


class ShardStorage:
    """What every fault needs: the server, the undisturbed crawl, the number of requests that
    this made.
    """

    def __init__(self, site: NginxSite, work: Path, workers: int) -> None:
        self.site, self.work, self.workers = site, work, workers
        self.calm = work / "calm"
        assert RunningCrawl(self.calm, self.arguments, work / "calm.out").finish(1200) == 0, (
            self.said("calm")
        )
        self.requests = len(site.hits())
        self._lines = Lines(site.folder / "access.log")

    @property
    def arguments(self) -> list[str]:
        return [*arguments(self.site, self.workers), *_ROOM]

    def start(self, name: str, folder: Path) -> RunningCrawl:
        return RunningCrawl(folder, self.arguments, self.work / f"{name}.out")

    def wait(self, running: RunningCrawl, share: float) -> None:
        """Until so much of the crawl is done, counted from now."""
        target = self._lines.number() + int(self.requests * share)
        assert running.runs_until(lambda: self._lines.number() >= target), (
            "the crawl ended too early"
        )

    def said(self, name: str) -> str:
        return (self.work / f"{name}.out").read_text(errors="replace")[-3000:]

    def judge(self, name: str, folder: Path, before: int) -> str:
        """Holds a disturbed crawl against the calm one. Raises ``AssertionError``."""
        report, wrong = judge_politeness(self.site.hits()[before:], folder)
        wrong += [*differences(self.calm, folder), *judge_files(folder)]
        assert not wrong, "\n".join([name, *report, *wrong[:20], self.said(name)])
        return f"same end; {audit(folder)}"


def stopped(storage: ShardStorage, seconds: float) -> str:
    """A worker does not answer."""
    folder, before = storage.work / "stopped", len(storage.site.hits())
    running = storage.start("stopped", folder)
    storage.wait(running, 0.2)
    worker = running.workers()[0]
    os.kill(worker, signal.SIGSTOP)
    if seconds > _ALLOWED_S:
        assert running.runs_until(lambda: worker not in running.workers(), seconds + 30), (
            "the crawl ended without its worker"
        )
    else:
        running.runs_for(seconds)
        os.kill(worker, signal.SIGCONT)
    assert running.finish() == 0, storage.said("stopped")
    deaths = storage.said("stopped").count(" died (")
    assert deaths == (1 if seconds > _ALLOWED_S else 0), storage.said("stopped")
    return f"for {seconds:g} s, {deaths} replaced; {storage.judge('stopped', folder, before)}"


def asleep(storage: ShardStorage, seconds: float) -> str:
    """The supervisor does not listen."""
    folder, before = storage.work / "asleep", len(storage.site.hits())
    running = storage.start("asleep", folder)
    storage.wait(running, 0.2)
    os.kill(running.process.pid, signal.SIGSTOP)
    running.runs_for(seconds)
    os.kill(running.process.pid, signal.SIGCONT)
    assert running.finish() == 0, storage.said("asleep")
    assert " died (" not in storage.said("asleep"), storage.said("asleep")
    return f"for {seconds:g} s; {storage.judge('asleep', folder, before)}"


def sockets(storage: ShardStorage, times: int) -> str:
    """The exchange loses its connections."""
    folder, before, closed = storage.work / "sockets", len(storage.site.hits()), 0
    running = storage.start("sockets", folder)
    storage.wait(running, 0.02)
    for _ in range(times):
        storage.wait(running, 0.6 / times)
        closed += sum(_shut_connections(worker) for worker in running.workers())
    assert closed, "there was no connection to shut"
    assert running.finish() == 0, storage.said("sockets")
    return f"{closed} connections shut; {storage.judge('sockets', folder, before)}"


def _shut_connections(worker: int) -> int:
    """Shuts what a process has connected to sockets of the exchange, from outside
    (pidfd_getfd(2)).
    """
    library, shut = ctypes.CDLL(None, use_errno=True), 0
    with suppress(FileNotFoundError, ProcessLookupError):
        handle = os.pidfd_open(worker)
        for entry in sorted(Path(f"/proc/{worker}/fd").iterdir()):
            with suppress(OSError):
                if not str(entry.readlink()).startswith("socket:"):
                    continue
                number = library.syscall(_PIDFD_GETFD, handle, int(entry.name), 0)
                if number >= 0:
                    shut += _shut(number)
        os.close(handle)
    return shut


def _shut(number: int) -> int:
    with socket.socket(fileno=number) as copy:
        if copy.family is not socket.AF_UNIX:
            return 0
        try:
            if "/lycosa-" not in f"{copy.getpeername()!r} {copy.getsockname()!r}":
                return 0
            copy.shutdown(socket.SHUT_RDWR)
        except OSError:  # a socket that listens, or one whose other end is gone
            return 0
    return 1


def full(storage: ShardStorage) -> str:
    """The disk fills, again and again."""
    before, size, times = len(storage.site.hits()), _size(storage.calm) // 4, 0
    with _mounted(storage.work / "tmpfs", ["-t", "tmpfs", "-o", f"size={size}", "tmpfs"]) as place:
        folder = place / "crawl"
        while (code := storage.start("full", folder).finish()) != ExitCode.FINISHED:
            times += 1
            assert code == ExitCode.INTERRUPTED and times < _MOST_STARTS, (
                code,
                times,
                storage.said("full"),
            )
            assert "no room left on the disk" in storage.said("full"), storage.said("full")
            size += size // 5
            subprocess.run(["mount", "-o", f"remount,size={size}", str(place)], check=True)
        assert times, "the disk was never full"
        return f"{times} times; {storage.judge('full', folder, before)}"


def readonly(storage: ShardStorage, times: int) -> str:
    """The file system gives up."""
    before, image = len(storage.site.hits()), storage.work / "image"
    with image.open("wb") as file:
        file.truncate(max(4 * _size(storage.calm), 200_000_000))
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    place = storage.work / "ext4"
    for number in range(times):
        with _mounted(place, ["-o", "loop", str(image)]):
            running = storage.start("readonly", place / "crawl")
            storage.wait(running, 0.5 / times)
            subprocess.run(["mount", "-o", "remount,abort", str(place)], check=True)
            code = running.finish()
            assert code not in (ExitCode.FINISHED, ExitCode.LIMIT), (
                number,
                code,
                storage.said("readonly"),
            )
            assert "ead-only file system" in storage.said("readonly"), storage.said("readonly")
        checked = subprocess.run(
            ["e2fsck", "-p", str(image)], check=False, capture_output=True, text=True
        )
        assert checked.returncode in (0, 1), checked
    with _mounted(place, ["-o", "loop", str(image)]):
        assert storage.start("readonly", place / "crawl").finish() == 0, storage.said("readonly")
        return f"{times} times; {storage.judge('readonly', place / 'crawl', before)}"


@contextmanager
def _mounted(place: Path, what: list[str]) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", *what, str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _size(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def prove(work: Path, short: bool, workers: int = 2) -> list[str]:
    """All kinds, one after the other; gives the lines of the report. Raises ``AssertionError``."""
    seconds, times = (3.0, 2) if short else (_ALLOWED_S + 5.0, 10)
    kinds: dict[str, Callable[[ShardStorage], str]] = {
        "stopped": lambda storage: stopped(storage, seconds),
        "asleep": lambda storage: asleep(storage, seconds),
        "sockets": lambda storage: sockets(storage, times),
        "full": full,
        "readonly": lambda storage: readonly(storage, 1 if short else 3),
    }
    root = work / "site"
    make_site(root, 60 if short else 400)
    report = []
    with site_of(work / "nginx", root) as site:
        storage = ShardStorage(site, work, workers)
        for name, fault in kinds.items():
            if name in ("full", "readonly") and not _may_mount():
                report.append(f"{name}: left out, since only root may mount a file system")
            else:
                report.append(f"{name}: {fault(storage)}")
                print(f"  {report[-1]}", flush=True)
    return report


def _may_mount() -> bool:
    return os.geteuid() == 0 and all(
        shutil.which(program) for program in ("mount", "umount", "mkfs.ext4", "e2fsck")
    )
