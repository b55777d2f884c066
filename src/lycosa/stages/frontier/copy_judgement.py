"""Which waiting URLs of a host lose weight, because pages like them were near copies of others.

Two judgements, both learned from first fetches, by host:

* **Patterns** (``base.urls.url_patterns``): the share of near copies among the last pages of a
  pattern. Above one half, new URLs with it lose priority. From 0.8 on they are *set back*.
* **Parameters**: URLs that differ in one parameter alone gave the same text. A parameter is learned
  when that was so for 0.8 of the pairs and for several values. The first URL of each form without
  such parameters is fetched as any other, further ones are set back.

Each share is the lower bound of what was counted (``model.copy_record``), so a few pages decide
nothing. Nothing is dropped, and no URL is changed: a URL that is set back waits in a separate band,
with its reason. One of ``copies.probe_turns`` turns of the host goes to that band. These probes
correct the judgement; then the URLs return to their bands.

**Bound.** The ``n``-th URL of the band is leased after at most ``n * probe_turns`` leases of the
host. A host where no other URL waits rests after each probe for the time of ``probe_turns`` turns,
while other hosts wait; else it rests for ``probe_turns_alone``. While other hosts wait, a host with
a share *s* of near copies above one half rests for *1 / (1 - s)* turns after each page, so it gets
turns in proportion to the pages that are its own. A turn takes the delay of the host, at most 30
seconds, and at least one while other hosts wait, else a tenth. A rest is at most five minutes.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.base.config.sections import CopiesSection
from lycosa.base.model.copy_record import LOSING_SHARE, SET_BACK_SHARE, CopyRecord
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of, join_url, target_of
from lycosa.base.urls.url_patterns import (
    only_difference,
    parameters_of,
    pattern_of,
    with_value,
    without_parameters,
)
from lycosa.stages.frontier.back_queue import QueueEntry
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.turn_shares import SharedTurns
from lycosa.stages.frontier.visit_state import VisitState, VisitStates
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    SET_BACK_BAND,
    UrlRecord,
    decode_url,
    encode_url,
    form_key,
    url_key,
)
from lycosa.state.shard.counters import Counters

_GRADES = 4  # a text in which so many bits differ is no copy; fewer count in proportion
_ELSEWHERE = 0.75  # a near copy of a page on another host, whose SimHash is not at hand
_NAMED = 0.25  # a near copy with a title that others do not have
_MAX_TITLES = 20_000  # titles that are kept, 120 bytes each
_MOVED = 200  # URLs that are moved to another band in one step of the loop: 10 ms
# What a turn of a host takes: while others wait, while none does, and at most.
_MIN_TURN_S, _MIN_TURN_ALONE_S, _MAX_TURN_S = 1.0, 0.1, 30.0
_MAX_REST_S = 300.0  # below ``frontier.finish_wait_s``, or the crawl would end meanwhile


class CopyJudgement:
    """The judgements of one partition. ``section`` may be replaced while the crawl runs."""

    def __init__(
        self,
        table: Overlay,
        visits: VisitStates,
        section: CopiesSection,
        band_of: Callable[[int], int],
        counters: Counters,
    ) -> None:
        """``band_of`` gives the band of a priority."""
        self.section = section
        self._table, self._visits, self._band_of = table, visits, band_of
        self._counters = counters
        self._titles: dict[bytes, int] = {}  # of pages that may get a verdict, by host8 url8

    # -- learning

    def keep_title(self, url: bytes, title: int) -> None:
        """Keep a title for a verdict that may come; only in memory, so a crash loses it."""
        if len(self._titles) >= _MAX_TITLES:
            self._titles.clear()
        self._titles[url] = title

    def note_capture(self, lease: Lease, done: Completed) -> None:
        """Learn from a capture of a copy, or at a host that has copies."""
        history, host, url8 = done.history, lease.host, lease.entry.url8
        assert history is not None, "it is a capture"
        is_first = history.fetches == 1 and done.state is UrlState.FETCHED
        if is_first and (history.copy_of or host.record.copies is not None):
            self.note_page(host, url8, lease.record, done.title)
        if done.title and not history.copy_of:
            self.keep_title(host.host8 + url8, done.title)

    def note_page(self, host: VisitState, url8: bytes, record: UrlRecord, title: int = 0) -> None:
        """Learn from the first fetch of a page; the caller marks its host as changed.

        Its history is in ``record``. ``title`` is a hash of its title (``page_change.title_hash``).
        """
        history = record.history
        # Without a digest of the text, as in formats 1, nothing is learned.
        if history is None or not history.text_digest:
            return
        copies = host.record.copies
        if copies is None:
            copies = host.record.copies = CopyRecord()
        original = self._original(host, history)
        pattern, learned = pattern_of(record.target), copies.learned
        before = copies.share_of(pattern)
        copies.count_page(pattern, _grade_of(history, original, copies, title))
        self._learn_parameters(host, url8, record, original)
        self._follow(host, before, pattern, learned)

    def note_late_copy(self, host8: bytes, url8: bytes, record: UrlRecord) -> None:
        """Learn from a verdict that came after its page was stored."""
        host, history = self._visits.find_host(host8), record.history
        title = self._titles.pop(host8 + url8, 0)
        if host is None or history is None or history.fetches != 1 or not history.text_digest:
            return
        if host.record.copies is None:
            self.note_page(host, url8, record, title)
            self._visits.mark_changed(host)
            return
        copies = host.record.copies
        original, learned = self._original(host, history), copies.learned
        pattern = pattern_of(record.target)
        copies.regrade_page(pattern, _grade_of(history, original, copies, title))
        self._visits.mark_changed(host)
        self._learn_parameters(host, url8, record, original)
        self._follow(host, 0.0, pattern, learned)

    def _follow(
        self, host: VisitState, before: float, pattern: str, learned: frozenset[str]
    ) -> None:
        """Let the host's queue follow what was learned."""
        copies, queue = host.record.copies, host.queue
        assert copies is not None
        waits = queue.has_waiting(SET_BACK_BAND, SET_BACK_BAND)
        is_better = before >= SET_BACK_SHARE > copies.share_of(pattern)
        if waits and (is_better or not learned <= copies.learned):
            copies.review = queue.lanes[SET_BACK_BAND].next
        host.is_judged = waits or copies.is_alarmed

    def _original(self, host: VisitState, history: History) -> History | None:
        """The history of the page that this one is a copy of, if that is on the same host."""
        if not history.copy_of or host_of(history.duplicate_of) != host.name:
            return None
        found = self._find(host.host8, hash8(history.duplicate_of))
        return found.history if found is not None else None

    def _find(self, host8: bytes, url8: bytes) -> UrlRecord | None:
        value = self._table.get(url_key(host8, url8))
        return decode_url(value) if value is not None else None

    def _learn_parameters(
        self, host: VisitState, url8: bytes, record: UrlRecord, original: History | None
    ) -> None:
        history, copies = record.history, host.record.copies
        assert history is not None and copies is not None
        learned, target = copies.learned, record.target
        if original is not None and original.text_digest == history.text_digest:
            other = target_of(history.duplicate_of)
            if found := only_difference(target, other, learned):
                copies.count_pair(found[0], True, found[1], found[2])
        elif "?" in target:
            self._look_for_others(host, copies, record, learned)
        if "?" in target and copies.parameters:
            self._keep_form(host, copies, url8, record)

    def _look_for_others(
        self, host: VisitState, copies: CopyRecord, record: UrlRecord, learned: frozenset[str]
    ) -> None:
        """Look for pages with other texts that differ from this one in a parameter alone."""
        assert record.history is not None
        for name, value in parameters_of(record.target):
            tally = copies.parameters.get(name)
            if tally is None or name in learned:
                continue
            forms = [
                with_value(record.target, name, each) if each else ""
                for each in tally.values
                if each != value
            ]
            forms.append(without_parameters(record.target, frozenset({name})))
            for form in filter(None, forms):
                other = self._find(host.host8, hash8(self._url(host, record, form)))
                if _has_other_text(record.history, other):
                    copies.count_pair(name, False)
                    break

    def _keep_form(
        self, host: VisitState, copies: CopyRecord, url8: bytes, record: UrlRecord
    ) -> None:
        """Keep the first page of each form, or compare a page with it.

        Also for parameters that may be learned, so that known forms are not fetched once more.
        """
        form = without_parameters(record.target, copies.promising)
        if form == record.target:
            return
        key = form_key(host.host8, hash8(self._url(host, record, form)))
        first = self._table.get(key)
        if first is None:
            self._table.put(key, url8)
            return
        other = self._find(host.host8, first) if first != url8 else None
        if other is None or other.history is None or not other.history.text_digest:
            return
        is_same = not _has_other_text(record.history, other)
        values = dict(parameters_of(record.target))
        for name in copies.learned & values.keys():
            copies.count_pair(name, is_same, values[name])

    @staticmethod
    def _url(host: VisitState, record: UrlRecord, target: str) -> str:
        return join_url("https" if record.secure else "http", host.name, target)

    # -- judging

    def judge(self, host: VisitState, url8: bytes, record: UrlRecord) -> Reason:
        """Why a URL that was never fetched is set back, or ``NONE``."""
        copies = host.record.copies
        if copies is None or self.is_exempt(host.name):
            return Reason.NONE
        target = record.target
        if "?" in target and (learned := copies.learned):
            form = without_parameters(target, learned)
            if form != target and self._is_known(host, url8, self._url(host, record, form)):
                return Reason.LEARNED_PARAMETER
        is_copy = copies.share_of(pattern_of(target)) >= SET_BACK_SHARE
        return Reason.NEAR_COPIES if is_copy else Reason.NONE

    def _is_known(self, host: VisitState, url8: bytes, form: str) -> bool:
        """Whether another URL of this form is known; if not, this one stands for it from now on."""
        form8 = hash8(form)
        first = self._table.get(form_key(host.host8, form8))
        if first is None and self._table.get(url_key(host.host8, form8)) is not None:
            first = form8
            self._table.put(form_key(host.host8, form8), first)
        if first is None:
            self._table.put(form_key(host.host8, form8), url8)
        return first is not None and first != url8

    def weigh(self, host: VisitState, target: str, priority: float) -> float:
        """The priority of a URL after what it loses for its pattern: at most half of it."""
        copies = host.record.copies
        if copies is None or self.is_exempt(host.name):
            return priority
        share = copies.share_of(pattern_of(target))
        return priority * (1 + LOSING_SHARE - share) if share > LOSING_SHARE else priority

    def is_exempt(self, host: str) -> bool:
        """Whether nothing of this host is set back: the operator says so."""
        return is_exempt(self.section, host)

    # -- the host's turns

    def next_entry(self, host: VisitState, bands: int, share: SharedTurns) -> QueueEntry | None:
        """The next entry of a host whose URLs are judged; none when no URL waits."""
        for _ in range(_MOVED):
            entry = self._pop(host, bands, share)
            if entry is None or entry.band == SET_BACK_BAND:
                return entry
            record = self._find(host.host8, entry.url8)
            if record is None or record.state is not UrlState.QUEUED or record.history is not None:
                return entry
            reason = self.judge(host, entry.url8, record)
            if not reason:
                return entry
            host.queue.finish_entry(entry)
            self.set_back(host, entry.url8, record, reason)
        return host.queue.pop_band(self._table, SET_BACK_BAND)

    def set_back(self, host: VisitState, url8: bytes, record: UrlRecord, reason: Reason) -> None:
        """Let a URL that counts as waiting wait in the band of those that are set back."""
        host.queue.push(SET_BACK_BAND, url8)
        self._counters.set_back += 1
        record.reason = reason
        self._table.put(url_key(host.host8, url8), encode_url(record))
        self._visits.mark_changed(host)

    def _pop(self, host: VisitState, bands: int, share: SharedTurns) -> QueueEntry | None:
        queue, copies = host.queue, host.record.copies
        if copies is not None and queue.has_waiting(SET_BACK_BAND, SET_BACK_BAND):
            if copies.review:
                self._review(host, copies)
            copies.turns += 1
            if copies.turns >= self.section.probe_turns or self.is_exempt(host.name):
                copies.turns = 0
                if entry := queue.pop_band(self._table, SET_BACK_BAND):
                    return entry
        return queue.pop(self._table, bands, share) or queue.pop_band(self._table, SET_BACK_BAND)

    def _review(self, host: VisitState, copies: CopyRecord) -> None:
        """Judge the next URLs again that were set back before something was learned."""
        for _ in range(_MOVED):
            entry = host.queue.pop_band(self._table, SET_BACK_BAND)
            if entry is None:
                break
            if entry.seq >= copies.review:
                host.queue.restore_entry(entry)
                break
            host.queue.finish_entry(entry)
            record = self._find(host.host8, entry.url8)
            reason = self.judge(host, entry.url8, record) if record is not None else Reason.NONE
            if record is None or reason:
                host.queue.push(SET_BACK_BAND, entry.url8)
            else:
                self._restore(host, entry.url8, record)
        else:
            return
        copies.review = 0

    def _restore(self, host: VisitState, url8: bytes, record: UrlRecord) -> None:
        record.reason = Reason.NONE
        self._counters.set_back -= 1
        self._table.put(url_key(host.host8, url8), encode_url(record))
        host.queue.push(self._band_of(record.priority), url8)

    def rest_s(self, host: VisitState, delay_s: float, others_wait: Callable[[], bool]) -> float:
        """How long a host with this delay rests after a visit; 0 for no longer than any other.

        ``others_wait`` says whether other hosts have URLs to fetch.
        """
        copies, section = host.record.copies, self.section
        if copies is None or not host.is_leased or self.is_exempt(host.name):
            return 0.0
        if host.is_set_back:
            if others_wait():
                return min(section.probe_turns * _turn_s(delay_s, _MIN_TURN_S), _MAX_REST_S)
            return section.probe_turns_alone * _turn_s(delay_s, _MIN_TURN_ALONE_S)
        if copies.pages.share > LOSING_SHARE and others_wait():
            # As many new pages as another host gives, for each of its turns.
            turns = min(1 / (1 - copies.pages.share), section.probe_turns)
            return turns * _turn_s(delay_s, _MIN_TURN_S)
        return 0.0


