"""Where the record of a URL is if its partition's table lacks it, and whether it comes back."""

from __future__ import annotations

from lycosa.inspect.committed_state import TableView, UrlEntry
from lycosa.inspect.explain.facts import Explanation, when
from lycosa.inspect.wall_time import wall_of
from lycosa.state.cold.cold_rows import ReturnCause, decode_return, return_key

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
