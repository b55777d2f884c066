"""The port of the commit log: one shard's commits in order, whoever owns the shard, and how a new
owner takes it over.

The calls block and belong on another thread. ``claim`` comes first and once. Everything that an
earlier owner appended is then either in the log or never will be, and ``read`` gives all of it.
From its claim on an owner's commits bear its term; an owner that lost the shard to a later claim
gets ``Fenced`` from ``append``. The port speaks of commits, terms and sequences, never of files,
topics or offsets.

``append`` has three outcomes besides success, which are three errors:

==================
=================================================================================================
``RolledBack``     the commit is not in the log and never will be: the same commit may be appended
                   again
``OutcomeUnknown`` the commit may be in the log: the process ends, and the next owner reads what was
decided
``Fenced``         the shard has a later owner: the process ends for good
==================
=================================================================================================

The two ends are no crashes: no URL is suspected because of them, and they do not count as deaths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from lycosa.commit.record import NOTHING, Commit, Mark


class RolledBack(Exception):
    """A commit did not get into the log; it may be appended again."""


class OutcomeUnknown(Exception):
    """Whether a commit got into the log is not known; only reading the log under a new claim
    tells.
    """


class Fenced(Exception):
    """The shard was claimed by a later owner, so that this one may not append any more."""


class Claim(msgspec.Struct, frozen=True):
    """What a claim found.

    ``term`` is the one that it begins. ``last`` has the last commit of each log that the shard's
    commits were written to: a shard has one log, a crawl folder one for each worker that it ever
    had. ``read`` gives all commits from ``reach`` on.
    """

    term: int
    last: Sequence[Commit] = ()
    reach: Mark = NOTHING

    @property
    def latest(self) -> Commit | None:
        """The newest commit, in crawl time."""
        return max(
            self.last, key=lambda commit: (commit.time or commit.wall, commit.wall), default=None
        )


class Log(Protocol):
    """A shard's commit log."""

    def claim(self) -> Claim:
        """Begins the next term. Blocks for as long as it takes to shut earlier owners out.
        Raises ``LogDamaged`` or ``OSError``.
        """
        ...

    def read(self) -> Iterator[Commit]:
        """All commits that are kept, in the order of their marks. Raises ``LogDamaged`` for a
        gap, never steps over one.
        """
        ...

    def append(self, commit: Commit) -> None:
        """Returns when the commit is safe. Raises ``RolledBack``, ``OutcomeUnknown``,
        ``Fenced``, or ``OSError`` (the disk).
        """
        ...

    def trim(self, sequence: int) -> None:
        """Commits up to this one are in a snapshot, and need not be kept. The last commit always
        is.
        """
        ...

    def close(self) -> None: ...
