"""SURT prefixes as a rule of scope: a list of parts of the web, in the notation of Heritrix.

    +http://(org,example,            example.org and all hosts below it
    +http://(org,example,www,)/docs/ the pages of www.example.org whose path begins with /docs/
    -http://(org,example,www,)/docs/old

A line without a sign is one with ``+``. The longest prefix of a URL decides, so the order of lines
does not matter. As in Heritrix, letter case and the difference of http and https do not matter, and
``http://(org,example)/`` means ``http://(org,example,)/``. A line may also be a URL or a host name:
``https://www.example.org/docs/a.html`` is the folder ``(org,example,www,)/docs/``, and
``example.org`` is ``(org,example,``. Empty lines, and what follows a ``#``, are left out.

The notation: Sigurðsson, Stack, Ranitovic, "Heritrix User Manual", section 6.1.1 and its glossary.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

MAX_PREFIXES = 10_000
_SURT = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?\(([^\s()]*)(\)?)(\S*)", re.IGNORECASE)
_URL = re.compile(r"(?:https?://)?([a-z0-9.-]+(?::[0-9]{1,5})?)(/\S*)?", re.IGNORECASE)
_ADDRESS = re.compile(r"[0-9.]+|.*:.*")


def surt_form(url: str) -> str:
    """The form of a canonical URL in which prefixes are compared: ``org,example,www,)/path?query``.

    A port stands behind the host, before the bracket. An IP address is not reversed.
    """
    # As ``urls.url_parts``, on which no module of the settings depends.
    start = 8 if url[4] == "s" else 7
    end = url.index("/", start)
    return f"{_host_form(url[start:end])}){url[end:]}".lower()


def _host_form(host: str) -> str:
    port = _port(host)
    return _reversed(host.removesuffix(port).strip("[]")) + port


def _reversed(name: str) -> str:
    if _ADDRESS.fullmatch(name):
        return f"{name},"
    return ",".join(reversed(name.split("."))) + ","


def _port(host: str) -> str:
    port = host.rpartition("]")[2].partition(":")[2]
    return f":{port}" if port else ""


def read_line(line: str) -> tuple[bool, str] | None:
    """Whether a line admits or refuses, and its prefix; ``None`` for an empty line or a comment.

    Raises ``ValueError`` with what to write instead.
    """
    text = line.split("#", 1)[0].strip()
    if not text:
        return None
    admits, text = not text.startswith("-"), text.lstrip("+-").strip()
    if found := _SURT.fullmatch(text):
        host, bracket, rest = found.groups()
        if bracket and host and not host.endswith(",") and ":" not in host:
            host += ","
        if "/" in host:
            raise ValueError(f"{line.strip()!r}: a path begins behind the bracket: (org,x,)/path")
        if bracket and rest and not rest.startswith("/"):
            raise ValueError(f"{line.strip()!r}: a path begins with / after the bracket")
        if not bracket and rest:
            raise ValueError(f"{line.strip()!r} has a path without a closing bracket")
        return admits, f"{host}{bracket}{rest}".lower()
    if found := _URL.fullmatch(text):
        host, path = found[1].rstrip("."), found[2] or ""
        name, _, port = host.partition(":")
        begin = _reversed(name) + (f":{port}" if port else "")
        if not path and "://" not in text:
            return admits, begin.lower()
        path = path.partition("?")[0]
        return admits, f"{begin}){path[: path.rindex('/') + 1] if path else '/'}".lower()
    raise ValueError(
        f"{line.strip()!r} is no SURT prefix; write +http://(org,example, or"
        " -http://(org,example,www,)/path"
    )


def lines_of_file(text: str) -> list[str]:
    """The lines of a SURT file that say something, without comments."""
    lines = (line.split("#", 1)[0].strip() for line in text.removeprefix("\ufeff").splitlines())
    return [line for line in lines if line]


def read_surts(lines: Sequence[str]) -> list[tuple[bool, str, str]]:
    """All lines: whether each admits, its prefix, and its text. Raises ``ValueError``."""
    if len(lines) > MAX_PREFIXES:
        raise ValueError(f"{len(lines):,} SURT prefixes; at most {MAX_PREFIXES:,} are supported")
    found = ((read_line(line), line.strip()) for line in lines)
    return [(*each, text) for each, text in found if each is not None]


class SurtRules:
    """Finds the longest prefix of a URL in time that does not grow with the number of prefixes."""

    def __init__(self, lines: Iterable[str]) -> None:
        verdicts: dict[str, tuple[bool, str]] = {}
        for admits, prefix, text in read_surts(tuple(lines)):
            known = verdicts.get(prefix)
            if known is None or known[0]:  # of two equal prefixes the one that refuses counts
                verdicts[prefix] = admits, text
        self._sorted, self._verdicts = sorted(verdicts), verdicts
        self.admits_some = any(admits for admits, _ in verdicts.values())

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def __len__(self) -> int:
        return len(self._sorted)

    def find(self, url: str) -> tuple[bool, str] | None:
        """Whether the longest prefix of a canonical URL admits it, and that line, or ``None``."""
        key = bound = surt_form(url)
        while True:
            at = bisect_right(self._sorted, bound) - 1
            if at < 0:
                return None
            prefix = self._sorted[at]
            if key.startswith(prefix):
                return self._verdicts[prefix]
            # A prefix of the key that sorts before this text is a prefix of this text too.
            bound = key[: _common(prefix, key)]

    def holds(self, host: str) -> bool:
        """Whether some page of a host may be admitted."""
        start = f"{_host_form(host)})".lower()
        found = self.find(f"http://{host}/")
        if found is not None and found[0]:
            return True
        at = bisect_right(self._sorted, start)
        inside = self._sorted[at : at + 1]
        return bool(inside) and inside[0].startswith(start)


def _common(one: str, other: str) -> int:
    """The number of characters that two texts have in common at their beginning."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length
