"""The target of ``<meta http-equiv=refresh>`` and of the ``Refresh`` header.

It follows the "shared declarative refresh steps" of the HTML standard character by character. Real
pages write ``0;url='x'``, ``0, x`` and ``0 URL = x``, and a looser parser finds links where there
are none.
"""

from __future__ import annotations

import re

# HTML standard 4.2.5.3: time, optional fraction, separator, optional "url" and "=", then the URL.
_TIME = re.compile(r"[ \t\n\f\r]*(?:([0-9]+)|(?=\.))[0-9.]*")
_SEPARATOR = re.compile(r"[ \t\n\f\r]*(?:[;,][ \t\n\f\r]*)?")
_URL_IS = re.compile(r"url[ \t\n\f\r]*=[ \t\n\f\r]*", re.IGNORECASE)


def parse_refresh(content: str) -> tuple[int, str] | None:
    """The delay in seconds and the raw target, or ``None`` when it is not a refresh.

    The target is empty when the page reloads itself.
    """
    time = _TIME.match(content)
    if time is None:
        return None
    delay = int((time.group(1) or "0")[:9])
    rest = content[time.end() :]
    if not rest:
        return delay, ""
    if rest[0] not in ";, \t\n\f\r":
        return None
    rest = rest[_SEPARATOR.match(rest).end() :]  # type: ignore[union-attr]  # the pattern matches the empty string
    if prefix := _URL_IS.match(rest):
        rest = rest[prefix.end() :]
    if rest[:1] in ("'", '"'):
        rest = rest[1:].split(rest[0], 1)[0]
    return delay, rest.strip(" \t\n\f\r")
