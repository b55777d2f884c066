"""The tables of pages and links, row by row and in their row groups."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lycosa.base.model.discovered import LinkKind
from lycosa.base.urls.identity import Sites
from lycosa.state.store.derived_files import DERIVED_OPTIONS
from lycosa.state.store.journal_rows import JournalRow, Links, SegmentHeader
from lycosa.state.store.links_table import LINKS_SCHEMA as LINKS_SCHEMA
from lycosa.state.store.links_table import LinksBuilder
from lycosa.state.store.pages_table import PAGES_COLUMNS, PagesBuilder, RowParts, values
from lycosa.state.store.parquet import GROUP_ROWS, TableWriter
from store_samples import HEADER

NAMES = [column[0] for column in PAGES_COLUMNS]


def row(url: str = "https://www.example.co.uk/a", **changes: object) -> JournalRow:
    fixed: dict[str, object] = {
        "url": url,
        "surt": "uk,co,example)/a",
        "host": "www.example.co.uk",
        "site": "example.co.uk",
        "date_us": 1,
        "status": 200,
        "segment": "s",
        "offset": 1,
        "length": 2,
        "record_id": "urn:uuid:1",
    }
    return JournalRow(**{**fixed, **changes})  # type: ignore[arg-type]


def column(found: JournalRow, name: str) -> object:
    return values(found, HEADER)[NAMES.index(name)]


def test_names_of_columns_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("host", "registered", "private"),
    [
        ("www.example.co.uk", "example.co.uk", "example.co.uk"),
        ("a.b.github.io", "github.io", "b.github.io"),
        ("co.uk", None, None),
        ("github.io", "github.io", None),
        ("localhost", None, None),
        ("192.0.2.1", None, None),
        ("[2001:db8::1]", None, None),
    ],
)
def test_domains_stand_one_label_below_their_suffix(
    host: str, registered: str | None, private: str | None
) -> None:
    registry_suffix, private_suffix = Sites().public_suffixes(host.strip("[]"))
    found = row(
        f"http://{host}/", host=host, registry_suffix=registry_suffix, private_suffix=private_suffix
    )
    assert column(found, "url_host_registered_domain") == registered
    assert column(found, "url_host_private_domain") == private


def test_without_suffixes_their_columns_are_null() -> None:
    assert (
        column(row(), "url_host_registry_suffix") is None
        and column(row(), "url_host_registered_domain") is None
    )


def test_labels_are_counted_from_the_end() -> None:
    view = RowParts(row("http://e.d.c.b.a:8080/"), HEADER)
    assert [view.label(n) for n in range(1, 7)] == ["a", "b", "c", "d", "e", None]
    assert column(row("http://e.d.c.b.a:8080/x?y"), "url_port") == 8080


@pytest.mark.parametrize(
    ("status", "subset"), [(200, "warc"), (404, "crawldiagnostics"), (304, "crawldiagnostics")]
)
def test_the_subset_follows_the_status(status: int, subset: str) -> None:
    assert column(row(status=status), "subset") == subset


def test_a_status_beyond_its_type_does_not_spoil_the_table() -> None:
    assert column(row(status=99_999), "fetch_status") == 32_767


def test_the_documentation_names_every_column_and_field() -> None:
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")
    words = set(re.findall(r"`([a-z_0-9]+)\??`", text))
    fields = {
        *NAMES,
        *LINKS_SCHEMA.names,
        *JournalRow.__struct_fields__,
        *SegmentHeader.__struct_fields__,
    }
    assert (fields | set(DERIVED_OPTIONS)) - {"options"} - words == set()


def test_pages_beyond_one_batch_are_all_there_in_order(tmp_path: Path) -> None:
    builder = PagesBuilder(tmp_path / "p", HEADER)
    for number in range(2500):
        builder.add_row(row(f"https://www.example.co.uk/{number}", date_us=number))
    builder.close()
    table = pq.read_table(tmp_path / "p")
    assert table.column_names == NAMES
    assert table["url_path"].to_pylist() == [f"/{number}" for number in range(2500)]
    assert pq.ParquetFile(tmp_path / "p").num_row_groups == 1


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    PagesBuilder(tmp_path / "p", HEADER).close()
    LinksBuilder(tmp_path / "l", HEADER).close()
    assert pq.read_table(tmp_path / "p").column_names == NAMES
    assert pq.read_table(tmp_path / "l").column_names == LINKS_SCHEMA.names


def test_links_of_many_pages_keep_their_source_and_position(tmp_path: Path) -> None:
    builder = LinksBuilder(tmp_path / "l", HEADER)
    expected = []
    for number in range(700):
        count = number % 4
        urls = [f"http://t/{number}/{at}" for at in range(count)]
        builder.add_row(
            row(
                f"http://p/{number}",
                links=Links(
                    urls, [int(LinkKind.OTHER)] * count, ["é"] * count, [count - 1] if count else []
                ),
            )
        )
        expected += [
            (f"http://p/{number}", url, at, at == count - 1) for at, url in enumerate(urls)
        ]
    builder.close()
    found = pq.read_table(tmp_path / "l").to_pylist()
    assert [
        (link["source_url"], link["target_url"], link["position"], link["nofollow"])
        for link in found
    ] == expected
    assert {(link["kind"], link["anchor"], link["warc_segment"]) for link in found} == {
        ("other", "é", "s")
    }


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int8())])
    with TableWriter(tmp_path / "t", schema) as writer:
        for _ in range(5):
            writer.add_batch(
                pa.record_batch([pa.array([1] * (GROUP_ROWS // 2), pa.int8())], schema=schema)
            )
    groups = pq.ParquetFile(tmp_path / "t").metadata
    assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [
        GROUP_ROWS,
        GROUP_ROWS,
        GROUP_ROWS // 2,
    ]
