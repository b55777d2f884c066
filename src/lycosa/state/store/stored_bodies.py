"""Finds the record with the body of a capture, wherever it is.

A response has its body. A revisit record has none and refers to the capture that has it. The place
of that capture is stored with the revisit (``History.body_place``, ``JournalRow.body_offset``), so
one read finds the body in every kind of crawl: the reader begins at that place. Records of programs
before formats 2 have no place. Then the revisit record itself is read, and what it refers to is
looked up: in the record of the original's URL, which its owner has, and in a folder also in the
index. The original is found as long as its URL has had no other content since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lycosa.base.model.url_state import History
from lycosa.state.store.stored_data import RecordError, StoredRecord

BodyPlace = tuple[str, int]
"""Segment, as in a URL's record, and offset."""
ReadRecord = Callable[[str, int], StoredRecord]

_MAX_HOPS = 3  # from a revisit to the capture that it refers to


class RevisitTarget(NamedTuple):
    """What a revisit record refers to: the URL, date (as in WARC) and record id of a capture."""

    url: str
    date: str
    record_id: str

    def is_of(self, history: History | None) -> bool:
        """Whether a URL's record names this capture as the one with its content."""
        return history is not None and history.record_id == self.record_id


def reference_of(record: StoredRecord) -> RevisitTarget | None:
    """The capture whose body belongs to a record; ``None`` when it is the record's own."""
    if record.fields.get("WARC-Type") != "revisit" or record.body:
        return None
    return RevisitTarget(
        record.fields.get("WARC-Refers-To-Target-URI", ""),
        record.fields.get("WARC-Refers-To-Date", ""),
        record.fields.get("WARC-Refers-To", "").strip("<>"),
    )


def record_with_body(
    read: ReadRecord,
    places: Iterable[BodyPlace],
    elsewhere: Callable[[RevisitTarget], Iterator[BodyPlace]] = lambda reference: iter(()),
) -> StoredRecord:
    """The record with the body: at the first of ``places`` that can be read, or where that record
    refers to.

    ``elsewhere`` gives places at which the capture of a reference may be. If none has a body, the
    revisit record is returned. Raises ``RecordError`` or ``OSError`` when no place can be read.
    """
    tried = set[BodyPlace]()
    record = _first(read, places, tried)
    for _ in range(_MAX_HOPS):
        reference = reference_of(record)
        if reference is None:
            break
        try:
            record = _first(read, elsewhere(reference), tried)
        except (RecordError, OSError):
            break  # the caller sees by its type that it is a revisit record
    return record


def _first(read: ReadRecord, places: Iterable[BodyPlace], tried: set[BodyPlace]) -> StoredRecord:
    """The first record that can be read, at a place that was not ``tried``, which it joins."""
    failed: RecordError | OSError = RecordError("no place is known")
    for place in places:
        if place in tried:
            continue
        tried.add(place)
        try:
            return read(*place)
        except (RecordError, OSError) as error:
            failed = error  # the next place may be readable
    raise failed
