"""Which pages wait for a URL, because they need it to be rendered."""

from __future__ import annotations

from lycosa.inspect.committed_state import TableView, UrlEntry
from lycosa.inspect.explain.facts import Explanation
from lycosa.stages.frontier.demands import decode_demand
from lycosa.state.kv.table_records import demand_key


def demand_facts(answer: Explanation, view: TableView, entry: UrlEntry) -> None:
    """Add how many pages wait for the URL; nothing if none does."""
    value = view.get(demand_key(entry.host8, entry.url8))
    if value is None:
        return
    row = decode_demand(value)
    number = len(row.pages)
    told = f"{number} page{'' if number == 1 else 's'} to be rendered, first {row.page_url}"
    answer.add_fact("wanted_by", number, told)