def _turn_s(delay_s: float, minimum_s: float) -> float:
    """What a turn of a host takes that has this delay, in seconds."""
    return min(max(delay_s, minimum_s), _MAX_TURN_S)


def is_exempt(section: CopiesSection, host: str) -> bool:
    """Whether the settings say that no URL of a host is set back."""
    return section.probe_turns <= 1 or any(
        host == each or host.endswith(f".{each}") for each in section.exempt
    )


def _grade_of(history: History, original: History | None, copies: CopyRecord, title: int) -> float:
    """How far a page is a copy: 1 for the same text, and for nearly the same under a known title.

    Product pages that share a long template are within the distance of near copies too, but each
    has its own title. So with a new title, a page that is only near counts little. Without any
    title it counts less with each bit that differs.
    """
    if not history.copy_of:
        return 0.0
    if history.is_same:
        return 1.0
    if title and (original is None or original.text_digest != history.text_digest):
        return 1.0 if copies.note_title(title) else _NAMED
    if original is None or not original.simhash:
        return _ELSEWHERE
    if original.text_digest == history.text_digest:
        return 1.0
    return max(1 - (original.simhash ^ history.simhash).bit_count() / _GRADES, 0.0)


def _has_other_text(history: History | None, other: UrlRecord | None) -> bool:
    """Whether both pages are known, and their texts differ."""
    if history is None or other is None or other.history is None:
        return False
    digest = other.history.text_digest
    return bool(digest) and bool(history.text_digest) and digest != history.text_digest
