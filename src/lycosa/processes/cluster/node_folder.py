"""The local folder of one node of a cluster.

    lock                        one node at a time
    node.json                   the crawl and the node's name
    public_suffix_list.dat      the crawl's list
    state/addresses             the address table, when it is not the one of the machine
    sNNN/                       what workers of a shard keep here: log/ (attempts), spool/, ...; in
                                a folder of the generation, if that has a name
    sNNN/term.json              the term of the last process of the shard here
    sNNN/owner-K/               the tables of its K-th process, which were restored when it started

Nothing here is needed for the crawl to continue: all that lasts is in Kafka and in object storage.
What a lost folder takes with it is the newest part of the attempt logs. The tables of a process are
of no use once another machine runs the shard. Those of earlier processes are deleted by the next
one, which takes files from them that it would otherwise download.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder.lock import LOCK_PATIENCE_S, CrawlInUse, CrawlLock
from lycosa.state.folder.manifest import MANIFEST_NAME
from lycosa.state.folder.names import attempts_folder, spool_folder, suffix_list

_KIND = "lycosa-node"
_OWN = frozenset({"lock", "node.json", ".node.json.tmp", "earlier"})
_OWNER = re.compile(r"owner-([0-9]+)")


class NodeFolderError(Exception):
    """The folder cannot be used by this node; the message says why and what to do."""


class _NodeFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``node.json``."""

    kind: str = _KIND
    crawl: str
    cluster: str
    name: str


class _Term(msgspec.Struct, frozen=True):
    """The content of ``term.json``."""

    term: int


class NodeFolder:
    """The folder, locked from ``acquire`` to ``release``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = CrawlLock(path)
        self._shards = path

    def __repr__(self) -> str:
        return f"NodeFolder({str(self.path)!r})"

    def acquire(
        self,
        crawl: str,
        cluster: str,
        name: str,
        wall: float,
        patience_s: float = LOCK_PATIENCE_S,
        generation: str = "",
    ) -> None:
        """Lock the folder for a node of this crawl; it is made when it is missing. Blocks.

        ``crawl`` is the crawl's ID, ``cluster`` its name in ``cluster.toml``. Attempt logs of
        another ``generation`` of the crawl are kept apart from those of this one. Waits up to
        ``patience_s`` for the workers of a node that was killed. Raises ``NodeFolderError``,
        ``LockUnsupported`` or ``OSError``.
        """
        self._prepare()
        try:
            self._lock.take_lock(patience_s)
        except CrawlInUse as error:
            raise NodeFolderError(
                f"{str(error).partition(';')[0]}; stop that node first (its workers end"
                " with it), or give this one another folder: --work DIR"
            ) from error
        try:
            self._check(crawl, cluster)
            self._lock.sign_lock(wall)
            node = _NodeFile(crawl=crawl, cluster=cluster, name=name)
            replace_file(self.path / "node.json", msgspec.json.encode(node) + b"\n")
            self._shards = self.path / generation
            self._shards.mkdir(exist_ok=True)
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        self._lock.release()

    @property
    def lock_filenos(self) -> tuple[int, ...]:
        """The descriptors of the lock, for workers to inherit."""
        return self._lock.filenos()

    def keep_suffixes(self, content: bytes) -> None:
        """Store the crawl's public suffix list."""
        replace_file(suffix_list(self.path), content)

    # -- shards

    def begin_process(self, shard: int) -> Path:
        """Prepare for the next process of a shard. Blocks.

        Returns a new and empty folder for its tables. The spool is emptied: the last process may
        have left bodies there.
        """
        folder = self.shard_folder(shard)
        shutil.rmtree(spool_folder(folder), ignore_errors=True)
        for each in (spool_folder(folder), attempts_folder(folder)):
            each.mkdir(parents=True, exist_ok=True)
        ours = suffix_list(folder)
        ours.unlink(missing_ok=True)
        try:
            ours.hardlink_to(suffix_list(self.path))
        except OSError:  # a file system without hard links
            shutil.copyfile(suffix_list(self.path), ours)
        owner = folder / f"owner-{max(self._owners(folder), default=0) + 1}"
        owner.mkdir()
        return owner

    def known_shards(self) -> list[int]:
        """The shards of which a process ever ran here."""
        return sorted(int(folder.name[1:]) for folder in self._shards.glob("s[0-9]*"))

    def shard_folder(self, shard: int) -> Path:
        return self._shards / f"s{shard:03d}"

    def delete_owners(self, shard: int, but: Path | None = None) -> None:
        """Delete the tables of a shard's processes, which have ended, except ``but``. Blocks."""
        folder = self.shard_folder(shard)
        for each in [folder / f"owner-{number}" for number in self._owners(folder)]:
            if each != but:
                # a folder that stays takes room until the next start, and nothing else
                shutil.rmtree(each, ignore_errors=True)

    def delete_unused_owners(self) -> None:
        """Delete the tables of shards of which this node runs no process, at its start. Blocks.

        The newest of each shard stays, because the shard may come back: a process takes the files
        from it that it would otherwise download.
        """
        for folder in self._shards.glob("s[0-9]*"):
            if newest := max(self._owners(folder), default=0):
                self.delete_owners(int(folder.name[1:]), folder / f"owner-{newest}")

    def last_term(self, shard: int) -> int:
        """The term of the last process of the shard here, -1 when there was none."""
        with suppress(FileNotFoundError, *UNREADABLE):
            content = (self.shard_folder(shard) / "term.json").read_bytes()
            return msgspec.json.decode(content, type=_Term).term
        return -1

    def record_term(self, shard: int, term: int) -> None:
        """Note that a process of the shard runs here in this term."""
        content = msgspec.json.encode(_Term(term)) + b"\n"
        replace_file(self.shard_folder(shard) / "term.json", content)

    @staticmethod
    def _owners(folder: Path) -> list[int]:
        """The numbers of the folders of processes."""
        if not folder.exists():
            return []
        found = [_OWNER.fullmatch(path.name) for path in folder.iterdir()]
        return [int(each[1]) for each in found if each]

    # -- the check

    def _prepare(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise NodeFolderError(f"{self.path} is a file, or below a file; use a folder") from None
        except OSError as error:
            raise NodeFolderError(
                f"{self.path} cannot be created ({error.strerror}); use a folder that you may"
                " write to: --work DIR"
            ) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise NodeFolderError(
                f"{self.path} is not writable; use another folder (--work DIR), or change its"
                " permissions"
            )

    def _check(self, crawl: str, cluster: str) -> None:
        """Nothing is written into a folder of something else."""
        try:
            content = (self.path / "node.json").read_bytes()
        except FileNotFoundError:
            foreign = sorted({path.name for path in self.path.iterdir()} - _OWN)
            if foreign:
                what = (
                    "is a crawl of one machine"
                    if MANIFEST_NAME in foreign
                    else f"is not empty and not the folder of a node (it has {foreign[0]})"
                )
                raise NodeFolderError(
                    f"{self.path} {what}; use an empty or a new folder: --work DIR"
                ) from None
            return
        try:
            found = msgspec.json.decode(content, type=_NodeFile)
        except UNREADABLE as error:
            raise NodeFolderError(
                f"{self.path / 'node.json'} cannot be read ({error}); delete the folder: nothing in"
                " it is needed for the crawl to continue"
            ) from error
        if found.crawl != crawl:
            raise NodeFolderError(
                f"{self.path} belongs to a node of another crawl ({found.cluster}, {found.crawl};"
                f" this one is {cluster}, {crawl}); use another folder (--work DIR), or delete it"
            )
