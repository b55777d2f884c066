"""What a start found in the folder of a crawl."""

from __future__ import annotations

import msgspec


class Recovered(msgspec.Struct, frozen=True):
    """What a start found; the defaults are those of a new crawl.

    ``replayed`` counts batches that tables lacked, ``rebuilt`` URL-seen files. ``unbuildable`` maps
    missing derived files to the reason. ``last_commit`` is the time of the last commit (wall
    seconds, 0 = never), ``captures`` the number by partition, ``places`` the URLs whose places
    belong to the scope. ``latest`` is the latest crawl time of a commit, with the wall time of that
    commit. ``settings`` is the greatest version of live settings that a last commit names.
    ``damaged`` are closed segments in object storage that are known to be damaged.
    """

    replayed: int = 0
    rebuilt: int = 0
    unbuildable: dict[str, str] = {}
    last_commit: float = 0.0
    captures: dict[int, int] = {}
    places: list[str] = []
    latest: tuple[float, float] = (0.0, 0.0)
    settings: int = 0
    damaged: list[str] = []
