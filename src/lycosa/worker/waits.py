"""External services that a worker is waiting for: the log, the inbox, object storage.

The parts learn it from their clients, on any thread, and report when they wait no longer. Only a
part that waits at the moment has a text, so the display never shows a reason that has passed.
"""

from __future__ import annotations

from collections.abc import Callable


class WaitBoard:
    """One per worker."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.opening = ""
        """How far the opening of the shard is; empty when it is open."""

    def teller(self, part: str) -> Callable[[str], None]:
        """A function that takes what ``part`` waits for; an empty text ends the wait."""

        def tell(text: str) -> None:
            self._texts[part] = text

        return tell

    @property
    def text(self) -> str:
        """What the worker waits for; empty when it waits for nothing."""
        return "; ".join(dict.fromkeys(filter(None, [*self._texts.values()]))) or self.opening

    def is_waiting(self, *parts: str) -> bool:
        """Whether one of these parts waits."""
        return any(self._texts.get(part) for part in parts)

    def __repr__(self) -> str:
        return f"<WaitBoard {self.text!r}>"
