"""Renderers: processes that take pages to render from their owners and give the results back.

A renderer keeps nothing: what it was lent stays a row of its owner, which lends it again when no
result came in time. So a renderer, its browser or its machine may be killed at any moment. What a
page requests is found at the owners of the hosts, in batches; a body that the renderer has already
is not sent again.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from lycosa.base.model.rendered_page import RenderTask
from lycosa.base.reasons import Reason

MOST_RENDERS, MOST_CAPTURES = 64, 200
"""Bounds of a call: pages that are lent, and captures that are asked for."""

MOST_ORDERED = 100
"""URLs of an order. Each is read and parsed, in some milliseconds."""

MOST_ANSWER_BYTES = 16_000_000
"""Bytes of bodies in one answer; a capture beyond them is answered without its body."""


class TakeRenders(msgspec.Struct, frozen=True, tag=True):
    """Ask a worker, by any of its partitions, for at most ``most`` pages to render.

    ``renderer`` names the renderer of a machine and ``run`` its process: when a call comes from
    another process, what the one before had is due again at once. ``browser`` is its browser and
    version, ``at_once`` the most pages that it has in work, ``trouble`` why it last rendered
    nothing. Answered at once, and without a commit: what is lent lasts in memory only.
    """

    renderer: str
    most: int
    browser: str = ""
    run: str = ""
    at_once: int = 0
    trouble: str = ""


class LentRender(msgspec.Struct, frozen=True, gc=False):
    """One round of a page, lent for ``within_s`` seconds.

    ``partition`` and ``row`` (host8 and url8 of the page) name the row. ``lending`` is a number
    that changes each time when the row is lent: a result of an earlier lending is late.
    ``records`` has the record id that answered each canonical URL in earlier rounds, ``places``
    where these are (``FoundCapture.place``).
    """

    partition: int
    row: bytes
    lending: int
    task: RenderTask
    within_s: float
    records: dict[str, str] = {}
    places: dict[str, str] = {}


class RendersLent(msgspec.Struct, frozen=True, tag=True):
    """The pages. Without any, another is due in ``next_in_s`` (negative = unknown)."""

    renders: list[LentRender]
    next_in_s: float = -1.0


class AskedCapture(msgspec.Struct, frozen=True, gc=False):
    """A capture that a page needs: of a canonical URL of a host of the partition that is called.

    With ``record``, the capture of that record id, which an earlier round had, at that ``place``;
    else the newest with a body. ``also`` is looked up when nothing is stored of ``url``. ``digest``
    is the payload digest that the renderer expects and has: such a body is not sent.
    """

    url: str
    record: str = ""
    also: str = ""
    digest: str = ""
    place: str = ""


class FindCaptures(msgspec.Struct, frozen=True, tag=True):
    """Ask for stored captures, at most 200 of one partition; answered without a commit."""

    captures: list[AskedCapture]


class FoundCapture(msgspec.Struct, frozen=True, gc=False):
    """What is stored.

    ``record`` is the id of the response record, empty when there is none: then ``reason`` is
    ``NONE`` if it was not fetched yet, else why there is nothing. ``headers`` are as received,
    names in lower case. ``digest`` is that of the body as received. ``body`` is decoded (transfer
    and content encoding), and absent when the renderer has it, or, with ``is_cut``, because the
    answer had no room: asked again with fewer others. ``is_other`` says that ``also`` was found.
    ``place`` says where the record with the body is, for the owner, which may be another process
    when it is asked for. ``is_private``: it was fetched with credentials.
    """

    record: str = ""
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    digest: str = ""
    body: bytes = b""
    is_cut: bool = False
    is_other: bool = False
    reason: Reason = Reason.NONE
    place: str = ""
    is_private: bool = False


class CapturesFound(msgspec.Struct, frozen=True, tag=True):
    """What is stored, in the order of the question."""

    captures: list[FoundCapture]


class GiveRender(msgspec.Struct, frozen=True, tag=True):
    """The result of a page that was lent: answered when the commit that took it is in the log.

    ``result`` is a ``Rendered`` (``model.packed_render``). An empty one gives the page back: it was
    not rendered, is not to blame, and may be lent again at once. ``found_here`` counts the bodies
    that the renderer had already, ``found_there`` those that were sent to it. ``places`` are those
    of the captures that answered, by canonical URL, for the rounds that follow.
    """

    renderer: str
    row: bytes
    lending: int
    result: bytes
    found_here: int = 0
    found_there: int = 0
    places: dict[str, str] = {}


class OrderRenders(msgspec.Struct, frozen=True, tag=True):
    """An operator's order to render pages of one partition, also those that were rendered before.

    At most 100 URLs, as the caller wrote them. Answered by ``GivenVerdicts``: ``ACCEPTED``,
    ``WAITING`` (it waited already, and is among the first now), ``NOT_KNOWN``, or ``REJECTED`` with
    the reason.
    """

    call: str
    by: str
    urls: list[str]
    why: str = ""


class RenderVerdict(Enum):
    """What became of a result."""

    TAKEN = "taken"  # committed
    LATE = "late"  # the page was lent again, or its render has ended
    REFUSED = "refused"  # it cannot be read, or is too large; counts as a failed render


class RenderTaken(msgspec.Struct, frozen=True, tag=True):
    """What became of a result; ``reason`` explains a refusal."""

    verdict: RenderVerdict
    reason: str = ""


def place_text(segment: str, offset: int) -> str:
    """Where a record is, as ``FoundCapture.place`` has it."""
    return f"{segment} {offset}"


def read_place(text: str) -> tuple[str, int] | None:
    """Segment and offset of ``place_text``; ``None`` for any other text."""
    segment, _, offset = text.rpartition(" ")
    return (segment, int(offset)) if segment and offset.isdecimal() and len(offset) < 16 else None
