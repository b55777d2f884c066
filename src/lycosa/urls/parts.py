"""The parts of a canonical URL, by slicing.

Every link passes here several times, so nothing is parsed: the canonical form guarantees
``http://`` or ``https://``, a host without userinfo, default port or trailing dot, and a path that
starts with a slash. On other strings the answers mean nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

# A host has at least one character, so the path's slash is never before this index, in "http://a/"
# nor in "https://a/".
_PATH_FROM = 8


def scheme_of(url: str) -> str:
    """``http`` or ``https``."""
    return "https" if url[4] == "s" else "http"


def origin_of(url: str) -> str:
    """``https://host[:port]``: the authority that robots.txt belongs to."""
    return url[: url.index("/", _PATH_FROM)]


def host_of(url: str) -> str:
    """Host, with the port unless it is the scheme's own: ``example.org``, ``example.org:8080``,
    ``[::1]:81``.
    """
    return url[8 if url[4] == "s" else 7 : url.index("/", _PATH_FROM)]


def target_of(url: str) -> str:
    """Path and query: what stands in the request line."""
    return url[url.index("/", _PATH_FROM) :]


def join_url(scheme: str, host: str, target: str) -> str:
    """The URL of which these are ``scheme_of``, ``host_of`` and ``target_of``."""
    return f"{scheme}://{host}{target}"


def name_of(host: str) -> str:
    """The name or address to resolve, from ``host_of``: no port, no brackets."""
    if host[0] == "[":
        return host[1 : host.index("]")]
    return host.partition(":")[0]


def is_address(name: str) -> bool:
    """Whether a ``name_of`` is an IP address. Only IPv4 addresses have a last label of digits
    (WHATWG URL, host parser).
    """
    return ":" in name or (name[-1:].isdigit() and name.rpartition(".")[2].isdigit())


def hash8(text: str) -> bytes:
    """The first eight bytes of the SHA-256 of the UTF-8 text: the key of a host or URL."""
    return hashlib.sha256(text.encode()).digest()[:8]


def hosts_of(urls: Iterable[str]) -> list[str]:
    """``host_of`` each."""
    return [url[8 if url[4] == "s" else 7 : url.index("/", _PATH_FROM)] for url in urls]


def hash8_all(texts: Iterable[str]) -> list[bytes]:
    """``hash8`` of each."""
    sha256 = hashlib.sha256
    return [sha256(text.encode()).digest()[:8] for text in texts]


def partition_of(site: str, partitions: int) -> int:
    """Which of ``partitions`` owns a site: its ``hash8``, read big-endian, modulo their number."""
    return int.from_bytes(hash8(site), "big") % partitions
