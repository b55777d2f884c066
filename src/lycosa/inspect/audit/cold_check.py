"""Cold files against the rows that name them, and their records against the counters.

That a cold record waits in no queue, that its capture is stored and its state counted, the checks
of the state find: they read cold records where they read all others. So this check comes before
them. It makes a damaged file one breach and leaves it out; what it had is then missing there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.state.cold.cold_rows import RETURN_PREFIX
from lycosa.state.kv.table_records import decode_url, prefix_end, url_key


def check_cold(reader: CrawlReader, views: Iterable[TableView]) -> list[Check]:
    """Check all partitions; no check if none has cold files. Raises ``ObjectError``."""
    check = Check(
        "cold files",
        "cold files against the rows that name them, and their records against the counters",
    )
    found = [_check_partition(check, reader, view) for view in views]
    return [check] if any(found) else []


def _check_partition(check: Check, reader: CrawlReader, view: TableView) -> bool:
    """Check one partition, and say whether it has cold files."""
    where, states = f"partition {view.number}", Counter[int]()
    counted = {state: number for state, number in view.counters().cold.items() if number}
    if view.whole is not None:
        damage = view.whole.find_damage()
        for what in damage.values():
            check.add_breach(f"{where}: {what}")
        reader.left_out[view.number] = damage.keys()
        view.whole.leave_out(damage)
        for _, value in view.whole.scan_cold():
            states[decode_url(value).state] += 1
            check.checked += 1
    told = f"{where}: cold records by state are {counted} by the counters, {dict(states)} by files"
    check.expect(dict(states) == counted, told)
    for key, _ in view.scan(RETURN_PREFIX, prefix_end(RETURN_PREFIX)):
        is_known = view.get(url_key(key[1:9], key[9:])) is not None
        check.expect(is_known, f"{where}: {key[1:].hex()} is to come back, and has no record")
    return view.whole is not None or bool(counted)
