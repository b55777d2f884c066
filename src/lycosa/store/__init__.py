"""Store: captures to WARC and row journal, and the files derived from them."""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.store.closing import ClosedSegment, build_derived
    from lycosa.store.damage import StoreDamaged
    from lycosa.store.journal import JournalError, read_header, read_rows
    from lycosa.store.pending import PendingWrite
    from lycosa.store.port import (
        FoundSegments,
        NotStored,
        OpenSegment,
        SegmentReader,
        Segments,
        StoredSegment,
    )
    from lycosa.store.reading import RecordError, StoredRecord, location_of, read_record
    from lycosa.store.records import CrawlInfo
    from lycosa.store.recovery import Recovery, rebuild, recover
    from lycosa.store.rows import JournalRow, Links, SegmentHeader, Suffixes
    from lycosa.store.segment_files import SegmentFiles
    from lycosa.store.segments import SegmentStore, StoreSnapshot
else:
    __getattr__ = late_names(
        __name__,
        {
            "closing": "ClosedSegment build_derived",
            "damage": "StoreDamaged",
            "journal": "JournalError read_header read_rows",
            "pending": "PendingWrite",
            "port": "FoundSegments NotStored OpenSegment SegmentReader Segments StoredSegment",
            "reading": "RecordError StoredRecord location_of read_record",
            "records": "CrawlInfo",
            "recovery": "Recovery rebuild recover",
            "rows": "Links JournalRow SegmentHeader Suffixes",
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
