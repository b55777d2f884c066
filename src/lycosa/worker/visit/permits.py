"""Permits for captures.

``--max-pages`` holds exactly. ``--max-bytes`` may be exceeded by the responses in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from lycosa.base.config.sections import LimitSection


class Permits(Protocol):
    """Whether another capture may be made.

    A permit that was taken ends in ``use_permit`` or ``return_permit``. A capture that is not
    counted, because it is what a page needs to be rendered, leaves its permit to another one. It is
    also made when there are none; then no permit is held.
    """

    def may_take(self) -> bool: ...
    def take_permit(self) -> bool: ...
    def return_permit(self) -> None: ...
    def use_permit(
        self, body_bytes: int, is_counted: bool = True, is_held: bool = True
    ) -> None: ...


class GrantedPermits:
    """Permits of one worker among several, granted by the coordinator.

    A grant is an absolute number: the total of captures that the worker's partitions may have. So
    it can be delivered twice or late without becoming two grants. It grows only by a grant with a
    greater serial. It shrinks only here (``return_unused``), after which the grant with the same
    serial is ignored. ``captures`` is the total at the start.
    """

    def __init__(self, section: LimitSection, captures: int) -> None:
        self._is_limited = bool(section.max_pages)
        self.news = asyncio.Event()
        """Set when the coordinator should know at once: none is left, or some are returned."""
        self._captures = captures
        self._open = 0
        self.counted = captures
        self.may = captures
        self.serial = 0
        self.is_waiting = False

    def __repr__(self) -> str:
        return (
            f"<GrantedPermits may={self.may} captures={self._captures} open={self._open}"
            f" waiting={self.is_waiting}>"
        )

    @property
    def _left(self) -> int:
        return self.may - self._captures - self._open

    def may_take(self) -> bool:
        """Whether ``take_permit`` would succeed; asks for more when none is left."""
        if self._is_limited and self._left <= 0 and not self.is_waiting:
            self.is_waiting = True
            self.news.set()
        return not self._is_limited or self._left > 0

    def take_permit(self) -> bool:
        if not self._is_limited:
            return True
        if not self.may_take():
            return False
        self._open += 1
        return True

    def return_permit(self) -> None:
        if self._is_limited:
            self._open -= 1

    def use_permit(self, body_bytes: int, is_counted: bool = True, is_held: bool = True) -> None:
        if self._is_limited:
            self._open -= is_held
            self._captures += is_counted

    def set_permit(self, serial: int, captures: int) -> None:
        """Apply a grant of the coordinator."""
        if serial > self.serial:
            self.serial, self.may = serial, captures
            self.is_waiting = self.is_waiting and self._left <= 0

    def return_unused(self) -> None:
        """Return the unused permits, because the worker has no use for them."""
        if self._is_limited and self._left > 0:
            self.may = self._captures + self._open
            self.news.set()


class LocalPermits:
    """The permits of a worker that is alone.

    ``captures`` and ``body_bytes`` are those of the crawl so far. ``on_limit`` is called when a
    limit is reached; at that on captures not while ``awaits_renders``.
    """

    def __init__(
        self,
        section: LimitSection,
        captures: int,
        body_bytes: int,
        on_limit: Callable[[], None],
        awaits_renders: Callable[[], bool] = lambda: False,
    ) -> None:
        self._awaits_renders = awaits_renders
        self._section = section
        self._captures = captures
        self._bytes = body_bytes
        self._open = 0
        self._on_limit = on_limit

    def __repr__(self) -> str:
        return f"<LocalPermits captures={self._captures} open={self._open} bytes={self._bytes}>"

    def may_take(self) -> bool:
        """Whether ``take_permit`` would succeed.

        Captures in flight may still fail and return their permits.
        """
        if self._is_reached():
            self._on_limit()
            return False
        return not self._section.max_pages or self._captures + self._open < self._section.max_pages

    def take_permit(self) -> bool:
        """Take a permit for one capture; it ends in ``use_permit`` or ``return_permit``."""
        if not self.may_take():
            return False
        self._open += 1
        return True

    def return_permit(self) -> None:
        """Return a permit: no capture was made."""
        self._open -= 1

    def use_permit(self, body_bytes: int, is_counted: bool = True, is_held: bool = True) -> None:
        """Use up a permit: a capture was made."""
        self._open -= is_held
        self._captures += is_counted
        self._bytes += body_bytes
        if self._is_reached():
            self._on_limit()

    def _is_reached(self) -> bool:
        section = self._section
        if section.max_bytes and self._bytes >= section.max_bytes:
            return True
        is_full = section.max_pages and self._captures >= section.max_pages
        return bool(is_full) and not self._awaits_renders()
