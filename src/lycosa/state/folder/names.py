"""Names inside a crawl folder, its content from the first start on, and marks of commits."""

from __future__ import annotations

import shlex
from pathlib import Path

from lycosa.base.config.sections import SeenUrlsKind as SeenChoice
from lycosa.base.system.durable import replace_file
from lycosa.base.urls.identity import BUNDLED_LIST, Sites
from lycosa.state.commit import MARK_KEY, CommitLog, Mark
from lycosa.state.folder.manifest import DamagedFile
from lycosa.state.kv.kv_port import KeyValue


def log_folder(folder: Path) -> Path:
    """Commit logs."""
    return folder / "log"


def last_commit_path(folder: Path, worker: int) -> Path:
    """The last commit of a worker's log.

    The file is outside ``log/`` to survive the loss of that folder.
    """
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
    """The crawl's own copy of the public suffix list.

    A newer release of the library must not move sites to other partitions.
    """
    return folder / "public_suffix_list.dat"


def keep_suffix_list(folder: Path) -> None:
    """Give a new crawl a copy of the program's list, unless the operator put one there."""
    if not suffix_list(folder).exists():
        replace_file(suffix_list(folder), BUNDLED_LIST.read_bytes())


def begin_logs(folder: Path, workers: int) -> None:
    """Create a commit log for each worker, so that a log that is missing later was deleted."""
    for worker in range(workers):
        log = CommitLog(log_folder(folder), worker)
        try:
            log.make_first_file()
        finally:
            log.close()


def crawl_sites(folder: Path, version: str) -> Sites:
    """Sites by the crawl's own list, which must be the ``version`` that its manifest names.

    Empty means any, or the program's own. No setting can request another list, so one that differs
    is damage. Raises ``DamagedFile`` and ``OSError``.
    """
    path = suffix_list(folder)
    try:
        sites = Sites(path)
        if version in ("", sites.version):
            return sites
        what = (
            f"is not the list that the crawl began with (it was {version}, this is {sites.version})"
        )
    except FileNotFoundError:
        if not version:
            return Sites()
        what = "is missing"
    except UnicodeDecodeError as error:
        what = f"is damaged ({error.reason} at byte {error.start})"
    advice = "restore it from a copy"
    if Sites().version == version:
        advice = (
            f"the list that came with this program is the same: cp {shlex.quote(str(BUNDLED_LIST))}"
            f" {shlex.quote(str(path))}"
        )
    raise DamagedFile(
        f"{path} {what}, and stored URLs would be searched for in other partitions; {advice}"
    )


def spool_folder(folder: Path) -> Path:
    """Bodies too large for memory, while they arrive; files that a kill left here are deleted."""
    return folder / "spool"


def settings_path(folder: Path) -> Path:
    """The settings of the last run."""
    return folder / "settings.json"


def pause_path(folder: Path) -> Path:
    """Who paused the crawl; it is there while the crawl is paused."""
    return folder / "paused.json"


def live_path(folder: Path) -> Path:
    """The live settings that operators changed, with who did it."""
    return folder / "live.json"


def status_path(folder: Path) -> Path:
    """The status that a running crawl writes every second."""
    return folder / "status.json"


def stamp_of(mark: Mark) -> int:
    """A commit's mark as the single rising number by which URL-seen counts."""
    return mark.term << 40 | mark.sequence


def mark_at(stamp: int) -> Mark:
    """The mark of this stamp."""
    return Mark(stamp >> 40, stamp & ((1 << 40) - 1))


def mark_of(table: KeyValue) -> Mark:
    """The last commit that a partition's table contains."""
    return Mark.unpack(table.get(MARK_KEY))


def cold_keys_file(folder: Path, partition: int) -> Path:
    """The file of the hashes of cold URLs, next to that of URL-seen."""
    return folder / "state" / f"cold-{partition:05d}"


def seen_file(folder: Path, partition: int, choice: SeenChoice) -> Path:
    """The file of the chosen implementation of URL-seen."""
    path = seen_path(folder, partition)
    return path if choice is SeenChoice.SORTED else path.with_suffix(".bloom")
