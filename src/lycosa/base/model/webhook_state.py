"""How a webhook fares: what it was sent, and why it was not sent more."""

from __future__ import annotations

import msgspec


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
