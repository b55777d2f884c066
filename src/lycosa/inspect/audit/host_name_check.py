"""The index of host names against the visit states, both ways."""

from __future__ import annotations

from lycosa.base.urls.identity import reversed_host
from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.host_names import HOST_NAME_ROWS, indexed_until
from lycosa.state.kv.table_records import host_name_key, prefix_end


def check_host_names(check: Check, view: TableView) -> None:
    """Check one partition. Hosts that the index has not reached yet need not be in it."""
    until = indexed_until(view.get)
    for host in view.hosts():
        key = host_name_key(reversed_host(host.record.host))
        is_later = until is not None and host.host8 > until
        check.expect(
            view.get(key) == host.host8 or (is_later and view.get(key) is None),
            f"partition {view.number}: the index of host names lacks {host.record.host}",
        )
    for key, host8 in view.scan(HOST_NAME_ROWS, prefix_end(HOST_NAME_ROWS)):
        record = view.host_record(host8)
        check.expect(
            record is not None and host_name_key(reversed_host(record.host)) == key,
            f"partition {view.number}: the index of host names has {key[1:].decode()}, which is"
            " no known host",
        )
    if until is not None and any(True for _ in view.hosts()):
        check.add_note("the owner adds the names of an older table with its next commits")
