"""The settings of own hosts: their exact names, and where their secret is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lycosa.base.config.profile_texts import read_secret_place

_HOST = re.compile(r"([a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:]+\])(?::([1-9][0-9]{0,4}))?")


def check_own_hosts(names: Sequence[str]) -> None:
    """Raise ``ValueError`` for what is no host as URLs of the crawl name it."""
    for name in names:
        found = _HOST.fullmatch(name)
        if found is None or found[2] in ("80", "443"):
            raise ValueError(
                f"{name!r} is no exact name of a host; write it as URLs have it: lower case (xn--"
                " for other scripts), the port only if it is not that of the scheme, no path and"
                " no pattern"
            )


def check_own_secret(text: str) -> None:
    """Raise ``ValueError`` for anything but the place of a secret."""
    if text:
        read_secret_place(text)
