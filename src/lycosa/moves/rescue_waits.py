"""How long hosts asked to wait behind a snapshot, by the attempt logs that the workers sent.

Each attempt has the delay that was decided at its end, with Retry-After and back-off. The last
minutes of a lost machine are in no file.
"""

from __future__ import annotations

from pathlib import Path

from lycosa.state.attempts.read import head_of, read_attempt_files
from lycosa.state.attempts.shipping import shipped_files
from lycosa.state.objects.objects_port import ObjectStore

_FILE_S = 600.0  # a file is closed after five minutes


def waits_of_hosts(store: ObjectStore, shard: int, since: float, work: Path) -> dict[str, float]:
    """Until when (seconds since 1970) hosts wait after their last known request.

    Files that end before ``since`` are not read; with 0 only the last ones are. ``work`` is a local
    folder. Raises ``ObjectError`` or ``OSError``.
    """
    paths: list[Path] = []
    for each in reversed(shipped_files(store, shard)):
        path = work / each.key.rpartition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(each.key))
        paths.append(path)
        head = head_of(path)
        since = since or (head.wall - _FILE_S if head is not None else 0.0)
        if head is not None and head.wall < since:
            break
    waits: dict[str, float] = {}
    for attempt in read_attempt_files({shard: paths[::-1]}):
        until = attempt.ended_wall + attempt.delay_s
        waits[attempt.host] = max(until, waits.get(attempt.host, 0.0))
    return waits
