"""What a question to a worker on another machine costs: ``python -m bench.inquiry [--seconds 5]``.

A process answers from a table in memory; this one asks for four keys, as one page does, over
loopback: one question at a time, then 16 at once. Printed for a Unix socket, TCP with a token, and
TCP with TLS and a token: questions a second, the median and the 99th percentile of their duration,
and CPU time of both processes for a question. The last lines stop the answering process, and give
what 1,000 questions to it then cost in all, and how long it takes after it continues until it
answers again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme
import uvloop

from lycosa.base.config.cluster_file import TlsSection
from lycosa.cluster.network.credentials import Credentials, TlsFiles
from lycosa.cluster.network.inquiry import NetworkInquiry
from lycosa.cluster.network.sockets import SocketExchange
from lycosa.state.exchange.exchange_port import Inquiry, Parcel

TOKEN = b"0123456789abcdef"
KEYS = 4
_TICK = os.sysconf("SC_CLK_TCK")


def _files(folder: Path) -> TlsSection:
    return TlsSection(folder / "a.pem", folder / "a.key", folder / "authority.pem")


def _credentials(kind: str, folder: Path) -> Credentials:
    return Credentials(TOKEN, TlsFiles(_files(folder)) if kind == "TLS" else None)


async def _receive(parcel: Parcel) -> None:
    raise AssertionError


async def _answer(kind: str, folder: Path) -> None:
    """The other process: answers until it is killed."""
    if kind == "socket":
        sockets = SocketExchange(folder / "w1", lambda partition: folder / "w0", "c")
        sockets.receivers.register_partition(1, _receive, lambda key: key)
        await sockets.open()
        print("open", flush=True)
    else:
        network = NetworkInquiry(_credentials(kind, folder), "c")
        network.receivers.register_partition(1, _receive, lambda key: key)
        print(await network.open("127.0.0.1:0"), flush=True)
    await asyncio.Event().wait()


@contextmanager
def _answering(kind: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.inquiry", "--answer", kind, "--folder", str(folder)],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait()


async def _asking(kind: str, folder: Path, address: str) -> Inquiry:
    if kind == "socket":
        return SocketExchange(folder / "w0", lambda partition: folder / f"w{partition}", "c")
    network = NetworkInquiry(_credentials(kind, folder), "c")
    network.follow_routes({1: address})
    return network


def _cpu_s(process: int) -> float:
    """CPU time of this process and that one."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    theirs = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return mine.ru_utime + mine.ru_stime + (int(theirs[11]) + int(theirs[12])) / _TICK


async def _measure(asking: Inquiry, at_once: int, seconds: float) -> list[float]:
    """The durations of questions."""
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def ask() -> None:
        while time.perf_counter() < end:
            keys = [(1, os.urandom(20)) for _ in range(KEYS)]
            began = time.perf_counter()
            found = await asking.look_up_keys(keys)
            taken.append(time.perf_counter() - began)
            assert len(found) == KEYS, "not answered in time"

    await asyncio.gather(*(ask() for _ in range(at_once)))
    return sorted(taken)


async def _run(seconds: float, folder: Path) -> None:
    print("| connection | at once | questions a second | median ms | 99th ms | CPU us |")
    print("|---|---|---|---|---|---|")
    for kind in ("socket", "token", "TLS"):
        with _answering(kind, folder) as (process, address):
            asking = await _asking(kind, folder, address)
            for at_once in (1, 16):
                await _measure(asking, at_once, 0.3)
                cpu_s = _cpu_s(process.pid)
                taken = await _measure(asking, at_once, seconds)
                cpu_s = _cpu_s(process.pid) - cpu_s
                print(
                    f"| {kind} | {at_once} | {len(taken) / seconds:,.0f} |"
                    f" {taken[len(taken) // 2] * 1000:.2f} |"
                    f" {taken[len(taken) * 99 // 100] * 1000:.2f} |"
                    f" {cpu_s / len(taken) * 1e6:.0f} |"
                )
            if kind == "TLS":
                await _stop(asking, process)
            await asking.close()


async def _stop(asking: Inquiry, process: subprocess.Popen[bytes]) -> None:
    """What questions to a stopped process cost."""
    process.send_signal(signal.SIGSTOP)
    began = time.perf_counter()
    for _ in range(1000):
        await asking.look_up_keys([(1, b"key")])
    print(f"stopped: 1,000 questions in {time.perf_counter() - began:.3f} s")
    process.send_signal(signal.SIGCONT)
    began = time.perf_counter()
    while not await asking.look_up_keys([(1, b"key")]):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    print(f"answered again after {time.perf_counter() - began:.3f} s")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--answer", default="")
    arguments.add_argument("--folder", type=Path)
    given = arguments.parse_args()
    if given.answer:
        uvloop.run(_answer(given.answer, given.folder))
        return
    with tempfile.TemporaryDirectory(prefix="ly") as name:
        folder = Path(name)
        authority = trustme.CA()
        issued = authority.issue_cert("machine.test")
        files = _files(folder)
        issued.cert_chain_pems[0].write_to_path(str(files.certificate))
        issued.private_key_pem.write_to_path(str(files.key))
        authority.cert_pem.write_to_path(str(files.authority))
        uvloop.run(_run(given.seconds, folder))


if __name__ == "__main__":
    main()
