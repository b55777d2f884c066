"""Values of which a worker's progress consists: address pool, upload of segments, webhooks."""

from __future__ import annotations

from enum import Enum

import msgspec


class PoolState(Enum):
    """What a worker knows about the pool."""

    SHARED = "shared"  # the limits of the crawl hold for all machines together
    DIVIDED = "divided"  # the pool answers, but does not know all requests
    AWAY = "away"  # it gives no answer


class PoolUse(msgspec.Struct, frozen=True):
    """How the pool is used. ``since`` is seconds since 1970, ``why`` says why it is not shared."""

    state: PoolState
    since: float
    why: str = ""


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


class WebhookState(msgspec.Struct, frozen=True):
    """The state of one webhook, as its file in the crawl folder has it.

    ``name`` is the host of its URL, with a number if several have it: a path may be secret.
    ``position`` is that in the feed of changes, ``delivered`` the number of changes that were
    accepted, the last at ``delivered_at``. ``failures`` counts tries since then, the first at
    ``failing_since``; ``why`` is the last reason, and ``next_try`` when it is tried again. Times
    are seconds since 1970, 0 for never.
    """

    name: str
    position: str = ""
    delivered: int = 0
    delivered_at: float = 0.0
    failures: int = 0
    failing_since: float = 0.0
    why: str = ""
    next_try: float = 0.0

    def note(self, now: float) -> WebhookNote:
        """What to show of it at a time."""
        return WebhookNote(
            self.name,
            self.delivered,
            self.failures,
            now - self.failing_since if self.failures else 0.0,
            self.why,
            max(self.next_try - now, 0.0),
        )


class WebhookNote(msgspec.Struct, frozen=True):
    """A webhook in the status of a crawl; spans of time in seconds."""

    name: str
    delivered: int = 0
    failures: int = 0
    failing_s: float = 0.0
    why: str = ""
    next_in_s: float = 0.0
