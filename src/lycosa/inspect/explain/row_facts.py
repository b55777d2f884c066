"""Facts of rows next to the record of a URL: pages that want it, its cold file, announced changes,
what operators and outside fetchers did, and its renders.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lycosa.base.config.policy_classes import listing_of
from lycosa.base.model.finished_render import RoundNote
from lycosa.base.model.render_row import RenderOutcome, RenderRow, RenderState
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import hash8
from lycosa.inspect.committed_state import TableView, UrlEntry
from lycosa.inspect.explain.facts import Explanation, when
from lycosa.inspect.wall_time import wall_of
from lycosa.stages.frontier.change_signals import decode_announced
from lycosa.stages.frontier.decision_log import ACTIONS, decode_action
from lycosa.stages.frontier.demands import decode_demand
from lycosa.stages.frontier.outside_leases import decode_lease
from lycosa.stages.frontier.pooled_truths import TRUTHS_KEY, decode_pools, pooled_truth
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.stages.schedule.signal_belief import precision_of
from lycosa.state.cold.cold_rows import ReturnCause, decode_return, return_key
from lycosa.state.kv.table_records import (
    announced_key,
    demand_key,
    outcome_key,
    outside_key,
    prefix_end,
    render_key,
    story_key,
)


def demand_facts(answer: Explanation, view: TableView, entry: UrlEntry) -> None:
    """Add how many pages wait for the URL; nothing if none does."""
    value = view.get(demand_key(entry.host8, entry.url8))
    if value is None:
        return
    row = decode_demand(value)
    number = len(row.pages)
    told = f"{number} page{'' if number == 1 else 's'} to be rendered, first {row.page_url}"
    answer.add_fact("wanted_by", number, told)


_WHY = {
    ReturnCause.LINK: "a page links to it again",
    ReturnCause.GIVEN: "it was given again",
    ReturnCause.OPERATOR: "an operator decided so",
    ReturnCause.DUE: "it is due to be fetched again",
    ReturnCause.SIGNAL: "it was announced that it changed",
    ReturnCause.POLICY: "changed refetch policies give it another time",
}


def cold_facts(answer: Explanation, view: TableView, entry: UrlEntry, ahead_s: float) -> None:
    """Add the cold file that has the record, and that it is to come back."""
    file = view.cold_file(entry.host8, entry.url8)
    if file is None:
        return
    since = when(wall_of(file.archived_at, ahead_s))
    name = f"cold/{file.name}"
    why = "it is not due soon" if entry.record.due_at else "nothing waits for it"
    text = f"its record is in {name} since {since}, because {why}"
    answer.add_fact("cold_file", name, text)
    if (value := view.get(return_key(entry.host8 + entry.url8))) is not None:
        row = decode_return(value)
        text = f"it comes back into the frontier: {_WHY[row.why]}"
        answer.add_fact("cold_return", row.why.name.lower(), text)


def signal_facts(answer: Explanation, view: TableView, entry: UrlEntry, host: VisitRecord) -> None:
    """Add the kind of sitemap or feed that it is, and the open signals about it."""
    history = entry.record.history
    if history is not None and (kind := listing_of(history.policy)):
        text = f"{kind.label}: read on its own schedule (sitemaps.*)"
        answer.add_fact("listing", kind.label, text)
    value = view.get(announced_key(entry.host8 + entry.url8)) if host.signals else None
    if value is None:
        return
    pools = decode_pools(view.get(TRUTHS_KEY))
    found = [
        (source, at, precision_of(pooled_truth(pools, host.software, source, host.signals)))
        for source in SignalSource
        if (at := decode_announced(value).open.get(source)) is not None
    ]
    if found:
        signals = [
            {"source": source.label, "at": at, "precision": round(precision, 3)}
            for source, at, precision in found
        ]
        texts = (
            f"changed at {when(at)}, says {source.label.replace('_', ' ')}"
            f" (right in {precision:.0%} at this host)"
            for source, at, precision in found
        )
        answer.add_fact("signals", signals, "; ".join(texts))


def steering_facts(
    answer: Explanation, view: TableView, entry: UrlEntry, host: VisitRecord
) -> None:
    """Add the facts, and the verdict where they are the reason why the URL waits."""
    if host.pause is not None:
        since = when(host.pause.date_us / 1e6)
        why = f": {host.pause.why}" if host.pause.why else ""
        if entry.state in (UrlState.QUEUED, UrlState.PARKED):
            text = f"It waits: {host.pause.by} paused its host at {since}{why}."
            answer.set_verdict("paused", text)
    # After the pause, whose verdict this one replaces: a URL that is lent is out already.
    value = view.get(outside_key(entry.host8, entry.url8))
    if value is not None:
        lease = decode_lease(value)
        answer.add_fact("leased_to", lease.holder)
        answer.add_fact("leased_until", lease.expires, when(lease.expires))
        text = f"The outside fetcher {lease.holder} has it until {when(lease.expires)}."
        answer.set_verdict("leased", text)
    decided = [
        row
        for _, value in view.scan(ACTIONS, prefix_end(ACTIONS))
        if (row := decode_action(value)).subject == host.host
    ]
    if decided:
        answer.add_fact(
            "host_decisions",
            [
                {"action": row.action, "by": row.by, "at": row.date_us / 1e6, "why": row.why}
                for row in decided
            ],
            "; ".join(
                f"{row.action} by {row.by} at {when(row.date_us / 1e6)}"
                + (f" ({row.why})" if row.why else "")
                for row in decided
            ),
        )


_SHOWN = 5  # URLs that a page waits for
_HASH = 8


def round_facts(answer: Explanation, view: TableView, entry: UrlEntry, ahead_s: float) -> None:
    """Add the open render of a page, and the last one that ended.

    ``ahead_s`` is how far crawl time is ahead of the wall clock.
    """
    page = entry.host8 + entry.url8
    if (value := view.get(render_key(page))) is not None:
        row = msgspec.msgpack.decode(value, type=RenderRow)
        story = view.get(story_key(page))
        state = msgspec.msgpack.decode(story, type=RenderState) if story else RenderState()
        _add_open(answer, row, state, ahead_s)
    if (value := view.get(outcome_key(page))) is not None:
        _add_outcome(answer, msgspec.msgpack.decode(value, type=RenderOutcome))


def _add_open(answer: Explanation, row: RenderRow, state: RenderState, ahead_s: float) -> None:
    hashes = {row.open[at : at + _HASH] for at in range(0, len(row.open), _HASH)}
    waits = [url for url in state.wanted if hash8(url) in hashes]
    text = f"round {row.round}, "
    if waits:
        more = f" and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
        until = f", at most until {when(int(row.until - ahead_s))}" if row.until else ""
        text += f"when these are settled{until}: {', '.join(waits[:_SHOWN])}{more}"
    else:
        text += "as soon as a renderer takes it"
    if row.is_ordered:
        text += " (an operator asked for it)"
    answer.add_fact("render_waits", {"round": row.round, "waits_for": waits}, text)
    _add_rounds(answer, state.rounds)


def _add_outcome(answer: Explanation, outcome: RenderOutcome) -> None:
    rounds = len(outcome.rounds)
    text = f"{when(outcome.at)}: {outcome.end}, {rounds} round{'' if rounds == 1 else 's'}"
    text += f", {outcome.wanted} URLs were wanted"
    if outcome.record:
        text += f"; {outcome.links:+d} links, {outcome.characters:+d} characters of text"
    value = {
        "at": outcome.at,
        "end": outcome.end,
        "wanted": outcome.wanted,
        "record_id": outcome.record,
        "warc": outcome.segment,
        "offset": outcome.offset,
        "links": outcome.links,
        "characters": outcome.characters,
    }
    answer.add_fact("rendered", value, text)
    _add_rounds(answer, outcome.rounds)


def _add_rounds(answer: Explanation, rounds: Sequence[RoundNote]) -> None:
    if rounds:
        texts = (
            f"{number}: {each.end}, {each.found} requests found, {each.wants} wanted"
            f" ({each.elapsed_s:.1f} s)"
            for number, each in enumerate(rounds, 1)
        )
        found = [msgspec.structs.asdict(each) for each in rounds]
        answer.add_fact("render_rounds", found, "; ".join(texts))
