"""What a renderer is given, what it asks of the archive, and what it returns.

A renderer runs the scripts of a stored page in a browser that opens no connection: each request is
answered from the archive or fails at once. What was not there is wanted, the crawl fetches it like
any URL, and the page is rendered again (``ports.Renderer``, ``ports.Archive``).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from lycosa.base.model.capture import Want
from lycosa.base.reasons import Reason


class RenderEnd(StrEnum):
    """How a round of a page ended."""

    QUIET = "quiet"
    """No request and no change of the document for ``quiet_s``."""
    BUSY = "busy"
    """It was never quiet; the document is as it was at the time limit."""
    NO_PAGE = "no_page"
    """The page itself is not in the archive, or is no document that a browser shows."""
    REFUSED = "refused"
    """The URL is not one of http or https."""
    HUNG = "hung"
    """Its scripts did not let the document be read within the time limit."""
    CRASHED = "crashed"
    """The browser, or the process of the page, ended."""
    MEMORY = "memory"
    """The browser used more than ``memory_bytes``, and was killed."""
    TOO_LARGE = "too_large"
    """The document is longer than ``document_bytes``."""
    NO_BROWSER = "no_browser"
    """No browser could be started; ``detail`` says why. The page is not to blame."""

    @property
    def has_document(self) -> bool:
        """Whether there is a rendered document."""
        return self in (RenderEnd.QUIET, RenderEnd.BUSY)


class RenderBounds(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Bounds of one round; times in seconds, sizes in bytes.

    ``round_s`` is the time in which a page may become quiet, ``whole_s`` that of the whole round,
    after which the browser is killed. ``wants`` are those listed, ``foreign_wants`` those of them
    on other sites than the page's. ``lines`` are those of the console and of errors, each.
    """

    quiet_s: float = 0.3
    round_s: float = 8.0
    whole_s: float = 20.0
    processor_s: float = 40.0
    memory_bytes: int = 1_500_000_000
    requests: int = 10_000
    wants: int = 200
    foreign_wants: int = 50
    body_bytes: int = 200_000_000  # of all answers together
    document_bytes: int = 20_000_000
    screenshot_bytes: int = 10_000_000
    lines: int = 50


class RenderTask(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One round of one page.

    ``url`` is canonical. ``captured`` is when the page was fetched (wall time, seconds): scripts
    see midnight UTC of that day. ``site`` is the page's registrable domain. ``round`` counts from
    1. The page itself is asked of the archive too, with the destination ``document``. A page that
    ``is_scrolled`` is scrolled to its end once, for what it loads only then.
    """

    url: str
    captured: float
    site: str = ""
    round: int = 1
    has_screenshot: bool = False
    bounds: RenderBounds = RenderBounds()
    is_scrolled: bool = True


class ArchiveQuery(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A GET request of a page for the archive.

    ``url`` is as the browser asks, without a fragment; the archive makes it canonical.
    ``destination`` is that of the Fetch standard (``document``, ``iframe``, ``script``, ``style``,
    ``font``, ``image``, ``media``, ``worker``, empty for data). ``also`` is the URL without the
    parameters that only circumvent caches, if it has any: it is looked up if ``url`` is missing,
    and is the one that is wanted.
    """

    url: str
    destination: str = ""
    also: str = ""


class StoredAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stored response that answers a request.

    ``record`` is the id of its WARC record. ``headers`` are in order, names in lower case.
    ``body`` is without content encoding. A redirect is answered as one (``location``): the browser
    asks for its target. ``is_other`` says that ``also`` was found, not ``url``.
    """

    record: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_other: bool = False


class MissingAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Nothing is stored.

    ``reason`` is ``NONE`` when it was not fetched yet, so that it is wanted. Otherwise it says why
    there will be nothing in this render.
    """

    reason: Reason = Reason.NONE


class PageRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a request of a page.

    ``record`` is the id of the record that answered it. Without one, ``refusal`` is ``wanted``, the
    label of the archive's reason, or why a browser that opens no connection cannot send it
    (``method``, ``scheme``, ``bounds``, ``navigation``). ``status`` and ``media_type`` are those of
    the stored response.
    """

    url: str
    destination: str = ""
    record: str = ""
    refusal: str = ""
    status: int = 0
    media_type: str = ""


class FrameDocument(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The document of a frame of the page's own origin."""

    url: str
    html: str


class Rendered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a round gave.

    ``html`` is the document after its scripts ran, with declarative shadow roots; empty unless
    ``end.has_document``. ``url`` is where the page says that it is (scripts change it). ``wants``
    are what the archive misses, each once; ``more_wants`` counts those beyond the bounds.
    ``requests`` has each requested URL once, in the order of the first. ``refused`` counts what the
    page tried and a renderer does not do (``popup``, ``dialog``, ``download``, ``websocket``, ...),
    ``changed`` what was changed in answers (``framing``, ``cors``, ``preflight``, ``jsonp``...).
    ``console`` are lines of console.error, ``errors`` exceptions that no script caught.
    ``elapsed_s`` is wall time, ``processor_s`` that of the browser's processes, ``memory_bytes``
    the most that they had together. ``fonts`` is a digest of the fonts of the machine. The same
    stored records give the same ``html`` on machines with equal ``browser`` and ``fonts``.
    ``screenshot`` is a PNG.
    """

    end: RenderEnd
    detail: str = ""
    url: str = ""
    title: str = ""
    html: str = ""
    frames: tuple[FrameDocument, ...] = ()
    wants: tuple[Want, ...] = ()
    more_wants: int = 0
    requests: tuple[PageRequest, ...] = ()
    refused: dict[str, int] = {}
    changed: dict[str, int] = {}
    console: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    processor_s: float = 0.0
    memory_bytes: int = 0
    browser: str = ""
    fonts: str = ""
    screenshot: bytes = b""
