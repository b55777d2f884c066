"""A stored crawl of a shop, and user code that extracts its products: for tests of extraction."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from lycosa.base.config.sections import StoreSection
from lycosa.base.model.capture import Capture, StoredOriginal
from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.parsed import Parsed
from lycosa.feeds.extraction.crawl_captures import CrawlCaptures, FolderContent
from lycosa.feeds.extraction.extraction_run import CodeToRun, ExtractionReport, ExtractionRun
from lycosa.feeds.extraction.extraction_source import ExtractionSource
from lycosa.feeds.extraction.extraction_versions import ExtractionKind
from lycosa.feeds.extraction.segment_extraction import AskCode
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.extract.code_run import run_code
from lycosa.stages.extract.code_source import load_code
from lycosa.stages.extract.stored_document import Document
from lycosa.state.folder.manifest import Identity, create_crawl, has_manifest
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.store.journal_rows import Extractor
from store_samples import INFO, START, close_all, commit, head, open_store
from store_samples import capture as a_capture
from store_samples import fetched as an_answer

SHOP = "https://www.example.org"
IDENTITY = Identity(
    partitions=1, bands=4, canonical={"sort_query": False}, canonical_version=1, suffixes="org"
)
CODE = """
from collections.abc import Iterator
import lycosa

class Product(lycosa.Item, frozen=True):
    name: str
    price: float | None

@lycosa.extract(Product, match=r"/product/", version=1)
def products(page: lycosa.Document) -> Iterator[Product]:
    for box in page.select("article.product"):
        price = box.select_one("b.price")
        if "broken" in page.url:
            raise ValueError("no price")
        yield Product(box.select_one("h2").text, float(price.text) if price else None)
"""


def shop_page(number: int, size: int = 200) -> bytes:
    text = f"<p>{'word ' * (size // 5)}</p>"
    return (
        f"<!DOCTYPE html><title>{number}</title><article class=product><h2>Lamp {number}</h2>"
        f"<b class=price>{number}.5</b></article>{text}"
    ).encode()


def shop_capture(number: int, path: str = "", body: bytes = b"", **changes: object) -> Capture:
    url = f"{SHOP}/{path or f'product/{number}'}"
    sent = head("Content-Type: text/html; charset=utf-8")
    content = body or shop_page(number)
    if number % 3 == 0:
        sent = head("Content-Type: text/html", "Content-Encoding: gzip")
        content = gzip.compress(content, mtime=0)
    answer = an_answer(url, content, header_block=sent, started=START + number)
    found = Parsed(media_type="text/html", charset="utf-8", language="en")
    return a_capture(answer, **{"parsed": found, **changes})


def some_captures(count: int, first: int = 0) -> list[Capture]:
    """Products, with captures between them that are none."""
    found = []
    for number in range(first, first + count):
        if number % 7 == 3:
            robots = {"kind": FetchKind.ROBOTS, "parsed": None}
            found.append(shop_capture(number, "robots.txt", **robots))
        elif number % 7 == 5:
            found.append(shop_capture(number, f"about/{number}"))
        else:
            found.append(shop_capture(number))
    return found


def write_crawl(
    folder: Path,
    captures: Sequence[Capture],
    segment_bytes: int = 4000,
    extractors: Sequence[Extractor] = (),
    stays_open: bool = False,
) -> None:
    """Store captures in segments of this size, in a crawl folder."""
    if not has_manifest(folder):
        create_crawl(folder, IDENTITY, "test", START, INFO.crawl)
    section = StoreSection(segment_bytes=segment_bytes, links=True, text=False)
    store = open_store(folder, len(captures), section, extractors=extractors)
    for each in captures:
        store.append_capture(each)
        commit(store)
        while (closed := store.roll_segment(START)) is not None:
            store.finish(closed)
    if not stays_open:
        close_all(store)


def revisit_of(number: int, of: Capture, place: tuple[str, int]) -> Capture:
    """A capture with the body of another one, which is at a place."""
    original = StoredOriginal(of.fetched.url, 1_790_000_000_250_000, "urn:uuid:1", *place)
    return shop_capture(number, f"product/again-{number}", original=original)


def code_file(folder: Path, text: str = CODE) -> Path:
    path = folder / "shop.py"
    path.write_text(text)
    return path


def code_to_run(path: Path) -> tuple[CodeToRun, AskCode]:
    """The extractor of a file, and its answers in this process."""
    loaded = load_code(f"{path}:products")
    (extractor,) = loaded.extractors

    async def ask(page: GivenDocument) -> ExtensionAnswer:
        await asyncio.sleep(0)
        return run_code([loaded], Document(page))

    return CodeToRun(extractor.schema, extractor.match, loaded.digest, loaded.name), ask


async def failing(page: GivenDocument) -> ExtensionAnswer:
    return ExtensionAnswer(failures=[CodeFailure("extractor", "x", "ValueError (x.py:1)")])


def extract(
    folder: Path,
    code: Path,
    mode: ExtractionKind = ExtractionKind.FILL,
    ask: AskCode | None = None,
    store: ObjectStore | None = None,
    source: ExtractionSource | None = None,
) -> ExtractionReport:
    """One run of extraction in this process."""
    to_run, own_ask = code_to_run(code)
    run = ExtractionRun(
        source or CrawlCaptures(str(folder), FolderContent(folder)),
        store or FolderStore(str(folder), folder),
        to_run,
        ask or own_ask,
        8,
    )
    return asyncio.run(run.run(mode))


def tables(folder: Path, version: int, name: str = "products") -> dict[str, bytes]:
    return {
        path.stem: path.read_bytes()
        for path in sorted((folder / "items" / name / str(version)).glob("*.parquet"))
    }


def rows(folder: Path, version: int, name: str = "products") -> list[dict[str, object]]:
    """All rows of a version, in the order of the segments."""
    found: list[dict[str, object]] = []
    for path in sorted((folder / "items" / name / str(version)).glob("*.parquet")):
        found += pq.read_table(path).to_pylist()
    return found
