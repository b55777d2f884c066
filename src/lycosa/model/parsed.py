"""What a document says: the parse stage's question and answer."""

from __future__ import annotations

import msgspec

from lycosa.model.discovered import LinkKind
from lycosa.reasons import Reason


class Document(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A response body to parse.

    ``url`` is where it came from, canonical. ``headers`` are the response's, in order, names in
    lower case. ``body`` is still content-encoded; a spooled one is read from the file ``spool``.
    ``is_sitemap`` says that it was asked for as one: then it may be as large as the protocol
    allows, whatever its type. ``is_cut`` says that the body is not whole. ``is_last_try``: what has
    no room in memory as a whole is parsed as far as it has.
    """

    url: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    spool: str = ""
    is_sitemap: bool = False
    is_cut: bool = False
    is_last_try: bool = False


class Link(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An outlink: canonical URL, its two hashes, kind, anchor text (at most 200 characters),
    rel=nofollow or kin.
    """

    url: str
    host8: bytes
    url8: bytes
    kind: LinkKind
    anchor: str = ""
    nofollow: bool = False


class Directives(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Meta robots and X-Robots-Tag for our product token, merged (the strictest wins)."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False


class Parsed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was found. ``reason`` is ``NONE``, or why there is little in it (killed, timed out,
    decoding, not HTML).

    ``media_type`` is the sniffed essence (``text/html``); ``decoded_bytes`` the size after content
    decoding; ``simhash`` the 64-bit fingerprint of the visible text (0 when there is too little of
    it); ``language`` an ISO 639-1 code or empty; ``refused_links`` counts raw links that are not
    URLs we can crawl, by reason; ``elapsed_s`` is CPU time. ``canonical`` is the page's
    rel=canonical target in canonical form, or empty. A sitemap or feed gives ``hints``: by
    canonical URL, last modification (seconds since 1970, 0 = unknown) and priority in [0, 1] (-1 =
    none), and ``changes``: seconds between changes. ``is_sitemap_index``: its links of kind
    ``SITEMAP_FILE`` are sitemaps; ``is_sitemap``: they, or those of kind ``SITEMAP``, are what it
    lists. ``is_cut``: only the beginning of the content was parsed, because the whole is beyond a
    limit (``reason`` says which). ``more`` is used only on the way from the parse child
    (``parse.answer_parts``).
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


class ParserHealth(msgspec.Struct, frozen=True, gc=False):
    """How the parser is. ``waiting`` documents have not reached it yet.

    ``away_s`` is how long it could not be started by now (0 = it can), ``away_why`` what the system
    says, ``away_total_s`` how long in all since the start of the worker. ``deaths`` counts children
    that ended at a document or were too slow with it, ``tried_again`` the documents that were
    therefore tried once more.
    """

    waiting: int = 0
    away_s: float = 0.0
    away_why: str = ""
    away_total_s: float = 0.0
    deaths: int = 0
    tried_again: int = 0
