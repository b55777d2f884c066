"""What a signed request costs: the signature alone, and requests with and without it.

    python -m bench.signatures [--runs 5] [--requests 2000]

Figures are CPU time of this process in microseconds, medians of all runs with the least and the
most. The requests go over kept connections to a server on loopback in another process, signed and
unsigned in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from statistics import median

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import FetchRequest
from lycosa.base.signing.message_signature import MessageSigner
from lycosa.base.signing.signing_key import create_key
from lycosa.base.system.clock import SystemClock
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks
from lycosa.stages.fetch.request_signer import RequestSigner

DIRECTORY = "https://crawler.example/.well-known/http-message-signatures-directory"
_ANSWER = (
    f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\nContent-Length: 5\r\n\r\nhello"
).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        asyncio.run(_serve())
        return
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [sys.executable, "-m", "bench.signatures", "--serve"], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            found = asyncio.run(_measure(Path(folder), port, asked.runs, asked.requests))
        finally:
            server.terminate()
            server.wait()
    print("| figure | microseconds |\n|---|---|")
    for figure, values in found.items():
        print(f"| {figure} | {median(values):.1f} ({min(values):.1f} to {max(values):.1f}) |")


async def _measure(folder: Path, port: int, runs: int, requests: int) -> dict[str, list[float]]:
    key, clock = create_key(folder / "signing.pem"), SystemClock()
    signer = RequestSigner(MessageSigner(key, DIRECTORY), clock)
    found: dict[str, list[float]] = {}
    url = f"http://www.example.org:{port}/articles/2026/11/a-page-of-usual-length.html?page=2"
    fetch = FetchSection(allow_addresses=("127.0.0.0/8",))
    guard = Guard(fetch.allow_addresses)
    fetchers = {
        name: CurlFetcher(fetch, "lycosa/0", "", guard, clock, folder / name, hooks)
        for name, hooks in {
            "unsigned": RequestHooks(),
            "signed": RequestHooks(signer=signer),
        }.items()
    }
    request = FetchRequest(url, "127.0.0.1")
    message = os.urandom(500)
    try:
        for run in range(runs + 1):  # the first is a warm-up
            figures: dict[str, float] = {}
            figures["Ed25519 of 500 bytes"] = _each(lambda: key.sign(message), requests)
            figures["three header lines"] = _each(lambda: signer.header_lines(request), requests)
            for name, fetcher in fetchers.items():
                begun = time.process_time()
                for _ in range(requests):
                    fetched = await fetcher.fetch(request)
                    assert fetched.status == 200, fetched
                    assert (b"Signature-Input" in fetched.request_block) is (name == "signed")
                figures[f"a request, {name}"] = (time.process_time() - begun) / requests * 1e6
            if run:
                for figure, value in figures.items():
                    found.setdefault(figure, []).append(value)
    finally:
        for fetcher in fetchers.values():
            await fetcher.close()
    return found


def _each(work: Callable[[], object], number: int) -> float:
    begun = time.process_time()
    for _ in range(number):
        work()
    return (time.process_time() - begun) / number * 1e6


async def _serve() -> None:
    """Answers every request, until it is ended."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(_ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
