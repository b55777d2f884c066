"""Closed files of a shard's attempt log, in object storage.

    attempts/<shard>/<term>-<number>.log.zst
    attempts/<shard>/<term>-<number>.last      empty: the owner's process is dead, and this was its
                                               last file

A worker of a cluster closes its file every five minutes and at its end, and sends the closed files.
``term`` is the owner's term by the head of the file; ``number`` is that of the file on its machine.
So two owners never have the same key. A file never changes, and sending it again is harmless.

A machine that is lost takes its last file with it: at most the last five minutes, and what could
not be sent while the object store was unavailable. The next worker of the shard on the same machine
sends the files of one that was killed.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from lycosa.state.attempts.attempt_files import attempt_file_number, attempt_files_of, tidy
from lycosa.state.attempts.attempt_log import Keeping
from lycosa.state.attempts.read import head_of
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.objects.objects_port import ObjectStore, StoredObject

SHIPPED_KEEPING = Keeping(file_bytes=64_000_000, files=600, age_s=300.0)
"""For a log whose files are sent. As many files stay on the machine as can be made in two days, in
case the object store is unavailable.
"""

_LAST = ".last"
_KEY = re.compile(r"attempts/(?P<shard>\d+)/(?P<term>\d+)-(?P<number>\d+)\.log\.zst")


class ShippedFile(msgspec.Struct, frozen=True):
    """A file in object storage, by its key."""

    shard: int
    term: int
    number: int


class AttemptShipper:
    """Sends the closed files of one worker's log."""

    def __init__(self, store: ObjectStore, folder: Path, shard: int) -> None:
        self._store, self._folder, self._shard = store, folder, shard
        self._there: set[str] | None = None
        self.failure = ""
        """Why the last call could not send all of them; empty when it did."""

    def ship_closed(self, current: Path | None = None) -> None:
        """Send the closed files that are not in the store. Blocks.

        ``current`` is the open file, ``None`` when there is none. Errors of the store or the disk
        are kept in ``failure``, and the next call continues.
        """
        try:
            self._ship(current)
        except (ObjectError, OSError) as error:
            self.failure = str(error)
        else:
            self.failure = ""

    def _ship(self, current: Path | None) -> None:
        if self._there is None:
            self._there = {each.key for each in self._store.list(_prefix(self._shard))}
        paths = attempt_files_of(self._folder).get(self._shard, [])
        heads = [head_of(path) for path in paths]
        for at, (path, head) in enumerate(zip(paths, heads, strict=True)):
            # a plain file is still open, or a full disk kept it from being compressed
            if path.suffix != ".zst" or path == current:
                continue
            term, number = head.term if head is not None else 0, attempt_file_number(path)
            self._put(shipped_key(self._shard, term, number), path)
            later = heads[at + 1] if at + 1 < len(paths) else None
            is_newest = at + 1 == len(paths)
            if (is_newest and current is None) or (
                head is not None and later is not None and later.run != head.run
            ):
                self._put(_last_key(self._shard, term, number), b"")

    def _put(self, key: str, content: Path | bytes) -> None:
        assert self._there is not None
        if key not in self._there:
            self._store.put(key, content)
            self._there.add(key)


def ship_left_files(store: ObjectStore, folder: Path, shard: int) -> str:
    """Send what dead workers of a shard left on this machine; none may be running. Blocks.

    Returns why not all was sent, or an empty text.
    """
    shipper = AttemptShipper(store, folder, shard)
    try:
        tidy(folder, shard, SHIPPED_KEEPING.files, None)
    except OSError as error:
        return str(error)
    shipper.ship_closed()
    return shipper.failure


def shipped_key(shard: int, term: int, number: int) -> str:
    return f"{_prefix(shard)}{term:010d}-{number:06d}.log.zst"


def _last_key(shard: int, term: int, number: int) -> str:
    return f"{_prefix(shard)}{term:010d}-{number:06d}{_LAST}"


def last_files(store: ObjectStore, shard: int) -> set[tuple[int, int]]:
    """Term and number of the last file of each dead owner that is known. Raises ``ObjectError``."""
    keys = (each.key for each in store.list(_prefix(shard)) if each.key.endswith(_LAST))
    found = (parse_shipped_key(f"{key.removesuffix(_LAST)}.log.zst") for key in keys)
    return {(each.term, each.number) for each in found if each is not None}


def parse_shipped_key(key: str) -> ShippedFile | None:
    """The meaning of a key; ``None`` when it is not of an attempt log."""
    match = _KEY.fullmatch(key)
    return ShippedFile(*(int(part) for part in match.groups())) if match else None


def shipped_files(store: ObjectStore, shard: int) -> list[StoredObject]:
    """The files of a shard, by term and number. Raises ``ObjectError``."""
    found = [each for each in store.list(_prefix(shard)) if parse_shipped_key(each.key) is not None]
    return sorted(found, key=lambda each: each.key)


def _prefix(shard: int) -> str:
    return f"attempts/{shard:05d}/"
