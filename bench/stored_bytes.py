"""What is stored of a URL and of a capture, in bytes: ``python -m bench.stored_bytes [--hosts 40]
[--pages 50] [--again]``.

A synthetic web is served here, and ``lycosa crawl`` crawls it on one machine to its end; with
``--again`` pages are fetched again, three times on average; they have not changed. The URL records are
measured as values in the tables, waiting ones as they were when they were found. The journal is
measured as it is on disk, compressed. ``PYTHONPATH`` of another checkout measures another version
of the program, over the same web: the pages, links and record ids of both crawls are alike.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path

import msgspec

from lycosa.base.model.url_state import UrlState
from lycosa.inspect.committed_state import read_folder
from lycosa.state.kv.table_records import decode_url, encode_url, prefix_end
from lycosa.synthetic import SyntheticServer, SyntheticWeb, WebPlan
from lycosa.synthetic.synthetic_hosts import host_name

LYCOSA = [sys.executable, "-P", "-c", "import sys; from lycosa.cli import main; sys.exit(main())"]
SETTINGS = {
    "scope.rule": "any",
    "dns.pins": '["*=127.0.0.1"]',
    "fetch.allow_addresses": '["127.0.0.0/8"]',
    "politeness.delay_s": "0",
    "politeness.max_crawl_delay_s": "0",
    "politeness.address_delay_s": "0",
    "politeness.address_slots": "60",
    "agent.contact": "bench@example.org",
    "seed": "1",
}
AGAIN = {"refetch.first_s": "2s", "refetch.min_s": "2s"}


def crawl(folder: Path, port: int, most: int) -> None:
    """Crawl the web from its first host; with ``most`` fetch again until there are so many."""
    settings = {**SETTINGS, **(AGAIN | {"limits.max_pages": str(most)} if most else {})}
    pairs = [part for pair in settings.items() for part in ("--set", "=".join(pair))]
    seed = f"http://{host_name(0)}:{port}/"
    command = [*LYCOSA, "crawl", seed, "--dir", str(folder), "--json", *pairs]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode not in (0, 3):  # 3: a limit was reached
        raise SystemExit(done.stderr)


def measure(folder: Path) -> None:
    """Print the figures of a crawl folder."""
    rows: dict[str, list[int]] = defaultdict(list)
    for view in read_folder(folder).partition_views():
        for _, value in view.scan(b"U", prefix_end(b"U")):
            record = decode_url(value)
            rows["revisit" if _is_revisit(record.history) else record.state.label].append(
                len(value)
            )
            found = msgspec.structs.replace(
                record, state=UrlState.QUEUED, history=None, due_at=0, detail="", tries=0
            )
            rows["when it was found"].append(len(encode_url(found)))
    for name, sizes in sorted(rows.items()):
        print(f"URL record, {name}: {len(sizes)}, {sum(sizes) / len(sizes):.2f} bytes each")
    captures = rows_of(folder)
    for kind in ("journal", "warc"):
        size = sum(path.stat().st_size for path in (folder / kind).iterdir())
        print(f"{kind}: {captures} captures, {size / captures:.1f} bytes each")


def _is_revisit(history: object) -> bool:
    """Whether the last capture has its body elsewhere."""
    return bool(getattr(history, "is_same", False))


def rows_of(folder: Path) -> int:
    """The number of captures."""
    done = subprocess.run(
        [*LYCOSA, "sql", str(folder), "SELECT count(*) AS n FROM fetches", "--json"],
        capture_output=True,
        check=True,
    )
    return int(msgspec.json.decode(done.stdout)[0]["n"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--port", type=int, default=8592, help="it is a part of each URL")
    parser.add_argument(
        "--again", action="store_true", help="fetch pages again, three times on average"
    )
    options = parser.parse_args()
    plan = WebPlan(
        hosts=options.hosts, pages=options.pages, seed=7, latency_s=0.0, duplicates=0.05, gone=0.02
    )
    loop = asyncio.new_event_loop()
    server = SyntheticServer(SyntheticWeb(plan), pace=0.0, port=options.port)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        with tempfile.TemporaryDirectory() as name:
            most = 3 * options.hosts * options.pages if options.again else 0
            crawl(Path(name) / "crawl", server.port, most)
            measure(Path(name) / "crawl")
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


if __name__ == "__main__":
    main()
