"""Statements of tdmrep.json checked again: a stored file of the origin must say the same.

A capture does not name the file that applied to it, so any stored file of its origin may be it.
Origins have few. Only the places of files are kept in memory, and the rules of the last thousand.
"""

from __future__ import annotations

from collections import OrderedDict

from lycosa.base.model.capture import Location
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.preferences.preference_model import PreferenceSource, Statement
from lycosa.base.preferences.tdm_file import TdmRules, parse_tdmrep
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import origin_of, target_of
from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import CrawlReader
from lycosa.stages.politeness.tdm_body import decoded_file
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.stored_data import StoredRecord, location_of

_READ = 1000
_MAX_STATED = 100_000


class TdmAudit:
    """Call ``check_row`` for every capture, then ``finish_check``; tdmrep.json needs its record."""

    def __init__(self, reader: CrawlReader, is_live: bool = False) -> None:
        self.check = Check(
            "tdm", "captures: a tdmrep.json, read back from the WARC, states the same"
        )
        self._source, self._is_live = reader.source, is_live
        self._files: dict[str, list[tuple[Location, str]]] = {}
        self._read: OrderedDict[str, TdmRules] = OrderedDict()
        self._stated: list[tuple[str, Statement]] = []
        self._has_unread = False

    @property
    def has_statements(self) -> bool:
        """Whether any capture was or will be checked."""
        return bool(self._stated or self.check.checked or self.check.notes)

    def check_row(self, row: JournalRow, record: StoredRecord | None) -> None:
        """Check one capture."""
        if row.kind is FetchKind.TDM_FILE:
            if 200 <= row.status < 300 and record is None:
                self._has_unread = True  # the check of records says why
            elif 200 <= row.status < 300:
                files = self._files.setdefault(origin_of(row.url), [])
                files.append((location_of(row), row.truncated))
            return
        for each in row.preferences.statements:
            if each.source is not PreferenceSource.TDM_FILE:
                continue
            if len(self._stated) < _MAX_STATED:
                self._stated.append((row.url, each))
            else:
                self.check.add_note(f"only the first {_MAX_STATED} statements were checked")

    def finish_check(self) -> None:
        """Check all statements, because the segments of several workers have no common order."""
        for url, stated in self._stated:
            files, target = self._files.get(origin_of(url), []), target_of(url)
            if any(self._rules(*file).statement(target) == stated for file in files):
                self.check.expect(True, "")
            elif self._is_live or self._has_unread:
                self.check.add_note("some statements were not checked: their file was not read")
            else:
                self.check.expect(
                    False, f"{url}: states {stated.text!r}, which no stored tdmrep.json says"
                )
        self._stated.clear()

    def _rules(self, place: Location, truncated: str) -> TdmRules:
        known = self._read.get(place.record_id)
        if known is None:
            record = self._source.read_record(place.segment, place.offset)
            answer = Fetched(
                "",
                Reason.NONE,
                header_block=record.header_block,
                body=record.body,
                truncated=truncated,
            )
            known = parse_tdmrep(decoded_file(answer, record.body))
            self._read[place.record_id] = known
            if len(self._read) > _READ:
                self._read.popitem(last=False)
        else:
            self._read.move_to_end(place.record_id)
        return known
