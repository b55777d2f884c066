"""The table of named misbehaviours: everything below ``/bad/`` on every synthetic host.

A name is a path (``/bad/redirect-loop``) and a key of ``WebPlan.misbehaviours``. The table gives
the result for a correct crawler: the kind of outcome, and the reason of the fetch at a first
request under default limits.
"""

from __future__ import annotations

from enum import Enum
from urllib.parse import urljoin

from lycosa.base.reasons import Reason
from lycosa.synthetic.bad_answers import HANDLERS, HTML, LINKS, MisbehaviourRequest, html_document
from lycosa.synthetic.bad_wire import BEHAVIOURS
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_pages import Sketch


class ExpectedOutcome(Enum):
    """The result of a misbehaviour, after retries, for a correct crawler."""

    PAGE = "a page: status 200 and HTML that arrives"
    REDIRECT = "redirects"
    ERROR = "an error status"
    FAILURE = "no whole answer"
    OTHER = "an answer that is no HTML page"
    CHOICE = "crawlers may differ"
    ENDLESS = "pages without end"


_P, _R, _E, _F, _O, _C, _N = ExpectedOutcome
_Row = tuple[ExpectedOutcome, Reason, str]
_OK = Reason.NONE


class Misbehaviour(Enum):
    """A misbehaviour; the value is its path below ``/bad/``."""

    REDIRECT_LOOP = "redirect-loop"
    REDIRECT_CYCLE = "redirect-cycle"
    REDIRECT_CHAIN = "redirect-chain"
    REDIRECT_ENDLESS = "redirect-endless"
    REDIRECT_NO_LOCATION = "redirect-no-location"
    REDIRECT_BAD_LOCATION = "redirect-bad-location"
    REDIRECT_OTHER_SCHEME = "redirect-other-scheme"
    REDIRECT_PRIVATE = "redirect-private"
    REDIRECT_RELATIVE = "redirect-relative"
    TOO_MANY_RETRY_AFTER = "429-retry-after"
    TOO_MANY_DATE = "429-date"
    TOO_MANY_BARE = "429-bare"
    TOO_MANY_NEGATIVE = "429-negative"
    TOO_MANY_ALWAYS = "429-always"
    UNAVAILABLE_RETRY_AFTER = "503-retry-after"
    UNAVAILABLE_ALWAYS = "503-always"
    ERROR_THEN_FINE = "500-then-fine"
    ERROR_ALWAYS = "500-always"
    UNAUTHORIZED = "401-always"
    STATUS_999 = "status-999"
    STATUS_204 = "status-204"
    SOFT_404 = "soft-404"
    GZIP_TRUNCATED = "gzip-truncated"
    GZIP_BROKEN = "gzip-broken"
    GZIP_TWICE = "gzip-twice"
    GZIP_TRAILING = "gzip-trailing"
    GZIP_MISLABELLED = "gzip-mislabelled"
    GZIP_UNLABELLED = "gzip-unlabelled"
    GZIP_BOMB = "gzip-bomb"
    BR = "br"
    BR_BOMB = "br-bomb"
    ZSTD = "zstd"
    ZSTD_BOMB = "zstd-bomb"
    DEFLATE = "deflate"
    DEFLATE_RAW = "deflate-raw"
    ENCODING_UNKNOWN = "encoding-unknown"
    CHARSET_WRONG = "charset-wrong"
    CHARSET_CONFLICT = "charset-conflict"
    CHARSET_UNKNOWN = "charset-unknown"
    UTF_16 = "utf-16"
    UTF_16_DECLARED = "utf-16-declared"
    BIG5 = "big5"
    SHIFT_JIS = "shift-jis"
    UTF_8_BROKEN = "utf-8-broken"
    EMPTY_BODY = "empty-body"
    NO_CONTENT_TYPE = "no-content-type"
    BINARY_AS_HTML = "binary-as-html"
    HTML_AS_TEXT = "html-as-text"
    NUL_BYTES = "nul-bytes"
    DEEP_NESTING = "deep-nesting"
    MANY_LINKS = "many-links"
    MANY_ATTRIBUTES = "many-attributes"
    PARSER_BOMB = "parser-bomb"
    HUGE_TITLE = "huge-title"
    UNCLOSED_TAG = "unclosed-tag"
    COMMENTED_LINK = "commented-link"
    META_REFRESH = "meta-refresh"
    META_REFRESH_LOOP = "meta-refresh-loop"
    BASE_HREF = "base-href"
    NOINDEX_HEADER = "noindex-header"
    NOFOLLOW_LINK = "nofollow-link"
    CALENDAR = "calendar"
    GROWING_PATH = "growing-path"
    REPEATING_PATH = "repeating-path"
    SESSION_IDS = "session-ids"
    QUERY_PERMUTATIONS = "query-permutations"
    DUPLICATES = "duplicates"
    SITEMAP_INDEX = "sitemap-index"
    LEAF = "leaf"
    SLOW_DRIP = "slow-drip"
    SLOW_HEADERS = "slow-headers"
    NEVER_ANSWERS = "never-answers"
    STALLS_IN_BODY = "stalls-in-body"
    ENDLESS_BODY = "endless-body"
    ENDLESS_CHUNKS = "endless-chunks"
    ENDLESS_HEADERS = "endless-headers"
    HUGE_HEADER_LINE = "huge-header-line"
    CLOSES_AT_ONCE = "closes-at-once"
    RESETS_AT_ONCE = "resets-at-once"
    CLOSES_IN_HEADERS = "closes-in-headers"
    CLOSES_IN_BODY = "closes-in-body"
    RESETS_IN_BODY = "resets-in-body"
    LENGTH_SHORT = "length-short"
    LENGTH_LONG = "length-long"
    LENGTH_NEGATIVE = "length-negative"
    LENGTH_MISSING = "length-missing"
    CHUNK_GARBLED = "chunk-garbled"
    CHUNK_UNFINISHED = "chunk-unfinished"
    LENGTH_AND_CHUNKS = "length-and-chunks"
    NOT_HTTP = "not-http"
    HEADERLESS = "headerless"
    STATUS_GARBLED = "status-garbled"
    STATUS_WITHOUT_PHRASE = "status-without-phrase"
    OLD_PROTOCOL = "old-protocol"
    BARE_LINE_FEEDS = "bare-line-feeds"
    FOLDED_HEADER = "folded-header"
    HEADER_WITHOUT_COLON = "header-without-colon"
    EARLY_HINTS = "early-hints"

    @property
    def outcome(self) -> ExpectedOutcome:
        """The result for a correct crawler."""
        return TABLE[self.value][0]

    @property
    def reason(self) -> Reason:
        """How the fetch of a first request ends, under default limits."""
        return TABLE[self.value][1]

    @property
    def meaning(self) -> str:
        """One line for messages."""
        return TABLE[self.value][2]


