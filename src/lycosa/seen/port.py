"""The ports of URL-seen and content-seen.

URL-seen runs ahead of the disk: it must answer for URLs that were found a moment ago, while the
file it keeps must never hold a URL whose commit could still be lost, or that URL would never be
crawled. Hence generations: what ``unseen`` remembers belongs to the open one; ``seal`` ties it to a
commit; ``save`` writes only what is sealed up to a commit that is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
"""One-dimensional; each is a ``url8`` read as a big-endian number, so uniform over 64 bits."""

Mask = NDArray[np.bool_]

Confirm = Callable[[Hashes], Mask]
"""Which of these hashes the table really holds. Called inside ``unseen`` with some hashes of the
batch in hand.
"""


class Table(Protocol):
    """Point access to a partition's key-value store, the pending batch laid over it."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes) -> None: ...


Key = tuple[int, bytes]
"""A key with the partition that owns it."""


class Others(Protocol):
    """The partitions of other workers, for content-seen."""

    async def ask(self, keys: Sequence[Key]) -> Mapping[bytes, bytes | None]:
        """What their tables hold under these keys, committed; ``None`` when nothing. What is not
        answered within a short time is absent. Never raises.
        """
        ...

    def tell(self, partition: int, key: bytes, value: bytes) -> None:
        """Puts a row into the open commit; its owner gets it, exactly once, when that is on
        disk.
        """
        ...


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """How URL-seen stands: hashes held, of them ``unsaved`` only in memory; bytes in memory (not
    counting mapped files) and on disk; hashes ``asked`` and answered ``unseen`` since the start.
    ``false_positives`` were refuted by the table; ``error_rate`` is their share of all that was
    new, or, when nobody confirms, the rate expected from how full the filters are; both 0 for an
    exact implementation. ``damage`` says why the file was not used, else empty.
    """

    count: int
    unsaved: int
    memory_bytes: int
    disk_bytes: int
    asked: int
    unseen: int
    false_positives: int = 0
    error_rate: float = 0.0
    damage: str = ""


class SeenUrls(Protocol):
    """Have we ever seen this URL? One per partition.

    ``unseen``, ``seal``, ``should_save`` and ``snapshot`` belong to the owner's loop; ``save`` may
    run in another thread meanwhile. Two URLs with one hash count as one: at n known URLs a new one
    is lost with odds n / 2^64 (at 10^9, one in 18 thousand million).
    """

    @property
    def stamp(self) -> int:
        """The file holds all hashes of commits up to this one and none of later ones; -1 when there
        is no file or a damaged one.

        On start the owner calls ``rebuild`` when this is -1 or older than its commit log reaches
        back, then repeats every commit beyond ``stamp`` with ``unseen`` and ``seal``.
        """
        ...

    @property
    def should_save(self) -> bool:
        """So much is only in memory that the owner should ``save`` soon."""
        ...

    def unseen(self, hashes: Hashes) -> Mask:
        """True at the first occurrence of each hash never seen before; remembers these as part
        of the open generation.
        """
        ...

    def seal(self, commit: int) -> None:
        """All that was remembered so far belongs to commits up to this one. Numbers rise."""
        ...

    def save(self, applied: int) -> None:
        """Writes everything sealed with a commit up to ``applied``, nothing later; atomically,
        durable on return. Blocks.
        """
        ...

    def rebuild(self, hashes: Iterable[Hashes], stamp: int) -> None:
        """Starts over from all hashes of the table, which holds the commits up to ``stamp``.
        Duplicates and any order are fine. Blocks.
        """
        ...

    def snapshot(self) -> SeenSnapshot: ...

    def close(self) -> None:
        """Lets go of the file without saving: what it lacks is in the commit log."""
        ...


def hashes_of(url8s: Sequence[bytes]) -> Hashes:
    """``url8`` values as an array; numeric order is byte order."""
    return np.frombuffer(b"".join(url8s), dtype=">u8").astype(np.uint64)
