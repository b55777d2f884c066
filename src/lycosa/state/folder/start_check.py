"""The first phase of a start: read everything, and refuse when committed data is missing.

It changes no file. Its steps:

    no table is open -> no file belongs to a copy too -> logs -> tables -> logs and tables
    compared -> output files -> parcels between partitions

Only when this finds nothing does the second phase (``recovery``) cut, delete and write. The state
after a crash passes: an unfinished record at the end of a log, output files longer than committed,
tables behind the log, a log without a record before the first commit. A state that no crash leaves
is refused, because recovery would treat the missing commits as never made, and cut off the data
that they stored.

=====================================  =============================================================
what is missing                        shows by
=====================================  =============================================================
a whole log, or all its content        the manifest counts the workers; each has a log, with a head,
                                       from its first start on
the end of a log                       ``last-commit``, or a table or a URL-seen file that holds a
                                       later commit
a file in front, a table               the records say which commit each partition held before them
bytes of outputs                       the committed lengths, and those of closed files
cold files                             the rows that name them, with their sizes
commits of one worker, whatever else   the numbers of the parcels between its partitions and those
                                       of others
=====================================  =============================================================
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from lycosa.base.config.sections import SeenUrlsKind
from lycosa.state.cold.cold_rows import COLD_PREFIX, decode_cold_file, object_key
from lycosa.state.commit import (
    MARK_KEY,
    Commit,
    Mark,
    SavedLog,
    is_begun,
    last_mark,
    maker_of,
    merged_by_worker,
    saved_logs,
)
from lycosa.state.exchange.agreement import ParcelNumbers, disagreements
from lycosa.state.folder.manifest import FolderUnusable, Manifest
from lycosa.state.folder.names import (
    last_commit_path,
    log_folder,
    mark_at,
    seen_file,
    seen_path,
    stamp_of,
    table_folder,
)
from lycosa.state.kv.kv_port import Reader, pairs_of
from lycosa.state.kv.rocks import refuse_open
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.seen.hash_files import stamp_in
from lycosa.state.store import layout
from lycosa.state.store.segment_recovery import check_lengths

_EXCHANGE = (b"I", b"O")
_NONE = Mark(0, 0)
_MAX_SHOWN = 5


class CommittedDataMissing(Exception):
    """Committed data is missing from a crawl folder, and nothing was changed.

    ``findings`` name the missing data, one line each.
    """

    def __init__(self, folder: Path, findings: list[str]) -> None:
        told = "\n".join(f"- {finding}" for finding in findings[:_MAX_SHOWN])
        more = f"\n- and {len(findings) - _MAX_SHOWN} more" if len(findings) > _MAX_SHOWN else ""
        export = f"lycosa export {shlex.quote(str(folder))} urls"
        super().__init__(
            f"{folder}: committed data is missing. The crawl was not started, and no file was"
            f" changed:\n{told}{more}\nRestore the missing files from a copy of the same moment, or"
            " the whole folder from an older copy, and give the same command again. Without a copy"
            f" the crawl cannot be resumed: `{export}` lists the URLs that are still known, as"
            " seeds for a new one"
        )
        self.folder, self.findings = folder, findings


class _State(msgspec.Struct):
    """The state of one partition: its table alone, and with the logs applied to it.

    A maker is the worker that made the last commit (``None`` = unknown). ``cold`` are the rows that
    name cold files.
    """

    table_mark: Mark
    table_maker: int | None
    mark: Mark
    maker: int | None
    parcels: ParcelNumbers
    cold: dict[bytes, bytes | None]


class _Found(msgspec.Struct):
    """The content of logs and tables."""

    states: dict[int, _State]
    ends: dict[int, Commit]
    gaps: dict[int, str]


def check_crawl(folder: Path, manifest: Manifest, seen: SeenUrlsKind, read_table: Reader) -> None:
    """Check a whole folder whose lock is held. Blocks.

    Raises ``CommittedDataMissing``, ``TableLocked`` when another process has a table open whatever
    the lock file says, ``FolderUnusable``, ``LogDamaged``, ``StoreDamaged`` or ``OSError``.
    """
    partitions = range(manifest.identity.partitions)
    for number in partitions:
        refuse_open(table_folder(folder, number))
    _refuse_links(folder)
    logs = saved_logs(log_folder(folder))
    found = _read(folder, logs, partitions, read_table)
    lacking = _lacking_logs(folder, manifest, logs, found.ends)
    ends = _short_ends(
        folder, logs, found, range(max([manifest.workers, *(worker + 1 for worker in logs)]))
    )
    findings = [*(lacking | ends).values(), *found.gaps.values(), *_later_seen(folder, found, seen)]
    findings += _cold_findings(folder, found.states.values())
    parcels = disagreements({number: state.parcels for number, state in found.states.items()})
    # Consequences of a log that is known to be short are not reported separately.
    findings += [
        f"{each}{_log_of(found.states[each.loser])}"
        for each in parcels
        if found.states[each.loser].maker not in ends
    ]
    _conclude(folder, findings)
    check_lengths(
        folder,
        {name: length for end in found.ends.values() for name, length in end.lengths.items()},
    )


def _refuse_links(folder: Path) -> None:
    """Refuse a folder of which a hard-linked copy exists (``cp -al``).

    A crawl in one of the two would append to files of the other, whose state knows nothing of it.
    Files that are written once or replaced as a whole may have links: those of closed segments and
    of tables, attempt logs.
    """
    linked = [path for path in _changed_in_place(folder) if path.stat().st_nlink > 1]
    if linked:
        more = f" and {len(linked) - 1} more" if len(linked) > 1 else ""
        quoted = shlex.quote(str(folder))
        raise FolderUnusable(
            f"{linked[0]}{more}: a file that the crawl changes has another hard link, so a crawl in"
            f" {folder} would also change a copy of this folder. Make the copy independent: cp -a"
            f" {quoted} NEW (not cp -al), and use NEW; or delete the other copy"
        )


def _changed_in_place(folder: Path) -> Iterator[Path]:
    """The files of a stopped crawl to which a run appends, or which it changes in place."""
    yield from (path for path in [folder / "lock"] if path.exists())
    yield from layout.open_files(folder)
    for path in (*log_folder(folder).glob("*"), *seen_path(folder, 0).parent.glob("*")):
        if path.is_file() and not path.name.startswith("attempts-"):
            yield path


def check_worker(
    folder: Path, worker: int, owned: Collection[int], term: int, read_table: Reader
) -> None:
    """Check the part of one worker that died in the run ``term`` while the others continue.

    Parcels are not compared, since the tables of the others change. Raises like ``check_crawl``.
    """
    logs = {
        number: log for number, log in saved_logs(log_folder(folder)).items() if number == worker
    }
    found = _read(folder, logs, owned, read_table)
    for state in found.states.values():
        # of an earlier run, possibly in another worker's log; it was checked when this run began
        if state.table_mark.term < term:
            state.table_mark, state.table_maker = _NONE, None
    findings = [*_short_ends(folder, logs, found, [worker]).values(), *found.gaps.values()]
    _conclude(folder, [*findings, *_cold_findings(folder, found.states.values())])
    check_lengths(folder, found.ends[worker].lengths if worker in found.ends else {}, worker)


def _conclude(folder: Path, findings: list[str]) -> None:
    if findings:
        raise CommittedDataMissing(folder, findings)


# -- reading


def _read(
    folder: Path, logs: Mapping[int, SavedLog], partitions: Collection[int], read_table: Reader
) -> _Found:
    """Read the tables, and what the logs have beyond them; only rows of the exchange are kept."""
    found = _Found({number: _state_of(folder, number, read_table) for number in partitions}, {}, {})
    for worker, record in merged_by_worker(logs.values()):
        found.ends[worker] = record
        for number, before in record.before.items():
            if (
                number in found.states
                and number not in found.gaps
                and before > found.states[number].mark
            ):
                found.gaps[number] = _gap(folder, number, found.states[number].mark, before)
        for batch in record.batches:
            state = found.states.get(batch.partition)
            if state is not None and record.mark > state.mark:
                state.mark, state.maker = record.mark, worker
                for key, value in pairs_of(batch.writes):
                    if key[:1] in _EXCHANGE:
                        state.parcels.apply(key, value)
                    elif key[:1] == COLD_PREFIX:
                        state.cold[key] = value
    return found


def _state_of(folder: Path, number: int, read_table: Reader) -> _State:
    parcels, cold = ParcelNumbers(), dict[bytes, bytes | None]()
    if not table_folder(folder, number).exists():
        return _State(_NONE, None, _NONE, None, parcels, cold)
    table = read_table(table_folder(folder, number))
    try:
        value = table.get(MARK_KEY)
        for prefix in _EXCHANGE:
            for key, row in table.scan(prefix, prefix_end(prefix)):
                parcels.apply(key, row)
        cold.update(table.scan(COLD_PREFIX, prefix_end(COLD_PREFIX)))
    finally:
        table.close()
    mark, maker = Mark.unpack(value), maker_of(value)
    return _State(mark, maker, mark, maker, parcels, cold)


# -- judging


def _cold_findings(folder: Path, states: Iterable[_State]) -> Iterator[str]:
    """Cold files that a partition names and that are missing, or have another size."""
    for state in states:
        for value in filter(None, state.cold.values()):
            row = decode_cold_file(value)
            path = folder / object_key(row.name)
            size = path.stat().st_size if path.exists() else None
            if size != row.size:
                what = "is missing" if size is None else f"has {size:,} of {row.size:,} bytes"
                yield f"{path.relative_to(folder)} {what}: it has the records of {row.records} URLs"


def _lacking_logs(
    folder: Path, manifest: Manifest, logs: Mapping[int, SavedLog], ends: Mapping[int, Commit]
) -> dict[int, str]:
    """Workers whose log must exist or have a record, but does not."""
    found = {}
    stored = _workers_with_outputs(folder, manifest)
    for worker in range(max([manifest.workers, *(worker + 1 for worker in stored)])):
        log = logs.get(worker)
        if worker in ends or (worker >= manifest.workers and worker not in stored):
            continue
        if log is None:
            found[worker] = f"{_name(worker, None)} is missing: {_why(worker, manifest, stored)}"
        elif worker in stored or log.first > 1 or not is_begun(log.files[-1]):
            found[worker] = f"{_name(worker, log)} has no commit: {_why(worker, manifest, stored)}"
    return found


def _workers_with_outputs(folder: Path, manifest: Manifest) -> dict[int, Path]:
    """Workers that stored something that a commit must name, with a file of each.

    Closing a segment follows a commit. An open one need not, since its first bytes are written
    before the first commit; but crawls of earlier versions have no other trace of that commit.
    """
    kinds = [layout.OPEN, ""] if not manifest.workers else [""]
    paths = [
        path
        for ending in kinds
        for path in sorted((folder / layout.WARC).glob(f"*.warc.gz{ending}"))
    ]
    mine = [
        path
        for path in paths
        if path.stat().st_size and path.name.startswith(f"{manifest.crawl[:8]}-")
    ]
    return {
        worker: path
        for path in mine
        if (worker := layout.segment_worker(layout.stem_of(path))) >= 0
    }


def _why(worker: int, manifest: Manifest, stored: Mapping[int, Path]) -> str:
    if worker in stored:
        path = stored[worker]
        return (
            f"without it the committed length of {path.parent.name}/{path.name}"
            f" ({path.stat().st_size:,} bytes) is unknown"
        )
    return (
        f"the crawl had {manifest.workers} worker{'s' if manifest.workers != 1 else ''}, and the"
        " log of each has at least its head"
    )


def _short_ends(
    folder: Path, logs: Mapping[int, SavedLog], found: _Found, workers: Collection[int]
) -> dict[int, str]:
    """Workers whose log ends before a commit that another file has."""
    later: dict[int, tuple[Mark, str]] = {}
    for worker in workers:
        path = last_commit_path(folder, worker)
        if (said := last_mark(path)) is not None:
            later[worker] = said, f"state/{path.name} names"
    newest = max((end.mark for end in found.ends.values()), default=_NONE)
    unowned: dict[int, str] = {}
    for number, state in found.states.items():
        mark, maker = state.table_mark, state.table_maker
        # A table is written after the log has its commit. One that is ahead of the log shows that
        # the log lost its end.
        if maker is not None and mark > later.get(maker, (_NONE, ""))[0]:
            later[maker] = mark, f"the table of partition {number} contains"
        # Tables of versions that did not note the worker; any log may have made the commit.
        elif maker is None and mark > newest:
            unowned[-1 - number] = (
                f"the table of partition {number} contains {_commit(mark)}, but the logs end with"
                f" {_commit(newest)}"
            )
    short = {}
    for worker, (mark, what) in later.items():
        end = found.ends[worker].mark if worker in found.ends else _NONE
        if mark > end:
            ends = (
                f"ends with {_commit(end)}"
                if end > _NONE
                else "has no commit"
                if worker in logs
                else "is missing"
            )
            short[worker] = f"{_name(worker, logs.get(worker))} {ends}, but {what} {_commit(mark)}"
    return short | unowned


def _later_seen(folder: Path, found: _Found, choice: SeenUrlsKind) -> Iterator[str]:
    """URL-seen files with commits that neither table nor logs have.

    Their URLs would count as known and never be fetched.
    """
    for number, state in found.states.items():
        stamp = stamp_in(seen_file(folder, number, choice))
        if stamp > stamp_of(state.mark):
            ends = f"table and logs of partition {number} end with {_commit(state.mark)}"
            yield (
                f"state/{seen_file(folder, number, choice).name} contains"
                f" {_commit(mark_at(stamp))}, but {ends}"
            )


def _gap(folder: Path, number: int, mark: Mark, before: Mark) -> str:
    path = table_folder(folder, number)
    where = f"state/{path.name}"
    if not path.exists():
        return (
            f"{where} is missing: its table had {_commit(before)}, and the logs do not reach back"
            " to its start"
        )
    return (
        f"{where} ends with {_commit(mark)}, and no log has the commits after it up to"
        f" {_commit(before)}: a log or a file of the table is missing"
    )


def _log_of(state: _State) -> str:
    return f" (log/commit-w{state.maker:03d}-*.log)" if state.maker is not None else ""


def _name(worker: int, log: SavedLog | None) -> str:
    return f"log/{log.files[-1].name}" if log is not None else f"log/commit-w{worker:03d}-*.log"


def _commit(mark: Mark) -> str:
    return f"commit {mark.sequence} of run {mark.term}" if mark > _NONE else "no commit"
