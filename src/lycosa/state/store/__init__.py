"""Store: captures to WARC and row journal, and the files derived from them."""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.state.store.closing import ClosedSegment, build_derived
    from lycosa.state.store.damage import StoreDamaged
    from lycosa.state.store.journal import JournalError, read_header, read_rows
    from lycosa.state.store.journal_rows import JournalRow, Links, SegmentHeader, Suffixes
    from lycosa.state.store.pending import PendingWrite
    from lycosa.state.store.segment_files import SegmentFiles
    from lycosa.state.store.segment_recovery import Recovery, rebuild, recover
    from lycosa.state.store.segments import SegmentStore, StoreSnapshot
    from lycosa.state.store.segments_port import (
        FoundSegments,
        NotStored,
        OpenSegment,
        SegmentReader,
        Segments,
        StoredSegment,
    )
    from lycosa.state.store.stored_data import RecordError, StoredRecord, location_of, read_record
    from lycosa.state.store.warc_records import CrawlInfo
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "closing": "ClosedSegment build_derived",
            "damage": "StoreDamaged",
            "journal": "JournalError read_header read_rows",
            "pending": "PendingWrite",
            "segments_port": "FoundSegments NotStored OpenSegment SegmentReader Segments "
            "StoredSegment",
            "stored_data": "RecordError StoredRecord location_of read_record",
            "warc_records": "CrawlInfo",
            "segment_recovery": "Recovery rebuild recover",
            "journal_rows": "Links JournalRow SegmentHeader Suffixes",
            "segment_files": "SegmentFiles",
            "segments": "SegmentStore StoreSnapshot",
        },
    )

__all__ = [
    "ClosedSegment",
    "CrawlInfo",
    "FoundSegments",
    "JournalError",
    "JournalRow",
    "Links",
    "NotStored",
    "OpenSegment",
    "PendingWrite",
    "RecordError",
    "Recovery",
    "SegmentFiles",
    "SegmentHeader",
    "SegmentReader",
    "SegmentStore",
    "Segments",
    "StoreDamaged",
    "StoreSnapshot",
    "StoredRecord",
    "StoredSegment",
    "Suffixes",
    "build_derived",
    "location_of",
    "read_header",
    "read_record",
    "read_rows",
    "rebuild",
    "recover",
]
