"""What the audit says of items: tables against the journal, versions that were extracted again."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crawling import Pages as Web
from crawling import crawl_folder, page
from item_crawl import PRODUCTS, plant_items
from lycosa.__main__ import main
from lycosa.inspect.audit.audit_report import AuditReport
from lycosa.inspect.audit.crawl_audit import AuditOptions
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.objects.folder import FolderStore
from lycosa.state.store import layout
from lycosa.state.store.item_versions import failed_key, note_key, table_key
from lycosa.state.store.items_table import ItemsBuilder
from lycosa.state.store.journal import (
    encode_header,
    encode_journal_frame,
    encode_line,
    read_header,
    read_rows,
)
from lycosa.state.store.segment_recovery import rebuild

SITE = "http://www.example.org"
PAGES = {
    f"{SITE}/": page("/a", "/b", text="Start", title="Start"),
    f"{SITE}/a": page(text="lamps and lights", title="Lamp"),
    f"{SITE}/b": page(text="desks and chairs", title="Desk"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawl") / "crawl"
    crawl_folder(folder, Web(PAGES), [f"{SITE}/"])
    assert plant_items(folder) == 3
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "crawl"))


def of_items(folder: Path) -> tuple[int, list[str], list[str]]:
    """What was checked of items, the breaches and the notes."""
    report: AuditReport = audit(folder, AuditOptions(sample=0))
    (check,) = [each for each in report.checks if each.name == "items"]
    return check.checked, check.first, check.notes


def segment(folder: Path) -> str:
    (name,) = layout.closed_segments(folder)
    return name


def table(folder: Path, version: int = 1) -> Path:
    return folder / table_key("products", version, segment(folder))


def test_items_are_compared_with_the_journal(folder: Path) -> None:
    checked, breaches, _ = of_items(folder)
    assert checked >= 3 and breaches == []


def test_a_crawl_without_extractors_has_no_such_check(tmp_path: Path) -> None:
    crawl_folder(tmp_path / "crawl", Web(PAGES), [f"{SITE}/"])
    report = audit(tmp_path / "crawl", AuditOptions(sample=0))
    assert "items" not in [each.name for each in report.checks]


def test_another_value_a_missing_row_and_a_further_row_are_breaches(folder: Path) -> None:
    right = pq.read_table(table(folder))
    wrong = right.set_column(
        right.column_names.index("name"), right.schema.field("name"), [["x", "Lamp", "Desk"]]
    )
    for changed, what in (
        (wrong, "name of http://www.example.org/ is x"),
        (right.slice(0, 2), "ends 1 rows before the journal"),
        (pa.concat_tables([right, right.slice(0, 1)]), "has 1 rows more than the journal"),
    ):
        pq.write_table(changed, table(folder))
        _, breaches, _ = of_items(folder)
        assert [each for each in breaches if what in each], breaches


def test_a_lost_table_is_noted_and_built_by_rebuild(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table(folder).read_bytes()
    table(folder).unlink()
    _, breaches, notes = of_items(folder)
    assert breaches == [] and "is not built yet" in notes[0]
    assert main(["status", str(folder)]) == 0
    assert "items/products/1/" in capsys.readouterr().out
    rebuild(folder)
    assert table(folder).read_bytes() == before


def test_a_table_of_no_segment_is_a_breach(folder: Path) -> None:
    shutil.copy(table(folder), table(folder).with_name("other-w000-000009-20300101000000.parquet"))
    _, breaches, _ = of_items(folder)
    assert "belongs to no segment of this crawl" in breaches[0]


def rewritten(folder: Path, name: str, **changes: object) -> None:
    """Change the rows of the journal, or its header."""
    path = folder / layout.file_name(layout.JOURNAL, name)
    header, rows = read_header(path), list(read_rows(path))
    if "extractors" in changes:
        header = msgspec.structs.replace(header, **changes)
    else:
        rows = [msgspec.structs.replace(each, **changes) if each.items else each for each in rows]
    path.write_bytes(
        encode_journal_frame([encode_header(header), *(encode_line(each) for each in rows)])
    )
    for each in (folder / "log").glob("closed-w*"):
        each.unlink()


def test_rows_that_do_not_fit_or_of_an_unknown_extractor_are_breaches(folder: Path) -> None:
    rewritten(folder, segment(folder), items={"products": [["lamp", "cheap"]], "others": [[1]]})
    _, breaches, _ = of_items(folder)
    assert [each for each in breaches if "price is not number" in each]
    assert [each for each in breaches if "has items of others, which the header lacks" in each]


def test_columns_that_are_not_those_of_the_digest_are_a_breach(folder: Path) -> None:
    (extractor,) = read_header(
        folder / layout.file_name(layout.JOURNAL, segment(folder))
    ).extractors
    damaged = msgspec.structs.replace(extractor, schema="0" * 16)
    rewritten(folder, segment(folder), extractors=(damaged,))
    _, breaches, _ = of_items(folder)
    assert [each for each in breaches if "other columns than their digest says" in each]


# Versions that were extracted again


def extract_again(folder: Path, *items: list[object]) -> None:
    schema = msgspec.structs.replace(PRODUCTS, version=2)
    builder = ItemsBuilder(folder.parent / "t.parquet", schema)
    for row in read_rows(folder / layout.file_name(layout.JOURNAL, segment(folder))):
        if row.items:
            builder.add_row(msgspec.structs.replace(row, items={"products": list(items)}))
    builder.close()
    store = FolderStore(f"file://{folder}", folder)
    store.create(note_key("products", 2), msgspec.json.encode({"fields": schema.fields_text}))
    store.put(table_key("products", 2, segment(folder)), folder.parent / "t.parquet")


def test_items_that_were_extracted_again_name_captures_of_their_segment(folder: Path) -> None:
    extract_again(folder, ["again", 1], ["more", 2])
    checked, breaches, _ = of_items(folder)
    assert checked >= 9 and breaches == []


@pytest.mark.parametrize(
    ("column", "values", "what"),
    [
        ("_capture", ["x"] * 3, "is of no capture of the segment"),
        ("_item", [1, 0, 0], "an item of http://www.example.org/"),
        ("_version", [2, 2, 3], "an item of http://www.example.org/"),
        ("_url", ["http://other/", "http://other/", "http://other/"], "http://other/"),
    ],
)
def test_rows_of_another_origin_are_breaches(
    folder: Path, column: str, values: list[object], what: str
) -> None:
    extract_again(folder, ["again", 1])
    right = pq.read_table(table(folder, 2))
    at = right.column_names.index(column)
    changed = pa.array(values, right.schema.field(column).type)
    pq.write_table(right.set_column(at, right.schema.field(column), changed), table(folder, 2))
    _, breaches, _ = of_items(folder)
    assert [each for each in breaches if what in each], breaches


def test_columns_are_those_that_the_version_states(folder: Path) -> None:
    extract_again(folder, ["again", 1])
    right = pq.read_table(table(folder, 2))
    pq.write_table(right.rename_columns([*right.column_names[:-1], "cost"]), table(folder, 2))
    _, breaches, _ = of_items(folder)
    assert [each for each in breaches if "other columns than items/products/2/" in each], breaches
    (folder / note_key("products", 2)).unlink()
    _, breaches, _ = of_items(folder)
    assert [each for each in breaches if "is of no extractor of its segment" in each], breaches


def fail(folder: Path, *captures: str) -> None:
    """Say that user code failed at captures in version 2."""
    found = [{"capture": each, "url": "", "error": "x"} for each in captures]
    path = folder / failed_key("products", 2, segment(folder))
    path.write_bytes(msgspec.json.encode(found))


def test_each_capture_has_items_or_failed_or_is_counted(folder: Path) -> None:
    extract_again(folder, ["again", 1])
    whole = pq.read_table(table(folder, 2))
    captures = whole.column("_capture").to_pylist()
    pq.write_table(whole.slice(0, 1), table(folder, 2))
    fail(folder, captures[1])
    _, breaches, notes = of_items(folder)
    assert breaches == []
    assert "items/products/2: 1 captures have items, 1 failed, 1 have neither" in notes
    fail(folder, captures[0], "urn:uuid:another")
    _, breaches, _ = of_items(folder)
    assert [each for each in breaches if "which failed by its failed.json" in each]
    assert [each for each in breaches if "does not have, as urn:uuid:another" in each]
    (folder / failed_key("products", 2, segment(folder))).write_bytes(b"[")
    _, breaches, _ = of_items(folder)
    assert [each for each in breaches if "failed.json cannot be read" in each]


def test_items_of_a_capture_that_user_code_is_not_given_are_a_breach(folder: Path) -> None:
    extract_again(folder, ["again", 1])
    rewritten(folder, segment(folder), status=404)
    _, breaches, _ = of_items(folder)
    assert [each for each in breaches if "user code is given no such capture" in each], breaches


def test_a_damaged_table_of_another_version_is_a_breach(folder: Path) -> None:
    extract_again(folder, ["again", 1])
    table(folder, 2).write_bytes(b"PAR1 nothing PAR1")
    _, breaches, _ = of_items(folder)
    assert "cannot be read" in breaches[0]
