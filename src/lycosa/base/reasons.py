"""Every reason why a URL is not fetched, or was fetched and is not an ordinary page.

A reason is stored as its number and shown as its name, so numbers are never reused. Each has one
line of meaning, which ``lycosa explain`` prints, and a ``Cause`` that says who can change it.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class Cause(Enum):
    """The party that a reason points to."""

    OURS = "ours"  # the operator's own rules and limits
    THEIRS = "theirs"  # what the server said or sent
    NETWORK = "network"  # names, connections, TLS
    TIME = "time"  # something took too long

    @property
    def words(self) -> str:
        """The party as people say it: ``this crawl``, ``the site``."""
        return {"ours": "this crawl", "theirs": "the site"}.get(self.value, self.value)


class Reason(IntEnum):
    """A reason; the value is its number on disk."""

    NONE = 0

    # Pure rules, evaluated for each query (1-39).
    SCHEME = 1
    UNPARSABLE = 2
    OUT_OF_SCOPE = 3
    EXCLUDED = 4
    NOT_INCLUDED = 5
    TOO_DEEP = 6
    URL_TOO_LONG = 7
    PATH_TOO_DEEP = 8
    REPEATING_SEGMENTS = 9
    FAR_CALENDAR = 10
    SESSION_ID = 11
    TOO_MANY_PARAMETERS = 12
    NOFOLLOW = 13
    REQUISITE = 14
    USER_RULE = 15
    SITEMAP_FOREIGN = 16
    SITEMAP_LIMIT = 17
    LICENSE_LIMIT = 18
    RULE_FAILED = 19
    REQUISITE_ELSEWHERE = 20
    REQUISITE_LIMIT = 21
    WANT_ELSEWHERE = 22
    WANT_QUERY = 23
    OTHER_LANGUAGE = 24

    # Refusals that depend on state, stored with the URL (40-79).
    ROBOTS_DISALLOWED = 40
    HOST_PAGE_BUDGET = 41
    SITE_PAGE_BUDGET = 42
    HOST_BYTE_BUDGET = 43
    SITE_BYTE_BUDGET = 44
    DISCOVERY_RATE = 45
    ROBOTS_UNREACHABLE = 46
    HOST_RETIRED = 47
    TOO_MANY_REDIRECTS = 48
    HOST_TIME_BUDGET = 49
    SITE_HOST_BUDGET = 50
    ROBOTS_ELSEWHERE = 51
    ERRAND_LIMIT = 52
    RETIRED_BY_OPERATOR = 53
    NEAR_COPIES = 54
    LEARNED_PARAMETER = 55
    SPECULATIVE = 56
    SPECULATIVE_MISSES = 57
    WANT_LIMIT = 58

    # Failures of a request (80-139).
    DNS_NO_SUCH_NAME = 80
    DNS_FAILED = 81
    DNS_TIMEOUT = 82
    ADDRESS_FORBIDDEN = 83
    CONNECT_REFUSED = 84
    CONNECT_TIMEOUT = 85
    CONNECTION_LOST = 86
    TLS_FAILED = 87
    FIRST_BYTE_TIMEOUT = 88
    TOTAL_TIMEOUT = 89
    TOO_SLOW = 90
    MALFORMED_RESPONSE = 91
    HEADERS_TOO_LARGE = 92
    EMPTY_RESPONSE = 93
    HTTP_CLIENT_ERROR = 94
    HTTP_SERVER_ERROR = 95
    HTTP_TOO_MANY_REQUESTS = 96
    BAD_REDIRECT = 97
    CRASHED_WORKER = 98
    NETWORK_UNREACHABLE = 99
    INTERNAL = 100
    REQUEST_REFUSED = 101
    REQUEST_UNANSWERED = 102
    LEASE_EXPIRED = 103
    PAYMENT_REQUIRED = 104
    GONE = 105
    SOFT_GONE = 106
    UNASKED_NOT_MODIFIED = 107
    PARTIAL_ANSWER = 108
    PROXY_FAILED = 109

    # Fetched, with a remark (140-179).
    NOT_MODIFIED = 140
    DUPLICATE = 141
    NEAR_DUPLICATE = 142
    PARSE_KILLED = 143
    PARSE_TIMEOUT = 144
    DECODE_FAILED = 145
    DECODE_LIMIT = 146
    BODY_TRUNCATED = 147
    CONTENT_TYPE = 148
    REDIRECTED = 149
    PARSE_STALLED = 150
    EXTENSION_FAILED = 151
    TO_BE_CHECKED = 152
    PERHAPS_GONE = 153
    LIKE_MISSING = 154
    LOOKS_SCRIPTED = 155
    TYPE_REFUSED = 156
    RENDER_CROWDED_OUT = 157

    @property
    def meaning(self) -> str:
        """One line of text for users."""
        return _TABLE[self][1]

    @property
    def is_refusal(self) -> bool:
        """Whether a rule forbids the request; the robots.txt of the server has some of them."""
        return 0 < self < Reason.DNS_NO_SUCH_NAME

    @property
    def is_failure(self) -> bool:
        """Whether a request was made or tried, and failed."""
        return Reason.DNS_NO_SUCH_NAME <= self < Reason.NOT_MODIFIED

    @property
    def is_remark(self) -> bool:
        """Whether an answer was stored, with something to note about it."""
        return self >= Reason.NOT_MODIFIED

    @property
    def cause(self) -> Cause:
        """The party that can change it."""
        return _TABLE[self][0]

    @property
    def label(self) -> str:
        """The name in outputs: ``robots_disallowed``."""
        return self.name.lower()


_O, _T, _N, _C = Cause.OURS, Cause.THEIRS, Cause.NETWORK, Cause.TIME
_TABLE: dict[Reason, tuple[Cause, str]] = {
    Reason.NONE: (_O, "no reason"),
    Reason.SCHEME: (_O, "only http and https are crawled"),
    Reason.UNPARSABLE: (_T, "not a URL by the WHATWG URL standard"),
    Reason.OUT_OF_SCOPE: (_O, "outside the crawl's scope"),
    Reason.EXCLUDED: (_O, "matches an exclude pattern"),
    Reason.NOT_INCLUDED: (_O, "matches no include pattern"),
    Reason.TOO_DEEP: (_O, "more links away from a seed than max depth"),
    Reason.URL_TOO_LONG: (_O, "longer than the limit for a URL"),
    Reason.PATH_TOO_DEEP: (_O, "more path segments than the limit"),
    Reason.REPEATING_SEGMENTS: (_O, "the same path segments repeat, as in a link loop"),
    Reason.FAR_CALENDAR: (_O, "a calendar date far from today"),
    Reason.SESSION_ID: (_O, "carries a session id"),
    Reason.TOO_MANY_PARAMETERS: (_O, "more query parameters than the limit"),
    Reason.NOFOLLOW: (_T, "the page asks not to follow the link"),
    Reason.REQUISITE: (_O, "an image, script or style sheet; fetched only with --requisites"),
    Reason.USER_RULE: (_O, "refused by a rule of the crawl's own program"),
    Reason.SITEMAP_FOREIGN: (_T, "listed in a sitemap that is not valid for its host or folder"),
    Reason.SITEMAP_LIMIT: (_O, "listed in a sitemap beyond the limits on nesting, files and URLs"),
    Reason.RULE_FAILED: (_O, "a rule of the crawl's own program raised an exception; see the log"),
    Reason.LICENSE_LIMIT: (_O, "a licence beyond the limit on licences of one site"),
    Reason.REQUISITE_ELSEWHERE: (_O, "a requisite on a host that scope.requisites_from excludes"),
    Reason.REQUISITE_LIMIT: (_O, "a requisite beyond the limits on those of one page or host"),
    Reason.WANT_ELSEWHERE: (
        _O,
        "a script of a page asks another site for data; to render a page, only scripts, styles,"
        " fonts and images are fetched from other sites",
    ),
    Reason.WANT_QUERY: (
        _O,
        "needed to render a page of another site, with a query of more than 256 bytes",
    ),
    Reason.OTHER_LANGUAGE: (_O, "linked from a page in a language that scope.languages leaves out"),
    Reason.ROBOTS_DISALLOWED: (_T, "robots.txt disallows it"),
    Reason.HOST_PAGE_BUDGET: (_O, "the host is at its page budget"),
    Reason.SITE_PAGE_BUDGET: (_O, "the site is at its page budget"),
    Reason.HOST_BYTE_BUDGET: (_O, "the host is at its byte budget"),
    Reason.SITE_BYTE_BUDGET: (_O, "the site is at its byte budget"),
    Reason.DISCOVERY_RATE: (_O, "the host adds new URLs faster than the limit"),
    Reason.ROBOTS_UNREACHABLE: (_T, "robots.txt cannot be fetched, so the host waits"),
    Reason.HOST_RETIRED: (_O, "the host was retired after repeated failures"),
    Reason.TOO_MANY_REDIRECTS: (_T, "more redirects in a row than the limit"),
    Reason.HOST_TIME_BUDGET: (_O, "the host is at its time budget"),
    Reason.SITE_HOST_BUDGET: (_O, "the site is at its budget of visited hosts"),
    Reason.ROBOTS_ELSEWHERE: (
        _O,
        "robots.txt redirects to another URL, which is requested in its host's turn",
    ),
    Reason.RETIRED_BY_OPERATOR: (_O, "an operator retired the host"),
    Reason.NEAR_COPIES: (_O, "set back: pages with such URLs were near copies of others"),
    Reason.LEARNED_PARAMETER: (
        _O,
        "set back: it differs from a known URL in parameters that changed no content",
    ),
    Reason.SPECULATIVE: (
        _O,
        "found only as a text that looks like a URL, so it waits for one of the few turns of those",
    ),
    Reason.SPECULATIVE_MISSES: (
        _O,
        "found only as a text that looks like a URL, and ten such URLs in a row did not exist",
    ),
    Reason.WANT_LIMIT: (
        _O,
        "pages of one site needed more of this host in a day than render.site_wants, or too many"
        " pages wait for it",
    ),
    Reason.ERRAND_LIMIT: (_O, "too many hosts wait for an answer from the same host"),
    Reason.DNS_NO_SUCH_NAME: (_N, "the host name does not exist"),
    Reason.DNS_FAILED: (_N, "the name servers gave an error"),
    Reason.DNS_TIMEOUT: (_C, "the name servers did not answer"),
    Reason.ADDRESS_FORBIDDEN: (_O, "the address is private or special"),
    Reason.CONNECT_REFUSED: (_N, "the connection was refused"),
    Reason.CONNECT_TIMEOUT: (_C, "no connection within the limit"),
    Reason.CONNECTION_LOST: (_N, "the connection broke"),
    Reason.TLS_FAILED: (_N, "TLS failed or the certificate is not valid"),
    Reason.FIRST_BYTE_TIMEOUT: (_C, "no answer within the limit"),
    Reason.TOTAL_TIMEOUT: (_C, "the whole answer did not arrive within the limit"),
    Reason.TOO_SLOW: (_C, "slower than the minimum speed"),
    Reason.MALFORMED_RESPONSE: (_T, "the answer is not HTTP"),
    Reason.HEADERS_TOO_LARGE: (_T, "header lines beyond the limit"),
    Reason.EMPTY_RESPONSE: (_T, "the server closed without an answer"),
    Reason.HTTP_CLIENT_ERROR: (_T, "not found, or refused by the server (4xx)"),
    Reason.PAYMENT_REQUIRED: (_T, "the server asks for a payment (402), which is never made"),
    Reason.HTTP_SERVER_ERROR: (_T, "the server failed (5xx)"),
    Reason.HTTP_TOO_MANY_REQUESTS: (_T, "the server asks to slow down"),
    Reason.BAD_REDIRECT: (_T, "a redirect without a usable Location"),
    Reason.CRASHED_WORKER: (_O, "the worker died each time it was fetched"),
    Reason.NETWORK_UNREACHABLE: (_N, "no route to the address"),
    Reason.REQUEST_REFUSED: (
        _T,
        "the server refused the request unread, probably under load (HTTP/2)",
    ),
    Reason.REQUEST_UNANSWERED: (
        _N,
        "the server closed a reused connection instead of answering",
    ),
    Reason.LEASE_EXPIRED: (
        _O,
        "not sent: the worker could not commit, so it may have lost the shard",
    ),
    Reason.GONE: (_T, "it had content before, and the server says that it is gone (404 or 410)"),
    Reason.SOFT_GONE: (
        _T,
        "it had content before, and answers as paths do that do not exist at its host (soft 404)",
    ),
    Reason.UNASKED_NOT_MODIFIED: (
        _T,
        "a 304 for something else than the request named, so it is repeated without validators",
    ),
    Reason.PARTIAL_ANSWER: (_T, "a part of the body (206), which was not asked for"),
    Reason.PROXY_FAILED: (
        _O,
        "the proxy (requests.rules) could not be used, so the host waits and nothing counts"
        " against it",
    ),
    Reason.INTERNAL: (_O, "an error of the crawler; see the log"),
    Reason.NOT_MODIFIED: (_T, "not modified since the last fetch"),
    Reason.DUPLICATE: (_T, "the same body as an earlier capture"),
    Reason.NEAR_DUPLICATE: (_T, "nearly the same text as an earlier capture (stored as well)"),
    Reason.PARSE_KILLED: (_T, "the parser crashed or was killed at the document"),
    Reason.PARSE_TIMEOUT: (_C, "parsing took more processor time than the limit"),
    Reason.PARSE_STALLED: (
        _C,
        "the parser got too little processor time; the body is parsed again later",
    ),
    Reason.DECODE_FAILED: (_T, "the content encoding is broken"),
    Reason.DECODE_LIMIT: (_T, "decompresses beyond the limit"),
    Reason.BODY_TRUNCATED: (_O, "the body was cut at the limit"),
    Reason.CONTENT_TYPE: (_O, "stored and not parsed, such as an image or an archive"),
    Reason.TO_BE_CHECKED: (
        _O,
        "not modified by the word of the server, which is checked by a fetch without validators",
    ),
    Reason.PERHAPS_GONE: (
        _O,
        "it may be gone: a path that does not exist is requested, and then the page again",
    ),
    Reason.LIKE_MISSING: (_T, "answers as paths do that do not exist at its host"),
    Reason.LOOKS_SCRIPTED: (_T, "next to no content: it seems to be empty until its scripts run"),
    Reason.TYPE_REFUSED: (
        _O,
        "stored without its body, which has a media type that the crawl does not accept (--accept)",
    ),
    Reason.RENDER_CROWDED_OUT: (
        _O,
        "stays without what its scripts add: too many pages of higher priority wait to be rendered",
    ),
    Reason.REDIRECTED: (_T, "redirects to another URL"),
    Reason.EXTENSION_FAILED: (_O, "stored, but your code (--extension, rule or sink) failed at it"),
}

UNREMARKABLE = frozenset({Reason.NONE, Reason.LOOKS_SCRIPTED})
"""Reasons of a parse that say less of a capture than what other captures it is like."""