TABLE: dict[str, _Row] = {
    "redirect-loop": (_R, _OK, "redirects to itself"),
    "redirect-cycle": (_R, _OK, "two URLs that redirect to each other"),
    "redirect-chain": (
        _R,
        _OK,
        "/bad/redirect-chain/N: N redirects, then a page; N is 3 when left out",
    ),
    "redirect-endless": (_R, _OK, "each redirect goes to a new URL"),
    "redirect-no-location": (_E, _OK, "302 without Location"),
    "redirect-bad-location": (_E, _OK, "302 to something that is no URL"),
    "redirect-other-scheme": (_E, _OK, "302 to an ftp URL"),
    "redirect-private": (_E, _OK, "302 to a link-local metadata address"),
    "redirect-relative": (_R, _OK, "302 with a relative Location"),
    "429-retry-after": (_P, _OK, "429 with Retry-After: 120 at first, then a page"),
    "429-date": (_P, _OK, "429 with Retry-After as a date 90 s ahead at first, then a page"),
    "429-bare": (_P, _OK, "429 without Retry-After at first, then a page"),
    "429-negative": (_P, _OK, "429 with Retry-After: -5 at first, then a page"),
    "429-always": (_E, _OK, "429 at every request"),
    "503-retry-after": (_P, _OK, "503 with Retry-After: 60 at first, then a page"),
    "503-always": (_E, _OK, "503 at every request"),
    "500-then-fine": (_P, _OK, "500 at first, then a page"),
    "500-always": (_E, _OK, "500 at every request"),
    "401-always": (_E, _OK, "401, as behind a login"),
    "status-999": (_E, _OK, "a status code that does not exist"),
    "status-204": (_O, _OK, "204, no body"),
    "soft-404": (_P, _OK, "status 200 with a page that says not found"),
    "gzip-truncated": (_C, _OK, "gzip that stops in the middle; the HTTP message is whole"),
    "gzip-broken": (_C, _OK, "gzip with spoilt bytes"),
    "gzip-twice": (_C, _OK, "gzip within gzip, labelled once"),
    "gzip-trailing": (_C, _OK, "gzip followed by zero bytes"),
    "gzip-mislabelled": (_C, _OK, "says gzip and is plain HTML"),
    "gzip-unlabelled": (_C, _OK, "gzip without Content-Encoding"),
    "gzip-bomb": (_C, _OK, "40 KB of gzip, 40 MB of spaces"),
    "br": (_P, _OK, "Brotli, asked for or not"),
    "br-bomb": (_C, _OK, "a few bytes of Brotli, 40 MB of spaces"),
    "zstd": (_P, _OK, "Zstandard, asked for or not"),
    "zstd-bomb": (_C, _OK, "a few KB of Zstandard, 40 MB of spaces"),
    "deflate": (_P, _OK, "deflate in its zlib form"),
    "deflate-raw": (_P, _OK, "deflate without the zlib wrapper, as some servers send"),
    "encoding-unknown": (_C, _OK, "a Content-Encoding that does not exist"),
    "charset-wrong": (_P, _OK, "says UTF-8, is Latin-1"),
    "charset-conflict": (_P, _OK, "the header says Latin-1, the document UTF-8 and is right"),
    "charset-unknown": (_P, _OK, "a charset that does not exist"),
    "utf-16": (_P, _OK, "UTF-16 with a byte order mark and no other sign"),
    "utf-16-declared": (_P, _OK, "UTF-16 declared in the header"),
    "big5": (_P, _OK, "Big5 declared in the document"),
    "shift-jis": (_P, _OK, "Shift_JIS declared nowhere"),
    "utf-8-broken": (_P, _OK, "UTF-8 with impossible bytes"),
    "empty-body": (_P, _OK, "status 200, HTML of no bytes"),
    "no-content-type": (_C, _OK, "HTML without Content-Type"),
    "binary-as-html": (_P, _OK, "20 KB of noise called HTML"),
    "html-as-text": (_O, _OK, "HTML called text/plain"),
    "nul-bytes": (_P, _OK, "HTML with NUL bytes"),
    "deep-nesting": (_P, _OK, "10,000 nested elements and a link in the innermost"),
    "many-links": (_P, _OK, "2,000 links on one page"),
    "many-attributes": (_P, _OK, "5,000 attributes on one element"),
    "parser-bomb": (_P, _OK, "40 KB of misnested formatting, quadratic in some parsers"),
    "huge-title": (_P, _OK, "a title of 400 KB"),
    "unclosed-tag": (_P, _OK, "a quote that is never closed"),
    "commented-link": (_P, _OK, "one link in a comment, one outside"),
    "meta-refresh": (_P, _OK, "meta refresh to another page"),
    "meta-refresh-loop": (_P, _OK, "meta refresh to itself"),
    "base-href": (_P, _OK, "a relative link below a base element"),
    "noindex-header": (_P, _OK, "X-Robots-Tag: noindex, nofollow"),
    "nofollow-link": (_P, _OK, "a link with rel=nofollow"),
    "calendar": (_N, _OK, "a calendar without an end in either direction"),
    "growing-path": (_N, _OK, "every page links to two deeper ones"),
    "repeating-path": (_N, _OK, "the same path segments again and again"),
    "session-ids": (_N, _OK, "a new session id in every link"),
    "query-permutations": (_N, _OK, "the same parameters in every order"),
    "duplicates": (_N, _OK, "endless URLs, one text"),
    "sitemap-index": (_N, _OK, "a sitemap index of sitemap indexes"),
    "leaf": (_P, _OK, "a plain page, to be linked to"),
    "slow-drip": (_F, Reason.TOO_SLOW, "one byte of body a second"),
    "slow-headers": (_F, Reason.FIRST_BYTE_TIMEOUT, "one byte of header every two seconds"),
    "never-answers": (_F, Reason.FIRST_BYTE_TIMEOUT, "takes the request and is silent"),
    "stalls-in-body": (_F, Reason.TOO_SLOW, "half a body, then silence"),
    "endless-body": (_C, Reason.BODY_TRUNCATED, "a body without length that never ends"),
    "endless-chunks": (_C, Reason.BODY_TRUNCATED, "a chunked body that never ends"),
    "endless-headers": (_F, Reason.HEADERS_TOO_LARGE, "header lines without end"),
    "huge-header-line": (_F, Reason.HEADERS_TOO_LARGE, "one header line of 4 MB"),
    "closes-at-once": (_F, Reason.EMPTY_RESPONSE, "closes without a byte"),
    "resets-at-once": (_F, Reason.CONNECTION_LOST, "resets without a byte"),
    "closes-in-headers": (_F, Reason.MALFORMED_RESPONSE, "closes in the middle of the headers"),
    "closes-in-body": (_F, Reason.CONNECTION_LOST, "closes in the middle of the body"),
    "resets-in-body": (_F, Reason.CONNECTION_LOST, "resets in the middle of the body"),
    "length-short": (_P, _OK, "Content-Length is half of what is sent"),
    "length-long": (_F, Reason.CONNECTION_LOST, "Content-Length is twice what is sent"),
    "length-negative": (_F, Reason.MALFORMED_RESPONSE, "Content-Length: -1"),
    "length-missing": (_P, _OK, "no Content-Length; the body ends with the connection"),
    "chunk-garbled": (_F, Reason.MALFORMED_RESPONSE, "a chunk size that is no number"),
    "chunk-unfinished": (_F, Reason.CONNECTION_LOST, "closes before the last chunk"),
    "length-and-chunks": (
        _P,
        _OK,
        "Content-Length and chunked at once; chunked counts (RFC 9112 6.3)",
    ),
    "not-http": (_F, Reason.MALFORMED_RESPONSE, "a mail server's greeting"),
    "headerless": (_F, Reason.MALFORMED_RESPONSE, "HTML without status line, as HTTP/0.9"),
    "status-garbled": (_F, Reason.MALFORMED_RESPONSE, "a status code with letters"),
    "status-without-phrase": (_P, _OK, "a status line that ends after the code"),
    "old-protocol": (_P, _OK, "HTTP/1.0"),
    "bare-line-feeds": (_P, _OK, "header lines that end in LF alone"),
    "folded-header": (_P, _OK, "a header continued on a second line"),
    "header-without-colon": (_F, Reason.MALFORMED_RESPONSE, "a header line without colon"),
    "early-hints": (_P, _OK, "103 Early Hints before the answer"),
}


