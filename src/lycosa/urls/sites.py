"""The site of a host: its registrable domain by the public suffix list.

The list comes with the ``publicsuffixlist`` package, private section on, so that two customers of
one hosting company are two sites. A newer list moves the border between hosts and sites and with it
the owner of their URLs; a crawl therefore keeps the list it began with and gives it back here as
``list_path``.
"""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache
from pathlib import Path

import publicsuffixlist

from lycosa.urls.parts import is_address, name_of

BUNDLED_LIST = Path(publicsuffixlist.PSLFILE)
_REMEMBERED = 65_536
_REMEMBERED_SUFFIXES = 20_000


class Sites:
    """Sites by one public suffix list.

    Raises ``OSError`` or ``UnicodeDecodeError`` when ``list_path`` cannot be read.
    """

    def __init__(self, list_path: Path | None = None) -> None:
        data = (list_path or BUNDLED_LIST).read_bytes()
        self._lines = _with_encoded(data.decode().splitlines())
        self._look_up = lru_cache(maxsize=_REMEMBERED)(self._site_of)
        self._look_up_suffixes = lru_cache(maxsize=_REMEMBERED_SUFFIXES)(self._public_suffixes)
        self.version = _version(data)

    def site_of(self, host: str) -> str:
        """Registrable domain of a ``host_of``; a name without one and an IP address are their
        own site. The port does not count.
        """
        return self._look_up(host)

    def public_suffixes(self, name: str) -> tuple[str, str]:
        """Public suffixes of a host name without port: without and with the list's private
        section; both empty for an IP address.
        """
        return self._look_up_suffixes(name)

    def _public_suffixes(self, name: str) -> tuple[str, str]:
        if ":" in name or name[-1:].isdigit():
            return "", ""
        return (
            self._registry_suffixes.publicsuffix(name) or "",
            self._suffixes.publicsuffix(name) or "",
        )

    @cached_property
    def _registry_suffixes(self) -> publicsuffixlist.PublicSuffixList:
        return publicsuffixlist.PublicSuffixList(
            self._lines, accept_encoded_idn=False, only_icann=True
        )

    @cached_property
    def _suffixes(self) -> publicsuffixlist.PublicSuffixList:
        # Only when the first name is looked up: a supervisor wants to know the version alone.
        return publicsuffixlist.PublicSuffixList(self._lines, accept_encoded_idn=False)

    def _site_of(self, host: str) -> str:
        name = name_of(host)
        if is_address(name):
            return name
        return self._suffixes.privatesuffix(name) or name

    def snapshot(self) -> dict[str, int]:
        """Counts of the cache in front of the list."""
        info = self._look_up.cache_info()
        return {
            "hits": info.hits,
            "misses": info.misses,
            "entries": info.currsize,
            "bound": _REMEMBERED,
        }

    def __repr__(self) -> str:
        return f"<Sites {self.version} {self.snapshot()}>"


def _with_encoded(lines: list[str]) -> list[str]:
    """The list with the encoded form (IDNA) of each rule that has one behind the rule. The library
    would encode all rules, which takes five times as long as reading them, although all but some
    hundred are ASCII and their own encoded form.
    """
    found = []
    for line in lines:
        found.append(line)
        rule = (
            "" if line.isascii() or line.startswith("//") else line.lower().split(" ")[0].rstrip()
        )
        if rule:
            found.append("!" * rule.startswith("!") + publicsuffixlist.encode_idn(rule.lstrip("!")))
    return found


def _version(data: bytes) -> str:
    """The list's own version line and the start of its SHA-256, which also tells edited lists
    apart.
    """
    digest = hashlib.sha256(data).hexdigest()[:16]
    for line in data.splitlines()[:20]:
        if line.startswith(b"// VERSION:"):
            return f"{line.partition(b':')[2].strip().decode()} sha256:{digest}"
    return f"sha256:{digest}"
