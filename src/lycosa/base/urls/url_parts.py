"""The parts of a canonical URL, by slicing.

Every link passes here several times, so nothing is parsed. The canonical form guarantees
``http://`` or ``https://``, a host without userinfo, default port or trailing dot, and a path that
starts with a slash. For other strings the results are undefined.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

# A host has at least one character, so the slash of the path is at this index or later, both in
# "http://a/" and in "https://a/".
_PATH_FROM = 8

TDM_PATH = "/.well-known/tdmrep.json"
"""The path of a file of TDM reservations (W3C community report TDMRep, "TDM File on the Origin
Server").
"""


def scheme_of(url: str) -> str:
    """``http`` or ``https``."""
    return "https" if url[4] == "s" else "http"


def origin_of(url: str) -> str:
    """``https://host[:port]``: the origin to which a robots.txt applies."""
    return url[: url.index("/", _PATH_FROM)]


def robots_url(host: str, is_secure: bool) -> str:
    """Where an origin has its robots.txt; ``host`` as ``host_of`` returns it."""
    return f"{'https' if is_secure else 'http'}://{host}/robots.txt"


def tdm_url(host: str, is_secure: bool) -> str:
    """Where an origin has its file of TDM reservations; ``host`` as ``host_of`` returns it."""
    return f"{'https' if is_secure else 'http'}://{host}{TDM_PATH}"


def host_of(url: str) -> str:
    """Host, with a port that is not the scheme's default: ``example.org``, ``[::1]:81``."""
    return url[8 if url[4] == "s" else 7 : url.index("/", _PATH_FROM)]


def target_of(url: str) -> str:
    """Path and query, as in the request line."""
    return url[url.index("/", _PATH_FROM) :]


def is_own_path(url: str, source: str) -> bool:
    """Whether a URL has the host of another one, by http or https, and no query."""
    return "?" not in url and host_of(url) == host_of(source)


def join_url(scheme: str, host: str, target: str) -> str:
    """The inverse of ``scheme_of``, ``host_of`` and ``target_of``."""
    return f"{scheme}://{host}{target}"


def name_of(host: str) -> str:
    """The name or address to resolve: ``host_of`` without port and brackets."""
    if host[0] == "[":
        return host[1 : host.index("]")]
    return host.partition(":")[0]


def is_address(name: str) -> bool:
    """Whether a ``name_of`` is an IP address.

    Only IPv4 addresses have a last label of digits (WHATWG URL, host parser).
    """
    return ":" in name or (name[-1:].isdigit() and name.rpartition(".")[2].isdigit())


def reversed_host(host: str) -> str:
    """A ``host_of`` with its labels reversed, so that the hosts of a domain sort together.

    ``www.example.org:81`` becomes ``org.example.www:81``. IP addresses stay as they are.
    """
    if host[0] == "[" or is_address(name_of(host)):
        return host
    name, colon, port = host.partition(":")
    return ".".join(reversed(name.split("."))) + colon + port


def hash8(text: str) -> bytes:
    """The first eight bytes of the text's SHA-256 (UTF-8): the key of a host or URL."""
    return hashlib.sha256(text.encode()).digest()[:8]


def hosts_of(urls: Iterable[str]) -> list[str]:
    """``host_of`` each URL; sliced here because a call per link is measurable."""
    return [url[8 if url[4] == "s" else 7 : url.index("/", _PATH_FROM)] for url in urls]


def hash8_all(texts: Iterable[str]) -> list[bytes]:
    sha256 = hashlib.sha256
    return [sha256(text.encode()).digest()[:8] for text in texts]


def partition_of(site: str, partitions: int) -> int:
    """The partition that owns a site: its ``hash8``, read big-endian, modulo ``partitions``."""
    return int.from_bytes(hash8(site), "big") % partitions
