"""What becomes of a crawl when user code fails: Scrapy beside Lycosa, the same site and faults.

    python -m bench.user_code_failures

A site of 200 pages on loopback; user code makes an item of each, and does something wrong on the 20
pages whose number ends in 7: an exception, an endless loop, 10 GB of memory (with 4 GB of address
space, so that the machine survives), ``os._exit``. ``kill`` has correct code, and a ``kill -9`` of
the whole crawl after a third of the pages. Every crawler is started again until it ends by itself,
at most three times, each for at most a minute. Counted are pages without their item, items that are
there twice, and requests that were sent twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from lycosa.synthetic import Response, SyntheticServer

PAGES = 200
FAULTS = ("none", "exception", "loop", "memory", "exit", "kill")
_STARTS, _RUN_S, _KILL_AT = 3, 60.0, PAGES // 3
_MEMORY = 4 << 30
_ROOT = Path(__file__).parents[1]
_CODE = """
import sys
sys.path.insert(0, {root!r})
import lycosa
from bench.crawlers.faults import misbehave

class Thing(lycosa.Item, frozen=True):
    name: str

@lycosa.extract(Thing)
def things(page):
    misbehave({fault!r}, page.url)
    yield Thing(page.select_one("h1").text)
"""


class Site:
    """Pages that link to the next ten; counts the requests for each."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = url.split("/", 3)[3]
        if path == "robots.txt":
            return Response(404, [], b"")
        self.asked[path] += 1
        number = int(path or 0)
        links = "".join(
            f"<a href=/{n}>{n}</a> " for n in range(number + 1, min(number + 11, PAGES))
        )
        kind = ("Content-Type", "text/html; charset=utf-8")
        text = (
            f"<h1>Page {number}</h1><p>A text about {' '.join(str(number * k) for k in range(40))}"
        )
        return Response(200, [kind], f"{text}{links}".encode())


class ServedSite:
    """The site on loopback, in a thread."""

    def __init__(self) -> None:
        self.site = Site()
        self._loop = asyncio.new_event_loop()
        self._server = SyntheticServer(self.site)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(10)
        self.url = f"http://127.0.0.1:{self._server.port}/"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)


def scrapy_command(url: str, fault: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.crawlers.scrapy_items", url, fault, str(folder)]


def scrapy_items(url: str, folder: Path) -> list[str]:
    file = folder / "items.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line)["url"])
        except ValueError:
            found.append("")  # a line that a kill cut off
    return found


def lycosa_command(url: str, fault: str, folder: Path) -> list[str]:
    code = folder.with_suffix(".py")
    code.write_text(_CODE.format(root=str(_ROOT), fault=fault))
    return [
        sys.executable,
        "-m",
        "lycosa",
        "crawl",
        url,
        f"--dir={folder}",
        f"--extension={code}:things",
        "--contact=bench@example.org",
        "--delay=0",
        "--allow-address=127.0.0.1",
        "--set=extensions.page_s=1",
        "--set=politeness.address_delay_s=0",
        "--set=copies.probe_turns=1",
        "--set=frontier.finish_wait_s=1",
    ]


def lycosa_items(url: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "lycosa", "feed", "items.things", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line)["_url"] for line in done.stdout.splitlines()]


CRAWLERS: dict[
    str,
    tuple[Callable[[str, str, Path], list[str]], Callable[[str, Path], list[str]]],
] = {"scrapy": (scrapy_command, scrapy_items), "lycosa": (lycosa_command, lycosa_items)}


def run(crawler: str, fault: str, work: Path) -> str:
    """One crawler with one fault; a row of the table."""
    command, items = CRAWLERS[crawler]
    served, folder = ServedSite(), work / f"{crawler}-{fault}"
    ends: list[str] = []
    began = time.monotonic()
    try:
        while len(ends) < _STARTS and ends[-1:] != ["ended"]:
            arguments = ["prlimit", f"--as={_MEMORY}", *command(served.url, fault, folder)]
            with (work / f"{crawler}-{fault}.log").open("ab") as log:
                process = subprocess.Popen(
                    arguments, stdout=log, stderr=log, cwd=_ROOT, process_group=0
                )
            ends.append(_ended(process, fault == "kill" and not ends, served.site))
        found = Counter(items(served.url, folder))
        wanted = {served.url + (str(number) if number else "") for number in range(PAGES)}
        if fault in ("exception", "loop", "memory", "exit"):
            wanted = {url for url in wanted if not url.endswith("7")}
        missing = sum(url not in found for url in wanted)
        twice = sum(count - 1 for count in found.values())
        again = sum(count - 1 for count in served.site.asked.values())
        return (
            f"| {crawler} | {fault} | {', then '.join(ends)} | {missing} of {len(wanted)} | {twice}"
            f" | {again} | {time.monotonic() - began:.0f} s |"
        )
    finally:
        served.close()


def _ended(process: subprocess.Popen[bytes], is_killed: bool, site: Site) -> str:
    end = time.monotonic() + _RUN_S
    while process.poll() is None:
        if time.monotonic() > end or (is_killed and len(site.asked) >= _KILL_AT):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "killed" if is_killed else "did not end"
        time.sleep(0.01)
    return "ended" if process.returncode == 0 else f"exit code {process.returncode}"


def main() -> None:
    """Print the table."""
    faults = sys.argv[1:] or FAULTS
    print(
        "| crawler | fault | how its starts ended | items missing | items twice | requests twice | time |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        for fault in faults:
            for crawler in CRAWLERS:
                print(run(crawler, fault, Path(work)), flush=True)


if __name__ == "__main__":
    main()
