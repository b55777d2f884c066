"""Columns of items: what is refused, what a row may contain, and the text that a header stores."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from item_samples import rows_of, schemas
from lycosa.base.model.item_schema import (
    MAX_COLUMNS,
    RESERVED_NAMES,
    TYPES,
    BadSchema,
    ItemColumn,
    ItemSchema,
    check_item_name,
    schema_in,
)
from lycosa.state.store.journal import decode_journal_row, encode_header, header_in
from lycosa.state.store.journal import encode_journal_frame as frame
from lycosa.state.store.journal_rows import Extractor, JournalRow
from store_samples import HEADER


def schema(*columns: ItemColumn) -> ItemSchema:
    return ItemSchema("products", 1, columns)


@given(schemas())
def test_a_header_keeps_the_columns(made: ItemSchema) -> None:
    header = msgspec.structs.replace(HEADER, extractors=(Extractor.of(made),))
    (found,) = header_in(frame([encode_header(header)]), "j").extractors
    assert found.columns() == made
    assert schema_in(made.name, made.version, made.fields_text) == made
    assert found.schema == made.digest


@given(st.data())
def test_a_row_that_fits_is_the_same_after_the_journal(data: st.DataObject) -> None:
    made = data.draw(schemas())
    row = data.draw(rows_of(made))
    assert made.misfit(row) == ""
    stored = msgspec.json.decode(msgspec.json.encode(row))
    assert stored == row and made.misfit(stored) == ""


def test_a_header_of_an_earlier_form_has_no_columns() -> None:
    early = msgspec.convert(["products", 2, "0a1b"], Extractor)
    assert early == Extractor("products", 2, "0a1b") and early.columns() is None


def test_the_digest_depends_on_names_types_and_null_only() -> None:
    price = schema(ItemColumn("price", "number"))
    assert price.digest == ItemSchema("others", 7, price.columns).digest
    others = [ItemColumn("price", "number", True), ItemColumn("price", "text")]
    assert len({price.digest, *(schema(each).digest for each in others)}) == 3
    assert len(price.digest) == 16


@pytest.mark.parametrize("name", ["", "Products", "1a", "a-b", "a/b", "..", "a.b", "x" * 64, "_a"])
def test_a_name_that_is_no_folder_or_table_is_refused(name: str) -> None:
    with pytest.raises(BadSchema, match="lower-case letters"):
        check_item_name(name)


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_a_name_that_a_table_has_is_refused(name: str) -> None:
    with pytest.raises(BadSchema, match="a table or feed has it"):
        check_item_name(name)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ((), "from 1 to 200 fields"),
        (tuple(ItemColumn(f"c{n}", "text") for n in range(MAX_COLUMNS + 1)), "from 1 to 200"),
        ((ItemColumn("_url", "text"),), "a leading _ is for"),
        ((ItemColumn("größe", "number"),), "ASCII"),
        ((ItemColumn("name", "text"), ItemColumn("Name", "text")), "two fields are named Name"),
        ((ItemColumn("price", "decimal"),), "price has the type 'decimal'"),
        ((ItemColumn("tags", "list[json]"),), "the type"),
    ],
)
def test_columns_that_no_table_can_have_are_refused(
    columns: tuple[ItemColumn, ...], why: str
) -> None:
    with pytest.raises(BadSchema, match=why):
        schema(*columns)


@pytest.mark.parametrize("version", [0, -1, 1_000_000])
def test_a_version_has_a_bound(version: int) -> None:
    with pytest.raises(BadSchema, match="version"):
        ItemSchema("products", version, (ItemColumn("a", "text"),))


@pytest.mark.parametrize("text", ["", "a", "a:", "a:text,", ":text", "a:text??", "a:text,A:text"])
def test_a_damaged_text_of_columns_is_refused(text: str) -> None:
    with pytest.raises(BadSchema):
        schema_in("products", 1, text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", 1),
        ("text", "\ud800"),
        ("integer", True),
        ("integer", 2**63),
        ("integer", 1.0),
        ("number", "1"),
        ("number", float("nan")),
        ("number", float("inf")),
        ("boolean", 1),
        ("time", "2026-11-23"),
        ("time", 10**18),
        ("date", "2026-W01-1"),
        ("date", "20261123"),
        ("date", "2026-02-30"),
        ("list[text]", "abc"),
        ("list[text]", ["a", None]),
        ("list[integer]", [1, 2.0]),
    ],
)
def test_a_value_of_another_type_does_not_fit(kind: str, value: Any) -> None:
    assert schema(ItemColumn("field", kind)).misfit([value]) == f"field is not {kind}"


def test_null_fits_an_optional_column_only() -> None:
    for kind in TYPES:
        assert schema(ItemColumn("field", kind)).misfit([None]) == "field is missing"
        assert schema(ItemColumn("field", kind, optional=True)).misfit([None]) == ""


def test_a_row_has_a_value_for_each_column() -> None:
    two = schema(ItemColumn("a", "text"), ItemColumn("b", "text"))
    assert two.misfit(["x"]) == "a row has 1 values, and products has 2 fields"


def test_rows_without_items_are_as_before() -> None:
    row = JournalRow(
        url="https://a/", surt="", host="a", site="a", date_us=0, status=200, segment="s",
        offset=0, length=0, record_id="i",
    )  # fmt: skip
    line = msgspec.json.encode(row)
    assert b"items" not in line and decode_journal_row(line) == row
