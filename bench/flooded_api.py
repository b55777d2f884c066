"""What 1,000 clients of the HTTP interface cost a crawl that runs: 500 hang, 500 flood.

    .venv/bin/python bench/flooded_api.py --seconds 30

A crawl of a synthetic web runs with ``lycosa serve``. Its captures are counted in three phases of
equal length: alone, with the clients, and alone again. A client that hangs sends half of a request
and connects again when it is disconnected; one that floods asks as fast as it is answered, for
lists of hosts, counters and URLs, without tokens or with a wrong body. The delay of the hosts
limits the crawl, so that it could not make up later for what it loses. At the end the crawl is
audited. Clients, web and crawl share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

HOSTS, PAGES, DELAY_S = 30, 2000, 1.0
PATHS = (
    b"GET /api/v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /api/v1/hosts?sort=queue HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /api/v1/urls/http%3A%2F%2Fa.example%2F HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /api/v1/hosts HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"POST /api/v1/frontier/seed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n"
    b"Content-Type: application/json\r\n\r\n",
)


async def hang(port: int, seen: Counter[str]) -> None:
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /api/v1/stats HTTP/1.1\r\nHost: local")
            await reader.read()
            seen["disconnected"] += 1
            writer.close()
        await asyncio.sleep(0.5)


async def flood(port: int, number: int, seen: Counter[str]) -> None:
    while True:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                while True:
                    writer.write(PATHS[number % len(PATHS)])
                    head = await reader.readuntil(b"\r\n\r\n")
                    seen[head[9:12].decode()] += 1
                    length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
                    await reader.readexactly(int(length or 0))
            finally:
                writer.close()
        await asyncio.sleep(0.05)


async def clients(port: int, count: int, seconds: float) -> None:
    """Run them for that long; prints how they were answered as JSON."""
    seen: Counter[str] = Counter()
    tasks = [asyncio.ensure_future(hang(port, seen)) for _ in range(count // 2)]
    tasks += [asyncio.ensure_future(flood(port, n, seen)) for n in range(count // 2)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(seen))


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)


def status(folder: Path) -> dict[str, float]:
    values = json.loads((folder / "status.json").read_text())
    asked = subprocess.run(
        [sys.executable, "-m", "lycosa", "status", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    known = json.loads(asked.stdout)
    return {"captures": known["captures"], "deaths": values["deaths"]}


def main(seconds: float, count: int) -> None:
    with tempfile.TemporaryDirectory() as base:
        web = started(
            "-m", "lycosa.synthetic", "--hosts", str(HOSTS), "--pages", str(PAGES), "--port", "8590"
        )
        assert web.stdout is not None
        web.stdout.readline()
        folder = Path(base) / "c"
        given = {
            "dns.pins": "*=127.0.0.1",
            "fetch.allow_addresses": "127.0.0.0/8",
            "scope.rule": "any",
            "politeness.delay_s": f"{DELAY_S}s",
            "politeness.adaptive_factor": "0",
            "politeness.address_table": "crawl",
            "politeness.address_delay_s": "0s",
            "politeness.address_slots": "64",
        }
        pairs = [each for key, value in given.items() for each in ("--set", f"{key}={value}")]
        seed = "http://h000000.site000000.example:8590/"
        crawl = started(
            "-m", "lycosa", "serve", str(folder), "--seed", seed, "--api", "127.0.0.1:8591", *pairs
        )
        try:
            time.sleep(30)  # until all hosts are known
            for phase in ("alone", f"{count} clients", "alone again"):
                before, began = status(folder), time.monotonic()
                if phase.startswith("alone"):
                    time.sleep(seconds)
                else:
                    ran = subprocess.run(
                        [
                            sys.executable,
                            __file__,
                            "--clients",
                            str(count),
                            "--seconds",
                            str(seconds),
                        ],
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True,
                        preexec_fn=lambda: os.nice(15),
                    )
                    print("  answers:", ran.stdout.strip())
                after, took = status(folder), time.monotonic() - began
                rate = (after["captures"] - before["captures"]) / took
                print(f"{phase}: {rate:.2f} captures/s, {after['deaths']:.0f} deaths", flush=True)
        finally:
            crawl.send_signal(signal.SIGTERM)
            crawl.wait(120)
            web.terminate()
            web.wait(30)
        audit = subprocess.run(
            [sys.executable, "-m", "lycosa", "audit", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"audit: exit {audit.returncode}: {audit.stdout.strip().splitlines()[-1]}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--clients", type=int, default=0, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.clients:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
        asyncio.run(clients(8591, asked.clients, asked.seconds))
    else:
        main(asked.seconds, asked.count)
