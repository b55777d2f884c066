"""Which version of an extractor's items is made, and from which captures. Pure.

A version is made by one code, and its tables are never replaced. So the same command again
continues an interrupted version, and other code begins the next one. ``VersionRecord`` is
stored with the tables, and says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from lycosa.base.model.item_schema import ItemSchema, schema_in
from lycosa.state.store.journal_rows import Extractor


class ExtractionKind(Enum):
    """What was asked for."""

    FILL = "fill"
    """Make the version that the code names, where it is missing."""
    AGAIN = "again"
    """Make a new version of all captures."""
    FAILED = "failed"
    """Make a new version in which the captures are extracted again at which user code failed."""


class ExtractionRefused(Exception):
    """What was asked for cannot be done; the message says what to do instead."""


class VersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A version that was extracted again. ``code`` is the SHA-256 of the source, ``source`` its
    name. Of ``base`` are the items of captures at which user code had not failed (0 = none).
    """

    name: str
    version: int
    fields: str
    code: str
    source: str
    base: int = 0

    @property
    def schema(self) -> ItemSchema:
        """The columns."""
        return schema_in(self.name, self.version, self.fields)


class KnownItems(msgspec.Struct, frozen=True):
    """The versions of one extractor that there are.

    ``extracted`` were made by extraction, ``crawled`` by the crawl itself: the headers of segments
    name them. ``current`` is the one that readers see (0 = none).
    """

    extracted: Mapping[int, VersionRecord] = {}
    crawled: Mapping[int, Extractor] = {}
    current: int = 0

    @property
    def newest(self) -> int:
        """The greatest version, 0 if there is none."""
        return max((*self.extracted, *self.crawled), default=0)

    @property
    def seen(self) -> int:
        """The version that readers see. Where nothing was extracted again, it is the crawl's."""
        return self.current or max(self.crawled, default=0)

    def digest(self, version: int) -> str:
        """The digest of a version's columns; empty if it is not known, or if the crawl began a
        version of the same number with others.
        """
        found = set[str]()
        if version in self.extracted:
            found.add(self.extracted[version].schema.digest)
        if version in self.crawled:
            found.add(self.crawled[version].schema)
        return found.pop() if len(found) == 1 else ""


def choose_version(
    mode: ExtractionKind, schema: ItemSchema, code: str, source: str, known: KnownItems
) -> VersionRecord:
    """The version to make or to continue. ``schema`` has the version that the code names.

    Raises ``ExtractionRefused``.
    """
    choose = {
        ExtractionKind.FILL: _fill,
        ExtractionKind.AGAIN: _again,
        ExtractionKind.FAILED: _failed,
    }[mode]
    version, base = choose(schema, code, known)
    if version in known.extracted and known.extracted[version].fields != schema.fields_text:
        raise ExtractionRefused(
            f"version {version} of {schema.name} has other columns, although the code is the same:"
            " a module that it imports has changed; give the decorator a greater version"
        )
    return VersionRecord(
        name=schema.name,
        version=version,
        fields=schema.fields_text,
        code=code,
        source=source,
        base=base,
    )


def _fill(schema: ItemSchema, code: str, known: KnownItems) -> tuple[int, int]:
    name, version = schema.name, schema.version
    made = known.extracted.get(version)
    if made is not None and (made.code != code or made.base):
        raise ExtractionRefused(
            f"version {version} of {name} was made by other code; --again makes version"
            f" {known.newest + 1}"
        )
    if version in known.crawled and known.crawled[version].schema != schema.digest:
        raise ExtractionRefused(
            f"version {version} of {name} has other columns in the crawl; give the decorator a"
            f" greater version ({known.newest + 1}), or give --again"
        )
    if version < known.newest:
        raise ExtractionRefused(
            f"the code has version {version} of {name}, and there is version {known.newest};"
            f" --again makes version {known.newest + 1}"
        )
    return version, 0


def _again(schema: ItemSchema, code: str, known: KnownItems) -> tuple[int, int]:
    made = known.extracted.get(known.newest)
    if made is not None and made.code == code and not made.base and schema.version <= made.version:
        return made.version, 0
    return max(schema.version, known.newest + 1), 0


def _failed(schema: ItemSchema, code: str, known: KnownItems) -> tuple[int, int]:
    made = known.extracted.get(known.newest)
    if made is not None and made.code == code and made.base and made.version > known.current:
        return made.version, made.base  # it was interrupted
    if made is not None and made.version > known.current:
        # Its tables would be seen with the next version, of which only some segments have one.
        raise ExtractionRefused(
            f"version {made.version} of {schema.name} is not complete; give the command that made"
            f" it again, or `--forget {schema.name} {made.version}`"
        )
    base = known.seen
    if not base:
        raise ExtractionRefused(
            f"there are no items of {schema.name}, so nothing failed; leave --failed out"
        )
    if known.digest(base) != schema.digest:
        raise ExtractionRefused(
            f"version {base} of {schema.name} has other columns, so its items cannot be kept;"
            " --again makes all of them again"
        )
    return max(schema.version, known.newest + 1), base
