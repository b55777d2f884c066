"""The present dead letters of a crawl: URLs that failed, and that no operator has dropped."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lycosa.base.model.dead_letter import ListedDeadLetter
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.inspect.committed_state import CrawlReader, TableView, UrlEntry
from lycosa.stages.frontier.dead_letters import (
    LETTERS,
    DeadLetterRecord,
    decisions_of,
    decode_letter,
    is_decided,
    number_of,
)
from lycosa.state.kv.table_records import prefix_end


class DeadLetterFilter(msgspec.Struct, frozen=True):
    """Which dead letters are meant; an empty field means all.

    ``urls`` are canonical. ``hosts`` have their port if it is not the scheme's. ``since`` and
    ``until`` are microseconds since 1970; a letter without a date is before all times.
    """

    urls: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    reasons: frozenset[Reason] = frozenset()
    since: int = 0
    until: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether all dead letters are meant."""
        return self == DeadLetterFilter()

    def has_dead_letter(self, letter: ListedDeadLetter) -> bool:
        """Whether this dead letter is meant."""
        return (
            (not self.urls or letter.url in self.urls)
            and (not self.hosts or letter.host in self.hosts)
            and (not self.reasons or letter.reason in self.reasons)
            and letter.date_us >= self.since
            and (not self.until or letter.date_us < self.until)
        )


def dead_letters(reader: CrawlReader, wanted: DeadLetterFilter) -> Iterator[ListedDeadLetter]:
    """The dead letters that are meant, by partition and host."""
    for view in reader.partition_views():
        newest: dict[bytes, tuple[int, DeadLetterRecord]] = {}
        for key, value in view.scan(LETTERS, prefix_end(LETTERS)):
            row = decode_letter(value)
            newest[row.url] = number_of(key), row
        for entry in _entries(view, wanted):
            if entry.record.state is not UrlState.FAILED:
                continue
            letter = _listed(entry, newest.get(entry.host8 + entry.url8))
            decisions = decisions_of(view.get, entry.host8 + entry.url8)
            if wanted.has_dead_letter(letter) and not is_decided(decisions, letter.number):
                yield letter


def _entries(view: TableView, wanted: DeadLetterFilter) -> Iterator[UrlEntry]:
    hosts = wanted.hosts or {host_of(url) for url in wanted.urls}
    if not hosts:
        yield from view.urls()
    for host in sorted(hosts):
        yield from view.urls(hash8(host))


def _listed(entry: UrlEntry, found: tuple[int, DeadLetterRecord] | None) -> ListedDeadLetter:
    record, (number, row) = entry.record, found or (0, None)
    return ListedDeadLetter(
        entry.partition,
        number,
        entry.url,
        host_of(entry.url),
        record.reason,
        record.detail,
        row.tries if row else max(record.tries, 1),
        row.date_us if row else 0,
    )
