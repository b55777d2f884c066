"""Host names that a caller may have meant by a name that the crawl does not know.

The usual slips are a missing port or ``www.``, and a letter too many, too few, or in the wrong
place.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 3
_ALIKE = 0.7  # of the letters, by ``difflib``


class HostUnknown(Exception):
    """The crawl has never met a host; ``near`` are hosts with similar names."""

    def __init__(self, host: str, near: list[str]) -> None:
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"the crawl does not know the host {host}{meant}")
        self.host, self.near = host, near


def near_searches(site: str) -> list[str]:
    """Searches that find candidates: the hosts of the site, and both halves of the site's name.

    One slip leaves one of the halves as it is. The forms are those of ``HostsQuery.search``.
    """
    name = site.partition(".")[0]
    half = max(len(name) // 2, 2)
    return [f".{site}", *(f"*{part}" for part in (name[:half], name[half:]) if part)]


def near_names(host: str, candidates: Iterable[str]) -> list[str]:
    """The most similar candidates, best first: the same name with another port comes before all."""
    names = sorted(set(candidates) - {host})
    bare = host.partition(":")[0].removeprefix("www.")
    same = [each for each in names if each.partition(":")[0].removeprefix("www.") == bare]
    alike = difflib.get_close_matches(host, names, _SHOWN, _ALIKE)
    return list(dict.fromkeys([*same, *alike]))[:_SHOWN]
