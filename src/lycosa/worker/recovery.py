"""The second phase of a start: bringing a crawl folder to its last commit, before any worker starts.

It cuts and deletes what no commit names, so it comes after the first phase (``start_check``), which finds out whether a commit is missing.

    log says -> output files are cut back -> each partition's table gets the batches it lacks -> URL-seen catches up -> logs are dropped

Nothing is decided again: batches are applied as they were written. Every step may be repeated, so a crash in here is mended by
the next start. Partitions can be dealt to any number of workers afterwards, because no log is needed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from lycosa.commit import CommitLog, Mark, all_logs, marked, merged_by_worker
from lycosa.config.sections import Config
from lycosa.folder.names import log_folder, mark_of, stamp_of, table_folder
from lycosa.folder.url_seen import known_hashes, open_seen
from lycosa.frontier.counters import counters_of
from lycosa.kv.port import KeyValue, Opener, pairs_of
from lycosa.kv.records import prefix_end
from lycosa.model.recovered import Recovered
from lycosa.seen.port import SeenUrls, hashes_of
from lycosa.store.recovery import Recovery, recover


class _Opened(msgspec.Struct):
    """One partition while it is brought up to date."""

    table: KeyValue
    seen: SeenUrls
    mark: Mark


def recover_crawl(folder: Path, config: Config, open_table: Opener, workers: int) -> Recovered:
    """The whole crawl, before its ``workers`` workers start.

    Blocks. Raises ``LogDamaged``, ``StoreDamaged``, ``StoreLocked`` or ``OSError``, each before anything is lost.
    """
    logs = all_logs(log_folder(folder))
    lengths = {name: length for log in logs if log.last for name, length in log.last.lengths.items()}
    existing = [number for number in range(config.frontier.partitions) if table_folder(folder, number).exists()]
    return _recover(folder, config, open_table, logs, existing, lambda: recover(folder, lengths, workers))


def recover_worker(folder: Path, config: Config, open_table: Opener, worker: int, owned: Sequence[int]) -> Recovered:
    """The part of one worker that died, while the others go on. Raises like ``recover_crawl``.

    What its partitions hold of earlier runs may be in other workers' logs, and was checked when the run began. Its log may still name
    partitions that it owned in such a run and that are another's now: they were brought up to date then, and are left alone.
    """
    log = CommitLog(log_folder(folder), worker)
    lengths = log.last.lengths if log.last else {}
    existing = [number for number in owned if table_folder(folder, number).exists()]
    return _recover(folder, config, open_table, [log], existing, lambda: recover(folder, lengths, only=worker), frozenset(owned))


def _recover(
    folder: Path,
    config: Config,
    open_table: Opener,
    logs: list[CommitLog],
    existing: list[int],
    recover_store: Callable[[], Recovery],
    owned: frozenset[int] | None = None,
) -> Recovered:
    try:
        report = recover_store()
        opened = {number: _open(folder, number, config, open_table) for number in existing}
        try:
            replayed, rebuilt = _catch_up(logs, opened, lambda number: _open(folder, number, config, open_table), owned)
            captures = {number: counters_of(each.table).captures for number, each in opened.items()}
            places = [key[1:].decode() for each in opened.values() for key, _ in each.table.scan(b"J", prefix_end(b"J"))]
        finally:
            for each in opened.values():
                each.seen.close()
                each.table.close()
        for log in logs:
            log.drop_until(log.last.sequence if log.last else 0)
        last = max((log.last.wall for log in logs if log.last), default=0.0)
        latest = max(((log.last.time or log.last.wall, log.last.wall) for log in logs if log.last), default=(0.0, 0.0))
        return Recovered(replayed, rebuilt, report.unbuildable, last, captures, places, latest)
    finally:
        for log in logs:
            log.close()


def _open(folder: Path, number: int, config: Config, open_table: Opener) -> _Opened:
    table = open_table(table_folder(folder, number))
    return _Opened(table, open_seen(folder, number, config.seen, table), mark_of(table))


def _catch_up(
    logs: list[CommitLog], opened: dict[int, _Opened], make: Callable[[int], _Opened], owned: frozenset[int] | None
) -> tuple[int, int]:
    replayed = 0
    # A URL-seen file catches up from the log when the log reaches back to it; any other is made again from the table.
    reach = max((stamp_of(first.mark) for log in logs if (first := next(log.records(), None))), default=0)
    stale = {
        number
        for number, each in opened.items()
        if each.seen.stamp < 0 or (each.seen.stamp < stamp_of(each.mark) and each.seen.stamp + 1 < reach)
    }
    for worker, record in merged_by_worker(logs):
        for batch in record.batches:
            if owned is not None and batch.partition not in owned:
                continue
            each = opened.get(batch.partition)
            if each is None:
                each = opened[batch.partition] = make(batch.partition)
            if record.mark > each.mark:
                each.table.write(marked(batch, record.mark, worker))
                each.mark = record.mark
                replayed += 1
            if batch.partition not in stale and stamp_of(record.mark) > each.seen.stamp:
                _remember(each.seen, (key for key, value in pairs_of(batch.writes) if value is not None), stamp_of(record.mark))
    for number, each in opened.items():
        each.table.flush()
        if number in stale:
            each.seen.rebuild(known_hashes(each.table), stamp_of(each.mark))
        else:
            each.seen.save(stamp_of(each.mark))
    return replayed, len(stale)


def _remember(seen: SeenUrls, keys: Iterable[bytes], stamp: int) -> None:
    url8s = [key[9:] for key in keys if key[:1] == b"U"]
    if url8s:
        seen.unseen(hashes_of(url8s))
    seen.seal(stamp)
