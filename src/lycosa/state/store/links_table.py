"""The table of links: one row per outlink, in the order of the page.

Only this table has the links; a row of pages has only their number.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from lycosa.base.model.discovered import LinkKind
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader, source_capture
from lycosa.state.store.parquet import TableWriter

_WORD = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("us")

LINKS_SCHEMA = pa.schema(
    [
        pa.field("source_url", _WORD, nullable=False),
        pa.field("source_time", _TIME, nullable=False),
        pa.field("target_url", pa.string(), nullable=False),
        pa.field("kind", _WORD, nullable=False),
        pa.field("anchor", pa.string(), nullable=False),
        pa.field("nofollow", pa.bool_(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("warc_segment", _WORD, nullable=False),
        pa.field("score", pa.float32()),
        pa.field("is_rendered", pa.bool_()),
    ]
)

_PAGES, _LINKS = 256, 60_000  # maximum of a batch, whichever is reached first
_KINDS = [kind.name.lower() for kind in LinkKind]
_CODES = np.zeros(max(LinkKind) + 1, dtype=np.int32)
_CODES[[int(kind) for kind in LinkKind]] = np.arange(len(_KINDS), dtype=np.int32)


class LinksBuilder:
    """Builds the links file of one segment.

    Rows of revisits have no links unless the page was parsed again. Links of a render have the page
    and the time of its capture as their source, so they join it as its own links do.
    """

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self._writer = TableWriter(path, LINKS_SCHEMA)
        self._segment = header.segment
        self._rows: list[JournalRow] = []
        self._links = 0

    def add_row(self, row: JournalRow) -> None:
        if row.links.urls:
            self._rows.append(row)
            self._links += len(row.links.urls)
            if len(self._rows) >= _PAGES or self._links >= _LINKS:
                self._flush()

    def close(self) -> None:
        """Complete the file."""
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.add_batch(batch(self._rows, self._segment))
        self._rows, self._links = [], 0


def batch(rows: list[JournalRow], segment: str) -> pa.RecordBatch:
    """The links of some captures.

    Repeated values (source, kind, segment) are dictionary codes, which cost a tenth of strings.
    """
    counts = np.array([len(row.links.urls) for row in rows], dtype=np.int64)
    total = int(counts.sum())
    fetched = [row.date_us if row.render is None else source_capture(row)[0] for row in rows]
    starts = np.cumsum(counts) - counts
    # The row of each link's page, as a code into the URLs of the pages.
    source = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    kinds = np.fromiter(
        chain.from_iterable([row.links.kinds for row in rows]), dtype=np.int32, count=total
    )
    nofollow = np.zeros(total, dtype=bool)
    for start, row in zip(starts.tolist(), rows, strict=True):
        nofollow[[start + at for at in row.links.nofollow]] = True
    return pa.record_batch(
        [
            pa.DictionaryArray.from_arrays(
                pa.array(source), pa.array([row.url for row in rows], pa.string())
            ),
            pa.array(np.repeat(np.array(fetched, dtype=np.int64), counts), _TIME),
            pa.array([url for row in rows for url in row.links.urls], pa.string()),
            pa.DictionaryArray.from_arrays(pa.array(_CODES[kinds]), pa.array(_KINDS, pa.string())),
            pa.array([anchor for row in rows for anchor in row.links.anchors], pa.string()),
            pa.array(nofollow),
            pa.array(
                (np.arange(total, dtype=np.int64) - np.repeat(starts, counts)).astype(np.int32)
            ),
            pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(total, dtype=np.int32)), pa.array([segment], pa.string())
            ),
            _scores(rows, total),
            pa.array(np.repeat(np.array([row.render is not None for row in rows]), counts)),
        ],
        schema=LINKS_SCHEMA,
    )


def _scores(rows: list[JournalRow], total: int) -> pa.Array:
    """What user code said of each link, in [0, 1]; null without a score."""
    if not any(row.links.scores for row in rows):
        return pa.nulls(total, pa.float32())
    scores = np.fromiter(
        chain.from_iterable([row.links.scores or [-1] * len(row.links.urls) for row in rows]),
        dtype=np.float32,
        count=total,
    )
    return pa.array(scores / np.float32(255), mask=scores < 0)
