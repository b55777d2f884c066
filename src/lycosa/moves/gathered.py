"""The state of a stopped crawl, gathered in a local work folder, where it may be changed.

Nothing is changed where the crawl is: a gathered state can be thrown away, and gathered again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.messages.control_records import Record
from lycosa.state.commit import NOTHING, Mark
from lycosa.state.folder.manifest import EarlierOwners, Manifest
from lycosa.state.folder.names import attempts_folder, spool_folder, suffix_list
from lycosa.state.kv.kv_port import KeyValue


class GatheredState(msgspec.Struct, frozen=True):
    """A crawl's tables in ``folder``, laid out as in a crawl folder.

    ``newest`` has the greatest term and the greatest sequence of all its commits, ``term`` the
    greatest term of an owner. ``wall`` and ``time`` are wall time and crawl time such that no
    stored time is reached early.
    ``earlier`` are all owners that the crawl has had, those of this state last.
    ``was_on_machine``: it is of a crawl folder. ``is_orderly``: all owners ended with nothing in
    flight.

    Only a cluster has the rest: ``settings``, the version of the live settings; ``records``, which
    coordinators must know; ``ends``, the last commit of each shard, with the ``lengths`` and
    ``sums`` of the open segments that these name.
    """

    folder: Path
    manifest: Manifest
    config: Config
    newest: Mark = NOTHING
    term: int = 0
    wall: float = 0.0
    time: float = 0.0
    earlier: tuple[EarlierOwners, ...] = ()
    was_on_machine: bool = True
    is_orderly: bool = True
    settings: int = 0
    records: Sequence[Record] = ()
    ends: Mapping[int, Mark] = {}
    lengths: Mapping[str, int] = {}
    sums: Mapping[str, int] = {}


def prepare_gathering(folder: Path, suffixes: bytes) -> None:
    """Make the work folder, empty except for the crawl's public suffix list. Raises ``OSError``."""
    shutil.rmtree(folder, ignore_errors=True)
    for each in (folder / "state", attempts_folder(folder), spool_folder(folder)):
        each.mkdir(parents=True)
    suffix_list(folder).write_bytes(suffixes)


@contextmanager
def open_tables() -> Iterator[dict[int, KeyValue]]:
    """Tables that the block opens and adds, by number; they are flushed and closed behind it."""
    tables: dict[int, KeyValue] = {}
    try:
        yield tables
    finally:
        for table in tables.values():
            table.flush()
            table.close()
