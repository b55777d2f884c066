"""What is known of user code without importing it: a process that runs it has described it."""

from __future__ import annotations

import msgspec

from lycosa.base.model.item_schema import ItemSchema, schema_in


class CodeError(ValueError):
    """User code cannot be loaded; the message says why."""


def split_name(name: str) -> tuple[str, str]:
    """The file or module, and the object in it. Raises ``CodeError``."""
    place, _, attribute = name.rpartition(":")
    if not place or not attribute.isidentifier():
        raise CodeError(f"{name!r} is not FILE.py:NAME or package.module:NAME")
    return place, attribute


class CodePart(msgspec.Struct, frozen=True):
    """A marked function: ``kind`` is ``extractor``, ``links`` or ``score``.

    Pages whose URL matches ``match`` (RE2) are given to it. ``fields`` are the columns of an
    extractor (``ItemSchema.fields_text``).
    """

    kind: str
    name: str
    match: str = ""
    version: int = 1
    fields: str = ""

    @property
    def schema(self) -> ItemSchema:
        """The columns of an extractor. Raises ``BadSchema`` for another kind."""
        return schema_in(self.name, self.version, self.fields)


class KnownCode(msgspec.Struct, frozen=True):
    """User code of a crawl.

    ``name`` is as it was given (``./shop.py:products``), ``path`` the file with its source if it is
    another than the named one, and ``digest`` the SHA-256 of the source; code with other source is
    not run. Without a digest any source is.
    """

    name: str
    path: str = ""
    digest: str = ""
    parts: tuple[CodePart, ...] = ()

    @property
    def schemas(self) -> tuple[ItemSchema, ...]:
        """The columns of its extractors."""
        return tuple(each.schema for each in self.parts if each.kind == "extractor")
