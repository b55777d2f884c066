"""The table of derived files: everything that other modules know of a kind.

Closing, recovery, the journal's header, status, summary and audit use this table. A new kind needs
a row here, a module with its ``Builder``, and, if it is optional, a setting in
``base/config/sections.py``. The audit builds a file from the journal again and compares line by
line, unless ``inspect/audit/derived_check.py`` has a check for the kind.

The **items** of user code have a kind for each extractor and version that the header of a segment
names: ``items/NAME/VERSION``. They are in no table, so ``derived_kind`` gives the row of any kind.

This module imports no builder, because some import Arrow. That would be too expensive for a process
that only asks which files are missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol

import msgspec

from lycosa.base.config.sections import StoreSection
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.state.store.usable_rows import usable_row

if TYPE_CHECKING:
    from lycosa.state.store.journal_rows import Extractor, JournalRow, SegmentHeader

CDXJ, PAGES, LINKS, TEXT, CONTENT = "cdxj", "pages", "links", "text", "content"
RENDERS = "renders"
ITEMS = "items"
"""The folder of the tables of items."""
_ITEM_KIND = re.compile(r"items/([a-z][a-z0-9_]{0,62})/([1-9][0-9]{0,5})")


class Builder(Protocol):
    """Makes one derived file: rows in the order of the journal, then ``close``."""

    def add_row(self, row: JournalRow) -> None: ...
    def close(self) -> None: ...


class DerivedFile(msgspec.Struct, frozen=True):
    """One kind.

    ``name`` is its folder, ``suffix`` follows the segment's name, ``made_by`` names its builder.
    ``option`` names the key of the header that turns the kind on, which is a setting in ``store``
    unless ``is_setting`` is false; every segment has a kind without one. ``of`` is the extractor
    and the version whose items the file has.
    """

    name: str
    suffix: str
    made_by: str
    option: str = ""
    is_setting: bool = True
    of: tuple[str, int] | None = None

    def begin(self, path: Path, header: SegmentHeader) -> Builder:
        """The builder of one segment's file. It is imported here.

        It leaves out content that the segment's purpose may not use.
        """
        maker = resolve_name(self.made_by)
        made: Builder = maker(path, header, *self.of) if self.of else maker(path, header)
        return made if header.policy.records_only else _UsableRows(made, header.policy)


class _UsableRows:
    """Gives a builder the rows as the policy allows."""

    def __init__(self, builder: Builder, policy: UsePolicy) -> None:
        self._builder, self._policy = builder, policy

    def add_row(self, row: JournalRow) -> None:
        self._builder.add_row(usable_row(row, self._policy))

    def close(self) -> None:
        self._builder.close()


_ITEM_SUFFIX, _ITEMS_BUILDER = ".parquet", "lycosa.state.store.items_table:begin_items"
DERIVED = (
    DerivedFile(CDXJ, ".cdxj", "lycosa.state.store.cdxj:CdxjBuilder"),
    DerivedFile(PAGES, ".parquet", "lycosa.state.store.pages_table:PagesBuilder"),
    DerivedFile(LINKS, ".parquet", "lycosa.state.store.links_table:LinksBuilder", "links"),
    DerivedFile(TEXT, ".warc.wet.gz", "lycosa.state.store.wet:WetBuilder", "text"),
    DerivedFile(CONTENT, ".parquet", "lycosa.state.store.content_table:ContentBuilder", "content"),
    # as soon as there is a render
    DerivedFile(
        RENDERS, ".parquet", "lycosa.state.store.renders_table:RendersBuilder", RENDERS, False
    ),
)
DERIVED_KINDS = {each.name: each for each in DERIVED}
"""The kinds that do not depend on user code."""
DERIVED_OPTIONS = tuple(each.option for each in DERIVED if each.option)
_SETTINGS = tuple(each.option for each in DERIVED if each.option and each.is_setting)


def options_of(section: StoreSection) -> dict[str, bool]:
    """The optional kinds that a new segment is to have by the settings."""
    return {option: getattr(section, option) for option in _SETTINGS}


def wanted_kinds(options: dict[str, bool], extractors: Sequence[Extractor] = ()) -> list[str]:
    """The kinds that a segment with these options and extractors has when it is closed.

    An option that is not given is off.
    """
    kinds = [each.name for each in DERIVED if not each.option or options.get(each.option, False)]
    return kinds + [item_kind(each.name, each.version) for each in extractors if each.fields]


def kinds_of(header: SegmentHeader) -> list[str]:
    """The kinds that the segment of a header has when it is closed."""
    return wanted_kinds(header.options, header.extractors)


def item_kind(name: str, version: int) -> str:
    """The kind of the items of one version of an extractor: ``items/NAME/VERSION``."""
    return f"{ITEMS}/{name}/{version}"


def item_version(kind: str) -> tuple[str, int] | None:
    """The extractor and the version of a kind; ``None`` if it is no kind of items."""
    match = _ITEM_KIND.fullmatch(kind)
    return (match[1], int(match[2])) if match else None


def derived_kind(kind: str) -> DerivedFile | None:
    """What is known of a kind of derived file; ``None`` if there is no such kind."""
    if (of := item_version(kind)) is not None:
        return DerivedFile(kind, _ITEM_SUFFIX, _ITEMS_BUILDER, of=of)
    return DERIVED_KINDS.get(kind)


def begin_file(kind: str, path: Path, header: SegmentHeader) -> Builder:
    """The builder of one segment's file of this kind. See ``DerivedFile.begin``."""
    found = derived_kind(kind)
    assert found is not None, kind
    return found.begin(path, header)


def suffix_of(kind: str) -> str:
    """What follows the name of the segment in the file of a derived kind; empty for others."""
    found = derived_kind(kind)
    return found.suffix if found else ""


def folders_of_kinds(folder: Path) -> list[str]:
    """The kinds of which a crawl folder may have files: those of all crawls, and of its items."""
    found = [f"{ITEMS}/{path.parent.name}/{path.name}" for path in (folder / ITEMS).glob("*/*")]
    return [*DERIVED_KINDS, *sorted(kind for kind in found if item_version(kind))]
