"""What a renderer process says to the process that keeps it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class RendererReport(msgspec.Struct, frozen=True, tag=True):
    """The state of the process, sent every second; its silence says that it hangs.

    ``pages`` are being rendered, at most ``most``. Since its start it had ``rendered`` results
    taken, ``late`` ones that were not, and gave ``returned`` pages back undone. ``found_here``
    counts bodies that it had, ``found_there`` those that owners sent, ``missing`` requests of which
    nothing is stored. ``memory_bytes`` is that of the process with its browser. ``trouble`` says
    why nothing is rendered (empty = nothing is wrong).
    """

    pages: int = 0
    most: int = 0
    rendered: int = 0
    late: int = 0
    returned: int = 0
    found_here: int = 0
    found_there: int = 0
    missing: int = 0
    memory_bytes: int = 0
    browser: str = ""
    trouble: str = ""

    @property
    def hit_rate(self) -> float:
        """The share of the stored bodies that pages needed and no owner had to send."""
        found = self.found_here + self.found_there
        return self.found_here / found if found else 0.0

    def line(self) -> str:
        """The state in one line, for people."""
        if self.trouble:
            return self.trouble
        return (
            f"{self.pages} of {self.most} pages in work, {self.rendered:,} rounds done, bodies kept"
            f" here for {self.hit_rate:.0%} of the requests, {self.memory_bytes / 1e6:,.0f} MB"
        )


class RendererUse(msgspec.Struct, frozen=True):
    """A renderer that asked a worker for pages in the last minute.

    ``pages`` are with it, of at most ``at_once`` (0 = a version that did not say). ``browser`` is
    that of its last page (empty = it has rendered none), ``trouble`` why it renders nothing.
    """

    name: str
    pages: int = 0
    at_once: int = 0
    browser: str = ""
    trouble: str = ""

    def line(self) -> str:
        """It in one line, for people."""
        if self.trouble:
            return f"{self.name}: {self.trouble}"
        browser = f", {self.browser}" if self.browser else ""
        return f"{self.name}: {self.pages} of {self.at_once} pages in work{browser}"


def summed_uses(uses: Iterable[RendererUse]) -> list[RendererUse]:
    """The renderers of several workers, each once, by name."""
    found: dict[str, RendererUse] = {}
    for each in uses:
        old = found.get(each.name, each)
        found[each.name] = RendererUse(
            each.name,
            each.pages + (old.pages if old is not each else 0),
            max(each.at_once, old.at_once),
            each.browser or old.browser,
            each.trouble or old.trouble,
        )
    return [found[name] for name in sorted(found)]


class RendererNote(msgspec.Struct, frozen=True, tag=True):
    """A line for the operator."""

    text: str


encode_renderer_message = msgspec.msgpack.Encoder().encode
decode_renderer_message = msgspec.msgpack.Decoder(RendererReport | RendererNote).decode
