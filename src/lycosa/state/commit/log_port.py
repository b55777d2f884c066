"""The port of the commit log: the commits of one shard in order, and how an owner takes over.

All calls block and belong on another thread. ``claim`` is called first and once. Everything that an
earlier owner appended is then either in the log or never will be, and ``read`` returns all of it.
After its claim an owner's commits carry its term. An owner that lost the shard to a later claim
gets ``Fenced`` from ``append``. The port deals with commits, terms and sequences, never with files,
topics or offsets.

Besides success, ``append`` has three outcomes, which are three errors:

    ==================  ===================================================================
    ``RolledBack``      the commit is not in the log and never will be: it may be appended
                        again
    ``OutcomeUnknown``  the commit may be in the log: the process ends, and the next owner
                        reads the log to find out
    ``Fenced``          the shard has a later owner: the process ends for good
    ==================  ===================================================================

The last two are not crashes: they make no URL a suspect and do not count as deaths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from lycosa.state.commit.record import NOTHING, Commit, Mark


class RolledBack(Exception):
    """A commit did not get into the log; it may be appended again."""


class OutcomeUnknown(Exception):
    """It is unknown whether a commit got into the log.

    Only reading the log after a new claim can tell.
    """


class Fenced(Exception):
    """The shard was claimed by a later owner, so this one may no longer append."""


class FeedRow(msgspec.Struct, frozen=True):
    """A row for readers outside the crawl, which becomes visible with its commit.

    ``kind`` is ``pages`` or ``dlq``.
    """

    kind: str
    key: bytes
    value: bytes


FeedSource = Callable[[], Sequence[FeedRow]]
"""Makes the rows of a commit; only a log that passes them on calls it, perhaps again for a commit
that is appended again.
"""


def no_rows() -> Sequence[FeedRow]:
    """The ``FeedSource`` of a commit without rows."""
    return ()


class Claim(msgspec.Struct, frozen=True):
    """The result of a claim.

    ``term`` is the term that it begins. ``last`` has the last commit of each log to which the
    shard's commits were written: a shard has one log, a crawl folder has one for each worker that
    it ever had. ``read`` returns all commits from ``reach`` on.
    """

    term: int
    last: Sequence[Commit] = ()
    reach: Mark = NOTHING

    @property
    def latest(self) -> Commit | None:
        """The newest commit, by crawl time."""
        return max(
            self.last, key=lambda commit: (commit.time or commit.wall, commit.wall), default=None
        )


class Log(Protocol):
    """A shard's commit log."""

    def claim(self) -> Claim:
        """Begin the next term. Blocks until earlier owners are excluded.

        Raises ``LogDamaged`` or ``OSError``.
        """
        ...

    def read(self) -> Iterator[Commit]:
        """All commits that are kept, in the order of their marks.

        Raises ``LogDamaged`` for a gap, and never skips one.
        """
        ...

    def append(self, commit: Commit, feed: FeedSource = no_rows) -> None:
        """Append a commit; returns when it is safe.

        A log with readers outside the crawl appends the rows of ``feed`` together with the commit.
        Raises ``RolledBack``, ``OutcomeUnknown``, ``Fenced``, or ``OSError`` (the disk).
        """
        ...

    def trim(self, sequence: int) -> None:
        """Allow commits up to ``sequence``, which are in a snapshot, to be dropped.

        The last commit is always kept.
        """
        ...

    def close(self) -> None: ...
