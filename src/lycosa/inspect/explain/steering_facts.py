"""Facts that operators or outside fetchers caused: a paused host, decisions, a lease."""

from __future__ import annotations

from lycosa.base.model.url_state import UrlState
from lycosa.inspect.committed_state import TableView, UrlEntry
from lycosa.inspect.explain.facts import Explanation, when
from lycosa.stages.frontier.decision_log import ACTIONS, decode_action
from lycosa.stages.frontier.outside_leases import decode_lease
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.state.kv.table_records import outside_key, prefix_end


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
