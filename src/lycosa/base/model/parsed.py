"""The input and the result of the parse stage."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from lycosa.base.listing_kind import ListingKind
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.linked_page import LinkedPage
from lycosa.base.model.page_content import PageContent
from lycosa.base.model.remark import Remark
from lycosa.base.preferences.preference_model import Statement
from lycosa.base.reasons import Reason


class ParseInput(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A response body to parse.

    ``url`` is its canonical URL. ``headers`` are the response's, in order, names in lower case.
    ``body`` is still content-encoded; a spooled one is read from the file ``spool``. ``is_sitemap``
    says that it was requested as a sitemap; then it may be as large as the protocol allows,
    whatever its type. ``is_cut`` says that the body is incomplete. With ``is_last_try``, a document
    that does not fit in memory is parsed as far as it fits. ``tries`` counts earlier parses of the
    stored body that failed: each doubles the wall time that the parser has for it.
    """

    url: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    spool: str = ""
    is_sitemap: bool = False
    is_cut: bool = False
    is_last_try: bool = False
    tries: int = 0


class Link(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An outlink.

    It has the canonical URL, its two hashes, kind, anchor text (at most 200 characters), and
    whether it has rel=nofollow or a similar relation.
    """

    url: str
    host8: bytes
    url8: bytes
    kind: LinkKind
    anchor: str = ""
    nofollow: bool = False

    def __repr__(self) -> str:
        """Without the hashes: users see links at a prompt."""
        nofollow = ", nofollow" if self.nofollow else ""
        return f"<Link {self.url} {self.kind.name.lower()} {self.anchor!r}{nofollow}>"


class ScriptNeed(IntEnum):
    """Whether a page seems to need its scripts to show what it is for (``scripted_pages``)."""

    NONE = 0
    PERHAPS = 1  # a sign that pages without need have as well
    LIKELY = 2


class Directives(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Meta robots and X-Robots-Tag for our product token, merged (the strictest applies)."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False


class Parsed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was found in a document.

    ``reason`` is ``NONE``, or why there is little (killed, timed out, decoding, not HTML).
    ``media_type`` is the detected type (``text/html``). ``decoded_bytes`` is the size after content
    decoding. ``simhash`` is the 64-bit fingerprint of the visible text (0 = too little text).
    ``language`` is an ISO 639-1 code or empty. ``refused_links`` counts raw links that are not URLs
    we can crawl, by reason. ``elapsed_s`` is CPU time. ``canonical`` is the page's rel=canonical
    target in canonical form, or empty.

    A sitemap or feed gives ``hints``: by canonical URL, last modification (seconds since 1970, 0 =
    unknown) and priority in [0, 1] (-1 = none); and ``changes``: seconds between changes.
    ``is_sitemap_index``: its links of kind ``SITEMAP_FILE`` are sitemaps. ``is_sitemap``: it lists
    these, or its links of kind ``SITEMAP``.

    ``is_cut``: only the beginning of the content was parsed, because the whole exceeds a limit
    (``reason`` says which). ``more`` is used only on the way from the parse child
    (``parse.answer_parts``). ``remarks`` are ``reason`` with ``detail``, and all that was noted
    after it; empty when there is one at most. ``statements`` are
    what the markup says about the use of the page. ``content`` is its main content with metadata,
    if that was asked for. ``listing`` is the kind of sitemap or feed that it is. ``content_digest``
    is the beginning of the SHA-1 of a content without text that came with a content encoding, after
    decoding: the same content without one has it as its payload digest. ``script_need`` is judged
    when pages may be rendered. ``linked`` is the only content for a check of links
    (``ParserConfig.reads_places``).
    """

    reason: Reason = Reason.NONE
    detail: str = ""
    media_type: str = ""
    charset: str = ""
    title: str = ""
    description: str = ""
    canonical: str = ""
    language: str = ""
    text: str = ""
    simhash: int = 0
    directives: Directives = Directives()
    links: list[Link] = []
    refused_links: dict[int, int] = {}
    decoded_bytes: int = 0
    elapsed_s: float = 0.0
    hints: dict[str, tuple[int, float]] = {}
    is_sitemap_index: bool = False
    changes: dict[str, int] = {}
    is_sitemap: bool = False
    is_cut: bool = False
    more: list[bytes] = []
    remarks: tuple[Remark, ...] = ()
    statements: tuple[Statement, ...] = ()
    content: PageContent | None = None
    listing: ListingKind = ListingKind.NONE
    content_digest: bytes = b""
    script_need: ScriptNeed = ScriptNeed.NONE
    linked: LinkedPage | None = None


class ParserHealth(msgspec.Struct, frozen=True, gc=False):
    """The state of the parser.

    ``waiting`` documents have not reached it yet. ``away_s`` is how long it could not be started (0
    = it can), ``away_why`` the system's error, ``away_total_s`` the total time since the start of
    the worker. ``deaths`` counts children that ended at a document or were too slow with it,
    ``tried_again`` the documents that were retried because of that.
    """

    waiting: int = 0
    away_s: float = 0.0
    away_why: str = ""
    away_total_s: float = 0.0
    deaths: int = 0
    tried_again: int = 0
