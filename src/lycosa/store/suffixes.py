"""Public suffixes of a host, for the columns that Common Crawl derives from them."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import publicsuffixlist

from lycosa.store.rows import Suffixes


def by_list(path: Path | None = None, remembered: int = 20_000) -> Suffixes:
    """A look-up by the public suffix list in ``path`` (``None`` = the bundled one), which remembers that many hosts.

    It takes a host name without port and gives its suffix without and with the private section, both empty for an IP address.
    """
    lines = (path or Path(publicsuffixlist.PSLFILE)).read_text("utf-8").splitlines()

    @cache
    def lists() -> tuple[publicsuffixlist.PublicSuffixList, publicsuffixlist.PublicSuffixList]:
        # Only when the first name is looked up: the two take 0.1 s.
        return publicsuffixlist.PublicSuffixList(lines, only_icann=True), publicsuffixlist.PublicSuffixList(lines)

    @lru_cache(maxsize=remembered)
    def suffixes(name: str) -> tuple[str, str]:
        if ":" in name or name[-1:].isdigit():
            return "", ""
        registry, private = lists()
        return registry.publicsuffix(name) or "", private.publicsuffix(name) or ""

    return suffixes
