"""Permits for captures: ``--max-pages`` holds exactly, ``--max-bytes`` may be overrun by what is in flight."""

from __future__ import annotations

from collections.abc import Callable

from lycosa.config import LimitSection


class LocalPermits:
    """One worker's permits. ``captures`` and ``body_bytes`` are what the crawl has so far; ``on_limit`` is called when nothing more is given."""

    def __init__(self, section: LimitSection, captures: int, body_bytes: int, on_limit: Callable[[], None]) -> None:
        self._section = section
        self._captures = captures
        self._bytes = body_bytes
        self._open = 0
        self._on_limit = on_limit

    def __repr__(self) -> str:
        return f"<LocalPermits captures={self._captures} open={self._open} bytes={self._bytes}>"

    def take(self) -> bool:
        """A permit for one capture; it ends in ``used`` or ``give_back``."""
        if self._is_reached():
            self._on_limit()
            return False
        if self._section.max_pages and self._captures + self._open >= self._section.max_pages:
            return False  # what is in flight may still fail and give its permit back
        self._open += 1
        return True

    def give_back(self) -> None:
        """The permit was not needed: nothing was captured."""
        self._open -= 1

    def used(self, body_bytes: int) -> None:
        """A capture was made."""
        self._open -= 1
        self._captures += 1
        self._bytes += body_bytes
        if self._is_reached():
            self._on_limit()

    def _is_reached(self) -> bool:
        section = self._section
        return bool(section.max_pages and self._captures >= section.max_pages) or bool(
            section.max_bytes and self._bytes >= section.max_bytes
        )
