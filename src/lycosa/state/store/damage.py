"""The errors for committed bytes, or commits, that are missing."""

from __future__ import annotations

from pathlib import Path


class StoreDamaged(Exception):
    """A file of the store does not have its committed length.

    Nothing was changed; the message says what to do.
    """

    def __init__(self, path: Path, length: int | None, committed: int) -> None:
        has = "is missing" if length is None else f"has {length} bytes"
        super().__init__(
            f"{path} {has}, but {committed} were committed: restore it from a copy, because the"
            " crawl's state depends on its content"
        )
        self.path, self.length, self.committed = path, length, committed


class CommitsLost(Exception):
    """The store has records of commits that the log of their shard does not have.

    The records of a commit are stored before it, and one commit is in flight at a time. So at most
    one part of a segment is of no commit, unless the log has lost commits. Nothing was changed.
    """

    def __init__(self, shard: int, segment: str, parts: int, committed: int) -> None:
        super().__init__(
            f"shard {shard}: {parts} commits added records to {segment} behind byte {committed},"
            " where the log ends, so the log has lost commits; if the topics were lost or replaced"
            " by an older copy, end all nodes, delete what is left of them, and continue by"
            " `lycosa cluster rescue`"
        )
