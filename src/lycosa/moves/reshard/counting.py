"""The counters of new shards: recounted where rows tell them, divided where only totals exist.

States, reasons, cells, due pages, hosts, open questions and what pages needed follow from the rows.
Captures, bytes and refusals are counted per host in visit states. Pages, requests and refetches are
known per partition only; they are divided in proportion. Every total over all shards stays what it
was, except reasons (versions that never took a URL away counted too many), and numbers that must
not be given again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.due_band import DUE_BANDS
from lycosa.base.model.url_state import UrlState
from lycosa.moves.reshard.host_owners import HostOwners, StateDamaged
from lycosa.stages.frontier.visit_state import HostState, VisitRecord, counted_as, decode_visit
from lycosa.state.kv.table_records import (
    SET_BACK_BAND,
    UrlRecord,
    decode_url,
    prefix_end,
    row_urls,
)
from lycosa.state.shard.counters import Counters, count, counters_of, total_of

_TOLD_EVERY = 20_000
OnRows = Callable[[int], None]
"""Called with the number of rows that were read so far."""


class _HostTotals(msgspec.Struct):
    """Sums over the hosts of one shard that no counter has."""

    captures: int = 0
    body_bytes: int = 0
    refused: dict[int, int] = {}


def recounted(owners: HostOwners, on_rows: OnRows = lambda number: None) -> list[Counters]:
    """The counters of each shard, by number. Raises ``StateDamaged``."""
    found = [Counters() for _ in range(owners.shards)]
    totals = [_HostTotals() for _ in range(owners.shards)]
    read = 0
    for partition, table in owners.tables.items():
        states: dict[bytes, tuple[int, HostState]] = {}
        for key, value in table.scan(b"H", prefix_end(b"H")):
            record = decode_visit(value)
            shard = owners.shard_of_name(record.host)
            _count_host(found[shard], totals[shard], record)
            if record.state in (HostState.PARKED, HostState.RETIRED):
                states[key[1:]] = shard, record.state
        before = counters_of(table)
        for counters in found:  # numbers of questions and renders must not be given again
            counters.asked = max(counters.asked, before.asked)
            counters.renders = max(counters.renders, before.renders)
        for key, value in table.scan(b"U", prefix_end(b"U")):
            shard = owners.shard_of(partition, key[1:9])
            set_aside = states.get(key[1:9])
            _count_url(found[shard], decode_url(value), set_aside[1] if set_aside else None)
            read += 1
            if read % _TOLD_EVERY == 0:
                on_rows(read)
        for key, row in table.scan(b"Q", prefix_end(b"Q")):
            band, counters = key[9], found[owners.shard_of(partition, key[1:9])]
            if band in DUE_BANDS:
                count(counters.due, band, len(row_urls(row)))
            elif band == SET_BACK_BAND:
                counters.set_back += len(row_urls(row))
        for key, _ in table.scan(b"E", prefix_end(b"E")):
            found[owners.shard_of(partition, key[1:9])].leased += 1
    on_rows(read)
    _divide_totals(found, totals, [counters_of(table) for table in owners.tables.values()])
    return found


def _count_host(counters: Counters, totals: _HostTotals, record: VisitRecord) -> None:
    counters.hosts += 1
    shown = record.shown_state
    counters.hosts_parked += shown is HostState.PARKED
    counters.hosts_retired += shown is HostState.RETIRED
    counters.hosts_paused += shown is HostState.PAUSED
    counters.hosts_asleep += record.asleep_until > 0
    counters.asking += sum(not question.is_late for question in record.questions)
    for stated, captures in record.stated.items():
        counters.stated[stated] = counters.stated.get(stated, 0) + captures
    totals.captures += record.usage.captures
    totals.body_bytes += record.usage.bytes
    for reason, number in record.refused.items():
        count(totals.refused, reason, number)


def _count_url(counters: Counters, record: UrlRecord, set_aside: HostState | None) -> None:
    state = record.state
    if state is UrlState.QUEUED and set_aside is not None:
        state = counted_as(set_aside)
    counters.move_urls(None, state)
    if record.state not in (UrlState.QUEUED, UrlState.PARKED):
        counters.move_reason(None, record.reason)
    counters.move_cell(None, record.history)
    if record.kind is LinkKind.WANTED and record.history is not None:
        counters.wanted += record.history.fetches


def _divide_totals(
    found: list[Counters], totals: list[_HostTotals], before: list[Counters]
) -> None:
    """Set the counters that rows do not tell. Raises ``StateDamaged`` if URLs are missing."""
    discovered = sum(each.discovered for each in before)
    recount = sum(each.discovered for each in found)
    if discovered != recount:
        raise StateDamaged(
            f"{recount} URLs have a record, but {discovered} were discovered: `lycosa audit` shows"
            " what is wrong"
        )
    captures = [each.captures for each in totals]
    for name, parts in (
        ("captures", captures),
        ("body_bytes", [each.body_bytes for each in totals]),
        ("pages", captures),
        ("requests", captures),
    ):
        whole = sum(getattr(each, name) for each in before)
        for counters, part in zip(found, divided_total(parts, whole), strict=True):
            setattr(counters, name, part)
    # No row tells which shard they are of; the sum stays right.
    found[0].validators = total_of(before).validators
    found[0].items = total_of(before).items
    found[0].rendered = total_of(before).rendered
    _divide_tables(
        [each.rule_refusals for each in found],
        [each.refused for each in totals],
        [each.rule_refusals for each in before],
    )
    _divide_tables(
        [each.refetched for each in found],
        [dict.fromkeys((0, *DUE_BANDS), part) for part in captures],
        [each.refetched for each in before],
    )


def _divide_tables(
    found: list[dict[int, int]],
    parts: list[dict[int, int]],
    before: Iterable[Mapping[int, int]],
) -> None:
    whole: dict[int, int] = {}
    for table in before:
        for key, number in table.items():
            count(whole, key, number)
    for key, number in whole.items():
        shares = divided_total([each.get(key, 0) for each in parts], number)
        for counts, share in zip(found, shares, strict=True):
            if share:
                counts[key] = share


def divided_total(parts: list[int], whole: int) -> list[int]:
    """Shares that add up to ``whole``: ``parts`` where these suffice, else in their proportion.

    What is left over goes to the largest part.
    """
    total = sum(parts)
    shares = list(parts) if total <= whole else [part * whole // total for part in parts]
    shares[parts.index(max(parts))] += whole - sum(shares)
    return shares
