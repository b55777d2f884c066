"""URLs that pages wait for: each must wait to be fetched, or the pages wait in vain."""

from __future__ import annotations

from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.demands import DEMAND_KEY, DEMANDS, WAITING, decode_demand
from lycosa.state.cold.cold_rows import return_key
from lycosa.state.kv.table_records import prefix_end


def check_demands(view: TableView, check: Check) -> None:
    """Check the demands of a partition."""
    for key, value in view.scan(DEMANDS, prefix_end(DEMANDS)):
        if len(key) != DEMAND_KEY:
            continue
        record = view.url_record(key[1:9], key[9:])
        is_cold = view.get(return_key(key[1:])) is not None
        row = decode_demand(value)
        told = record.state.label if record is not None else "nothing"
        check.expect(
            is_cold or (record is not None and record.state in WAITING),
            f"{len(row.pages)} pages wait for {row.url}, which does not wait to be fetched, but is"
            f" {told}",
        )
