"""The results of ``lycosa rank``, as objects of a crawl folder or of a cluster's bucket.

    ranks/NUMBER/begun.json               first: which run makes this result
    ranks/NUMBER/host/vertices.txt.gz     and edges.txt.gz, ranks.txt.gz (``rank_text``)
    ranks/NUMBER/domain/...               the same of registrable domains
    ranks/NUMBER/page/...                 the same of pages
    ranks/NUMBER/ranks.json               last: what the result is made of; without it there is none

Nothing is replaced, and no number is used twice. Numbers rise from 1, and of two runs that begin at
the same moment each gets its own. Calls block and raise ``ObjectError``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.objects.object_errors import StoreFailed
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import create_or_read, object_pieces
from lycosa.state.ranks.rank_text import RankedName, RankTextError, read_ranks

RANKS_FOLDER = "ranks"
RANK_FORMAT = 1
WORK_FOLDER = f"{RANKS_FOLDER}/work"
"""Files of a run of ``lycosa rank`` that has not ended; no part of a crawl."""

PARTS = ("vertices", "edges", "ranks")
_MANIFEST, _BEGUN = "ranks.json", "begun.json"
_OBJECT = re.compile(r"ranks/([1-9][0-9]{0,8})/(.+)")


class RanksError(Exception):
    """There is no such result, or it is damaged."""


class RankOptions(msgspec.Struct, frozen=True):
    """What decides the numbers of a result; ``docs/ranks.md`` has the meaning of each.

    ``kinds`` are the kinds of links that count, besides redirects. ``tolerance`` bounds the sum of
    the changes of all PageRanks in the last step. ``registers`` is the binary logarithm of those of
    a HyperBall counter (0 = chosen for each graph); ``exact_up_to`` is the product of vertices and
    edges up to which harmonic centrality is exact.
    """

    kinds: tuple[str, ...]
    nofollow: bool = False
    damping: float = 0.85
    tolerance: float = 1e-12
    registers: int = 0
    exact_up_to: int = 10_000_000_000


class RankedFile(msgspec.Struct, frozen=True):
    """A file of a result: its bytes and their SHA-256 in hexadecimal."""

    bytes: int
    sha256: str


class RankedLevel(msgspec.Struct, frozen=True):
    """What was computed of hosts, domains or pages.

    ``dangling`` vertices have no edge to another one. ``harmonic`` is ``exact`` or ``hyperball``
    (with 2 to the power of ``registers``), ``radius`` the greatest distance that it found.
    ``files`` are those of ``PARTS``.
    """

    vertices: int
    edges: int
    dangling: int
    pagerank_steps: int
    pagerank_change: float
    harmonic: str
    registers: int
    radius: int
    files: dict[str, RankedFile]


class RankManifest(msgspec.Struct, frozen=True):
    """What a result is. ``created`` is in ISO 8601.

    ``segments`` are the names of those that were read, ``captures`` and ``links`` the rows of them
    that counted; ``links_digest`` is the SHA-256 of what was read: a result of the same links has
    the same.
    """

    number: int
    crawl: str
    created: str
    options: RankOptions
    links_digest: str
    captures: int
    links: int
    segments: Sequence[str]
    levels: dict[str, RankedLevel]
    format: int = RANK_FORMAT


class _Begun(msgspec.Struct, frozen=True):
    """Which run makes a result."""

    run: str


class RankResults:
    """The results in a store: ``FolderStore`` of a crawl folder, or the objects of a cluster."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def numbers(self) -> list[int]:
        """The complete results, in order."""
        return sorted(number for number, name in self._listed() if name == _MANIFEST)

    def read_manifest(self, number: int) -> RankManifest:
        """What a result is. Raises ``RanksError`` if there is none or it cannot be read."""
        key = _key(number, _MANIFEST)
        if self._store.find(key) is None:
            there = ", ".join(map(str, self.numbers())) or "none"
            raise RanksError(f"there is no result {number} of ranks; there are: {there}")
        try:
            found = msgspec.json.decode(self._store.get(key), type=RankManifest)
        except UNREADABLE as error:
            raise RanksError(f"{key} cannot be read: {error}") from error
        if found.format > RANK_FORMAT:
            raise RanksError(
                f"{key} has format {found.format}; this version reads up to {RANK_FORMAT}"
            )
        return found

    def rows(self, number: int, level: str) -> Iterator[RankedName]:
        """The hosts, domains or pages of a result, by position of harmonic centrality.

        Raises ``RanksError`` also at the end, if the file is not the one that was stored: use
        nothing before.
        """
        of = self.read_manifest(number).levels.get(level)
        if of is None:
            raise RanksError(f"result {number} of ranks has no {level}s")
        key, digest = part_key(number, level, "ranks"), hashlib.sha256()
        try:
            yield from read_ranks(self._pieces(key, of.files["ranks"].bytes, digest))
        except RankTextError as error:
            raise RanksError(f"{key}: {error}") from error
        if digest.hexdigest() != of.files["ranks"].sha256:
            raise RanksError(f"{key} is damaged: its SHA-256 is not that of {_MANIFEST}")

    def begin(self, run: str) -> int:
        """The number of the result that the run with this name makes: a new one, or the one that
        it began before.
        """
        listed = list(self._listed())
        for number in sorted((number for number, name in listed if name == _BEGUN), reverse=True):
            if self._store.get(_key(number, _BEGUN)) == _begun(run):
                return number
        number = max((number for number, _ in listed), default=0) + 1
        while create_or_read(self._store, _key(number, _BEGUN), _begun(run)) != _begun(run):
            number += 1
        return number

    def put_part(self, number: int, level: str, part: str, path: Path) -> None:
        """Store a file of a result that is not complete."""
        self._store.put(part_key(number, level, part), path)

    def finish(self, manifest: RankManifest) -> None:
        """Complete a result. Raises ``StoreFailed`` if it is already, with another content."""
        data = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        key = _key(manifest.number, _MANIFEST)
        if create_or_read(self._store, key, data) != data:
            raise StoreFailed(f"{key} was created by another run")

    def forget(self, number: int) -> int:
        """Delete a result; returns the number of objects deleted. Its number stays in use."""
        names = [name for other, name in self._listed() if other == number and name != _BEGUN]
        # In this order a reader that comes in between finds no result.
        for name in sorted(names, key=lambda each: each != _MANIFEST):
            self._store.delete([_key(number, name)])
        return len(names)

    def _listed(self) -> Iterator[tuple[int, str]]:
        for each in self._store.list(f"{RANKS_FOLDER}/"):
            if match := _OBJECT.fullmatch(each.key):
                yield int(match[1]), match[2]

    def _pieces(self, key: str, size: int, digest: hashlib._Hash) -> Iterator[bytes]:
        for piece in object_pieces(self._store, key, size):
            digest.update(piece)
            yield piece


def part_key(number: int, level: str, part: str) -> str:
    """The name of a file of a result, relative to a crawl folder or a store."""
    return _key(number, f"{level}/{part}.txt.gz")


def _key(number: int, name: str) -> str:
    return f"{RANKS_FOLDER}/{number}/{name}"


def _begun(run: str) -> bytes:
    return msgspec.json.encode(_Begun(run)) + b"\n"
