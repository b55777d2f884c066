"""Where the earlier crawls are whose bodies a crawl does not store again."""

from __future__ import annotations

import msgspec


class EarlierSources(msgspec.Struct, frozen=True):
    """The earlier crawls of a crawl, as its last start had them.

    ``indexes`` are files below ``earlier/``; WARC files are searched in ``folders``.
    """

    indexes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
