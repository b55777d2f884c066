"""The site of a host: its registrable domain by the public suffix list.

The list comes with the ``publicsuffixlist`` package. Its private section is used, so two customers
of one hosting company are two sites. A newer list can move a host to another site and so change the
owner of its URLs. Therefore a crawl keeps the list that it began with and passes it here as
``list_path``.
"""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache
from pathlib import Path

import publicsuffixlist

from lycosa.base.urls.url_parts import is_address, name_of

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
        """Registrable domain of a ``host_of``, without the port.

        A name without a registrable domain, and an IP address, is its own site.
        """
        return self._look_up(host)

    def public_suffixes(self, name: str) -> tuple[str, str]:
        """The two public suffixes of a host name: without and with the list's private section.

        ``name`` has no port. Both are empty for an IP address.
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
        # Built at the first lookup, because a supervisor needs only the version.
        return publicsuffixlist.PublicSuffixList(self._lines, accept_encoded_idn=False)

    def _site_of(self, host: str) -> str:
        name = name_of(host)
        if is_address(name):
            return name
        return self._suffixes.privatesuffix(name) or name

    def snapshot(self) -> dict[str, int]:
        """Statistics of the cache in front of the list."""
        info = self._look_up.cache_info()
        return {
            "hits": info.hits,
            "misses": info.misses,
            "entries": info.currsize,
            "bound": _REMEMBERED,
        }


def _with_encoded(lines: list[str]) -> list[str]:
    """The lines of the list, each non-ASCII rule followed by its IDNA-encoded form.

    The library would encode every rule, which takes five times as long as reading the list,
    although all but a few hundred rules are ASCII and need no encoding.
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
    """The list's version line and the start of its SHA-256, which distinguishes edited lists."""
    digest = hashlib.sha256(data).hexdigest()[:16]
    for line in data.splitlines()[:20]:
        if line.startswith(b"// VERSION:"):
            return f"{line.partition(b':')[2].strip().decode()} sha256:{digest}"
    return f"sha256:{digest}"
