"""Items from stored captures: versions, what is kept, and what readers see."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foreign_warcs import HTML, packed, warc_record
from lycosa.base.config.sections import UploadSection
from lycosa.feeds.extraction.crawl_captures import (
    BucketContent,
    CrawlCaptures,
    FolderContent,
)
from lycosa.feeds.extraction.extracted_tables import ExtractedTables
from lycosa.feeds.extraction.extraction_place import folder_place, forget_version
from lycosa.feeds.extraction.extraction_run import ExtractionReport, ExtractionRun
from lycosa.feeds.extraction.extraction_versions import ExtractionKind, ExtractionRefused
from lycosa.feeds.extraction.foreign_captures import ForeignCaptures
from lycosa.feeds.extraction.segment_extraction import CaptureFailure
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.state.folder.upload import Upload
from lycosa.state.objects.folder import FolderStore
from lycosa.state.store import layout
from lycosa.state.store.item_versions import read_current, stored_items
from lycosa.state.store.journal import read_rows
from lycosa.state.store.journal_rows import Extractor
from memory_objects import MemoryStore
from shop_crawl import (
    CODE,
    SHOP,
    code_file,
    code_to_run,
    extract,
    failing,
    revisit_of,
    rows,
    shop_capture,
    shop_page,
    some_captures,
    tables,
    write_crawl,
)

AGAIN, FAILED = ExtractionKind.AGAIN, ExtractionKind.FAILED


def store_of(folder: Path) -> FolderStore:
    return FolderStore(str(folder), folder)


def current(folder: Path) -> int:
    return read_current(store_of(folder), "products").version


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    folder = tmp_path / "crawl"
    write_crawl(folder, some_captures(20))
    return folder


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return code_file(tmp_path)


def test_each_page_gets_its_items_in_the_order_of_the_captures(crawl: Path, code: Path) -> None:
    report = extract(crawl, code)
    wanted = [number for number in range(20) if number % 7 not in (3, 5)]
    found = rows(crawl, 1)
    assert [(each["name"], each["price"]) for each in found] == [
        (f"Lamp {number}", number + 0.5) for number in wanted
    ]
    assert [each["_url"] for each in found] == [f"{SHOP}/product/{number}" for number in wanted]
    assert {each["_version"] for each in found} == {1}
    segments = sorted(layout.closed_segments(crawl))
    assert len(segments) > 3 and list(tables(crawl, 1)) == segments
    assert (report.items, report.captures, report.failed) == (len(wanted), len(wanted), 0)
    assert report.is_complete and current(crawl) == 1
    assert not any(path.is_file() for path in (crawl / "claims").rglob("*"))


def test_the_same_command_again_does_nothing(crawl: Path, code: Path) -> None:
    extract(crawl, code)
    before = tables(crawl, 1)
    again = extract(crawl, code)
    assert (again.made, again.captures, again.is_complete) == (0, 0, True)
    assert tables(crawl, 1) == before
    assert extract(crawl, code, AGAIN).version == 1, "the code is the same"


def test_corrected_code_makes_the_next_version_beside(crawl: Path, tmp_path: Path) -> None:
    extract(crawl, code_file(tmp_path))
    before = tables(crawl, 1)
    corrected = code_file(tmp_path, CODE.replace("h2", "b.price"))
    with pytest.raises(ExtractionRefused, match="made by other code; --again makes version 2"):
        extract(crawl, corrected)
    assert extract(crawl, corrected, AGAIN).version == 2
    assert tables(crawl, 1) == before
    assert {each["_version"] for each in rows(crawl, 2)} == {2}
    assert rows(crawl, 2)[0]["name"] == "0.5" and current(crawl) == 2


def test_an_open_segment_follows_when_it_has_closed(tmp_path: Path, code: Path) -> None:
    folder = tmp_path / "crawl"
    captures = some_captures(12)
    write_crawl(folder, captures, stays_open=True)
    first = extract(folder, code)
    assert first.open_segments == 1 and first.segments == len(tables(folder, 1))
    for path in layout.open_files(folder):
        path.rename(path.with_name(path.name.removesuffix(layout.OPEN)))
    second = extract(folder, code)
    assert (second.version, second.made, second.open_segments) == (1, 1, 0)
    assert len(rows(folder, 1)) == 9


def test_readers_see_a_version_when_it_is_complete(crawl: Path, tmp_path: Path) -> None:
    extract(crawl, code_file(tmp_path))
    corrected = code_file(tmp_path, CODE.replace("h2", "b"))
    seen = set[int]()
    _, ask = code_to_run(corrected)

    async def watched(page: GivenDocument) -> ExtensionAnswer:
        seen.add(current(crawl))
        return await ask(page)

    extract(crawl, corrected, AGAIN, watched)
    assert seen == {1} and current(crawl) == 2


def broken_crawl(folder: Path, extractors: tuple[Extractor, ...] = ()) -> None:
    captures = some_captures(14)
    captures[4] = shop_capture(4, "product/broken-4")
    captures[9] = shop_capture(9, "product/broken-9")
    write_crawl(folder, captures, extractors=extractors)


def test_only_captures_that_failed_are_extracted_again(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    broken_crawl(folder)
    first = extract(folder, code_file(tmp_path))
    assert (first.failed, first.failures) == (
        2,
        [f"{SHOP}/product/broken-{number}: ValueError (shop.py:14)" for number in (4, 9)],
    )
    corrected = code_file(tmp_path, CODE.replace('"broken" in page.url', "False"))
    asked: list[str] = []
    _, ask = code_to_run(corrected)

    async def counting(page: GivenDocument) -> ExtensionAnswer:
        asked.append(page.url)
        return await ask(page)

    second = extract(folder, corrected, FAILED, counting)
    assert asked == [f"{SHOP}/product/broken-4", f"{SHOP}/product/broken-9"]
    assert (second.version, second.base, second.failed, second.made) == (2, 1, 0, 2)
    # Segments without failures have no table of the new version: readers see that of the base.
    assert len(tables(folder, 2)) == 2 < len(tables(folder, 1))
    both = [each for each in tables(folder, 1) if each in tables(folder, 2)]
    merged = {each["name"] for each in rows(folder, 2)} | {each["name"] for each in rows(folder, 1)}
    assert both and merged == {f"Lamp {number}" for number in range(14) if number % 7 not in (3, 5)}


def test_where_nothing_is_missing_or_failed_no_version_is_begun(crawl: Path, code: Path) -> None:
    extract(crawl, code)
    report = extract(crawl, code, FAILED)
    assert (report.version, report.base, report.made) == (1, 1, 0)
    assert stored_items(store_of(crawl)).made == {"products": {1}}


def test_what_is_kept_has_the_bytes_of_a_table_that_was_extracted_whole(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        broken_crawl(folder)
        extract(folder, code_file(tmp_path))
    corrected = code_file(tmp_path, CODE.replace('"broken" in page.url', "False"))
    extract(one, corrected, FAILED)
    extract(other, corrected, AGAIN)
    whole = tables(other, 2)
    assert tables(one, 2).items() <= whole.items()


def test_a_version_is_refused_while_the_one_before_is_not_complete(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    broken_crawl(folder)
    extract(folder, code_file(tmp_path))
    corrected = code_file(tmp_path, CODE.replace('"broken" in page.url', "False"))

    async def interrupted(page: GivenDocument) -> ExtensionAnswer:
        raise OSError("the machine stops")

    with pytest.raises(OSError, match="the machine stops"):
        extract(folder, corrected, AGAIN, interrupted)
    assert not any(path.is_file() for path in (folder / "claims").rglob("*")), "given back"
    third = code_file(tmp_path, corrected.read_text() + "\n")
    with pytest.raises(ExtractionRefused, match="version 2 of products is not complete"):
        extract(folder, third, FAILED)
    place = folder_place(folder)
    assert forget_version(place, "products", 2) == {2: 0}
    assert extract(folder, third, FAILED).version == 2


def test_a_version_that_is_forgotten_gives_way_to_the_one_before(
    crawl: Path, tmp_path: Path
) -> None:
    extract(crawl, code_file(tmp_path))
    extract(crawl, code_file(tmp_path, CODE + "#"), AGAIN)
    count = len(tables(crawl, 2))
    place = folder_place(crawl)
    assert forget_version(place, "products", 2) == {2: count}
    assert (current(crawl), tables(crawl, 2)) == (1, {})
    with pytest.raises(ExtractionRefused, match=r"there are 1"):
        forget_version(place, "products", 2)
    assert forget_version(place, "products", None) == {1: count}
    assert stored_items(store_of(crawl)).tables == {}


def test_items_of_the_crawl_itself_stay_and_only_the_rest_is_extracted(tmp_path: Path) -> None:
    folder, code = tmp_path / "crawl", code_file(tmp_path)
    to_run, _ = code_to_run(code)
    write_crawl(folder, some_captures(6))
    before = set(layout.closed_segments(folder))
    made = Extractor.of(to_run.schema)
    with_items = [
        shop_capture(number, items={"products": [[f"of the crawl {number}", None]]})
        for number in (10, 11)
    ]
    write_crawl(folder, with_items, extractors=(made,))
    crawled = tables(folder, 1)
    assert crawled.keys() == set(layout.closed_segments(folder)) - before
    report = extract(folder, code)
    assert (report.version, report.made) == (1, len(before))
    assert tables(folder, 1).items() > crawled.items()
    # The crawl's own tables stay when the version is forgotten: the journals have them.
    forget_version(folder_place(folder), "products", 1)
    assert tables(folder, 1) == crawled
    changed = code_file(tmp_path, CODE.replace("price: float", "cost: float"))
    with pytest.raises(ExtractionRefused, match="other columns in the crawl"):
        extract(folder, changed)


def test_a_body_of_another_capture_is_found(tmp_path: Path, code: Path) -> None:
    folder = tmp_path / "crawl"
    first = shop_capture(1)
    write_crawl(folder, [first])
    (segment,) = layout.closed_segments(folder)
    (row,) = read_rows(folder / layout.file_name(layout.JOURNAL, segment))
    write_crawl(folder, [revisit_of(2, first, (layout.warc_name(segment), row.offset))])
    extract(folder, code)
    assert [(each["_url"], each["name"]) for each in rows(folder, 1)] == [
        (f"{SHOP}/product/1", "Lamp 1"),
        (f"{SHOP}/product/again-2", "Lamp 1"),
    ]


def test_a_record_that_cannot_be_read_costs_only_its_own_items(crawl: Path, code: Path) -> None:
    path = sorted((crawl / "warc").glob("*.warc.gz"))[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    report = extract(crawl, code)
    assert report.failed == 1 and "cannot be read" in report.failures[0]
    assert len(rows(crawl, 1)) == 13


def test_an_answer_that_does_not_fit_the_columns_is_a_failure(crawl: Path, code: Path) -> None:
    async def lies(page: GivenDocument) -> ExtensionAnswer:
        return ExtensionAnswer(items={"products": [[7, "text"]]})

    report = extract(crawl, code, ask=lies)
    assert report.items == 0 and "an item does not fit: name is not text" in report.failures[0]


def test_tables_that_were_uploaded_and_removed_here_are_not_made_again(
    crawl: Path, code: Path, tmp_path: Path
) -> None:
    place = folder_place(crawl)

    def again(file: Path) -> ExtractionReport:
        return extract(crawl, file, AGAIN, store=place.store, source=place.source)

    first, made = again(code), tables(crawl, 1)
    (tmp_path / "up").mkdir()
    url = f"file://{tmp_path}/up"
    section = UploadSection(url=url, remove=True)
    upload = Upload(crawl, section, FolderStore(url, tmp_path / "up"))
    for file in upload.waiting():
        upload.put(file)
    for segment in upload.removable():
        upload.remove(segment)
    assert tables(crawl, 1) == {} and len(tables(tmp_path / "up", 1)) == len(made)
    second = again(code)
    assert (second.version, second.made) == (1, 0) and second.segments == first.segments
    # the captures are read from where they are now, and items that are kept too
    report = extract(
        crawl,
        code_file(tmp_path / "up", CODE.replace("no price", "none")),
        FAILED,
        ask=failing,
        store=place.store,
        source=place.source,
    )
    assert report.made == 0
    changed = again(code_file(tmp_path / "up", CODE.replace("float(price.text)", "1.0")))
    assert (changed.version, changed.made, changed.items) == (2, first.made, first.items)
    assert current(crawl) == 2
    with pytest.raises(ExtractionRefused, match=f"removed here after their upload to {url}"):
        forget_version(place, "products", None)
    assert current(crawl) == 2
    assert forget_version(place, "products", 2) == {2: first.made} and current(crawl) == 1


def test_two_programs_make_the_same_version_together(crawl: Path, code: Path) -> None:
    to_run, ask = code_to_run(code)

    async def both() -> list[int]:
        runs = [
            ExtractionRun(
                CrawlCaptures(str(crawl), FolderContent(crawl)), store_of(crawl), to_run, ask, 4
            )
            for _ in range(2)
        ]
        reports = await asyncio.gather(*(each.run(ExtractionKind.FILL) for each in runs))
        return [each.made for each in reports]

    made = asyncio.run(both())
    assert sum(made) == len(list(layout.closed_segments(crawl))) and min(made) > 0
    assert len(rows(crawl, 1)) == 14


def test_the_bucket_of_a_cluster_is_read_like_a_folder(
    crawl: Path, tmp_path: Path, code: Path
) -> None:
    bucket = {
        path.relative_to(crawl).as_posix(): path.read_bytes()
        for path in crawl.rglob("*")
        if path.is_file()
    }
    bucket["parts/00000/test-crawl-w000-t0001-000099-20261123000000/0-1-0"] = b"an open segment"
    store = MemoryStore(bucket)
    source = CrawlCaptures("a cluster", BucketContent(store, tmp_path))
    report = extract(crawl, code, store=store, source=source)
    assert report.open_segments == 1
    extract(crawl, code)
    for name, table in tables(crawl, 1).items():
        assert store.objects[f"items/products/1/{name}.parquet"] == table


def test_what_failed_is_stored_before_the_table(crawl: Path) -> None:
    made: list[str] = []
    store = MemoryStore(fail=lambda call, key: made.append(key) if call != "find" else None)
    extracted = ExtractedTables(store, "products")
    path = crawl / "table.parquet"
    path.write_bytes(b"a table")
    failures = [CaptureFailure("urn:uuid:1", SHOP, "ValueError (x.py:3)")]
    extracted.create_table(3, "stem", path, failures)
    assert made == ["items/products/3/stem.failed.json", "items/products/3/stem.parquet"]
    assert extracted.failures(3, "stem") == failures


def test_items_of_other_programs_files(tmp_path: Path, code: Path) -> None:
    files = []
    for name, numbers in (("one", range(5)), ("two", range(5, 8))):
        path = tmp_path / f"{name}.warc.gz"
        records = [
            warc_record(number, HTML + shop_page(number), url=f"{SHOP}/product/{number}")
            for number in numbers
        ]
        path.write_bytes(packed(records, "gzip"))
        files.append(path)
    target = tmp_path / "out"
    target.mkdir()
    report = extract(target, code, source=ForeignCaptures(files), store=store_of(target))
    assert (report.items, report.made) == (8, 2)
    found = rows(target, 1)
    assert [each["name"] for each in found] == [f"Lamp {number}" for number in range(8)]
    assert found[3]["_capture"] == "urn:uuid:00000000-0000-4000-8000-000000000003"
