"""Names inside a crawl folder, and how a partition's table and URL-seen are opened there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from lycosa.commit import MARK_KEY, Mark
from lycosa.config import SeenSection
from lycosa.config import SeenUrls as SeenChoice
from lycosa.kv.port import KeyValue
from lycosa.kv.records import known_key, prefix_end
from lycosa.manifest import DamagedFile
from lycosa.seen.port import Hashes, Mask, SeenUrls, hashes_of
from lycosa.seen.urls_bloom import BloomSeenUrls
from lycosa.seen.urls_sorted import SortedSeenUrls
from lycosa.url import BUNDLED_LIST, Sites

_REBUILD_BATCH = 100_000


def log_folder(folder: Path) -> Path:
    """Commit logs."""
    return folder / "log"


def last_commit_path(folder: Path, worker: int) -> Path:
    """What a worker's commit log ends with, said apart from the log: whoever loses ``log/`` still has it."""
    return folder / "state" / f"last-commit-w{worker:03d}"


def attempts_folder(folder: Path) -> Path:
    """Attempt logs and crash counts."""
    return folder / "log"


def table_folder(folder: Path, partition: int) -> Path:
    """One partition's RocksDB."""
    return folder / "state" / f"p{partition:05d}"


def seen_path(folder: Path, partition: int) -> Path:
    """One partition's URL-seen file."""
    return folder / "state" / f"seen-{partition:05d}"


def addresses_path(folder: Path) -> Path:
    """The address table that the workers share."""
    return folder / "state" / "addresses"


def suffix_list(folder: Path) -> Path:
    """The crawl's own copy of the public suffix list: a newer release of the library must not move sites to other partitions."""
    return folder / "public_suffix_list.dat"


def crawl_sites(folder: Path, version: str) -> Sites:
    """Sites by the crawl's own list, which must be the ``version`` that its manifest names (empty: any, or the program's own).

    Nobody can ask for another list, so one that differs is damage. Raises ``DamagedFile`` and ``OSError``.
    """
    path = suffix_list(folder)
    try:
        sites = Sites(path)
        if version in ("", sites.version):
            return sites
        what = f"is not the list that the crawl began with (it was {version}, this is {sites.version})"
    except FileNotFoundError:
        if not version:
            return Sites()
        what = "is missing"
    except UnicodeDecodeError as error:
        what = f"is damaged ({error.reason} at byte {error.start})"
    advice = "restore it from a copy"
    if Sites().version == version:
        advice = f"the list that came with this program is the same: cp {shlex.quote(str(BUNDLED_LIST))} {shlex.quote(str(path))}"
    raise DamagedFile(f"{path} {what}, and stored URLs would be looked for in other partitions; {advice}")


def spool_folder(folder: Path) -> Path:
    """Bodies too large for memory, while they arrive; what a kill left here is nobody's."""
    return folder / "spool"


def settings_path(folder: Path) -> Path:
    """The settings of the last run."""
    return folder / "settings.json"


def status_path(folder: Path) -> Path:
    """What a running crawl says of itself, every second."""
    return folder / "status.json"


def stamp_of(mark: Mark) -> int:
    """A commit's mark as the one rising number that URL-seen counts by."""
    return mark.epoch << 40 | mark.sequence


def mark_at(stamp: int) -> Mark:
    """The mark of which this is the stamp."""
    return Mark(stamp >> 40, stamp & ((1 << 40) - 1))


def mark_of(table: KeyValue) -> Mark:
    """The last commit that a partition's table contains."""
    return Mark.unpack(table.get(MARK_KEY))


def seen_file(folder: Path, partition: int, choice: SeenChoice) -> Path:
    """The file of the chosen implementation of URL-seen."""
    path = seen_path(folder, partition)
    return path if choice is SeenChoice.SORTED else path.with_suffix(".bloom")


def open_seen(folder: Path, partition: int, section: SeenSection, table: KeyValue, most_delta: int = 1 << 18) -> SeenUrls:
    """The chosen implementation of URL-seen; ``table`` confirms what a Bloom filter claims. ``most_delta`` is how many hashes are in
    memory before they are written to its file."""
    path = seen_file(folder, partition, section.urls)
    path.parent.mkdir(parents=True, exist_ok=True)
    if section.urls is SeenChoice.SORTED:
        return SortedSeenUrls(path, most_delta)
    confirm = _confirming(table) if section.bloom_confirm else None
    return BloomSeenUrls(path, section.bloom_urls, section.bloom_error, confirm, most_delta)


def known_hashes(table: KeyValue) -> Iterator[Hashes]:
    """The hashes of all URLs in a partition's table, in batches: what URL-seen is rebuilt from."""
    batch: list[bytes] = []
    for key, _ in table.scan(b"U", prefix_end(b"U")):
        batch.append(key[9:])
        if len(batch) == _REBUILD_BATCH:
            yield hashes_of(batch)
            batch = []
    if batch:
        yield hashes_of(batch)


def _confirming(table: KeyValue) -> Callable[[Hashes], Mask]:
    """Asks an index from URL hash to host in the table, because a record's key begins with its host."""

    def confirm(hashes: Hashes) -> Mask:
        keys = [known_key(url8.tobytes()) for url8 in hashes.astype(">u8")]
        return np.array([value is not None for value in table.get_many(keys)], dtype=np.bool_)

    return confirm
