"""Items of user code in segments: stored in the row of their page, and a table built from rows."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from item_samples import rows_of, schemas
from lycosa.base.model.capture import Capture
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.item_schema import ItemColumn, ItemSchema
from lycosa.base.model.known_code import CodePart, KnownCode
from lycosa.base.preferences.preference_model import (
    PreferenceSource,
    Statement,
    gather_preferences,
)
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.base.urls.surt import surt
from lycosa.state.store import layout
from lycosa.state.store.closing import build_again, give_final_names, lacking_files
from lycosa.state.store.derived_files import begin_file, folders_of_kinds, item_version, kinds_of
from lycosa.state.store.journal import header_in, read_header, read_rows
from lycosa.state.store.journal_rows import Extractor, JournalRow, RowBuilder, SegmentHeader
from lycosa.state.store.lost_parts import LostPart, filling
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.segment_recovery import rebuild, recover
from lycosa.state.store.segments import SegmentStore
from lycosa.worker.code_in_use import note_unstored_items
from lycosa.worker.extension_failures import ExtensionFailures
from memory_objects import MemoryStore
from store_samples import (
    HEADER,
    INFO,
    SECTION,
    START,
    close_all,
    commit,
    numbered,
    open_store,
    row_builder,
)

PRODUCTS = ItemSchema(
    "products", 1, (ItemColumn("name", "text"), ItemColumn("price", "number", optional=True))
)
OLDER, NEWER = (
    (Extractor.of(PRODUCTS, "0a1b"),),
    (Extractor.of(msgspec.structs.replace(PRODUCTS, version=2)),),
)
DENIED = gather_preferences(
    [Statement(PreferenceSource.SIGNAL_ROBOTS, "ai-train=no", 7, {"ai-train": False})]
)


def with_items(number: int, *items: list[Any], **changes: Any) -> Capture:
    """A capture with items of the extractor."""
    made = msgspec.structs.replace(numbered(number), items={"products": list(items)})
    return msgspec.structs.replace(made, **changes)


def stored(folder: Path, *captures: Capture, extractors: Any = OLDER) -> str:
    """A closed segment; gives its name."""
    store = open_store(folder, extractors=extractors)
    for each in captures:
        store.append_capture(each)
    (closed,) = close_all(store)
    return closed.name


def table(folder: Path, name: str, version: int = 1) -> list[dict[str, Any]]:
    path = folder / layout.file_name(f"items/products/{version}", name)
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_a_segment_has_a_table_of_each_extractor_in_its_header(tmp_path: Path) -> None:
    name = stored(
        tmp_path, with_items(1, ["lamp", 9.5], ["desk", None]), numbered(2), with_items(3, ["x", 1])
    )
    rows = table(tmp_path, name)
    assert [(row["name"], row["price"], row["_item"]) for row in rows] == [
        ("lamp", 9.5, 0),
        ("desk", None, 1),
        ("x", 1.0, 0),
    ]
    first = next(read_rows(tmp_path / layout.file_name(layout.JOURNAL, name)))
    fetched = datetime(1970, 1, 1) + timedelta(microseconds=first.date_us)
    assert rows[0] | {"_fetched": None} == {
        "_url": "https://www.example.org/page/1",
        "_fetched": None,
        "_capture": first.record_id,
        "_version": 1,
        "_item": 0,
        "name": "lamp",
        "price": 9.5,
    }
    assert rows[0]["_fetched"] == fetched
    header = read_header(tmp_path / layout.file_name(layout.JOURNAL, name))
    assert header.extractors == OLDER and kinds_of(header)[-1] == "items/products/1"


def test_an_extractor_without_items_has_an_empty_table(tmp_path: Path) -> None:
    assert table(tmp_path, stored(tmp_path, numbered(1))) == []


def test_items_of_an_extractor_that_the_header_lacks_are_not_stored(tmp_path: Path) -> None:
    name = stored(tmp_path, with_items(1, ["lamp", 1]), extractors=())
    (row,) = read_rows(tmp_path / layout.file_name(layout.JOURNAL, name))
    assert row.items == {} and not (tmp_path / "items").exists()


def test_formats_1_have_no_items() -> None:
    rows = RowBuilder(surt, None, True, True, LATE_FIELDS - 1, OLDER)
    assert rows.extractors == ()


def test_another_set_of_extractors_seals_the_segment(tmp_path: Path) -> None:
    store = open_store(tmp_path, extractors=OLDER)
    first = store.append_capture(with_items(1, ["old", 1]))
    store.use_extractors(OLDER)
    same = store.append_capture(with_items(2, ["old", 2]))
    store.use_extractors(NEWER)
    other = store.append_capture(with_items(3, ["new", 3]))
    assert first.segment == same.segment != other.segment
    old, new = close_all(store)
    assert [row["name"] for row in table(tmp_path, old.name)] == ["old", "old"]
    assert [row["name"] for row in table(tmp_path, new.name, 2)] == ["new"]
    assert folders_of_kinds(tmp_path)[-2:] == ["items/products/1", "items/products/2"]


@pytest.mark.parametrize("extractors", [NEWER, (), (Extractor.of(PRODUCTS, "other code"),)])
def test_a_later_run_with_other_extractors_begins_a_segment(
    tmp_path: Path, extractors: tuple[Extractor, ...]
) -> None:
    before = open_store(tmp_path, extractors=OLDER)
    first = before.append_capture(with_items(1, ["old", 1]))
    commit(before)
    assert open_store(tmp_path, extractors=OLDER).snapshot().segment in first.segment
    later = open_store(tmp_path, extractors=extractors)
    assert later.append_capture(numbered(2)).segment != first.segment


def test_a_lost_table_is_built_again_with_the_same_bytes(tmp_path: Path) -> None:
    name = stored(tmp_path, with_items(1, ["lamp", 1]), with_items(2, ["desk", 2.5]))
    path = tmp_path / layout.file_name("items/products/1", name)
    before = path.read_bytes()
    path.unlink()
    (lacking,) = lacking_files(tmp_path)
    assert (lacking.file, lacking.reason) == (f"items/products/1/{name}.parquet", "")
    path.parent.rmdir()
    path.parent.parent.rmdir()
    path.parent.parent.parent.rmdir()
    assert lacking_files(tmp_path) == [lacking]  # also if all tables are lost
    assert rebuild(tmp_path) == ([f"items/products/1/{name}.parquet"], {})
    assert path.read_bytes() == before and lacking_files(tmp_path) == []
    build_again(tmp_path, "items/products/1", name, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == before


def test_a_kill_between_journal_and_table_loses_no_item(tmp_path: Path) -> None:
    store = open_store(tmp_path, extractors=OLDER)
    store.append_capture(with_items(1, ["lamp", 1]))
    lengths = commit(store)
    closed = store.roll_segment(START, force=True)
    assert closed is not None
    # What a kill leaves in the middle of building: final names, and half a table.
    give_final_names(tmp_path, closed.name)
    half = layout.temporary(tmp_path / layout.file_name("items/products/1", closed.name))
    half.parent.mkdir(parents=True)
    half.write_bytes(b"PAR1")
    report = recover(tmp_path, lengths)
    assert f"items/products/1/{closed.name}.parquet" in report.built and not half.exists()
    assert [row["name"] for row in table(tmp_path, closed.name)] == ["lamp"]


def test_rows_of_an_uncommitted_capture_are_in_no_table(tmp_path: Path) -> None:
    store = open_store(tmp_path, extractors=OLDER)
    store.append_capture(with_items(1, ["lamp", 1]))
    lengths = commit(store)
    store.append_capture(with_items(2, ["never", 1]))
    commit(store)  # written, and the commit that names it is lost
    recover(tmp_path, lengths)
    later = open_store(tmp_path, extractors=OLDER)
    (closed,) = close_all(later)
    assert [row["name"] for row in table(tmp_path, closed.name)] == ["lamp"]


def test_a_purpose_leaves_out_the_items_of_refused_pages(tmp_path: Path) -> None:
    store = open_store(tmp_path, extractors=OLDER)
    store.policy = UsePolicy(("ai-train",))
    store.append_capture(with_items(1, ["refused", 1], preferences=DENIED))
    store.append_capture(with_items(2, ["allowed", 1]))
    (closed,) = close_all(store)
    assert [row["name"] for row in table(tmp_path, closed.name)] == ["allowed"]
    rows = read_rows(tmp_path / layout.file_name(layout.JOURNAL, closed.name))
    assert [row.items["products"][0][0] for row in rows] == ["refused", "allowed"]


def test_a_sealed_segment_of_a_cluster_has_its_tables(tmp_path: Path) -> None:
    objects = MemoryStore()
    segments = ObjectSegments(objects, 3, tmp_path / "work", lambda: 0.0)
    segments.recover_segments({})
    captures = SegmentStore(
        segments.find_segments(1), SECTION, INFO, 3, Random(1), row_builder(extractors=OLDER)
    )
    captures.append_capture(with_items(1, ["lamp", 1]))
    pending = captures.freeze()
    segments.put_records(pending)
    # another owner continues after a kill: the header of the open segment has the columns
    owner = ObjectSegments(objects, 3, tmp_path / "other", lambda: 0.0)
    owner.recover_segments(pending.lengths, pending.sums)
    (opened,) = owner.find_segments(2).open
    assert opened.header.extractors == OLDER
    assert owner.close_segment(opened.header.segment) == ""
    key = f"items/products/1/{opened.header.segment}.parquet"
    assert pq.read_table(io.BytesIO(objects.objects[key])).to_pylist()[0]["name"] == "lamp"
    before = objects.objects.pop(key)
    # lost, and made again from the journal in the store
    folder = tmp_path / "copy"
    for each, data in objects.objects.items():
        if each.partition("/")[0] in ("warc", "journal"):
            (folder / each).parent.mkdir(parents=True, exist_ok=True)
            (folder / each).write_bytes(data)
    rebuild(folder)
    assert (folder / key).read_bytes() == before


def test_a_lost_beginning_gets_no_columns_of_another_segment() -> None:
    like = msgspec.structs.replace(HEADER, extractors=OLDER)
    made = filling(LostPart("c-w000-t0001-000001-20300101000000", 0, 2000, 0, 400), like)
    assert header_in(made[2000:], "j").extractors == ()


def test_a_kind_of_items_is_a_name_and_a_version() -> None:
    assert item_version("items/products/12") == ("products", 12)
    for kind in ("items", "items/products", "items/products/0", "items/Products/1", "items/a/b/1"):
        assert item_version(kind) is None


@given(data=st.data(), schema=schemas())
def test_values_of_all_types_are_the_same_in_the_table(
    data: st.DataObject, schema: ItemSchema, tmp_path_factory: pytest.TempPathFactory
) -> None:
    items = data.draw(st.lists(rows_of(schema), max_size=4))
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    header = msgspec.structs.replace(HEADER, extractors=(Extractor.of(schema),))
    found = _built(header, schema, [_row({schema.name: items})], path)
    assert [
        {each.name: _as_json(each.type, row[each.name]) for each in schema.columns} for row in found
    ] == [
        {
            each.name: (float(value) if each.type == "number" and value is not None else value)
            for each, value in zip(schema.columns, item, strict=True)
        }
        for item in items
    ]
    assert [row["_item"] for row in found] == list(range(len(items)))
    again = path.with_name("again.parquet")
    _built(header, schema, [_row({schema.name: items})], again)
    assert again.read_bytes() == path.read_bytes()


def test_an_item_that_does_not_fit_is_left_out_and_the_rest_is_there(tmp_path: Path) -> None:
    header = msgspec.structs.replace(HEADER, extractors=OLDER)
    row = _row({"products": [["lamp", 1], ["desk", "cheap"], [], ["chair", 2]]})
    found = _built(header, PRODUCTS, [row], tmp_path / "t.parquet")
    assert [(each["_item"], each["name"]) for each in found] == [(0, "lamp"), (3, "chair")]


def _row(items: dict[str, list[list[Any]]]) -> JournalRow:
    return JournalRow(
        url="https://a/", surt="", host="a", site="a", date_us=1, status=200, segment="s",
        offset=0, length=0, record_id="i", items=items,
    )  # fmt: skip


def _built(
    header: SegmentHeader, schema: ItemSchema, rows: list[JournalRow], path: Path
) -> list[dict[str, Any]]:
    builder = begin_file(f"items/{schema.name}/{schema.version}", path, header)
    for row in rows:
        builder.add_row(msgspec.json.decode(msgspec.json.encode(row), type=JournalRow))
    builder.close()
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def _as_json(kind: str, value: Any) -> Any:
    """A value of a table as the journal has it."""
    if value is None:
        return None
    if kind.startswith("list["):
        return [_as_json(kind[5:-1], each) for each in value]
    if kind == "json":
        return json.loads(value)
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
            microseconds=1
        )
    return value.isoformat() if isinstance(value, date) else value


def test_formats_1_report_extractors_whose_items_they_lack() -> None:
    failures = ExtensionFailures()
    part = CodePart("extractor", "products", version=1, fields=PRODUCTS.fields_text)
    code = KnownCode("shop:products", parts=(part,))
    note_unstored_items([code], LATE_FIELDS, failures)
    assert failures.notes() == []
    note_unstored_items([code], LATE_FIELDS - 1, failures)
    (note,) = failures.notes()
    assert "extractor products failed: formats of number 1 store no items" in note.first.headline
    assert "lycosa cluster upgrade" in note.first.headline
