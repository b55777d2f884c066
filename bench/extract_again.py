"""Extraction again over stored pages: ``python -m bench.extract_again [--pages 100000]
[--page-bytes 28000] [--segment-mb 100] [--processes N] [--keep FOLDER] [--ways alone]``.

Pages of a shop are stored, without a crawl, in closed segments. Then ``lycosa extract`` reads them
with code that selects two elements and a list in each page (where one page in ten is to match,
``--match``). Printed are pages a second, processor time a page of the program and of its children,
and the greatest memory of each of them. Then the same is done

* by two processes at once, as two machines that share the store;
* by one that is killed (SIGKILL, after a third of the time) and given again;

and the tables of all three are compared byte for byte. With ``--keep`` the pages stay, for another
call.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lycosa.base.config.sections import StoreSection
from lycosa.base.model.capture import Capture
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.model.parsed import Parsed
from lycosa.base.reasons import Reason
from lycosa.base.urls.surt import surt
from lycosa.state.folder.manifest import Identity, create_crawl
from lycosa.state.store.journal_rows import RowBuilder
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.warc_records import CrawlInfo

LYCOSA = [sys.executable, "-P", "-c", "import sys; from lycosa.cli import main; sys.exit(main())"]
CODE = """
from collections.abc import Iterator
import lycosa

class Product(lycosa.Item, frozen=True):
    name: str
    price: float | None
    tags: list[str]

@lycosa.extract(Product, match=r"%s")
def products(page: lycosa.Document) -> Iterator[Product]:
    for box in page.select("article.product"):
        price = box.select_one("[itemprop=price]")
        tags = [each.text for each in page.select("li.tag")]
        yield Product(box.select_one("h2").text, float(price["content"]) if price else None, tags)
"""
_WORDS = [f"{chr(97 + number % 26)}word{number}" for number in range(4000)]
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
_START = 1_790_000_000.0
_COMMIT = 500


def page(number: int, size: int) -> bytes:
    """A page of a product, with markup around each 12 words."""
    chance = random.Random(number)
    tags = "".join(f"<li class=tag>{chance.choice(_WORDS)}</li>" for _ in range(5))
    parts = [
        f"<!DOCTYPE html><html lang=en><title>Lamp {number}</title><body><nav>{'<a href=/x>x</a>' * 20}"
        f"</nav><article class=product><h2>Lamp {number}</h2><span itemprop=price content="
        f"{number / 100}>{number / 100}</span><ul>{tags}</ul>"
    ]
    length = len(parts[0])
    while length < size:
        words = " ".join(chance.choices(_WORDS, k=12))
        parts.append(f'<div class="row"><p>{words}</p><a href="/p/{length}">more</a></div>')
        length += len(parts[-1])
    return "".join((*parts, "</article></body></html>")).encode()


def write_pages(folder: Path, pages: int, size: int, segment_mb: int) -> None:
    """Store pages in closed segments."""
    identity = Identity(
        partitions=1, bands=4, canonical={"sort_query": False}, canonical_version=1, suffixes="com"
    )
    create_crawl(folder, identity, "bench", _START, "bench")
    section = StoreSection(
        segment_bytes=segment_mb * 1_000_000, links=False, text=False, content=False
    )
    rows = RowBuilder(surt, lambda name: ("com", "com"), text=False, links=False)
    files = SegmentFiles(folder, 0)
    info = CrawlInfo(crawl="bench", software="bench", user_agent="bench", operator="bench")
    store = SegmentStore(files.find_segments(), section, info, 0, random.Random(1), rows)
    for number in range(pages):
        body = page(number, size)
        kind = "product" if number % 10 == 0 else "p"
        answer = Fetched(
            f"https://shop.example/{kind}/{number}",
            Reason.NONE,
            status=200,
            header_block=_HEAD,
            body=body,
            body_bytes=len(body),
            started=_START + number,
        )
        digest = "sha1:" + hashlib.sha1(body, usedforsecurity=False).hexdigest()
        found = Parsed(media_type="text/html", charset="utf-8", language="en")
        store.append_capture(
            Capture(
                fetched=answer,
                kind=FetchKind.PAGE,
                host="shop.example",
                site="shop.example",
                depth=1,
                via="",
                link_kind=LinkKind.A,
                payload_digest=digest,
                parsed=found,
            )
        )
        if number % _COMMIT == _COMMIT - 1 or number == pages - 1:
            files.put_records(store.freeze())
            while (closed := store.roll_segment(_START, force=number == pages - 1)) is not None:
                files.close_segment(closed.name)
                store.note_closed(closed)


def command(folder: Path, code: Path, processes: int) -> list[str]:
    """``lycosa extract`` of all pages."""
    chosen = ["--processes", str(processes)] if processes else []
    return [*LYCOSA, "extract", str(folder), f"{code}:products", "--json", *chosen]


def tables(folder: Path) -> dict[str, str]:
    """The digests of the tables of version 1."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "items" / "products" / "1").glob("*.parquet"))
    }


