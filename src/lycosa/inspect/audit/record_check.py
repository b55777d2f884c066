"""WARC records against the rows that describe them: place, names, dates and recomputed digests."""

from __future__ import annotations

import base64
import hashlib

from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.audit.audited_segments import Segment, is_records
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.removed_files import ElsewhereError
from lycosa.state.store.stored_data import RecordError, StoredRecord, record_in
from lycosa.state.store.warc import bracketed, warc_date


class RecordChecks:
    """Checks the WARC files of segments, one after the other."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.unread = 0
        """Records that are in a store that cannot be read."""
        self._at = 0

    def begin_segment(self, segment: Segment) -> None:
        """Start a segment. The first record is the warcinfo, which the journal's head describes."""
        self._segment = segment
        self._at = segment.header.warcinfo_length

    def check_place(self, row: JournalRow) -> None:
        """Check that records follow each other.

        Bytes without a row must be complete records too (DNS answers).
        """
        start = row.offset - row.request_length
        if start > self._at and not self._is_filled(self._at, start):
            self.check.add_breach(
                f"{self._segment.warc.name}, bytes {self._at} to {start}: neither a capture nor"
                " other complete records"
            )
        elif start < self._at:
            self.check.add_breach(
                f"{self._segment.warc.name}, byte {start}: {row.url} overlaps the record before it"
            )
        self._at = max(self._at, row.offset + row.length + row.metadata_length)

    def end_segment(self) -> None:
        """Check that the committed file ends with its last record."""
        committed = self._segment.warc_length
        self.check.expect(
            self._at == committed
            or (self._at < committed and self._is_filled(self._at, committed)),
            f"{self._segment.warc.name}: its records end at byte {self._at}, but {committed}"
            " bytes are committed",
        )

    def read_record(self, segment: Segment, row: JournalRow) -> StoredRecord | None:
        """The main record of a capture, checked; ``None`` when it is missing or not read."""
        start = row.offset - row.request_length
        try:
            # its records are next to each other, and are read at once
            data = segment.read_warc(start, row.offset + row.length + row.metadata_length)
            record = _record_at(segment, data, start, row.offset, row.length)
            if row.request_length:
                companion = _record_at(segment, data, start, start, row.request_length)
                self._companion(row, companion, "request")
            if row.metadata_length:
                end = row.offset + row.length
                companion = _record_at(segment, data, start, end, row.metadata_length)
                self._companion(row, companion, "metadata")
        except ElsewhereError as error:
            # Removed here after its upload, which is no fault; the report counts it as not read.
            self.unread += 1
            self.check.add_note(f"not read: {error}")
            return None
        except (RecordError, OSError, ObjectError) as error:
            # A capture without a readable record is what the crawl promises never to have.
            self.check.expect(False, f"{row.url}: {error}")
            return None
        self.check.checked += 1
        self._main(row, record)
        return record

    def _is_filled(self, start: int, end: int) -> bool:
        try:
            return is_records(self._segment.read_warc(start, end))
        except ElsewhereError as error:
            self.check.add_note(f"not read: {error}")
            return True  # nothing is known against it
        except ObjectError as error:
            self.check.add_breach(str(error))
            return False

    def _main(self, row: JournalRow, record: StoredRecord) -> None:
        wanted = {
            "WARC-Type": "revisit" if row.revisit else "response",
            "WARC-Record-ID": bracketed(row.record_id),
            "WARC-Target-URI": row.url,
            "WARC-Date": warc_date(row.date_us),
            "WARC-Block-Digest": _digest(record.header_block + record.body),
        }
        if row.revisit:
            if "WARC-Payload-Digest" in record.fields:
                wanted["WARC-Payload-Digest"] = row.digest
        else:
            wanted["WARC-Payload-Digest"] = _digest(record.body)
            if row.digest != wanted["WARC-Payload-Digest"]:
                self.check.add_breach(
                    f"{row.url}: the stored body does not have the journal's digest {row.digest}"
                )
        self._fields(row, record, wanted)

    def _companion(self, row: JournalRow, record: StoredRecord, kind: str) -> None:
        wanted = {
            "WARC-Type": kind,
            "WARC-Concurrent-To": bracketed(row.record_id),
            "WARC-Target-URI": row.url,
            "WARC-Block-Digest": _digest(record.header_block + record.body),
        }
        self._fields(row, record, wanted)

    def _fields(self, row: JournalRow, record: StoredRecord, wanted: dict[str, str]) -> None:
        for name, value in wanted.items():
            found = record.fields.get(name, "")
            if found != value:
                self.check.add_breach(
                    f"{row.url}, {row.segment}, byte {row.offset}: {name} is {found or 'missing'},"
                    f" expected {value}"
                )


def _record_at(segment: Segment, data: bytes, start: int, offset: int, length: int) -> StoredRecord:
    """A record in ``data``, which begins at the offset ``start``."""
    packed = data[offset - start : offset - start + length]
    return record_in(packed, length, f"{segment.warc}, byte {offset}")


def _digest(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode(
        "ascii"
    )
