"""The pages of a partition that are to be rendered: their rows, and which of them is due.

    capture ─► waits for what the page loads ─► due ─► lent to a renderer ─► result
                       ▲                                                       │
                       └──── new wants, within the bounds of a page ◄──────────┤
                                                                               └─► outcome

A row exists from the commit of the capture to that of the result. What is lent is remembered in
memory only: a renderer that dies, or the worker, costs one more round and nothing else. A round
whose renderer never answers counts as a failure when its time is over, because a page may be what
kills renderers. Everything is synchronous; ``now`` is crawl time.

**Bounds.** A page is rendered at most ``max_rounds`` times, wants at most ``max_wants`` URLs, waits
at most ``wait_s`` for those of a round, fails at most three times in a row, and is not rendered any
more when its capture is older than ``max_age_s``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, nsmallest
from math import inf
from types import MappingProxyType

import msgspec

from lycosa.base.config.sections import RenderSection
from lycosa.base.model.capture import Want
from lycosa.base.model.finished_render import RoundNote
from lycosa.base.model.render_row import CapturedPage, RenderOutcome, RenderRow, RenderState
from lycosa.base.model.rendered_page import RenderEnd
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.alike_requests import AlikeRequests
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    encode_record,
    outcome_key,
    prefix_end,
    render_key,
    story_key,
)
from lycosa.state.shard.counters import Counters, count

MOST_FAILURES = 3
"""Rounds in a row without a document, after which a render ends."""

MOST_LOSSES = 6
"""The same when the last one ended with its renderer process, which is seldom the page's doing."""

LOST, TOO_OLD, TURNED_OFF = "lost", "too_old", "turned_off"
"""Ends of a render: no renderer gave a result in time, its capture is too old, or the settings were
changed so that the page is not rendered any more."""

_LOOK_AHEAD = 8  # pages that are due, in the order of their priority
_ROW, _URL8 = 16, 8  # bytes of host8 and url8, and of url8
_HOPELESS = frozenset({RenderEnd.NO_PAGE.value, RenderEnd.REFUSED.value})
_MOST_RECORDS = 2000  # answered URLs of a page that are remembered from round to round
_decode_row = msgspec.msgpack.Decoder(RenderRow).decode
_decode_story = msgspec.msgpack.Decoder(RenderState).decode
_decode_outcome = msgspec.msgpack.Decoder(RenderOutcome).decode

SiteOf = Callable[[str], str]


def waiting_rows(
    scan: Callable[[bytes, bytes], Iterable[tuple[bytes, bytes]]],
) -> Iterator[tuple[bytes, RenderRow]]:
    """The pages of a table that are to be rendered."""
    for key, value in scan(b"v", prefix_end(b"v")):
        if len(key) == 1 + _ROW:
            yield key[1:], _decode_row(value)


