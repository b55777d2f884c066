"""The projector: follows a crawl's commits and keeps a registry up to date.

    no position, or commits missing ──► the state whole, and the commits after it ──► position
    position                        ──► commits after it ──► position

A registry that is empty and one whose next commits were trimmed take the same path. The database
may be away at any time: the projector connects again and continues at the position that it finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from lycosa.base.model.url_state import UrlState
from lycosa.feeds.projector_source import ProjectorSource
from lycosa.feeds.registry.changed_rows import Changes, CommitsMissing
from lycosa.feeds.registry.registry import Registry
from lycosa.feeds.registry.registry_port import (
    DatabaseAway,
    DeletedRow,
    PositionsMoved,
    RegistryError,
)
from lycosa.feeds.registry.registry_rows import (
    HostSummary,
    Row,
    RowTime,
    lost_host,
    registry_host,
    registry_url,
    row_time,
    summary_of_host,
)
from lycosa.stages.frontier.dead_letters import LETTERS, decode_letter
from lycosa.stages.frontier.visit_state import VisitRecord, decode_visit
from lycosa.state.commit import MARK_KEY, NOTHING, Mark
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.kv.table_records import decode_url, host_key, prefix_end
from lycosa.state.shard.view import CrawlView

_BATCH_ROWS = 20_000
_POLL_S = 0.5
_MAX_WAIT_S = 10.0


class ProjectionLag(msgspec.Struct, frozen=True):
    """What the registry lacks.

    ``commits`` are in the log and not in the registry, as far as it is known. ``seconds`` is the
    age of the newest commit in the registry, or 0 when it has all.
    """

    commits: int = 0
    seconds: float = 0.0


class ProjectionReport(msgspec.Struct, frozen=True):
    """What a projector has done since its start, and what it waits for (empty = nothing).

    ``read_whole`` counts partitions that were read whole, ``rows`` those of URLs and hosts.
    """

    read_whole: int = 0
    commits: int = 0
    rows: int = 0
    captures: int = 0
    lag: ProjectionLag = ProjectionLag()
    waits_for: str = ""


class Projector:
    """Copies one crawl into one registry. ``tell`` gets a report after each step.

    ``wait`` pauses for some seconds, and returns whether the projector should end. A transaction
    writes about ``batch_rows`` rows.
    """

    def __init__(
        self,
        source: ProjectorSource,
        registry: Registry,
        tell: Callable[[ProjectionReport], None],
        wait: Callable[[float], bool],
        batch_rows: int = _BATCH_ROWS,
    ) -> None:
        self._source, self._registry, self._tell, self._wait = source, registry, tell, wait
        self._batch_rows = batch_rows
        self._sites = source.origin.sites()
        self._partitions = range(source.origin.manifest.identity.partitions)
        self._newest = NOTHING  # the greatest mark that the source gave
        self._newest_wall = 0.0
        self._missed: set[int] = set()  # partitions whose commits were looked for twice
        self.report = ProjectionReport()

    def follow(self, is_once: bool = False, is_rebuilt: bool = False) -> ProjectionReport:
        """Keep the registry up to date until ``wait`` says to end.

        With ``is_once`` until it has every commit that was there at the start. ``is_rebuilt``
        deletes the tables of the registry first. Raises ``RegistryError`` and what the source
        raises.
        """
        began, failures, is_open = time.time(), 0, False
        while True:
            try:
                if not is_open:
                    self._open(is_rebuilt)
                    is_open, is_rebuilt, failures = True, False, 0
                has_moved = self._step()
            except DatabaseAway as error:
                # The step is repeated from the position in the database, whatever part of it was
                # written.
                is_open, failures = False, failures + 1
                self._report(waits_for=str(error))
                pause = min(_POLL_S * 2 ** min(failures, 10), _MAX_WAIT_S)
            except PositionsMoved:
                # Another projector writes the same registry; its positions are read again, and the
                # rows are equal.
                is_open, pause = False, _POLL_S
            else:
                if is_once and self._has_all_until(began, has_moved):
                    break
                pause = 0.0 if has_moved else _POLL_S
            if pause and self._wait(pause):
                break
        return self.report

    def _open(self, is_rebuilt: bool) -> None:
        self._registry.open(is_rebuilt)
        self._source.rewind()
        self._newest = NOTHING
        self._missed.clear()

    def _has_all_until(self, began: float, has_moved: bool) -> bool:
        """Whether the registry has every commit of before ``began`` (wall time)."""
        if self._missing():
            return False
        return self._newest_wall >= began or self._is_idle(has_moved)

    def _missing(self) -> list[int]:
        """The partitions that must be read whole."""
        return [each for each in self._partitions if each not in self._registry.positions]

    def _is_idle(self, has_moved: bool) -> bool:
        return not has_moved and not self._source.count_waiting()

    def _step(self) -> bool:
        """Do what can be done now; return whether anything was new."""
        if missing := self._missing():
            # one partition at a time, so that the log of the others is followed in between
            self._read_whole(missing[0])
            return True
        commits, captures = self._follow_log(), self._follow_journals()
        if not self._registry.is_complete:
            self._registry.complete()
        if self._is_idle(bool(commits or captures)):
            self._check_ahead()
        self._report()
        return bool(commits or captures)

    def _read_whole(self, partition: int) -> None:
        view = self._source.view()
        try:
            table = view.open_table(partition)
            try:
                self._read_partition(view, partition, table)
            finally:
                table.close()
        finally:
            view.close()

    def _read_partition(self, view: CrawlView, partition: int, table: SavedTable) -> None:
        """Write a partition's hosts, and then its URLs while its later commits are followed.

        The log may be trimmed before a large partition has been read, so it cannot be followed only
        afterwards. A row of a later commit is not replaced by one of the view.
        """
        last = view.seen.last
        when = row_time(Mark.unpack(table.get(MARK_KEY)), last.wall, last.time)
        hosts = (
            registry_host(partition, key, record, summary_of_host(record, self._sites), when)
            for key, record in _host_records(table)
        )
        while part := list(islice(hosts, self._batch_rows)):
            self._registry.write_part(part, ())
            self._report(rows=len(part))
        self._registry.begin_urls(partition, when)
        urls = self._url_rows(partition, table, when)
        while part := list(islice(urls, self._batch_rows)):
            self._registry.write_part((), part)
            self._report(rows=len(part))
            self._follow_log()
            if partition not in self._registry.followed:
                return  # commits are missing after all: it is read again
        recovered = self._recovered(table, when)
        while some := list(islice(recovered, self._batch_rows)):
            self._registry.write_recovered(some)
        self._registry.finish_urls(partition)
        self._report(read_whole=1)

    def _url_rows(self, partition: int, table: SavedTable, when: RowTime) -> Iterator[Row]:
        last8, facts, turned = b"", lost_host(), self._registry.turned
        for key, value in table.scan(b"U", prefix_end(b"U")):
            if key[1:9] != last8:
                last8, facts = key[1:9], self._facts(table, key[1:9])
            if (state := turned.get(last8)) is not None:
                facts = facts._replace(state=state)
            yield registry_url(partition, key, decode_url(value), facts, when)

    def _recovered(self, table: SavedTable, when: RowTime) -> Iterator[DeletedRow]:
        """The URLs with a dead letter that are in another state; a late projector may still write
        the dead letter.
        """
        for _, value in table.scan(LETTERS, prefix_end(LETTERS)):
            key = b"U" + decode_letter(value).url
            record = table.get(key)
            if record is not None and decode_url(record).state is not UrlState.FAILED:
                yield DeletedRow(key, self._facts(table, key[1:9]), when)

    def _facts(self, table: SavedTable, host8: bytes) -> HostSummary:
        value = table.get(host_key(host8))
        return lost_host() if value is None else summary_of_host(decode_visit(value), self._sites)

    def _follow_log(self) -> int:
        """Write all commits that are in the log; return their number."""
        count, changes = 0, Changes(self._registry.followed)
        try:
            for commit in self._source.commits():
                changes.add_commit(commit)
                self._newest = max(self._newest, commit.mark)
                self._newest_wall = max(self._newest_wall, commit.wall)
                if len(changes) >= self._batch_rows:
                    count += self._write(changes)
                    changes = Changes(self._registry.followed)
            count += self._write(changes)
        except CommitsMissing as error:
            # The log was trimmed past our position: this partition is read whole from a snapshot.
            self._seek_missing(error.partition)
            return 1
        return count

    def _write(self, changes: Changes) -> int:
        if changes.positions:
            self._registry.write_changes(changes)
            self._report(commits=changes.commits, rows=len(changes))
        return len(changes.positions)

    def _seek_missing(self, partition: int) -> None:
        """Read the log again, because an earlier run's last commit may have been written to one
        log after it was read and before the next one was; then read the partition whole.
        """
        self._source.rewind()
        if partition in self._missed:
            self._registry.forget_position(partition)
        self._missed ^= {partition}

    def _follow_journals(self) -> int:
        count = 0
        for new in self._source.captures(self._registry.journals):
            count += (added := self._registry.write_captures(new))
            self._report(captures=added)
            self._follow_log()  # it may be trimmed before all journals have been read
        return count

    def _check_ahead(self) -> None:
        """The log always has its last commit, so no position can be greater."""
        for number, mark in self._registry.positions.items():
            if mark > self._newest:
                raise RegistryError(
                    f"{self._registry.place} has commit {mark} of partition {number}, and the last"
                    f" one of {self._source.origin.name} is {self._newest}: the crawl was restored"
                    " from an older copy; fill the registry again with --rebuild"
                )

    def _report(self, waits_for: str = "", **done: int) -> None:
        """Add to the report and tell it."""
        commits = self.report.lag.commits if waits_for else self._source.count_waiting()
        is_behind = bool((commits or waits_for) and self._newest_wall)
        seconds = max(time.time() - self._newest_wall, 0.0) if is_behind else 0.0
        sums = {name: getattr(self.report, name) + number for name, number in done.items()}
        self.report = msgspec.structs.replace(
            self.report, lag=ProjectionLag(commits, seconds), waits_for=waits_for, **sums
        )
        self._tell(self.report)


def _host_records(table: SavedTable) -> Iterator[tuple[bytes, VisitRecord]]:
    for key, value in table.scan(b"H", prefix_end(b"H")):
        yield key, decode_visit(value)
