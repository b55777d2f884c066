"""The changes of several commits to URLs and hosts: the last value of each row counts.

A commit's batch counts for a partition if it is later than the partition's position. ``before`` in
a commit names the batch before it. So a batch that was not read is noticed, in any log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lycosa.feeds.registry.registry_rows import RowTime, row_time
from lycosa.stages.frontier.dead_letters import LETTERS, decode_letter
from lycosa.state.commit import NOTHING, Commit, Mark
from lycosa.state.kv.kv_port import pairs_of

_HOST_KEY, _URL_KEY = 9, 17  # lengths of the keys


class WrittenValue(NamedTuple):
    """The last value of a row, ``None`` if it was deleted, and the commit that wrote it."""

    partition: int
    value: bytes | None
    when: RowTime


class CommitsMissing(Exception):
    """Commits after the position of a partition are not in the log any more."""

    def __init__(self, partition: int, position: Mark, before: Mark) -> None:
        super().__init__(
            f"partition {partition} is at commit {position}, and the next one in the log comes"
            f" after {before}"
        )
        self.partition = partition


class Changes:
    """What some commits wrote after ``positions``, which has every partition that is followed."""

    def __init__(self, positions: Mapping[int, Mark]) -> None:
        self._before = dict(positions)
        self.hosts: dict[bytes, WrittenValue] = {}
        self.urls: dict[bytes, WrittenValue] = {}
        self.letters: set[bytes] = set()
        """The keys of URLs that became dead letters; their last value may have another state."""
        self.positions: dict[int, RowTime] = {}
        """The last commit of each partition that changed."""
        self.commits = 0
        """The number of commits of which something was new."""

    def __len__(self) -> int:
        return len(self.hosts) + len(self.urls)

    def add_commit(self, commit: Commit) -> None:
        """Add a commit; commits come in the order of their marks.

        Batches up to the position of their partition change nothing. Raises ``CommitsMissing``.
        """
        when = row_time(commit.mark, commit.wall, commit.time)
        is_new = False
        for batch in commit.batches:
            position = self._before.get(batch.partition)
            if position is None or commit.mark <= position:
                continue
            if (before := commit.before.get(batch.partition, NOTHING)) > position:
                raise CommitsMissing(batch.partition, position, before)
            is_new, self._before[batch.partition] = True, commit.mark
            self.positions[batch.partition] = when
            for key, value in pairs_of(batch.writes):
                if key[:1] == b"U" and len(key) == _URL_KEY:
                    # A record is deleted only to be kept in a cold file: nothing has changed.
                    if value is not None:
                        self.urls[key] = WrittenValue(batch.partition, value, when)
                elif key[:1] == b"H" and len(key) == _HOST_KEY:
                    self.hosts[key] = WrittenValue(batch.partition, value, when)
                elif key[:1] == LETTERS and value is not None:
                    self.letters.add(b"U" + decode_letter(value).url)
        self.commits += is_new
