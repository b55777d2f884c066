"""Prepares the earlier crawls of a run: checks them before anything is written, indexes them after.

A folder does it for its crawl, a node of a cluster for all of its shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.base.config.feature_sections import EarlierSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.earlier_sources import EarlierSources

if TYPE_CHECKING:
    from lycosa.processes.index_push import IndexSender


def check_archives(folder: Path, section: EarlierSection) -> None:
    """Raises ``SettingsError`` for an earlier crawl that is not there or is this one."""
    if not section.archives:
        return
    # Imported here and below, because few crawls need what reads WARC files before they start.
    from lycosa.state.store.earlier_index import EarlierError, index_files

    for source in _sources(section.archives):
        if source.resolve() == folder.resolve():
            raise _refused(f"{source}: a crawl cannot be its own earlier crawl")
        try:
            index_files(source)
        except (EarlierError, OSError) as error:
            raise _refused(error) from error


def prepare_archives(folder: Path, section: EarlierSection) -> EarlierSources:
    """Index the earlier crawls below ``folder``, unless that is done; where they are. Blocks.

    About 15 s for each million captures, once. Raises ``SettingsError`` for a file that is not
    CDXJ, with its line, and ``OSError``.
    """
    if not (section.archives or section.warcs):
        return EarlierSources()
    from lycosa.state.store.earlier_bodies import index_archives
    from lycosa.state.store.earlier_index import EarlierError

    try:
        return index_archives(folder, _sources(section.archives), section.warcs)
    except EarlierError as error:
        raise _refused(error) from error


def told_at_start(section: EarlierSection, sources: EarlierSources) -> str:
    """A line for the operator about what cannot be compared, or an empty text."""
    if not section.outbackcdx or sources.folders or not section.check_every:
        return ""
    return (
        "earlier.warcs names no folder, so what OutbackCDX says is compared with no archive; one"
        f" of {section.check_every} bodies that it knows is stored"
    )


def begin_push(
    folder: Path, section: EarlierSection, tell: Callable[[str], None]
) -> IndexSender | None:
    """The push of index lines during a run over a crawl folder, if the settings ask for it."""
    if not section.push:
        return None
    from lycosa.processes.index_push import IndexSender

    push = IndexSender(folder, section, tell)
    push.begin()
    return push


def _sources(archives: Sequence[str]) -> list[Path]:
    return [Path(each).expanduser().absolute() for each in archives]


def _refused(why: object) -> SettingsError:
    return SettingsError([f"earlier.archives: {why}"])
