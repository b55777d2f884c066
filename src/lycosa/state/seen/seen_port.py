"""The ports of URL-seen and content-seen.

URL-seen is ahead of the disk. It must know URLs that were found a moment ago, but its file must
never contain a URL whose commit could still be lost, because that URL would then never be crawled.
Hence generations: hashes that ``unseen`` adds belong to the open generation, ``seal`` assigns it to
a commit, and ``save`` writes only generations up to a commit that is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lycosa.base.model.capture import Original
from lycosa.base.model.parcel_items import Fingerprint, PartitionKey

Hashes = NDArray[np.uint64]
"""One-dimensional; each is a ``url8`` read as a big-endian number, so uniform over 64 bits."""

Mask = NDArray[np.bool_]

Confirm = Callable[[Hashes], Mask]
"""Says which of some hashes the table really contains.

Called inside ``unseen`` with hashes of the batch in hand.
"""


class PointTable(Protocol):
    """Access to single keys of a partition's table, including uncommitted writes."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes) -> None: ...


class ForeignTables(Protocol):
    """The partitions of other workers, for content-seen."""

    async def ask_owners(self, keys: Sequence[PartitionKey]) -> Mapping[bytes, bytes | None]:
        """The committed values under these keys in their owners' tables; ``None`` for no value.

        A key that is not answered within a short time is absent from the result. Never raises.
        """
        ...

    def tell_owner(self, partition: int, key: bytes, value: bytes) -> None:
        """Add a row to the open commit. Its owner receives it exactly once, after the commit."""
        ...


class NearVerdicts(Protocol):
    """Near-duplicates by events: what is known at once, and the way to the owners of the rest."""

    def find_earlier(self, page: Fingerprint) -> Original | None:
        """The earliest similar capture that this worker's own partitions know."""
        ...

    def post_fingerprint(self, page: Fingerprint) -> None:
        """Add a stored page to the open commit. Its verdict, if there is one, comes later."""
        ...

    def snapshot(self) -> dict[str, int]:
        """Counts since the start, by name."""
        ...


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """The state of URL-seen.

    ``count`` hashes are held, ``unsaved`` of them only in memory. ``memory_bytes`` excludes mapped
    files. ``asked`` hashes were looked up since the start, and ``unseen`` of them were new.
    ``false_positives`` were refuted by the table. ``error_rate`` is their share of all new hashes
    or, without a table that confirms, the rate expected from the fill of the filters; both are 0
    for an exact implementation. ``damage`` says why the file was not used, otherwise it is empty.
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
    """Was this URL ever seen? One object per partition.

    ``unseen``, ``seal``, ``should_save`` and ``snapshot`` belong to the owner's loop; ``save`` may
    run at the same time in another thread. Two URLs with the same hash count as one: with n known
    URLs, a new one is lost with probability n / 2^64 (at 10^9, one in 18 billion).
    """

    @property
    def stamp(self) -> int:
        """The commit up to which the file contains all hashes; it contains none of later commits.

        -1 when the file is absent or damaged. At the start the owner calls ``rebuild`` when this is
        -1 or older than its commit log reaches back. Then it repeats every commit after ``stamp``
        with ``unseen`` and ``seal``.
        """
        ...

    @property
    def should_save(self) -> bool:
        """Whether so many hashes are only in memory that the owner should ``save`` soon."""
        ...

    def unseen(self, hashes: Hashes) -> Mask:
        """Add new hashes to the open generation; True at the first occurrence of each."""
        ...

    def seal(self, commit: int) -> None:
        """Assign all hashes added so far to commits up to ``commit``. Numbers increase."""
        ...

    def save(self, applied: int) -> None:
        """Write everything sealed up to commit ``applied`` and nothing later. Blocks.

        The file is replaced atomically and is durable on return.
        """
        ...

    def rebuild(self, hashes: Iterable[Hashes], stamp: int) -> None:
        """Replace the content by all hashes of the table, which holds the commits up to ``stamp``.

        Duplicates and any order are allowed. Blocks.
        """
        ...

    def snapshot(self) -> SeenSnapshot: ...

    def close(self) -> None:
        """Release the file without saving: the commit log has the unsaved hashes."""
        ...


def hashes_of(url8s: Sequence[bytes]) -> Hashes:
    """``url8`` values as an array; numeric order is byte order."""
    return np.frombuffer(b"".join(url8s), dtype=">u8").astype(np.uint64)
