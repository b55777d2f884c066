"""What must be on record of each attack: the verdict of ``lycosa explain`` and the reasons beside
it.

Where time decides, either of two limits may be the first; the short form has shorter ones.
"""

from __future__ import annotations

# The front pages of hosts differ in one word: near duplicates, where their fingerprints happen to
# lie close enough.
_FETCHED = ("fetched", "duplicate", "duplicate duplicate", "near_duplicate")
_BOMB = ("fetched decode_limit",)
_BROKEN = ("fetched decode_failed",)
_CUT = ("fetched body_truncated",)
_NOT_HTTP = ("failed malformed_response",)
_TOO_LARGE = ("failed headers_too_large",)
_LOST = ("failed connection_lost",)
_SLOW = ("failed too_slow", "fetched total_timeout", "failed total_timeout")
_FORBIDDEN = ("retired address_forbidden",)
_NO_NAME = ("retired dns_failed", "retired dns_timeout")
_BAD_TLS = ("queued robots_unreachable tls_failed",)
_NO_TLS = ("queued robots_unreachable connect_timeout", "queued robots_unreachable tls_failed")

_BY_NAME: dict[str, tuple[str, ...]] = {
    "gzip-of-empty-members": _BROKEN,
    "zstd-window-of-2-gb": _BROKEN,
    "declares-10-gb": _CUT,
    "declares-10-gb-and-stops": _SLOW,
    "body-endless": _CUT,
    "chunks-endless": _CUT,
    "chunks-of-one-byte": _CUT,
    "body-one-byte-a-second": _SLOW,
    "headers-one-byte-a-second": _SLOW,
    "status-line-one-byte-a-second": (*_SLOW, "failed first_byte_timeout"),
    "headers-endless": _TOO_LARGE,
    "headers-100000": _TOO_LARGE,
    "header-of-10-mb": _TOO_LARGE,
    "header-names-of-200-kb": _TOO_LARGE,
    "interim-endless": _TOO_LARGE,
    "switches-protocols": (*_CUT, *_SLOW, "failed http_client_error", "failed malformed_response"),
    "length-beyond-the-body": _LOST,
    "length-below-zero": _NOT_HTTP,
    "length-overflows": _LOST,
    "length-differs": _NOT_HTTP,
    "length-is-a-word": _NOT_HTTP,
    "length-signed": _NOT_HTTP,
    "chunk-size-overflows": _NOT_HTTP,
    "chunk-size-huge": _CUT,
    "chunk-size-negative": _NOT_HTTP,
    "chunk-extension-endless": _SLOW,
    "trailers-endless": _TOO_LARGE,
    "body-of-304": _NOT_HTTP,
    "status-999": ("failed http_server_error",),
    "status-0": _NOT_HTTP,
    "status-000": _NOT_HTTP,
    "status-negative": _NOT_HTTP,
    "status-of-four-digits": _NOT_HTTP,
    "http-3.0": _NOT_HTTP,
    "http-0.9": _NOT_HTTP,
    "headers-with-nul": _NOT_HTTP,
    "location-with-control-characters": ("redirected",),
    "location-with-nul": _NOT_HTTP,
    "location-not-utf-8": ("redirected",),
    "location-of-200-kb": _TOO_LARGE,
    "redirects-to-itself": ("redirected",),
    "redirects-over-hosts": ("redirected",),
    "redirects-for-ever": ("failed too_many_redirects",),
    "links-a-million": _BOMB,
    "links-to-a-million-hosts": _BOMB,
    "robots-tags-50000": _TOO_LARGE,
    "link-header-of-200-kb": _TOO_LARGE,
    # Its first 500 KiB say nothing against the front page: what disallows it stands behind them
    # (RFC 9309 section 2.5).
    "robots-of-600-kib": _FETCHED,
    # A line is read up to 16 KB, as Google's matcher does; what is left of this one disallows
    # everything.
    "robots-stars": ("refused_by_robots robots_disallowed",),
    "sitemap-quadratic-entities": ("fetched content_type", "fetched"),
    "sitemap-of-60-mb": _BOMB,
    "sitemap-million-urls": _BOMB,
    # More encodings than are undone; that the rest is a bomb too is a further remark.
    "bomb-hundred-encodings": ("fetched decode_failed",),
    "sitemap-bomb": _BOMB,
    "sitemap-endless": _CUT,
    # by what its robots.txt or its page was to be fetched
    "dns-changes": (
        *_FORBIDDEN,
        "failed address_forbidden",
    ),
    # Only the first address is asked; which one that is, is the resolver's choice.
    "dns-both": ("failed http_client_error", *_FORBIDDEN),
    "dns-private": _FORBIDDEN,
    "dns-silent": _NO_NAME,
    "dns-alias-loop": ("retired dns_no_such_name", *_NO_NAME),
    "dns-garbage": _NO_NAME,
    # The name server is asked by us alone, so who else it answers for is its word; the address is
    # judged all the same.
    "dns-wrong-question": (*_NO_NAME, "failed http_client_error"),
    "dns-refuses": _NO_NAME,
    "tls-no-tls": _NO_TLS,
    "tls-silent": _NO_TLS,
    "tls-good": _FETCHED,
}
_BY_KIND = {"bomb-": _BOMB, "tls-": _BAD_TLS, "address ": _FORBIDDEN}


def expected(name: str) -> tuple[str, ...]:
    """What may be on record of the attack. What is not named is a page like others, whatever it
    costs.
    """
    by_kind = next(
        (records for kind, records in _BY_KIND.items() if name.startswith(kind)), _FETCHED
    )
    return _BY_NAME.get(name, by_kind)
