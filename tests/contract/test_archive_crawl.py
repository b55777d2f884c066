"""A crawl of real sockets, and its WARC files held against what went over them: every request,
header block and body, byte for byte.

Every URL is asked three times, the last time by a second run, so that revisits refer to another
file, too. There are responses in every framing and content coding, revisits of both profiles, and
bodies that were cut.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
import subprocess
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator

from archive_site import BODY_LIMIT, ArchiveSite, Exchange, archive_site
from lycosa import Crawl
from lycosa.base.config.sections import (
    Config,
    FetchSection,
    LimitSection,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
)
from proofs.outputs import Outputs

QUICK = PolitenessSection(delay_s=0, address_delay_s=0, adaptive_factor=0)
# The answer of a path that does not exist is compared with others and is no record.
OFTEN = RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=1, min_s=1, max_s=1, soft_gone=False)
REVISIT = "http://netpreserve.org/warc/1.1/revisit/"


class Record(NamedTuple):
    """A response or revisit, and the request before it, as warcio reads them."""

    fields: Any
    http: Any
    block: bytes
    request: bytes

    @property
    def kind(self) -> str:
        return str(self.fields["WARC-Type"])

    @property
    def head(self) -> bytes:
        return self.block.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    @property
    def body(self) -> bytes:
        return self.block.partition(b"\r\n\r\n")[2]


class Archive:
    """The crawl folder, what its WARC files hold by URL, and what the site said."""

    def __init__(self, folder: Path, site: ArchiveSite) -> None:
        self.outputs, self.site = Outputs(folder), site
        self.records: dict[str, list[Record]] = defaultdict(list)
        for path in self.outputs.warcs:
            self._read(path)

    def _read(self, path: Path) -> None:
        request = b""
        with path.open("rb") as whole, path.open("rb") as parsed:
            for raw, record in zip(
                ArchiveIterator(whole, no_record_parse=True), ArchiveIterator(parsed), strict=True
            ):
                block = raw.raw_stream.read()
                if record.rec_type == "request":
                    request = block
                elif record.rec_type in ("response", "revisit"):
                    self.records[record.rec_headers["WARC-Target-URI"]].append(
                        Record(record.rec_headers, record.http_headers, block, request)
                    )

    def pairs(self) -> list[tuple[Record, Exchange]]:
        """Each record with the exchange that it is about."""
        assert self.records.keys() == self.site.exchanges.keys()
        return [
            pair
            for url, records in self.records.items()
            for pair in zip(records, self.site.exchanges[url], strict=True)
        ]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    folder = tmp_path_factory.mktemp("archive") / "crawl"
    with archive_site("127.0.0.1") as site:
        # and the target of a redirect, but no robots.txt, which is no page
        urls = len(site.answers) + 1
        for asked in (2, 3):
            config = Config(
                politeness=QUICK,
                refetch=OFTEN,
                fetch=FetchSection(
                    allow_addresses=("127.0.0.0/8",), body_bytes=BODY_LIMIT, spool_bytes=100_000
                ),
                limits=LimitSection(max_pages=asked * urls),
            )
            Crawl(site.seeds, folder, config).run()
        return Archive(folder, site)


def test_every_exchange_is_a_record(archive: Archive) -> None:
    kinds = [
        (record.kind, str(record.fields["WARC-Profile"] or "").removeprefix(REVISIT))
        for record, _ in archive.pairs()
    ]
    assert len(archive.outputs.warcs) == 2, "a run that ends cleanly closes its segment"
    assert set(kinds) == {
        ("response", ""),
        ("revisit", "identical-payload-digest"),
        ("revisit", "server-not-modified"),
    }
    assert min(map(kinds.count, set(kinds))) > 20
    assert archive.outputs.disagreements() == []


def test_requests_are_stored_as_they_were_sent(archive: Archive) -> None:
    assert [record.request for record, _ in archive.pairs()] == [
        exchange.request for _, exchange in archive.pairs()
    ]


def test_header_blocks_are_stored_as_they_were_received_but_for_the_transfer_coding(
    archive: Archive,
) -> None:
    for record, exchange in archive.pairs():
        expected = exchange.head.replace(
            b"\r\nTransfer-Encoding:", b"\r\nX-Crawler-Transfer-Encoding:"
        )
        if expected != exchange.head:  # it overrides the length
            expected = re.sub(rb"(?i)\r\n(content-length:)", rb"\r\nX-Crawler-\1", expected)
        assert record.head == expected


def test_bodies_are_stored_as_they_were_received_without_the_transfer_coding(
    archive: Archive,
) -> None:
    for record, exchange in archive.pairs():
        if record.kind == "response":
            assert record.body == exchange.payload[:BODY_LIMIT]
            assert record.fields["WARC-Truncated"] == (
                "length" if len(exchange.payload) > BODY_LIMIT else None
            )
        else:
            assert record.body == b""


def test_digests_are_those_of_what_was_received(archive: Archive) -> None:
    for record, exchange in archive.pairs():
        assert record.fields["WARC-Block-Digest"] == sha1(record.block)
        unchanged = record.fields["WARC-Profile"] == f"{REVISIT}server-not-modified"
        payload = archive.site.answers[target_of(record)].payload if unchanged else exchange.payload
        expected = sha1(payload[:BODY_LIMIT])
        assert record.fields["WARC-Payload-Digest"] == (
            None if unchanged and not payload else expected
        )


def test_a_revisit_refers_to_a_response_with_its_very_body(archive: Archive) -> None:
    responses = {
        record.fields["WARC-Record-ID"]: record
        for record, _ in archive.pairs()
        if record.kind == "response"
    }
    for record, _ in archive.pairs():
        if record.kind == "revisit":
            original = responses[record.fields["WARC-Refers-To"]]
            assert record.fields["WARC-Refers-To-Target-URI"] == original.fields["WARC-Target-URI"]
            assert record.fields["WARC-Refers-To-Date"] == original.fields["WARC-Date"]
            assert original.body == archive.site.answers[target_of(record)].payload[:BODY_LIMIT]


def test_the_file_is_gzip_to_every_program_and_each_record_is_a_member(archive: Archive) -> None:
    for path in archive.outputs.warcs:
        subprocess.run(["gzip", "-t", str(path)], check=True, timeout=300)
        with gzip.open(path) as file:
            whole = file.read()
        data, members = path.read_bytes(), []
        while data:
            member = zlib.decompressobj(31)
            members.append(member.decompress(data))
            assert member.eof
            data = member.unused_data
        assert b"".join(members) == whole
        assert all(
            member.startswith(b"WARC/1.1\r\n") and member.endswith(b"\r\n\r\n")
            for member in members
        )


def test_any_record_can_be_read_by_itself_at_its_place_in_the_index(archive: Archive) -> None:
    found = {record.fields["WARC-Record-ID"].strip("<>"): record for record, _ in archive.pairs()}
    for row in archive.outputs.rows:
        record = found[row["warc_record_id"]]
        with (archive.outputs.folder / row["warc_filename"]).open("rb") as file:
            file.seek(row["warc_record_offset"])
            packed = io.BytesIO(file.read(row["warc_record_length"]))
            assert [
                theirs.raw_stream.read() for theirs in ArchiveIterator(packed, no_record_parse=True)
            ] == [record.block]
            file.seek(row["warc_record_offset"])
            fast = next(iter(FastIterator(file, parse_http=False)))
            assert fast.verify_block_digest()
            assert fast.reader.read() == record.block
            assert fast.record_id.strip("<>") == row["warc_record_id"]


def sha1(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def target_of(record: Record) -> str:
    return str("/" + record.fields["WARC-Target-URI"].split("/", 3)[3])
