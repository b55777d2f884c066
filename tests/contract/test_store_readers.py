"""What is stored is read back, record by record, by the programs that others read archives with."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import zlib
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from fastwarc.cli import main as fastwarc_main
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import BufferedReader
from warcio.checker import Checker

from lycosa.base.model.capture import Capture, Location
from lycosa.state.store.journal import read_rows
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.pages_table import COMMON_CRAWL_COLUMNS
from lycosa.state.store.stored_data import location_of, read_record
from store_samples import (
    START,
    capture,
    close_all,
    crawl_rows,
    fetched,
    misshapen,
    numbered,
    open_store,
)

SCHEMA_FILE = (
    Path(__file__).parents[2].parent / "shared" / "data" / "warc" / "cc-index-schema-flat.json"
)


NAMES = [
    *(
        "plain",
        "chunked",
        "gzip",
        "br",
        "h2",
        "latin-1",
        "bare-lf",
        "empty-folds",
        "no-blank-line",
        "empty",
        "wrong-length",
    ),
    *("truncated", "redirect", "spooled", "duplicate", "not-modified", "port", "robots"),
]


class Stored:
    """A closed segment with one capture of every form."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.captures = misshapen(folder / "spool")
        assert list(self.captures) == NAMES
        self.bodies = {name: self._body(item) for name, item in self.captures.items()}
        store = open_store(folder)
        store.append_dns("www.example.org", ["192.0.2.7", "2001:db8::7"], START)
        self.locations = {name: store.append_capture(item) for name, item in self.captures.items()}
        (self.segment,) = close_all(store)
        self.warc = folder / "warc" / f"{self.segment.name}.warc.gz"
        self.rows = {row.record_id: row for row in crawl_rows(folder)}

    @staticmethod
    def _body(item: Capture) -> bytes:
        return Path(item.fetched.spool).read_bytes() if item.fetched.spool else item.fetched.body

    def row(self, name: str) -> JournalRow:
        return self.rows[self.locations[name].record_id]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("crawl"))


