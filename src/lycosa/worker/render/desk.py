"""Lends pages to renderers and takes their results, for all partitions of one worker.

A result either wants more, within the bounds of a page: then the page is rendered again when that
is settled. Or its document is the page's: it goes through the parser like a fetched one, and its
records, its links and the end of the render are in one commit. A result that comes twice, or after
its page was captured again, changes nothing.

No renderer is known here: each call stands for itself. What a renderer has is remembered in memory
until its time is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType

import msgspec

from lycosa.base.calls import LentRender, RenderVerdict, place_text
from lycosa.base.messages.renderer_messages import RendererUse
from lycosa.base.model.capture import StoredOriginal
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.finished_render import RENDERED_HEADERS, FinishedRender, RoundNote
from lycosa.base.model.parsed import Directives, Parsed, ParseInput
from lycosa.base.model.render_row import RenderOutcome, RenderRow
from lycosa.base.model.rendered_page import (
    FrameDocument,
    RenderBounds,
    Rendered,
    RenderEnd,
    RenderTask,
)
from lycosa.base.ports import Offload
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, host_of
from lycosa.stages.frontier.back_queue import QueueEntry
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.render_rows import LOST, MOST_LOSSES, TURNED_OFF
from lycosa.stages.schedule.render_choice import with_render
from lycosa.worker.intake.render_queue import RenderQueue
from lycosa.worker.render.render_counts import RenderCounts
from lycosa.worker.visit.examined_body import ExaminedBody
from lycosa.worker.visit.page_code import PageCode
from lycosa.worker.visit.worker_stages import Stages

NO_RESULT = "unreadable"
"""End of a round whose result was too large, or no result."""

_MOST_FRAMES = 20
_SEEN_S, _MOST_SEEN = 60.0, 1000
_TOLERANCE = 2  # a lending lasts this many times as long as a round at most
_HEADER_BLOCK = b"HTTP/1.1 200 OK\r\n" + b"".join(
    f"{name}: {value}\r\n".encode() for name, value in RENDERED_HEADERS
)
_LARGE_CHARACTERS = 65_536  # a longer document is compressed in a thread

Parse = Callable[[ParseInput], Awaitable[Parsed]]


class RenderDesk:
    """One per worker with a ``RenderQueue``."""

    def __init__(
        self,
        queue: RenderQueue,
        stages: Stages,
        parse: Parse,
        offload: Offload,
        code: PageCode,
    ) -> None:
        self._code = code
        self.queue, self._stages, self._parse, self._offload = queue, stages, parse, offload
        self._section = section = queue.section
        self.counts = RenderCounts()
        self._seen: dict[str, tuple[float, RendererUse]] = {}  # with the time, by name
        self._partitions: Mapping[int, Partition] = stages.frontier.partitions
        self._clock, self._intake, self._store = stages.clock, stages.intake, stages.store
        self._storing: set[bytes] = set()  # pages whose document is being parsed
        self._bounds = RenderBounds(
            round_s=section.page_s,
            whole_s=section.page_s + 12.0,
            processor_s=section.processor_s,
            memory_bytes=section.memory_bytes,
            wants=section.max_wants,
            foreign_wants=section.max_foreign,
        )

    def __repr__(self) -> str:
        return f"<RenderDesk waiting={self.queue.waiting} due={self.due} lent={self.lent}>"

    @property
    def due(self) -> int:
        """Number of pages that a renderer may take now."""
        return sum(partition.renders.due for partition in self._partitions.values())

    @property
    def lent(self) -> int:
        """Number of pages that renderers have."""
        return sum(partition.renders.lent for partition in self._partitions.values())

    def note_renderer(self, use: RendererUse) -> None:
        """Note a renderer that asks for pages."""
        now = self._clock.monotonic()
        self._seen[use.name] = now, use
        if len(self._seen) > _MOST_SEEN:
            self._seen = {each.name: (now, each) for each in self.renderers()[:_MOST_SEEN]}

    def renderers(self) -> list[RendererUse]:
        """The renderers that asked for pages in the last minute, the last one first."""
        since = self._clock.monotonic() - _SEEN_S
        found = sorted(self._seen.values(), key=lambda each: -each[0])
        return [use for at, use in found if at >= since]

    # -- lending

    def take(self, most: int) -> list[LentRender]:
        """Lend at most ``most`` pages, those of the highest priority first."""
        now, taken = self._clock.time(), list[LentRender]()
        for partition in self._partitions.values():
            for page, row, end in partition.renders.expire(now):
                self._give_up(partition, page, row, end)
        within_s = _TOLERANCE * self._bounds.whole_s
        while self.queue.is_on and len(taken) < most:
            places = (
                (place, partition.number)
                for partition in self._partitions.values()
                if (place := partition.renders.next_due(now)) is not None
            )
            best = min(places, default=None)
            if best is None:
                break
            partition, page = self._partitions[best[1]], best[0][2]
            waits = partition.renders.get(page)
            assert waits is not None
            if not waits.is_ordered and not self.queue.is_rendered(waits.page.url):
                self._give_up(partition, page, waits, TURNED_OFF)
                continue
            partition.renders.lend(page, now + within_s)
            taken.append(self._lent(partition, page, within_s))
        if taken:
            self.queue.note_activity()
        return taken

    def _lent(self, partition: Partition, page: bytes, within_s: float) -> LentRender:
        row = partition.renders.get(page)
        assert row is not None
        facts = row.page
        left_s = max(self._section.processor_s - row.processor_s, 1.0)
        task = RenderTask(
            facts.url,
            facts.date_us / 1_000_000,
            self.queue.site_of(host_of(facts.url)),
            row.round,
            self._section.screenshots,
            msgspec.structs.replace(self._bounds, processor_s=left_s),
            self._section.scroll,
        )
        story = partition.renders.story(page)
        records = {**story.records, facts.url: facts.record}
        places = {**story.places, facts.url: place_text(facts.segment, facts.offset)}
        return LentRender(partition.number, page, row.lending, task, within_s, records, places)

    def next_in_s(self) -> float:
        """Seconds until a page may be due by itself; negative when none waits."""
        now = self._clock.time()
        if any(each.renders.next_due(now) is not None for each in self._partitions.values()):
            return 0.0
        earliest = min(
            (partition.renders.next_time() for partition in self._partitions.values()), default=inf
        )
        return max(earliest - now, 0.0) if earliest < inf else -1.0

    def hand_back(self, partition: Partition, page: bytes, lending: int) -> RenderVerdict:
        """Take a page back that was not rendered, without any fault of the page."""
        if self._row(partition, page, lending) is None:
            return RenderVerdict.LATE
        partition.renders.take_back(page)
        return RenderVerdict.TAKEN

    def lose(self, partition: Partition, page: bytes, lending: int, until: float) -> None:
        """Note that the process which had a page until that time ended without giving it back.

        A page may be what ends the process, so this counts, and is not repeated endlessly.
        """
        row = self._row(partition, page, lending)
        if row is None or partition.renders.lent_until(page) != until or page in self._storing:
            return  # its time was over: that has counted, and another renderer may have it
        if partition.renders.fail(page, RoundNote(int(self._clock.wall()), LOST), MOST_LOSSES):
            self._give_up(partition, page, row, LOST)

    def _row(self, partition: Partition, page: bytes, lending: int) -> RenderRow | None:
        row = partition.renders.get(page)
        # A result of this round counts although its lending has expired, or is not remembered.
        is_meant = row is not None and row.lending == lending and not row.open
        return row if is_meant else None

    # -- results

    async def give(
        self,
        partition: Partition,
        page: bytes,
        lending: int,
        rendered: Rendered | None,
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> RenderVerdict:
        """Take the result of a round; ``None`` if it cannot be read. ``places`` as in the call.

        The next commit contains all that follows from it.
        """
        row = self._row(partition, page, lending)
        if row is None or page in self._storing:
            return RenderVerdict.LATE
        if rendered is not None and rendered.end is RenderEnd.NO_BROWSER:
            return self.hand_back(partition, page, lending)
        self.queue.note_activity()
        elapsed_s = rendered.elapsed_s if rendered is not None else 0.0
        began = round(self._clock.wall() - elapsed_s, 3)
        if rendered is None or not rendered.end.has_document:
            note = RoundNote(began, NO_RESULT)
            if rendered is not None:
                note = RoundNote(began, rendered.end, elapsed_s, rendered.processor_s)
            self.counts.note_round(note, 0)
            if partition.renders.fail(page, note):
                self._give_up(partition, page, row, note.end, rendered)
            return RenderVerdict.TAKEN if rendered is not None else RenderVerdict.REFUSED
        records = self._records(rendered)
        note = RoundNote(began, rendered.end, elapsed_s, rendered.processor_s, 0, len(records))
        now, site_of = self._clock.time(), self.queue.site_of
        wants = partition.renders.next_round(
            page, note, records, rendered.wants, site_of, now, places
        )
        self.counts.note_round(note, len(wants))
        if wants:
            self.queue.post(partition, page, wants)
            return RenderVerdict.TAKEN
        self._storing.add(page)
        try:
            return await self._finish(partition, page, row, rendered)
        finally:
            self._storing.discard(page)

    def _records(self, rendered: Rendered) -> dict[str, str]:
        """The id of the record that answered each URL."""
        found = {}
        for request in rendered.requests:
            if request.record:
                try:
                    found[self._intake.canonical(request.url)] = request.record
                except InvalidUrl:
                    continue  # the archive answered it, so this cannot be; nothing depends on it
        return found

    async def _finish(
        self, partition: Partition, page: bytes, row: RenderRow, rendered: Rendered
    ) -> RenderVerdict:
        """Parse the document, and store what it is and what it links to."""
        number, url = row.lending, row.page.url
        body = rendered.html.encode("utf-8", "replace")
        parsed = await self._parse(ParseInput(url, 200, list(RENDERED_HEADERS), body))
        parsed = msgspec.structs.replace(
            parsed, directives=_strictest(parsed.directives, row.page.directives)
        )
        if rendered.frames:
            parsed = await self._with_frames(url, parsed, rendered.frames)
        built, lease = None, self._lease(partition, page)
        if lease is None or self._row(partition, page, number) is not row:
            return RenderVerdict.LATE
        finished = self._finished(partition, page, row, rendered, parsed, lease)
        examined = await self._examined(finished, parsed, body)
        finished = _with_code(finished, examined)
        if len(body) > _LARGE_CHARACTERS:
            built = await self._offload.run(self._store.draft_render(finished).build)

        def take() -> Iterator[None]:
            # The page may have been captured again since: that has its own render.
            # Its host's state is looked up again: the one before may have left the cache.
            lease = self._lease(partition, page)
            if lease is None or self._row(partition, page, number) is not row:
                return iter(())
            said = self._code.in_force(examined, url) if examined.generation else examined
            stored, ready = finished, built
            if said is not examined:
                stored, ready = _with_code(finished, said), None
            place = self._store.append_render(stored, ready)
            partition.counters.count_items(self._store.count_items(said.items))
            outcome = self._outcome(row, rendered.end, finished)
            outcome = msgspec.structs.replace(
                outcome, record=place.record_id, segment=place.segment, offset=place.offset
            )
            partition.renders.end(page, outcome)
            self.queue.note_end(partition)
            tallies = lease.host.record.renders
            lease.host.record.renders = with_render(tallies, url, outcome.links, outcome.characters)
            partition.visits.mark_changed(lease.host)
            return self._intake.outlink_steps(lease, said.parsed or parsed, said.scores)

        await self._stages.slices.take(url, take, is_long=len(parsed.links) > 1000)
        return RenderVerdict.TAKEN

    async def _with_frames(
        self, url: str, parsed: Parsed, frames: Sequence[FrameDocument]
    ) -> Parsed:
        """The page with the texts and links of its frames, each relative to its frame.

        A frame that says noindex, or states something about its use, gives no text, and one that
        says nofollow no links. See docs/decisions/frames.md.
        """
        texts, links = [parsed.text], list(parsed.links)
        known = {each.url for each in links}
        for frame in frames[:_MOST_FRAMES]:
            try:
                base = self._intake.canonical(frame.url)
            except InvalidUrl:
                base = url  # about:blank and about:srcdoc
            body = frame.html.encode("utf-8", "replace")
            found = await self._parse(ParseInput(base, 200, list(RENDERED_HEADERS), body))
            if not found.directives.noindex and not found.statements:
                texts.append(found.text)
            if not found.directives.nofollow:
                links += [each for each in found.links if each.url not in known]
                known.update(each.url for each in found.links)
        return msgspec.structs.replace(parsed, text="\n".join(filter(None, texts)), links=links)

    async def _examined(
        self, finished: FinishedRender, parsed: Parsed, body: bytes
    ) -> ExaminedBody:
        """What user code says of a document that readers get; it has the page itself already."""
        said = ExaminedBody(b"", parsed)
        may_use = self._store.policy.verdict(finished.preferences)
        if not finished.is_better or may_use is False or not self._code.caller.wanted(finished.url):
            return said
        fetched = Fetched(
            finished.url,
            Reason.NONE,
            status=200,
            header_block=_HEADER_BLOCK,
            body=body,
            started=finished.original.date_us / 1_000_000,
        )
        return await self._code.examine(fetched, said, parsed, finished.preferences, True)

    def _finished(
        self,
        partition: Partition,
        page: bytes,
        row: RenderRow,
        rendered: Rendered,
        parsed: Parsed | None,
        lease: Lease | None,
        end: str = "",
    ) -> FinishedRender:
        facts, host = row.page, host_of(row.page.url)
        rounds = tuple(partition.renders.story(page).rounds)
        record = lease.record if lease is not None else None
        finished = FinishedRender(
            url=facts.url,
            host=host,
            site=self.queue.site_of(host),
            original=StoredOriginal(
                facts.url, facts.date_us, facts.record, facts.segment, facts.offset
            ),
            rendered=rendered,
            parsed=parsed,
            rendered_at=self._clock.wall(),
            rounds=rounds,
            detail=end,
            depth=facts.depth,
            fetch_number=facts.fetch_number,
            preferences=facts.preferences,
            page_characters=facts.characters,
            page_links=facts.links,
            privacy=facts.privacy,
        )
        if lease is None or record is None:
            return finished
        return msgspec.structs.replace(finished, via=lease.via, link_kind=record.kind)

    def _give_up(
        self,
        partition: Partition,
        page: bytes,
        row: RenderRow,
        end: str,
        rendered: Rendered | None = None,
    ) -> None:
        """End a render without a document, and store why."""
        lease = self._lease(partition, page)
        rendered = rendered or Rendered(RenderEnd.CRASHED, end)
        finished = self._finished(partition, page, row, rendered, None, lease, end)
        place = self._store.append_render(finished)
        outcome = self._outcome(row, end, finished)
        outcome = msgspec.structs.replace(outcome, segment=place.segment, offset=place.offset)
        partition.renders.end(page, outcome)
        self.queue.note_activity()

    def _outcome(self, row: RenderRow, end: str, finished: FinishedRender) -> RenderOutcome:
        parsed, facts = finished.parsed, row.page
        self.counts.note_end(len(finished.rounds))
        return RenderOutcome(
            facts.digest,
            end,
            int(finished.rendered_at),
            rounds=finished.rounds,
            wanted=len(row.asked) // 8,
            links=len(parsed.links) - facts.links if parsed is not None else 0,
            characters=len(parsed.text) - facts.characters if parsed is not None else 0,
        )

    def _lease(self, partition: Partition, page: bytes) -> Lease | None:
        """A lease for the intake, which takes links of a lease. It was not handed out."""
        record = partition.find_record(page[:8], page[8:])
        host = partition.visits.find_host(page[:8])
        if record is None or host is None:
            return None
        return Lease(host, QueueEntry(0, 0, page[8:], 0), record)


def _with_code(finished: FinishedRender, said: ExaminedBody) -> FinishedRender:
    return msgspec.structs.replace(
        finished, parsed=said.parsed, items=said.items, remarks=said.remarks
    )


def _strictest(one: Directives, other: Directives) -> Directives:
    """The directives of a document and of the capture that it came from."""
    return Directives(
        one.noindex or other.noindex,
        one.nofollow or other.nofollow,
        one.noarchive or other.noarchive,
    )
