"""Fetched documents that were never parsed: their links are missing, and no count would show it.

The journal records which captures were stored unparsed. One is settled when it was parsed later
from its record (the URL's record does not name the fault any more) or when a later fetch of its URL
was parsed (nothing waits for that URL). Documents that ended two parse children in a row, or for
which the machine was too busy, are explained by their reason: they are listed and are no breach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.state.kv.table_records import unparsed_key
from lycosa.state.store.journal_rows import JournalRow

_EXPLAINED = {
    Reason.PARSE_KILLED: "lycosa reparse --killed retries",
    Reason.PARSE_TIMEOUT: "the next start retries once, lycosa reparse --killed each time",
    Reason.PARSE_STALLED: "each start and lycosa reparse retry",
}
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_SHOWN = 3


class UnparsedCheck:
    """Call ``check_row`` for every capture, then ``finish_check``."""

    def __init__(self, reader: CrawlReader, views: Mapping[int, TableView]) -> None:
        self.check = Check(
            "parsed", "fetched documents: each was parsed, or its record has the reason why not"
        )
        self._reader, self._views = reader, views
        self._explained: Counter[Reason] = Counter()
        self._first: dict[Reason, list[str]] = {reason: [] for reason in _EXPLAINED}

    def check_row(self, row: JournalRow) -> None:
        """Check one capture."""
        if row.kind.is_of_origin or row.status != 200 or not row.body_bytes:
            return
        self.check.checked += 1
        if row.parse_reason in self._first:
            self._explain(row)
        elif _is_unparsed(row) and self._is_open(row):
            self.check.add_breach(
                f"{row.url}, fetch {row.fetch_number}, was stored but not parsed, so its links are"
                " unknown: run lycosa reparse"
            )

    def as_parsed(self, row: JournalRow) -> JournalRow:
        """The row as it would be if its document, parsed later, had been parsed at once.

        So its links can be checked too.
        """
        if _is_unparsed(row) and not self._is_open(row):
            return msgspec.structs.replace(row, parse_reason=Reason.NONE)
        return row

    def finish_check(self) -> None:
        """Note the documents with an explanation."""
        for reason, number in self._explained.items():
            first = ", ".join(self._first[reason])
            self.check.add_note(
                f"{number} {reason.label} ({reason.meaning}); {_EXPLAINED[reason]}: {first}"
            )

    def _explain(self, row: JournalRow) -> None:
        if not self._is_open(row):
            return
        self._explained[row.parse_reason] += 1
        if len(self._first[row.parse_reason]) < _SHOWN:
            self._first[row.parse_reason].append(row.url)

    def _is_open(self, row: JournalRow) -> bool:
        """Whether the links of the document are still unknown."""
        host8, url8 = hash8(row.host), hash8(row.url)
        view = self._views[self._reader.partition_of(row.url)]
        if view.get(unparsed_key(host8, url8)) is not None:
            return True
        record = view.url_record(host8, url8)
        if record is None or record.history is None:
            return True
        return record.history.fetches == row.fetch_number and record.reason is row.parse_reason


def _is_unparsed(row: JournalRow) -> bool:
    """Whether the crawler failed to parse it, or it is HTML that no parser received.

    A parsed document has a detected type.
    """
    if row.parse_reason is Reason.NONE:
        return row.media_type in _HTML and not row.media_type_detected
    return row.parse_reason is Reason.INTERNAL
