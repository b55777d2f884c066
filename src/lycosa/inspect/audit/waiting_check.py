"""URLs that others wait for or hold: pages that are rendered, and outside fetchers."""

from __future__ import annotations

from lycosa.base.model.url_state import UrlState
from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.demands import DEMAND_KEY, DEMANDS, WAITING, decode_demand
from lycosa.stages.frontier.outside_leases import LEASES, decode_lease
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


def check_leases(view: TableView, due: Check, counters: Check) -> None:
    """Check URLs that outside fetchers hold: each is due at the end of its lease."""
    leased = 0
    for key, value in view.scan(LEASES, prefix_end(LEASES)):
        row, record = decode_lease(value), view.url_record(key[1:9], key[9:])
        leased += 1
        told = record.due_at if record is not None else "nothing"
        due.expect(
            record is not None and (record.state, told) == (UrlState.QUEUED, row.due_at),
            f"{row.url} is lent to {row.holder} until {row.due_at}, but its record has {told}",
        )
    counted = view.counters().leased
    counters.expect(
        leased == counted,
        f"partition {view.number}: {counted} URLs are lent by the counters, {leased} by rows",
    )
