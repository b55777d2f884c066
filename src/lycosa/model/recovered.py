"""What a start found in the folder of a crawl."""

from __future__ import annotations

import msgspec


class Recovered(msgspec.Struct, frozen=True):
    """What a start found; the defaults are those of a new crawl.

    ``replayed`` batches that tables lacked, ``rebuilt`` URL-seen files, derived files that stay
    missing with the reason, when the last commit was (wall seconds, 0 = never), captures by
    partition, the URLs whose places belong to the scope, and the latest crawl time that a commit
    has, with the wall time of that commit, and the greatest version of live settings that a last
    commit names.
    """

    replayed: int = 0
    rebuilt: int = 0
    unbuildable: dict[str, str] = {}
    last_commit: float = 0.0
    captures: dict[int, int] = {}
    places: list[str] = []
    latest: tuple[float, float] = (0.0, 0.0)
    settings: int = 0
