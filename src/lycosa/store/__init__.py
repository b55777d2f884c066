"""Store: captures to WARC and row journal, and the files derived from them."""

from lycosa.store.closing import ClosedSegment, build_derived
from lycosa.store.damage import StoreDamaged
from lycosa.store.journal import JournalError, read_header, read_rows
from lycosa.store.pending import PendingWrite
from lycosa.store.reading import RecordError, StoredRecord, crawl_rows, location_of, read_record
from lycosa.store.records import CrawlInfo
from lycosa.store.recovery import Recovery, rebuild, recover
from lycosa.store.rows import Links, Row, SegmentHeader, Suffixes
from lycosa.store.segments import SegmentStore, StoreSnapshot

__all__ = [
    "ClosedSegment",
    "CrawlInfo",
    "JournalError",
    "Links",
    "PendingWrite",
    "RecordError",
    "Recovery",
    "Row",
    "SegmentHeader",
    "SegmentStore",
    "StoreDamaged",
    "StoreSnapshot",
    "StoredRecord",
    "Suffixes",
    "build_derived",
    "crawl_rows",
    "location_of",
    "read_header",
    "read_record",
    "read_rows",
    "rebuild",
    "recover",
]