def digest(made: dict[str, str]) -> str:
    """One digest of all tables."""
    return hashlib.sha256(repr(sorted(made.items())).encode()).hexdigest()[:16]


def forget(folder: Path) -> None:
    """Remove all items."""
    for name in ("items", "claims"):
        shutil.rmtree(folder / name, ignore_errors=True)


def memory_of(pid: int, most: dict[str, int]) -> None:
    """Note the resident memory of a process and of its children, in KB, if it is the greatest."""
    found = {"program": _rss(pid), "child": 0}
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found["child"] = max(found["child"], _rss(int(child)))
    for name, value in found.items():
        most[name] = max(most.get(name, 0), value)


def _rss(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def run(folder: Path, code: Path, processes: int, at_once: int = 1) -> None:
    """Extract, by so many programs at once, and print what it cost."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    running = [
        subprocess.Popen(command(folder, code, processes), stdout=subprocess.PIPE)
        for _ in range(at_once)
    ]
    most: dict[str, int] = {}
    while any(each.poll() is None for each in running):
        for each in running:
            memory_of(each.pid, most)
        time.sleep(0.2)
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    reports = [json.loads(each.communicate()[0])["extractors"][0] for each in running]
    captures, items = (sum(each[name] for each in reports) for name in ("captures", "items"))
    made = [each["made"] for each in reports]
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{at_once} program(s): {captures:,} captures, {items:,} items, segments {made}, in"
        f" {seconds:.1f} s: {captures / seconds:,.0f} pages a second,"
        f" {used / captures * 1000:.2f} ms of processor time a page;"
        f" memory {most['program'] // 1024} MB, a child {most['child'] // 1024} MB",
        flush=True,
    )


def run_killed(folder: Path, code: Path, processes: int, after_s: float) -> None:
    """Extract, with a kill in the middle."""
    killed = subprocess.Popen(command(folder, code, processes), stdout=subprocess.DEVNULL)
    time.sleep(after_s)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    left = len(list((folder / "claims").rglob("*.json")))
    print(f"killed after {after_s:.1f} s: {len(tables(folder))} tables, {left} claim(s) left")
    run(folder, code, processes)


def main() -> None:
    """Make the pages, and measure."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pages", type=int, default=100_000)
    options.add_argument("--page-bytes", type=int, default=28_000)
    options.add_argument("--segment-mb", type=int, default=100)
    options.add_argument("--processes", type=int, default=0)
    options.add_argument("--match", default="", help="pattern of URLs; /product/ is one in ten")
    options.add_argument("--keep", type=Path)
    options.add_argument("--kill-after", type=float, default=5.0)
    options.add_argument("--ways", default="alone,two,killed", help="which of these")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as temporary:
        folder = given.keep or Path(temporary) / "crawl"
        if not (folder / "crawl.json").exists():
            began = time.monotonic()
            write_pages(folder, given.pages, given.page_bytes, given.segment_mb)
            print(f"{given.pages:,} pages stored in {time.monotonic() - began:.0f} s", flush=True)
        code = Path(temporary) / "shop.py"
        code.write_text(CODE % given.match)
        found, alone_s = [], 0.0
        for way in given.ways.split(","):
            forget(folder)
            began = time.monotonic()
            if way == "killed":
                run_killed(folder, code, given.processes, alone_s / 3 or given.kill_after)
            else:
                run(folder, code, given.processes, 1 if way == "alone" else 2)
            alone_s = alone_s or time.monotonic() - began
            found.append(tables(folder))
        same = all(each == found[0] for each in found)
        print(f"tables are the same bytes: {same}, {len(found[0])} tables, {digest(found[0])}")


if __name__ == "__main__":
    main()
