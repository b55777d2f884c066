"""The renders of a page: what it waits for, its rounds, and how the last one ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lycosa.base.model.finished_render import RoundNote
from lycosa.base.model.render_row import RenderOutcome, RenderRow, RenderState
from lycosa.base.urls.identity import hash8
from lycosa.inspect.committed_state import TableView, UrlEntry
from lycosa.inspect.explain.facts import Explanation, when
from lycosa.state.kv.table_records import outcome_key, render_key, story_key

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
