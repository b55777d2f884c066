"""The progress of the upload of a crawl's closed segments."""

from __future__ import annotations

import msgspec


class UploadState(msgspec.Struct, frozen=True):
    """The progress of an upload.

    ``files`` and ``bytes`` of closed segments are in the store at ``url``; ``waiting_files`` and
    ``waiting_bytes`` are not yet. ``removed_files`` and ``removed_bytes`` were removed here, over
    the life of the crawl. ``failing_s`` is the time for which the store has accepted nothing, and
    ``why`` the last reason; 0 and empty while it works. ``is_ending``: the crawl is over and waits
    for the upload. ``doubtful_files`` are kept here, because the store has another content of them
    and it is not certain that theirs is the damaged one; ``doubtful`` says so of the first ten.
    """

    url: str
    files: int = 0
    bytes: int = 0
    waiting_files: int = 0
    waiting_bytes: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    failing_s: float = 0.0
    why: str = ""
    is_ending: bool = False
    doubtful_files: int = 0
    doubtful: tuple[str, ...] = ()
