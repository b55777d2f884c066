"""Reads what a crawl left, and holds its files against each other: WARC, CDXJ and Parquet,
record by record.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from fastwarc.warc import ArchiveIterator, WarcRecordType


class Stored(NamedTuple):
    """One capture: what a WARC record, a CDXJ line and a Parquet row all tell of it."""

    url: str
    filename: str
    offset: int


class Outputs:
    """The closed segments of a crawl folder. ``rows`` are Parquet's, ``lines`` CDXJ's,
    ``records`` those of the WARC files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warcs = sorted((folder / "warc").glob("*.warc.gz"))
        self.open_files = sorted(
            [*(folder / "warc").glob("*.open"), *(folder / "journal").glob("*.open")]
        )
        self.rows: list[dict[str, Any]] = [
            row
            for path in sorted((folder / "pages").glob("*.parquet"))
            for row in pq.read_table(path).to_pylist()
        ]
        self.lines = [
            json.loads(line.split(" ", 2)[2])
            for path in sorted((folder / "cdxj").glob("*.cdxj"))
            for line in path.read_text().splitlines()
        ]

    def pages(self) -> set[str]:
        """URLs of the captured HTML pages with status 200."""
        return {
            row["url"]
            for row in self.rows
            if row["kind"] == "page" and row["fetch_status"] == 200 and _is_html(row)
        }

    def captured_twice(self) -> list[tuple[str, int]]:
        """Fetches, by URL and number, that have more than one capture."""
        counts = Counter(
            (row["url"], row["fetch_number"]) for row in self.rows if row["kind"] != "robots"
        )
        return [fetch for fetch, number in counts.items() if number > 1]

    def unchanged(self) -> set[Stored]:
        """Visits that the server answered with 304: these have no line in the index, where they
        would hide what they confirm.
        """
        rows = [row for row in self.rows if row["revisit_profile"] == "server-not-modified"]
        return {Stored(row["url"], row["warc_filename"], row["warc_record_offset"]) for row in rows}

    def disagreements(self) -> list[str]:
        """What WARC, CDXJ and Parquet do not agree on."""
        records = self.records()
        rows = {
            Stored(row["url"], row["warc_filename"], row["warc_record_offset"]): row[
                "warc_record_id"
            ]
            for row in self.rows
        }
        lines = {Stored(line["url"], line["filename"], int(line["offset"])) for line in self.lines}
        return [
            *(
                f"in WARC and not in Parquet: {stored}"
                for stored in sorted(records.keys() - rows.keys())
            ),
            *(
                f"in Parquet and not in WARC: {stored}"
                for stored in sorted(rows.keys() - records.keys())
            ),
            *(
                f"in WARC and not in CDXJ: {stored}"
                for stored in sorted(records.keys() - self.unchanged() - lines)
            ),
            *(f"in CDXJ and not in WARC: {stored}" for stored in sorted(lines - records.keys())),
            *(
                f"another record id in Parquet: {stored}"
                for stored in records.keys() & rows.keys()
                if records[stored] != rows[stored]
            ),
            *(
                f"a visit without change in CDXJ: {stored}"
                for stored in sorted(self.unchanged() & lines)
            ),
            *(
                f"{len(self.lines)} CDXJ lines for {len(lines)} records"
                for _ in [0]
                if len(self.lines) != len(lines)
            ),
            *(
                f"{len(self.rows)} Parquet rows for {len(rows)} records"
                for _ in [0]
                if len(self.rows) != len(rows)
            ),
        ]

    def records(self) -> dict[Stored, str]:
        """Responses and revisits of all closed WARC files with their record ids, their digests
        verified.
        """
        found: dict[Stored, str] = {}
        for path in self.warcs:
            name = str(path.relative_to(self.folder))
            kinds = WarcRecordType.response | WarcRecordType.revisit
            with path.open("rb") as file:
                for record in ArchiveIterator(
                    file, record_types=kinds, parse_http=False, func_filter=None
                ):
                    assert record.verify_block_digest(), (
                        f"{name} at {record.stream_pos}: block digest"
                    )
                    stored = Stored(record.headers["WARC-Target-URI"], name, record.stream_pos)
                    found[stored] = record.record_id.removeprefix("<").removesuffix(">")
        return found


def _is_html(row: dict[str, Any]) -> bool:
    return str(row["content_mime_type"]).partition(";")[0].strip() in (
        "text/html",
        "application/xhtml+xml",
    )
