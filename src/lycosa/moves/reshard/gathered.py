"""The state of a stopped crawl, gathered in a local work folder, where it may be changed.

Nothing is changed where the crawl is: a gathered state can be thrown away, and gathered again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.state.commit import NOTHING, Mark
from lycosa.state.folder.manifest import Manifest
from lycosa.state.folder.names import attempts_folder, spool_folder, suffix_list


class GatheredState(msgspec.Struct, frozen=True):
    """A crawl's tables in ``folder``, laid out as in a crawl folder.

    ``newest`` has the greatest term and the greatest sequence of all its commits, ``term`` the
    greatest term of an owner. ``wall`` and ``time`` are wall time and crawl time such that no
    stored time is reached early; ``settings`` is the version of the live settings, which only a
    cluster keeps.
    ``was_on_machine``: it is of a crawl folder. ``is_orderly``: all owners ended with nothing in
    flight.
    """

    folder: Path
    manifest: Manifest
    config: Config
    newest: Mark = NOTHING
    term: int = 0
    wall: float = 0.0
    time: float = 0.0
    settings: int = 0
    was_on_machine: bool = True
    is_orderly: bool = True


def prepare_gathering(folder: Path, suffixes: bytes) -> None:
    """Make the work folder, empty except for the crawl's public suffix list. Raises ``OSError``."""
    shutil.rmtree(folder, ignore_errors=True)
    for each in (folder / "state", attempts_folder(folder), spool_folder(folder)):
        each.mkdir(parents=True)
    suffix_list(folder).write_bytes(suffixes)