def records(stored: Stored, *kinds: str) -> dict[str, Any]:
    """warcio's records of some types by target, with their content read: (headers, HTTP headers,
    body).
    """
    found = {}
    with stored.warc.open("rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type in kinds:
                found[record.rec_headers["WARC-Record-ID"].strip("<>")] = (
                    record.rec_headers,
                    record.http_headers,
                    record.raw_stream.read(),
                )
    return found


def test_warcio_check_finds_nothing_wrong(
    stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    class Arguments:
        inputs = (str(stored.warc),)
        verbose = True

    # warcio knows the interface of brotlicffi only, and fails on an object of Google's package
    # (webrecorder/warcio#73).
    assert set(BufferedReader.DECOMPRESSORS) >= {"gzip", "deflate"}
    BufferedReader.DECOMPRESSORS.pop("br", None)
    checker = Checker(Arguments())
    checker.process_all()
    output = capsys.readouterr().out
    assert checker.exit_value == 0, output
    revisits = (
        2  # their payload is elsewhere: only the block can be checked, and warcio leaves them alone
    )
    assert output.count("digest pass") == 2 + 3 * len(stored.captures) - revisits, output


def test_fastwarc_check_with_payloads_finds_nothing_wrong(stored: Stored) -> None:
    """But for identical-digest revisits: WARC 1.1 (6.7.2) wants the digest of the original
    there, FastWARC compares it with their block.
    """
    result = CliRunner().invoke(fastwarc_main, ["check", "-q", str(stored.warc)])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(fastwarc_main, ["check", "-p", str(stored.warc)])
    failed = [line.strip("<>") for line in result.output.splitlines() if line.startswith("<urn:")]
    assert failed == [stored.locations["duplicate"].record_id], result.output


def test_every_digest_is_right_when_computed_here(stored: Stored) -> None:
    for _, http, body in records(stored, "response").values():
        assert http is not None and body is not None
    with stored.warc.open("rb") as file:
        for record in ArchiveIterator(file, no_record_parse=True):
            block = record.raw_stream.read()
            expected = "sha1:" + base64.b32encode(hashlib.sha1(block).digest()).decode()
            assert record.rec_headers["WARC-Block-Digest"] == expected
            assert int(record.rec_headers["Content-Length"]) == len(block)


def test_each_capture_is_a_request_a_response_and_metadata_that_name_each_other(
    stored: Stored,
) -> None:
    with stored.warc.open("rb") as file:
        order = [(record.rec_type, record.rec_headers) for record in ArchiveIterator(file)]
    assert order[0][0] == "warcinfo" and order[1][0] == "resource"
    assert order[0][1]["WARC-Filename"] == stored.warc.name
    rest = order[2:]
    assert len(rest) == 3 * len(stored.captures)
    for request, main, metadata in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        assert (request[0], metadata[0]) == ("request", "metadata") and main[0] in (
            "response",
            "revisit",
        )
        assert (
            request[1]["WARC-Concurrent-To"]
            == main[1]["WARC-Record-ID"]
            == metadata[1]["WARC-Concurrent-To"]
        )
        assert main[1]["WARC-Concurrent-To"] == request[1]["WARC-Record-ID"]
        assert {head["WARC-Warcinfo-ID"] for _, head in (request, main, metadata)} == {
            order[0][1]["WARC-Record-ID"]
        }


def test_record_ids_are_unique(stored: Stored) -> None:
    with stored.warc.open("rb") as file:
        ids = [record.rec_headers["WARC-Record-ID"] for record in ArchiveIterator(file)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if name not in ("redirect", "duplicate", "not-modified", "port", "robots")
    ],
)
def test_both_readers_give_the_body_as_received(stored: Stored, name: str) -> None:
    expected = stored.bodies[name]
    location = stored.locations[name]
    headers, _, body = records(stored, "response")[location.record_id]
    assert body == expected
    with stored.warc.open("rb") as file:
        file.seek(location.offset)
        record = next(iter(FastIterator(file, parse_http=True)))
        assert (
            record.record_id.strip("<>") == location.record_id
            or record.headers["WARC-Record-ID"].strip("<>") == location.record_id
        )
        assert record.reader.read() == expected
    assert headers["WARC-Date"] == "2026-09-21T14:13:20.250000Z"
    assert headers["WARC-IP-Address"] == "192.0.2.7"


@pytest.mark.parametrize(
    "name", ["plain", "latin-1", "empty", "wrong-length", "truncated", "redirect", "br"]
)
def test_header_blocks_without_transfer_encoding_are_kept_to_the_byte(
    stored: Stored, name: str
) -> None:
    assert (
        read_record(stored.folder, stored.locations[name]).header_block
        == stored.captures[name].fetched.header_block
    )


def test_only_the_transfer_encoding_field_is_renamed(stored: Stored) -> None:
    sent = stored.captures["chunked"].fetched.header_block
    kept = read_record(stored.folder, stored.locations["chunked"]).header_block
    assert kept == sent.replace(
        b"tRANSFER-Encoding: chunked", b"X-Crawler-tRANSFER-Encoding: chunked", 1
    )
    assert b"X-Note: Transfer-Encoding: kept" in kept


def test_http2_is_in_http1_syntax_and_marked(stored: Stored) -> None:
    record = read_record(stored.folder, stored.locations["h2"])
    assert record.header_block == b"HTTP/1.1 200 \r\ncontent-type: text/html\r\n\r\n"
    headers, http, _ = records(stored, "response")[stored.locations["h2"].record_id]
    assert [value for name, value in headers.headers if name == "WARC-Protocol"] == [
        "h2",
        "tls/1.3",
    ]
    assert http.get_statuscode() == "200"


def test_truncation_is_marked_in_the_record_and_the_row(stored: Stored) -> None:
    headers, _, _ = records(stored, "response")[stored.locations["truncated"].record_id]
    assert headers["WARC-Truncated"] == "length" == stored.row("truncated").truncated
    assert all(
        head["WARC-Truncated"] is None
        for key, (head, _, _) in records(stored, "response").items()
        if not stored.rows[key].truncated
    )


def test_a_duplicate_points_at_the_original_and_has_no_body(stored: Stored) -> None:
    headers, http, body = records(stored, "revisit")[stored.locations["duplicate"].record_id]
    assert (
        headers["WARC-Profile"]
        == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    )
    assert headers["WARC-Refers-To"] == "<urn:uuid:00000000-0000-4000-8000-000000000001>"
    assert headers["WARC-Refers-To-Target-URI"] == "https://www.example.org/first"
    assert headers["WARC-Refers-To-Date"] == "2026-09-10T00:26:40.123456Z"
    assert headers["WARC-Payload-Digest"] == stored.captures["duplicate"].payload_digest
    assert headers["WARC-Truncated"] == "length"
    assert body == b"" and http.get_statuscode() == "200"


def test_a_not_modified_revisit_has_no_digest_of_nothing(stored: Stored) -> None:
    headers, http, _ = records(stored, "revisit")[stored.locations["not-modified"].record_id]
    assert headers["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
    assert headers["WARC-Payload-Digest"] is None
    assert headers["WARC-Refers-To-Target-URI"] == "https://www.example.org/first"
    assert http.get_statuscode() == "304"


def test_a_dns_answer_is_a_resource_in_master_file_lines(stored: Stored) -> None:
    ((headers, _, block),) = records(stored, "resource").values()
    assert (headers["WARC-Target-URI"], headers["Content-Type"]) == (
        "dns:www.example.org",
        "text/dns",
    )
    assert (
        block
        == b"www.example.org.\tIN\tA\t192.0.2.7\r\nwww.example.org.\tIN\tAAAA\t2001:db8::7\r\n"
    )


def test_metadata_says_where_a_page_came_from_and_which_rule_allowed_it(stored: Stored) -> None:
    found = {
        headers["WARC-Target-URI"]: block.decode()
        for headers, _, block in records(stored, "metadata").values()
    }
    text = found["https://www.example.org/large"]
    for line in (
        "via: https://www.example.org/",
        "hopsFromSeed: LLR",
        "robotsLine: 4",
        "robotsRule: Allow: /page",
        "redirectedFrom: https://www.example.org/a",
    ):
        assert f"{line}\r\n" in text
    assert "fetchKind: robots\r\n" in found["https://www.example.org/robots.txt"]
    assert "robotsDecision" not in found["https://www.example.org/robots.txt"]


def test_each_member_is_one_gzip_member_of_its_own(stored: Stored) -> None:
    data, at, count = stored.warc.read_bytes(), 0, 0
    while at < len(data):
        gzip_stream = zlib.decompressobj(31)
        gzip_stream.decompress(data[at:])
        assert gzip_stream.eof
        at = len(data) - len(gzip_stream.unused_data)
        count += 1
    assert count == 2 + 3 * len(stored.captures)


def test_a_cdxj_line_is_sorted_and_points_at_its_record(stored: Stored) -> None:
    lines = (stored.folder / "cdxj" / f"{stored.segment.name}.cdxj").read_bytes().splitlines()
    # "not-modified" has none
    assert lines == sorted(lines) and len(lines) == len(stored.captures) - 1
    for line in lines:
        key, time, text = line.decode().split(" ", 2)
        entry = json.loads(text)
        packed = (stored.folder / entry["filename"]).read_bytes()[int(entry["offset"]) :][
            : int(entry["length"])
        ]
        (record,) = list(ArchiveIterator(io.BytesIO(packed)))
        assert record.rec_headers["WARC-Target-URI"] == entry["url"]
        assert time == record.rec_headers["WARC-Date"][:19].translate(str.maketrans("", "", "-:T"))
        assert record.http_headers.get_statuscode() == entry["status"]
        assert (
            entry["mime"] == "warc/revisit"
            if record.rec_type == "revisit"
            else entry["mime"] != "warc/revisit"
        )
        assert key == next(
            row.surt
            for row in stored.rows.values()
            if row.url == entry["url"] and str(row.offset) == entry["offset"]
        )


def test_parquet_cdxj_and_warc_agree_record_by_record(stored: Stored) -> None:
    pages = pq.read_table(stored.folder / "pages" / f"{stored.segment.name}.parquet").to_pylist()
    entries = {}
    for line in (stored.folder / "cdxj" / f"{stored.segment.name}.cdxj").read_text().splitlines():
        entry = json.loads(line.split(" ", 2)[2])
        entries[int(entry["offset"])] = entry
    by_id = records(stored, "response", "revisit")
    assert len(pages) == len(entries) + 1 == len(by_id) == len(stored.captures)
    for row in pages:
        if row["revisit_profile"] == "server-not-modified":
            continue
        entry = entries[row["warc_record_offset"]]
        headers, _, _ = by_id[row["warc_record_id"]]
        assert headers["WARC-Target-URI"] == row["url"] == entry["url"]
        assert row["content_digest"] == (entry.get("digest") or None)
        assert str(row["fetch_status"]) == entry["status"]
        assert str(row["warc_record_length"]) == entry["length"]
        assert row["warc_filename"] == entry["filename"]
        assert headers["WARC-Date"] == row["fetch_time"].isoformat() + "Z"
        assert (row["revisit_profile"] is not None) == (headers["WARC-Profile"] is not None)


@pytest.mark.shared_data
def test_pages_begin_with_the_columns_of_common_crawls_index() -> None:
    if not SCHEMA_FILE.exists():
        pytest.skip("the index schema is not beside the checkout")
    names = {"string": "string", "integer": "int32", "short": "int16", "timestamp": "timestamp[us]"}
    fields = json.loads(SCHEMA_FILE.read_text())["fields"]
    expected = [(field["name"], names[field["type"]], field["nullable"]) for field in fields]
    assert [
        (name, str(kind), nullable) for name, kind, nullable, _ in COMMON_CRAWL_COLUMNS
    ] == expected
    print(f"passed {len(expected)} of {len(expected)}")


def test_duckdb_answers_a_query_written_for_common_crawls_index(stored: Stored) -> None:
    query = f"""SELECT url_host_registered_domain, subset, COUNT(*) AS n FROM read_parquet('{stored.folder}/pages/*.parquet')
        WHERE url_host_tld = 'org' AND fetch_time BETWEEN TIMESTAMP '2026-09-21' AND TIMESTAMP '2026-09-22' GROUP BY ALL ORDER BY n DESC"""
    with duckdb.connect() as base:
        assert base.sql(query).fetchall()[0] == ("example.org", "warc", 14)
        times = base.sql(
            "SELECT DISTINCT typeof(fetch_time), typeof(simhash) FROM"
            f" read_parquet('{stored.folder}/pages/*.parquet')"
        )
        assert times.fetchall() == [("TIMESTAMP", "UBIGINT")]


def test_host_columns_of_an_address_are_null(stored: Stored) -> None:
    pages = pq.read_table(stored.folder / "pages" / f"{stored.segment.name}.parquet").to_pylist()
    (row,) = [row for row in pages if row["url_host_name"] == "2001:db8::1"]
    assert row["url_port"] == 8080 and row["url_query"] is None
    assert [
        row[name]
        for name in ("url_host_tld", "url_host_registered_domain", "url_host_name_reversed")
    ] == [None] * 3


def test_columns_take_the_page_apart(stored: Stored) -> None:
    pages = {
        row["url"]: row
        for row in pq.read_table(
            stored.folder / "pages" / f"{stored.segment.name}.parquet"
        ).to_pylist()
    }
    row = pages["https://www.example.org/page?q=1"]
    assert (
        row["url_host_name_reversed"],
        row["url_path"],
        row["url_query"],
        row["url_host_3rd_last_part"],
    ) == (
        "org.example.www",
        "/page",
        "q=1",
        "www",
    )
    assert (row["content_languages"], row["language"], row["simhash"], row["outlinks"]) == (
        "deu",
        "de",
        2**64 - 3,
        3,
    )
    assert (
        pages["https://www.example.org/old"]["fetch_redirect"]
        == "https://www.example.org/n%C3%A9w?x"
    )
    assert pages["https://www.example.org/large"]["first_url"] == "https://www.example.org/a"
    assert pages["https://www.example.org/robots.txt"]["subset"] == "robotstxt"
    assert pages["https://www.example.org/again"]["duplicate_of"] == "https://www.example.org/first"


def test_the_links_table_has_every_link_in_order(stored: Stored) -> None:
    links = pq.read_table(stored.folder / "links" / f"{stored.segment.name}.parquet")
    assert links.schema.field("source_url").type == "string"
    mine = [
        row for row in links.to_pylist() if row["source_url"] == "https://www.example.org/chunked"
    ]
    assert [
        (row["target_url"], row["kind"], row["anchor"], row["nofollow"], row["position"])
        for row in mine
    ] == [
        ("https://www.example.org/l0", "a", "anchor 0", False, 0),
        ("https://www.example.org/l1", "img", "anchor 1", True, 1),
        ("https://www.example.org/l2", "canonical", "anchor 2", False, 2),
    ]
    assert links.num_rows == sum(row.outlinks for row in stored.rows.values())


def test_wet_text_refers_to_its_response(stored: Stored) -> None:
    path = stored.folder / "text" / f"{stored.segment.name}.warc.wet.gz"
    with path.open("rb") as file:
        found = {
            record.rec_headers["WARC-Refers-To"]: record
            for record in ArchiveIterator(file)
            if record.rec_type == "conversion"
        }
    assert f"<{stored.locations['plain'].record_id}>" in found
    assert f"<{stored.locations['duplicate'].record_id}>" not in found
    with path.open("rb") as file:
        records_ = [(record.rec_type, record.raw_stream.read()) for record in ArchiveIterator(file)]
    assert records_[0][0] == "warcinfo"
    assert records_[1] == ("conversion", "Grüezi mitenand, 日本.\nSecond line.".encode())


def test_a_spooled_body_is_gone_once_it_is_written(stored: Stored) -> None:
    assert list(stored.folder.glob("spool*")) == []


def test_a_record_is_read_back_from_an_open_segment_too(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    location = store.append_capture(capture(fetched(body=b"<p>open")))
    pending = store.freeze()
    store.files.put_records(pending)
    assert read_record(tmp_path, location).body == b"<p>open"
    assert [location_of(row) for row in crawl_rows(tmp_path, pending.lengths)] == [location]


def test_rows_say_all_that_the_derived_files_say(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    locations = [store.append_capture(numbered(number)) for number in range(50)]
    (segment,) = close_all(store)
    rows = list(read_rows(tmp_path / "journal" / f"{segment.name}.jsonl.zst"))
    assert [
        Location(f"{row.segment}.warc.gz", row.offset, row.length, row.record_id) for row in rows
    ] == locations
    with gzip.open(tmp_path / "warc" / f"{segment.name}.warc.gz") as file:
        assert file.read().count(b"\r\nWARC-Type: response\r\n") == 50
