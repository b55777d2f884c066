"""Pages that an operator lets be rendered again, from the capture that is stored.

The page is read and parsed as when it was fetched, because what it says to robots, what it states
about its use and what it loads are not in its row. It then waits before all others. A repeated call
changes nothing: its id is in the log of decisions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lycosa.base.calls import (
    MAX_WORDS,
    MOST_ORDERED,
    CallRefusal,
    GivenVerdict,
    GivenVerdicts,
    OrderRenders,
    UrlVerdict,
)
from lycosa.base.model.fetched import Fetched, Privacy
from lycosa.base.model.parsed import ParseInput
from lycosa.base.model.url_state import History
from lycosa.base.ports import Offload, Parser
from lycosa.base.preferences.preference_model import Preferences
from lycosa.base.preferences.preference_words import read_answers
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.decision_log import ActionRow
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.schedule.render_choice import is_html
from lycosa.state.store.segments_port import Segments
from lycosa.state.store.stored_bodies import reference_of
from lycosa.state.store.stored_data import RecordError, metadata_behind
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.render_queue import RenderQueue

_NOT_MODIFIED = b"304"


class _StoredPage(NamedTuple):
    """A page as it was received, and the answers of its site about its use."""

    document: ParseInput
    answers: dict[str, bool]
    license: str
    price: str
    privacy: Privacy


class RenderOrders:
    """One per worker. ``next_commit`` returns when what was done so far is on disk."""

    def __init__(
        self,
        queue: RenderQueue,
        segments: Segments,
        intake: Intake,
        parser: Parser,
        offload: Offload,
        clock: CrawlClock,
        next_commit: Callable[[], Awaitable[None]],
    ) -> None:
        self._queue, self._segments, self._intake = queue, segments, intake
        self._parser, self._offload, self._clock = parser, offload, clock
        self._next_commit = next_commit

    async def order_renders(
        self, partition: Partition, call: OrderRenders
    ) -> GivenVerdicts | CallRefusal:
        """Let pages be rendered; the verdicts are in the order of the URLs."""
        if len(call.urls) > MOST_ORDERED:
            return CallRefusal(f"{len(call.urls)} URLs: a call may have {MOST_ORDERED}")
        if not self._queue.is_on:
            return CallRefusal(
                "the crawl renders no pages: set render.mode to auto or always, or a rule of"
                " render.policies, and give the URLs again"
            )
        is_repeated = partition.decisions.find(call.call) is not None
        verdicts = [await self._order(partition, each, is_repeated) for each in call.urls]
        chosen = [each.url for each in verdicts if each.verdict in _DONE]
        if chosen and not is_repeated and partition.decisions.find(call.call) is None:
            more = f" and {len(chosen) - 1} more" if len(chosen) > 1 else ""
            row = ActionRow(
                call.call,
                call.by[:MAX_WORDS],
                int(self._clock.wall() * 1_000_000),
                "render",
                (chosen[0] + more)[:MAX_WORDS],
                call.why[:MAX_WORDS],
                len(chosen),
            )
            partition.decisions.add(row)
        return GivenVerdicts(verdicts)

    async def _order(self, partition: Partition, given: str, is_repeated: bool) -> GivenVerdict:
        def verdict(kind: UrlVerdict, why: str = "") -> GivenVerdict:
            return GivenVerdict(given, kind, why)

        try:
            url = self._intake.canonical(given)
        except InvalidUrl as error:
            why = f"not a URL that can be crawled: {error.detail or error.reason.meaning}"
            return verdict(UrlVerdict.REJECTED, why)
        page = hash8(host_of(url)) + hash8(url)
        record = partition.find_record(page[:8], page[8:])
        if record is None:
            if partition.cold.find(page) is None:
                return verdict(UrlVerdict.NOT_KNOWN, "the crawl does not know it")
            why = "its record is in a cold file; it can be rendered when it was fetched again"
            return verdict(UrlVerdict.REJECTED, why)
        if partition.renders.hurry(page):
            return verdict(UrlVerdict.WAITING)
        if (why := _why_not(record.history)) or record.history is None:
            state = f"; its state is {record.state.label}"
            return verdict(UrlVerdict.REJECTED, why + state)
        if is_repeated:
            return verdict(UrlVerdict.ACCEPTED)
        if (stored := await self._read(url, record.history)) is None:
            return verdict(UrlVerdict.REJECTED, "its capture cannot be read; `lycosa audit` checks")
        parsed = await self._parser.parse(stored.document)
        if not is_html(parsed):
            kind = parsed.media_type or parsed.reason.meaning
            return verdict(UrlVerdict.REJECTED, f"it is no HTML page ({kind})")
        # Nothing is awaited from here on. It may have been fetched meanwhile, which has its render.
        if partition.renders.hurry(page):
            return verdict(UrlVerdict.WAITING)
        now = partition.find_record(page[:8], page[8:])
        if now is None or now.history is None or now.history.fetches != record.history.fetches:
            return verdict(UrlVerdict.UNKNOWN, "it was fetched in this moment: give it again")
        stated = Preferences(stored.answers, parsed.statements, stored.license, stored.price)
        history = now.history
        facts = self._queue.facts_of(
            url, now, history, history.fetches, parsed, stated, stored.privacy
        )
        self._queue.begin(partition, page, facts, parsed.links, is_ordered=True)
        return verdict(UrlVerdict.ACCEPTED)

    async def _read(self, url: str, history: History) -> _StoredPage | None:
        for has_waited in (False, True):
            try:
                return await self._offload.run(lambda: _stored_page(self._segments, url, history))
            except (RecordError, OSError):
                # A capture of the open commit is not on disk yet; any other one is damaged.
                if not has_waited:
                    await self._next_commit()
        return None


_DONE = (UrlVerdict.ACCEPTED, UrlVerdict.WAITING)


def _why_not(history: History | None) -> str:
    """Why there is nothing to render, in words; empty when there is."""
    if history is None or not history.record_id:
        return "it has no capture"
    if history.status != 200:
        return f"its last capture has the status {history.status}"
    if history.is_elsewhere:
        return "its body is in the archive of an earlier crawl"
    return ""


def _stored_page(segments: Segments, url: str, history: History) -> _StoredPage:
    """The page with its own headers; those of an answer 304 are few, so with those of its body.

    Raises ``RecordError`` or ``OSError``.
    """
    own = segments.read_record(history.segment, history.offset)
    stated = metadata_behind(segments, history.segment, history.offset, own)
    body = own
    if reference_of(own) is not None:
        body = segments.read_record(*history.body_place)
        if reference_of(body) is not None:
            raise RecordError(f"{url}: a program before formats 2 stored no place of the body")
    words = own.header_block.split(None, 2)
    head = body if len(words) < 2 or words[1] == _NOT_MODIFIED else own
    fetched = Fetched(url, Reason.NONE, header_block=head.header_block)
    is_cut = "WARC-Truncated" in body.fields
    document = ParseInput(url, 200, list(fetched.headers()), body.body, is_cut=is_cut)
    answers = read_answers(stated.get("usePreferences", ""))
    privacy = Privacy[stated.get("privacy", Privacy.PUBLIC.name).upper()]
    license_url, price = stated.get("license", ""), stated.get("paymentPrice", "")
    return _StoredPage(document, answers, license_url, price, privacy)
