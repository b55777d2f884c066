"""Which user code a capture was extracted with, by the header of its segment."""

from __future__ import annotations

from lycosa.base.model.code_version import shown_digest
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.explain.facts import Explanation
from lycosa.state.store import layout
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import Extractor
from lycosa.state.store.removed_files import ElsewhereError


def code_facts(answer: Explanation, reader: CrawlReader, segment: str) -> None:
    """Add the extractors of the segment: a segment ends when the code of the crawl changes."""
    found = _extractors(reader, layout.stem_of(segment))
    values = [{"name": each.name, "version": each.version, "sha256": each.code} for each in found]
    answer.add_fact("extractors", values or None, "; ".join(map(shown_extractor, found)))


def shown_extractor(extractor: Extractor) -> str:
    """An extractor with its version and the beginning of its digest, for people."""
    code = f" (SHA-256 {shown_digest(extractor.code)})" if extractor.code else ""
    return f"{extractor.name} version {extractor.version}{code}"


def _extractors(reader: CrawlReader, name: str) -> tuple[Extractor, ...]:
    items = reader.origin.items
    if items is None:
        return ()
    for segment in reader.source.list_segments():
        if segment.name == name and segment.journal_length is not None:
            try:
                return items.read_header(segment).extractors
            except (JournalError, ElsewhereError, OSError):
                return ()  # the audit reports what is damaged
    return ()
