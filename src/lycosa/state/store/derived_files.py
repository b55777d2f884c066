"""The table of derived files: everything that other modules know of a kind.

Closing, recovery, the journal's header, status, summary and audit use this table. A new kind needs
a row here, a module with its ``Builder``, and, if it is optional, a setting in
``base/config/sections.py``. The audit builds a file from the journal again and compares line by
line, unless ``inspect/audit/derived_check.py`` has a check for the kind.

This module imports no builder, because some import Arrow. That would be too expensive for a process
that only asks which files are missing.
"""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol

import msgspec

from lycosa.base.config.sections import StoreSection
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.state.store.usable_rows import usable_row

if TYPE_CHECKING:
    from lycosa.state.store.journal_rows import JournalRow, SegmentHeader

CDXJ, PAGES, LINKS, TEXT, CONTENT = "cdxj", "pages", "links", "text", "content"


class Builder(Protocol):
    """Makes one derived file: rows in the order of the journal, then ``close``."""

    def add_row(self, row: JournalRow) -> None: ...
    def close(self) -> None: ...


class DerivedFile(msgspec.Struct, frozen=True):
    """One kind.

    ``name`` is its folder, ``suffix`` follows the segment's name, ``made_by`` names its builder.
    ``option`` names the setting in ``store`` that turns the kind on; every segment has a kind
    without one.
    """

    name: str
    suffix: str
    made_by: str
    option: str = ""

    def begin(self, path: Path, header: SegmentHeader) -> Builder:
        """The builder of one segment's file. It is imported here.

        It leaves out content that the segment's purpose may not use.
        """
        made: Builder = resolve_name(self.made_by)(path, header)
        return made if header.policy.records_only else _UsableRows(made, header.policy)


class _UsableRows:
    """Gives a builder the rows as the policy allows."""

    def __init__(self, builder: Builder, policy: UsePolicy) -> None:
        self._builder, self._policy = builder, policy

    def add_row(self, row: JournalRow) -> None:
        self._builder.add_row(usable_row(row, self._policy))

    def close(self) -> None:
        self._builder.close()


DERIVED = (
    DerivedFile(CDXJ, ".cdxj", "lycosa.state.store.cdxj:CdxjBuilder"),
    DerivedFile(PAGES, ".parquet", "lycosa.state.store.pages_table:PagesBuilder"),
    DerivedFile(LINKS, ".parquet", "lycosa.state.store.links_table:LinksBuilder", "links"),
    DerivedFile(TEXT, ".warc.wet.gz", "lycosa.state.store.wet:WetBuilder", "text"),
    DerivedFile(CONTENT, ".parquet", "lycosa.state.store.content_table:ContentBuilder", "content"),
)
DERIVED_KINDS = {each.name: each for each in DERIVED}
DERIVED_OPTIONS = tuple(each.option for each in DERIVED if each.option)


def options_of(section: StoreSection) -> dict[str, bool]:
    """The optional kinds that a new segment is to have."""
    return {option: getattr(section, option) for option in DERIVED_OPTIONS}


def wanted_kinds(options: dict[str, bool]) -> list[str]:
    """The kinds that a segment with these options has when it is closed.

    An option that is not given is off.
    """
    return [each.name for each in DERIVED if not each.option or options.get(each.option, False)]
