"""The pace of a whole crawl: its requests and bytes a second, and its hours of the day.

Delays protect each host; the pace protects the line and the budget of those who crawl. Each worker
keeps its share of it, which is its share of the partitions, so that the workers together keep the
pace without asking each other (generic cell rate algorithm, ITU-T I.371, annex A).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from lycosa.base.config.hours import closed_s, read_hours
from lycosa.base.config.sections import FetchSection

_AT_ONCE_S = 0.1
"""What was not used may be used later for so long: without it each late turn lowers the rate."""
_HOURS_S = 1.0  # between looks at the hours
_FIRST_BYTES = 50_000.0  # expected of a body before any was received
_WEIGHT = 0.05  # of the last body in the mean that is expected


class CrawlPace:
    """One per worker. ``share`` is that of the worker, from 0 to 1. Times are monotonic seconds."""

    def __init__(
        self, section: FetchSection, share: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._share, self._wall = share, wall
        self._request_at = self._bytes_at = 0.0
        self._looked_at = -_HOURS_S
        self._expected = _FIRST_BYTES
        self._last_share = 1.0
        self._requests = self._bytes = 0.0
        self.follow(section)

    def __repr__(self) -> str:
        return f"<CrawlPace {self._requests}/s {self._bytes} B/s {self._hours}>"

    def follow(self, section: FetchSection) -> None:
        """Keep the pace of these settings from now on."""
        self.section = section
        # What a lower limit made the crawl wait for is no debt under another one.
        if section.request_rate != self._requests:
            self._requests, self._request_at = section.request_rate, 0.0
        if section.bytes_per_s != self._bytes:
            self._bytes, self._bytes_at = section.bytes_per_s, 0.0
        self._hours = read_hours(section.hours)
        self._closed_s, self._looked_at = 0.0, -_HOURS_S
        self.is_on = bool(self._requests or self._bytes or self._hours)
        """Whether anything is limited; if not, nothing else has to be called."""

    def wait_s(self, now: float) -> float:
        """Seconds until the next request may begin; 0 if it may now."""
        wait = self._closed_for(now)
        if self._requests:
            wait = max(wait, self._request_at - now)
        if self._bytes:
            wait = max(wait, self._bytes_at - now)
        return wait

    def note_request(self, now: float) -> None:
        """A request begins. How much it brings is known at its end, so a mean is reserved."""
        if self._requests:
            self._request_at = max(self._request_at, now - _AT_ONCE_S) + self._request_s
        if self._bytes:
            self._bytes_at = max(self._bytes_at, now - _AT_ONCE_S) + self._seconds(self._expected)

    def return_request(self) -> None:
        """The request that was noted last, or one before it, was not sent."""
        if self._requests:
            self._request_at -= self._request_s
        if self._bytes:
            self._bytes_at -= self._seconds(self._expected)

    def note_bytes(self, received: int) -> None:
        """A request has ended with so many bytes."""
        if self._bytes:
            self._bytes_at += self._seconds(received - self._expected)
            self._expected += _WEIGHT * (received - self._expected)

    def closed_text(self, now: float) -> str:
        """That the crawl waits for its hours, and until when; empty when it does not."""
        if not (self.is_on and (closed := self._closed_for(now))):
            return ""
        opens = datetime.fromtimestamp(round(self._wall() + closed)).astimezone()
        return f"its hours (fetch.hours); it continues at {opens:%a %d %b %H:%M %Z}"

    @property
    def _request_s(self) -> float:
        return 1 / (self._requests * self._own_share)

    def _seconds(self, received: float) -> float:
        return received / (self._bytes * self._own_share)

    @property
    def _own_share(self) -> float:
        # A request may end after the last partition was handed over. Counted with a share of
        # nothing, its bytes would keep the next partitions of this worker waiting for days.
        self._last_share = self._share() or self._last_share
        return self._last_share

    def _closed_for(self, now: float) -> float:
        if not self._hours:
            return 0.0
        # Windows are computed with a calendar, which costs more than a turn of the loop.
        if now - self._looked_at >= _HOURS_S:
            self._looked_at, self._closed_s = now, closed_s(self._hours, self._wall())
        return max(self._closed_s - (now - self._looked_at), 0.0)
