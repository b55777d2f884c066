"""The SURT key of a URL, by which CDXJ files are sorted and searched.

Replay tools compute the key of a requested URL and search for it, so this key must equal theirs
exactly. The convention is the Internet Archive's: host labels reversed; ``www`` and a number after
it dropped; everything in lower case; repeated and trailing slashes dropped; percent-encoding undone
until none is left and then applied once; old kinds of session ids dropped; query parameters sorted.
The key is lossy on purpose and is never used as identity. The special cases below follow that
convention, as seen in its outputs.
"""

from __future__ import annotations

import re

from lycosa.base.urls.url_parts import host_of, name_of, target_of

_WWW = re.compile(r"www\d*\.")
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_PERCENT_CHAIN = re.compile(rb"%(?:25)+")  # any number of layers of an encoded percent sign
# A URL with more layers is an attack: undoing them all would cost the square of its length.
_MAX_LAYERS = 50
_TO_ESCAPE = re.compile(rb"[\x00-\x20\x7f-\xff#%]")
_SLASHES = re.compile(r"/{2,}")
_ASP_SESSION = re.compile(
    r"^(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)$|^(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)$",
    re.DOTALL,
)
# Each pattern removes one parameter, the last that matches, with the separator after it. The
# separator before it stays, as does "x" of "xsid=...".
_QUERY_SESSIONS = tuple(
    re.compile(rf"(.*)(?:{session})(?:&(.*))?", re.DOTALL)
    for session in (
        "jsessionid=[0-9a-z]{32}",
        "phpsessid=[0-9a-z]{32}",
        "sid=[0-9a-z]{32}",
        "aspsessionid[a-z]{8}=[a-z]{24}",
        "cfid=[^&]++&cftoken=[^&]++",
    )
)


def surt(url: str) -> str:
    """The key of a canonical URL: ``org,example)/path?query``."""
    path, question, query = target_of(url).partition("?")
    key = f"{_host_key(host_of(url))}){_path_key(path)}"
    query = _query_key(query) if question else ""
    return f"{key}?{query}" if query else key


def urn_key(urn: str, url: str) -> str:
    """The key of a record about a URL, like ``urn:view:https://example.org/path?query``.

    As pywb computes it: by the same rules as ``surt``, except that labels of the host stay as they
    are, repeated slashes too, and of those at the end of the path only the last one is dropped.
    """
    path, question, query = target_of(url).partition("?")
    if "%" in path:
        path = _without_dots(_escape_once(path))
    origin = url.partition("://")[0] + "://" + host_of(url)
    query = _query_key(query) if question else ""
    return f"{urn}{origin}{path.lower().removesuffix('/')}" + (f"?{query}" if query else "")


def _host_key(host: str) -> str:
    name = name_of(host)
    port = host.rpartition("]")[2].partition(":")[2]
    if ":" not in name:
        www = _WWW.match(name)
        name = ",".join(reversed(name[www.end() if www else 0 :].split(".")))
    return f"{name}:{port}" if port else name


def _path_key(path: str) -> str:
    if "%" in path:
        path = _without_dots(_escape_once(path))
    path = _SLASHES.sub("/", path).lower()
    if "(" in path and (found := _ASP_SESSION.match(path)):
        path = "".join(part for part in found.groups() if part)
    return path.rstrip("/") or "/"


def _query_key(query: str) -> str:
    query = (_escape_once(query) if "%" in query else query).lower()
    if "id=" in query or "aspsessionid" in query or "cftoken=" in query:
        for pattern in _QUERY_SESSIONS:
            if found := pattern.fullmatch(query):
                query = found[1] + (found[2] or "")
    if "&" in query:
        query = "&".join(sorted(query.split("&"), key=lambda parameter: parameter.split("=", 1)))
    return query


def _escape_once(text: str) -> str:
    """Undo all layers of percent-encoding, then encode once.

    Controls, spaces, ``#``, ``%`` and non-ASCII bytes are encoded.
    """
    data = _PERCENT_CHAIN.sub(b"%", text.encode())
    for _ in range(_MAX_LAYERS):
        plain = _ESCAPED.sub(lambda found: bytes((int(found[1], 16),)), data)
        if plain == data:
            break
        data = plain
    return _TO_ESCAPE.sub(lambda found: b"%%%02x" % found[0][0], data).decode("ascii")


def _without_dots(path: str) -> str:
    """Resolve dot segments that decoding produced.

    By the convention, ``..`` above the root stays.
    """
    if "/." not in path:
        return path
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif segment != ".":
            kept.append(segment)
    return "/" + "/".join(kept)
