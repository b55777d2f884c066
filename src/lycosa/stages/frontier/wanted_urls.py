"""Takes what a page needs to be rendered at the partition that owns the URL.

    captured before -> answered at once, from what is stored
    refused or failed, or its host is parked or retired -> answered at once, with the reason
    otherwise -> a demand, and the URL waits in the best band of its host

A URL that was captured is not fetched again for a page, however old the capture is: refetches have
their own policy. One whose record is cold comes back and is fetched, because its record is in a
file. A want that leads to a request counts for the pair of its site and the host, if these differ.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.parcel_items import PostedWant, SettledWant
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.demands import MAX_DEMANDS, WAITING, outcome_of
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState, VisitState
from lycosa.state.cold.cold_rows import ColdNote, ReturnCause
from lycosa.state.kv.table_records import PARKED_BAND, UrlRecord, encode_url, url_key

MOST_MOVED = 5000
"""Waiting URLs of a host among which one is looked for; with more of them it keeps its place."""
_BEST = 0
_WHOLE = 255  # the highest priority
_DAY_S = 86_400
_SET_ASIDE = frozenset({HostState.PARKED, HostState.RETIRED})
_GUESSES = frozenset({Reason.SPECULATIVE, Reason.SPECULATIVE_MISSES})
_FIRST_OF_STATE = 40  # reasons below are those of pure rules, which have admitted the want


class WantTime(msgspec.Struct, frozen=True):
    """When a want is taken: crawl time and wall time, both in seconds."""

    time: float
    wall: float


def take_want(
    partition: Partition, want: PostedWant, foreign_site: str, most: int, at: WantTime
) -> SettledWant | None:
    """Take a want; return its answer if there is one now, and ``None`` if a demand is open.

    ``foreign_site`` is the site of the page, empty if the URL is on the same site; for it, at most
    ``most`` URLs of the host are fetched in a day.
    """
    host8, url8 = hash8(host_of(want.url)), hash8(want.url)
    url, demands = host8 + url8, partition.demands
    if url in demands.rows:
        return None if demands.join(url, want) else _refused(want, Reason.WANT_LIMIT)
    record, host = partition.find_record(host8, url8), partition.visits.find_host(host8)
    cold = partition.cold.find(url) if record is None else None
    answer = _known(want, record, cold)
    if answer is None and host is not None and host.record.state in _SET_ASIDE:
        answer = _refused(want, host.record.reason, host.record.detail)
    if answer is not None:
        return answer
    site8, day = hash8(foreign_site), int(at.wall // _DAY_S)
    if len(demands.rows) >= MAX_DEMANDS or (
        foreign_site and not demands.allow(host8, site8, day, most)
    ):
        return _refused(want, Reason.WANT_LIMIT)
    if cold is not None:
        partition.cold.note_return(url, ReturnCause.LINK, want.depth + 1, at.time)
    elif not _wait_first(partition, want, url, at):
        return _refused(want, Reason.INTERNAL)
    demands.open(url, want)
    return None


def _refused(want: PostedWant, reason: Reason, detail: str = "") -> SettledWant:
    return SettledWant(want.url, (want.page,), reason, detail)


def _known(want: PostedWant, record: UrlRecord | None, cold: ColdNote | None) -> SettledWant | None:
    """The answer from what is known of the URL; ``None`` if it must be fetched first."""
    if cold is not None and cold.state in (UrlState.FAILED, UrlState.REFUSED):
        return _refused(want, Reason(cold.reason)) if cold.reason >= _FIRST_OF_STATE else None
    if record is None:
        return None
    if record.history is not None and record.history.record_id:
        return outcome_of(want.url, (want.page,), record)
    is_free = record.reason in _GUESSES or record.reason < _FIRST_OF_STATE
    if record.state in WAITING or (record.state is UrlState.REFUSED and is_free):
        return None
    return outcome_of(want.url, (want.page,), record)


def _wait_first(partition: Partition, want: PostedWant, url: bytes, at: WantTime) -> bool:
    """Let the URL wait in the best band of its host; false if it has no record all the same."""
    depth = want.depth + 1
    found = Discovered(want.url, url[:8], url[8:], LinkKind.WANTED, depth, want.page_url)
    # Also a known URL: it may be a guess, which becomes an ordinary URL by any find.
    partition.discover_urls([found], at.wall)
    record, host = partition.find_record(url[:8], url[8:]), partition.visits.find_host(url[:8])
    if record is None or host is None:
        return False  # another URL has this hash, or a Bloom filter lost its confirmation
    hasten(partition, host, url[8:], record)
    return True


def lease_wanted(partition: Partition, host: VisitState) -> Lease | None:
    """Lease a URL of a host that was found by a want and waits; ``None`` if there is none."""
    for url in partition.demands.rows:
        if url[:8] != host.host8 or url in partition.leased:
            continue
        record = partition.find_record(url[:8], url[8:])
        if record is None or record.kind is not LinkKind.WANTED:
            continue
        if record.state is not UrlState.QUEUED or record.due_at:
            continue
        for entry in host.queue.pop_chosen(partition.table, (url[8:],)):
            lease = partition.leased[url] = Lease(host, entry, record)
            return lease
    return None


def hasten(partition: Partition, host: VisitState, url8: bytes, record: UrlRecord) -> None:
    """Move a URL without a capture to the best band of its host, unless it is there.

    One that waits for a retry, or is being fetched, keeps its place. So does one of so many that
    looking for it would take long.
    """
    if record.state not in WAITING:
        record.kind, record.priority = LinkKind.WANTED, _WHOLE  # a rule had refused it
        partition.queue_again(host, url8, record)
        return
    is_first = record.priority == _WHOLE and record.state is UrlState.QUEUED
    if is_first or record.due_at or host.host8 + url8 in partition.leased:
        return
    if host.record.waiting + host.record.parked > MOST_MOVED:
        return
    record.priority = _WHOLE
    if record.kind.is_requisite:
        record.kind = LinkKind.WANTED  # it is no page, so limits on pages do not count it any more
    is_parked = record.state is UrlState.PARKED
    for entry in host.queue.pop_chosen(partition.table, (url8,), PARKED_BAND if is_parked else -1):
        host.queue.finish_entry(entry)
        partition.counters.take_due(entry.band)
        if is_parked:
            host.record.parked -= 1
            host.count_discovered()
            partition.queue_again(host, url8, record)
            return
        record.reason = Reason.NONE  # it may have been set back
        partition.table.put(url_key(host.host8, url8), encode_url(record))
        host.queue.push(_BEST, url8)
        partition.places.note_waiting(host, _BEST)
    partition.visits.mark_changed(host)