class RenderRows:
    """One per partition. A page is given as its host8 and url8 in one."""

    def __init__(self, table: Overlay, counters: Counters, section: RenderSection) -> None:
        self._table, self._counters = table, counters
        self._section = section
        self._rows: dict[bytes, RenderRow] = {}
        self._due: list[tuple[int, int, bytes]] = []  # place in the order, lending, page
        self._waits: list[tuple[float, int, bytes]] = []  # until, lending, page
        self._ages: list[tuple[float, int, bytes]] = []  # began, number, page
        self._lent: dict[bytes, float] = {}
        self._alike = AlikeRequests()
        self._rows.update(waiting_rows(table.scan))
        for page, row in self._rows.items():
            self._line_up(page, row)
            heappush(self._ages, (row.began, row.number, page))

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<RenderRows {len(self._rows)} due={self.due} lent={len(self._lent)}>"

    @property
    def due(self) -> int:
        """Number of pages that a renderer may take now."""
        return sum(not row.open and page not in self._lent for page, row in self._rows.items())

    @property
    def lent(self) -> int:
        """Number of pages that renderers have."""
        return len(self._lent)

    def rows(self) -> Iterable[tuple[bytes, RenderRow]]:
        """The pages that are to be rendered."""
        return self._rows.items()

    def get(self, page: bytes) -> RenderRow | None:
        return self._rows.get(page)

    def story(self, page: bytes) -> RenderState:
        """What a page was answered so far."""
        value = self._table.get(story_key(page))
        return _decode_story(value) if value is not None else RenderState({}, {}, [])

    def outcome(self, page: bytes) -> RenderOutcome | None:
        """The last render of a page that ended."""
        value = self._table.get(outcome_key(page))
        return _decode_outcome(value) if value is not None else None

    # -- from the capture to the first round

    def is_needed(self, page: bytes, digest: bytes) -> bool:
        """Whether a page with this body was not rendered yet, and is not going to be."""
        row = self._rows.get(page)
        if row is not None:
            return row.page.digest != digest
        last = self.outcome(page)
        return last is None or last.digest != digest or last.end == TURNED_OFF

    def begin(
        self,
        page: bytes,
        facts: CapturedPage,
        loads: Sequence[Want],
        site_of: SiteOf,
        now: float,
        is_ordered: bool = False,
    ) -> list[Want]:
        """Let a page be rendered from its capture; return what it loads, or pages like it do.

        A render of an earlier capture of the page ends without a result.
        """
        self._drop(page)
        self._counters.renders += 1
        row = RenderRow(facts, self._counters.renders, now, is_ordered)
        self._rows[page] = row
        heappush(self._ages, (now, row.number, page))
        story = RenderState({}, {}, [])
        loads = [*loads, *self._alike.guess(facts.url)]
        fresh = self._ask(page, row, story, loads, site_of, now)
        self._put_story(page, story)
        self._put(page, row)
        self._line_up(page, row)
        return fresh

    def hurry(self, page: bytes) -> bool:
        """Let a page that waits be rendered before others, because an operator asks for it.

        Returns whether it waits.
        """
        row = self._rows.get(page)
        if row is None:
            return False
        if not row.is_ordered:
            row.is_ordered = True
            self._put(page, row)
            if not row.open and page not in self._lent:
                self._line_up(page, row)
        return True

    def guess_ahead(self, site_of: SiteOf, now: float) -> list[tuple[bytes, list[Want]]]:
        """What the pages that are due next will want, by what was learned since they began.

        These pages wait for it; return what has to be posted for each.
        """
        guessed = []
        for _, lending, page in nsmallest(_LOOK_AHEAD, self._due):
            row = self._rows.get(page)
            if row is None or row.lending != lending or row.round > 1 or row.open:
                continue
            wants = self._alike.guess(row.page.url) if page not in self._lent else []
            if not wants:
                continue
            story = self.story(page)
            if fresh := self._ask(page, row, story, wants, site_of, now):
                self._put_story(page, story)
                self._put(page, row)
                self._line_up(page, row)
                guessed.append((page, fresh))
        return guessed

    # -- lending

    def next_due(self, now: float) -> tuple[int, int, bytes] | None:
        """The best page that a renderer may take: its place in the order, and the page."""
        self._end_waits(now)
        while self._due:
            place, lending, page = self._due[0]
            row = self._rows.get(page)
            is_old = row is None or (place, lending) != (_place_of(row), row.lending)
            if is_old or row is None or row.open or page in self._lent:
                heappop(self._due)
                continue
            return self._due[0]
        return None

    def next_time(self) -> float:
        """Crawl time at which a page may become due by itself."""
        lent = min(self._lent.values(), default=inf)
        return min(lent, self._waits[0][0] if self._waits else inf)

    def lend(self, page: bytes, until: float) -> None:
        """Give a page that is due to a renderer until a crawl time."""
        self._lent[page] = until

    def lent_until(self, page: bytes) -> float:
        """Crawl time at which the lending of a page ends; 0 when no renderer has it."""
        return self._lent.get(page, 0.0)

    def take_back(self, page: bytes) -> None:
        """A renderer gives a page back without a result, and without any fault of the page."""
        row = self._rows.get(page)
        if row is not None and self._lent.pop(page, None) is not None:
            self._line_up(page, row)

    def expire(self, now: float) -> Iterator[tuple[bytes, RenderRow, str]]:
        """Note lendings without a result; the renders that end by that, and old ones, and how."""
        for page in [page for page, until in self._lent.items() if until <= now]:
            row = self._rows[page]
            if self.fail(page, RoundNote(0, LOST)):
                yield page, row, LOST
        oldest = now - self._section.max_age_s
        while self._ages and self._ages[0][0] <= oldest:
            _, number, page = self._ages[0]
            known = self._rows.get(page)
            if known is not None and known.number == number:
                if page in self._lent:
                    return  # its result is stored, or its lending ends before long
                yield page, known, TOO_OLD
            heappop(self._ages)

    # -- results

    def fail(self, page: bytes, note: RoundNote, most: int = MOST_FAILURES) -> bool:
        """A round ended without a document; return whether the render is over by that.

        Else the page is due after all those that have not failed: it may be what stops a renderer.
        """
        row = self._rows[page]
        self._lent.pop(page, None)
        row.failures += 1
        row.processor_s += note.processor_s
        story = self.story(page)
        story.rounds.append(note)
        self._put_story(page, story)
        self._put(page, row)
        is_over = note.end in _HOPELESS or row.failures >= most
        if not is_over:
            self._line_up(page, row)
        return is_over

    def next_round(
        self,
        page: bytes,
        note: RoundNote,
        records: dict[str, str],
        wants: Sequence[Want],
        site_of: SiteOf,
        now: float,
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Want]:
        """A round ended with a document; return what it wants, within the bounds of a page.

        Nothing is wanted when the render is over. ``records`` answered this round,
        from these ``places``.
        """
        row, section = self._rows[page], self._section
        row.failures = 0
        row.processor_s += note.processor_s
        story = self.story(page)
        for url, record in records.items():
            if len(story.records) < _MOST_RECORDS:
                story.records.setdefault(url, record)
                if story.records[url] == record and url in places:
                    story.places.setdefault(url, places[url])
        fresh: list[Want] = []
        if (
            row.round < section.max_rounds
            and row.processor_s < section.processor_s
            and now - row.began < section.max_age_s
        ):
            fresh = self._ask(page, row, story, wants, site_of, now)
        story.rounds.append(msgspec.structs.replace(note, wants=len(fresh)))
        self._put_story(page, story)
        if fresh:
            # Otherwise the page stays lent until its document is stored.
            self._lent.pop(page, None)
            row.round += 1
            self._line_up(page, row)
        self._put(page, row)
        return fresh

    def take_settled(
        self, page: bytes, url: str, location: str, loads: Sequence[Want], site_of: SiteOf
    ) -> list[Want]:
        """A want of a page is settled; return what is wanted because of it.

        ``location`` is where it redirects, ``loads`` what it loads itself. An answer to an earlier
        render, or a second one, changes nothing.
        """
        row, url8 = self._rows.get(page), hash8(url)
        if row is None:
            return []
        left = [each for each in _parts(row.open) if each != url8]
        if len(left) * _URL8 == len(row.open):
            return []  # it was answered before, or waited for too long
        row.open = b"".join(left)
        fresh: list[Want] = []
        if location or loads:
            story = self.story(page)
            more = [*loads, Want(location, story.wanted.get(url, ""))] if location else loads
            fresh = self._ask(page, row, story, more, site_of, row.until, row.until)
            if fresh:
                self._put_story(page, story)
        if not row.open:
            self._line_up(page, row)
        self._put(page, row)
        return fresh

    def end(self, page: bytes, outcome: RenderOutcome) -> None:
        """End a render."""
        row = self._rows.get(page)
        if row is not None and outcome.record:  # with a document
            self._alike.learn(row.page.url, self.story(page).records)
        self._drop(page)
        self._table.put(outcome_key(page), encode_record(outcome))
        count(self._counters.rendered, outcome.end)

    # -- wants and places

    def _ask(
        self,
        page: bytes,
        row: RenderRow,
        story: RenderState,
        wants: Sequence[Want],
        site_of: SiteOf,
        now: float,
        until: float = 0.0,
    ) -> list[Want]:
        """Want those that are new, as many as the page may want."""
        section, site = self._section, site_of(host_of(row.page.url))
        asked, fresh = set(_parts(row.asked)), list[Want]()
        asked.add(page[_URL8:])
        for want in wants:
            url8 = hash8(want.url)
            if url8 in asked:
                continue
            if len(row.asked) >= section.max_wants * _URL8:
                break
            is_foreign = site_of(host_of(want.url)) != site
            if is_foreign and row.foreign >= section.max_foreign:
                continue
            row.foreign += is_foreign
            asked.add(url8)
            row.asked += url8
            row.open += url8
            story.wanted[want.url] = want.destination
            fresh.append(want)
        if fresh:
            row.until = until or now + section.wait_s
        return fresh

    def _end_waits(self, now: float) -> None:
        """Let pages be rendered without what they have waited for too long."""
        while self._waits and self._waits[0][0] <= now:
            _, lending, page = heappop(self._waits)
            row = self._rows.get(page)
            if row is not None and row.lending == lending and row.open and row.until <= now:
                row.open = b""
                self._put(page, row)
                self._line_up(page, row)

    def _line_up(self, page: bytes, row: RenderRow) -> None:
        if row.open:
            heappush(self._waits, (row.until, row.lending, page))
        else:
            heappush(self._due, (_place_of(row), row.lending, page))

    def _put(self, page: bytes, row: RenderRow) -> None:
        self._table.put(render_key(page), encode_record(row))

    def _put_story(self, page: bytes, story: RenderState) -> None:
        self._table.put(story_key(page), encode_record(story))

    def _drop(self, page: bytes) -> None:
        if self._rows.pop(page, None) is not None:
            self._lent.pop(page, None)
            self._table.delete(render_key(page))
            self._table.delete(story_key(page))


def _place_of(row: RenderRow) -> int:
    """Its place among the pages that are due, the lowest first."""
    return 1024 * row.failures - row.page.priority - 256 * row.is_ordered


def _parts(hashes: bytes) -> Iterator[bytes]:
    return (hashes[at : at + _URL8] for at in range(0, len(hashes), _URL8))