def _split(path: str) -> tuple[str, str]:
    name, _, arg = path.removeprefix("/bad/").partition("/")
    return name, arg


def misbehaviour_answer(path: str, visit: MisbehaviourRequest) -> Response | None:
    """The response below ``/bad/``; ``None`` for an unknown misbehaviour.

    ``visit.arg`` is set here.
    """
    name, arg = _split(path)
    if name in BEHAVIOURS:
        return Response(200, [HTML], html_document(title=name), behaviour=name)
    handler = HANDLERS.get(name)
    return (
        handler(MisbehaviourRequest(visit.origin, arg, visit.query, visit.earlier, visit.at))
        if handler
        else None
    )


def sketch(path: str, origin: str) -> Sketch:
    """The content that a correct crawler finds at a path below ``/bad/``, after retries."""
    name, arg = _split(path)
    if name not in TABLE:
        return Sketch(status=404)
    found = misbehaviour_answer(path, MisbehaviourRequest(origin, earlier=1))
    assert found is not None
    location = (
        dict(found.headers).get("Location", "")
        if TABLE[name][0] is ExpectedOutcome.REDIRECT
        else ""
    )
    links = LINKS[name](MisbehaviourRequest(origin, arg)) if name in LINKS else ()
    is_page = TABLE[name][0] is ExpectedOutcome.PAGE or (
        name == "redirect-chain" and found.status == 200
    )
    return Sketch(
        status=found.status,
        links=links,
        location=urljoin(origin + path, location) if location else "",
        html=is_page,
        noindex=name == "noindex-header",
        nofollow=name == "noindex-header",
        bad=name,
    )
