"""Renders: their WARC records against their rows, and each against the capture that it names."""

from __future__ import annotations

import json

from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.audit.audited_segments import Segment
from lycosa.inspect.audit.capture_index import CaptureIndex, capture_key
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.removed_files import ElsewhereError
from lycosa.state.store.render_facts import DOCUMENT, PAGE_INFO, PAGE_TEXT, RenderRecord
from lycosa.state.store.stored_data import RecordError, StoredRecord, record_in
from lycosa.state.store.warc import block_digest, bracketed, warc_date

_MOST = 100_000  # renders whose capture is looked up at the end


class RenderChecks:
    """Call ``check_row`` for each render, then ``finish_check``."""

    def __init__(self) -> None:
        self.check = Check(
            "render records",
            "records of renders against their rows: place, names, dates, recomputed digests; each"
            " of a capture that is stored",
        )
        self.better = self.failed = 0
        self._renders = 0
        self._of: dict[int, str] = {}

    @property
    def has_renders(self) -> bool:
        """Whether there are any: of other crawls there is nothing to say."""
        return bool(self._renders)

    def check_row(self, segment: Segment, row: JournalRow, is_read: bool) -> None:
        """Check a render; its records only if ``is_read``."""
        facts = row.render
        assert facts is not None
        self._renders += 1
        self.better += facts.is_better
        self.failed += not facts.steady_digest
        self._check_lengths(row)
        if row.original is None:
            self.check.add_breach(f"{row.url}: its render in {row.segment} names no capture")
            return
        if len(self._of) < _MOST:
            self._of[capture_key(row.url, row.fetch_number)] = row.url
        if is_read:
            self._read_records(segment, row)

    def finish_check(self, index: CaptureIndex) -> None:
        """Look for the captures, of which ``index`` has all."""
        for key in index.lacking_captures(list(self._of)):
            self.check.add_breach(f"{self._of[key]} was rendered, and its capture is not stored")
        self.check.add_note(
            f"{self._renders} renders: {self.better} have the better text, {self.failed} no"
            " document"
        )

    def _check_lengths(self, row: JournalRow) -> None:
        facts = row.render
        assert facts is not None
        lengths = [each.length for each in facts.records]
        self.check.expect(
            sum(lengths) == row.length + row.metadata_length and lengths[:1] == [row.length],
            f"{row.url}, {row.segment}, byte {row.offset}: the records of its render have other"
            " lengths than its row says",
        )

    def _read_records(self, segment: Segment, row: JournalRow) -> None:
        assert row.render is not None
        try:
            data = segment.read_warc(row.offset, row.offset + row.length + row.metadata_length)
            for each, offset in row.render.places(row.offset):
                at = offset - row.offset
                place = f"{segment.warc}, byte {offset}"
                found = record_in(data[at : at + each.length], each.length, place)
                self._fields(row, each, found)
                self._content(row, each, found)
        except ElsewhereError as error:
            self.check.add_note(f"not read: {error}")
        except (RecordError, OSError, ObjectError) as error:
            self.check.expect(False, f"the render of {row.url}: {error}")

    def _fields(self, row: JournalRow, record: RenderRecord, found: StoredRecord) -> None:
        is_document, original = record.name == DOCUMENT, row.original
        assert original is not None
        other = "WARC-Refers-To" if is_document else "WARC-Concurrent-To"
        digest = block_digest(found.header_block, found.body)
        wanted = {
            "WARC-Type": "conversion" if is_document else "resource",
            "WARC-Record-ID": bracketed(record.record_id),
            "WARC-Target-URI": row.url if is_document else f"urn:{record.name}:{row.url}",
            "WARC-Date": warc_date(row.date_us),
            other: bracketed(original.record_id),
            "WARC-Block-Digest": digest,
            "Content-Type": record.media_type,
        }
        for name, value in wanted.items():
            seen = found.fields.get(name, "")
            self.check.expect(
                seen == value,
                f"{row.url}, {row.segment}, record {record.name} of its render: {name} is"
                f" {seen or 'missing'}, expected {value}",
            )
        self.check.expect(
            digest == record.digest,
            f"{row.url}, {row.segment}: the record {record.name} of its render does not have the"
            f" journal's digest {record.digest}",
        )

    def _content(self, row: JournalRow, record: RenderRecord, found: StoredRecord) -> None:
        """Text and list of requests are in the row as well."""
        if record.name == PAGE_TEXT:
            self.check.expect(
                not row.text or found.body == row.text.encode("utf-8", "replace"),
                f"{row.url}, {row.segment}: the text of its render is another one than in its row",
            )
        elif record.name == PAGE_INFO:
            assert row.render is not None
            listed = {each.url for each in row.render.requests} | {row.url}
            self.check.expect(
                _listed(found.body) == listed,
                f"{row.url}, {row.segment}: its urn:pageinfo: lists other requests than its row",
            )


def _listed(body: bytes) -> set[str]:
    try:
        return set(json.loads(body)["urls"])
    except (ValueError, KeyError, TypeError):
        return set()  # damage, of which the digest says more
