"""Documents that cost a parser seconds, gigabytes or its stack.

HTML, robots.txt, sitemaps, and compressed versions of them.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from functools import lru_cache
from itertools import islice, permutations

import brotli

from hostile_wire import PROGRAMS
from lycosa.synthetic.sent_response import Response

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_HTML = ("Content-Type", "text/html; charset=utf-8")
_PLAIN = ("Content-Type", "text/plain; charset=utf-8")
_XML = ("Content-Type", "application/xml")
_URLSET = '<?xml version="1.0"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
_40_KB = 40_000
EXCLUDED_PATH = "/never/"  # the target of the links in these documents; a crawl excludes it
Make = Callable[[str], Response]
"""Given the origin that serves it (``http://host:port``): the response."""


# Packed


@lru_cache(maxsize=4)
def _member(pack: str) -> bytes:
    """Forty million spaces, compressed."""
    plain = b" " * 40_000_000
    return gzip.compress(plain, 9, mtime=0) if pack == "gzip" else zstd.compress(plain, 3)


@lru_cache(maxsize=16)
def page_with_bomb(encodings: str) -> bytes:
    """A page followed by a gigabyte of spaces (40 MB for ``br`` and ``deflate``), compressed.

    ``encodings`` are applied one after the other.
    """
    first, *others = encodings.split(", ")
    start = b"<!DOCTYPE html><title>Bomb</title><p>"
    if first == "gzip":
        body = gzip.compress(start, 9, mtime=0) + _member("gzip") * 25
    elif first == "zstd":
        body = zstd.compress(start, 3) + _member("zstd") * 25
    else:
        body = _pack(first, start + b" " * 40_000_000)
    for name in others:
        body = _pack(name, body)
    return body


def _pack(name: str, plain: bytes) -> bytes:
    if name == "br":
        return bytes(brotli.compress(plain, quality=5))
    if name == "zstd":
        return zstd.compress(plain, 3)
    return gzip.compress(plain, 9, mtime=0) if name == "gzip" else zlib.compress(plain, 9)


def _bomb(encodings: str, label: str = "") -> Make:
    return lambda origin: Response(
        200, [_HTML, ("Content-Encoding", label or encodings)], page_with_bomb(encodings)
    )


BOMBS: dict[str, Make] = {
    "bomb-gzip": _bomb("gzip"),
    "bomb-br": _bomb("br"),
    "bomb-zstd": _bomb("zstd"),
    "bomb-deflate": _bomb("deflate"),
    "bomb-gzip-of-gzip": _bomb("gzip, gzip"),
    "bomb-four-encodings": _bomb("gzip, br, zstd, deflate"),
    "bomb-hundred-encodings": _bomb("gzip", ", ".join(["gzip"] * 100)),
    "gzip-of-empty-members": lambda origin: Response(
        200, [_HTML, ("Content-Encoding", "gzip")], gzip.compress(b"", mtime=0) * 200_000
    ),
    "zstd-window-of-2-gb": lambda origin: Response(
        200, [_HTML, ("Content-Encoding", "zstd")], b"\x28\xb5\x2f\xfd\x00\xa8" + b"\0" * 64
    ),
}


# HTML


def html(content: str, head: str = "", title: str = "Hostile") -> Make:
    """A page with ``content``."""
    body = (
        f"<!DOCTYPE html><html><head>{head}<title>{title}</title></head><body><p>A"
        f" page.</p>{content}</body></html>".encode()
    )
    return lambda origin: Response(200, [_HTML], body)


def _filled(*pieces: str, size: int = _40_KB) -> Make:
    """Each piece repeated, ``size`` characters in all."""
    share = size // len(pieces)
    return html("".join(piece * (share // len(piece)) for piece in pieces))


def _numbered(pattern: str, count: int, before: str = "", after: str = "") -> Make:
    return html(before + "".join(pattern.replace("#", str(i)) for i in range(count)) + after)


def _packed_page(make: Callable[[], str]) -> Make:
    return lambda origin: Response(
        200, [_HTML, ("Content-Encoding", "gzip")], gzip.compress(make().encode(), 1, mtime=0)
    )


def _raw(content_type: str, body: bytes) -> Make:
    return lambda origin: Response(
        200, [("Content-Type", content_type)] if content_type else [], body
    )


_TEXT = (
    "<!DOCTYPE html><html><head><title>Schön</title></head><body><p>Größe, naïve,"
    " 日本語</p></body></html>"
)

# Spellings of addresses that are not public; only the connected address shows that.
SPELLINGS = (
    *(
        "http://10.1.2.3/",
        "http://167838211/",
        "http://0x0a010203/",
        "http://012.1.2.3/",
        "http://10.66051/",
        "http://10.1.2.3./",
    ),
    *(
        "http://0xa.0x1.0x2.0x3/",
        "http://user:pw@10.1.2.4/",
        "http://[::ffff:10.1.2.3]/",
        "http://[::ffff:a01:203]/",
    ),
    *(
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
    ),
    *(
        "http://①⑥⑨。②⑤④。169.254/",
        "http://192.168.0.1:8080/",
        "http://[64:ff9b::a01:203]/",
        "http://[2002:a01:203::1]/",
        "http://0.0.0.0/",
    ),
    *("http://255.255.255.255/", "http://224.0.0.1/", "http://100.64.0.1/", "http://[::]/"),
)

DOCUMENTS: dict[str, Make] = {
    "html-nested-200000-deep": html("<div>" * 200_000 + "deep"),
    "html-formatting-misnested": _filled("<b><i><u><s>", "<p>", "<table><a>"),
    "html-adoption-agency": _filled("<a><b><p></a>"),
    "html-formatting-list": _numbered("<font color=#><p>", 3000),
    "html-unclosed-anchors": _filled("<a href=x>"),
    "html-tables-in-tables": _filled("<table><tr><td>"),
    "html-foster-parents": _filled("<table>x<b>", "y</table>"),
    "html-unclosed-quote": html('<a href="' + "x " * 20_000),
    "html-unclosed-comments": _filled("<!--"),
    "html-unclosed-cdata": _filled("<svg><![CDATA["),
    "html-script-escapes": html("<script>" + "<!--<script>" * 3300),
    "html-select-options": _filled("<select><option><optgroup>"),
    "html-svg-in-math": _filled("<svg><math><mi><foreignObject>"),
    "html-templates": _filled("<template>"),
    "html-frameset": _filled("<frameset>", "</body>", "<html a=b>"),
    "html-5000-attributes": html("<p " + " ".join(f"a{i}=1" for i in range(5000)) + ">x"),
    "html-same-attribute": html("<p " + "a=1 " * 10_000 + ">x"),
    "html-body-attributes": html("".join(f"<body a{i}=1>" for i in range(2500))),
    "html-entities": _filled("&amp;", "&", "&#x", "&CounterClockwiseContourIntegral;"),
    "html-end-tags": _filled("</p>", "</br>", "</x>"),
    "html-list-items": _filled("<li><dd>"),
    "html-headings": _filled("<h1><button>"),
    "html-srcset": html('<img srcset="' + "a ," * 13_000 + '">'),
    "html-refresh": html("", head=f'<meta http-equiv=refresh content="{"0;" * 20_000}url=x">'),
    "html-bases": _filled("<base href=//x/>"),
    "html-whitespace": html(" \t\n" * 1_000_000),
    "html-title-of-5-mb": html("", title="Endless " * 650_000),
    "html-one-word-of-5-mb": html("x" * 5_000_000),
    "html-one-attribute-of-9-mb": html(f"<p title='{'x' * 9_000_000}'>"),
    "html-nul-bytes": _raw("text/html", ("<title>Nul</title>" + "\0<p>\0" * 100_000).encode()),
    "links-a-million": _packed_page(
        lambda: "".join(f"<a href={EXCLUDED_PATH}{i}>" for i in range(1_000_000))
    ),
    "links-to-a-million-hosts": _packed_page(
        lambda: "".join(f"<a href=//h{i}.x.example{EXCLUDED_PATH}>" for i in range(300_000))
    ),
    "links-of-1-mb": html(
        "".join(f'<a href="{EXCLUDED_PATH}{str(i) * 1_000_000}">x</a>' for i in range(5))
    ),
    "links-of-dots": html(
        f'<a href="{EXCLUDED_PATH}{"a/../" * 200_000}">x</a><a href="{"../" * 300_000}never/">x</a>'
    ),
    "links-with-300000-labels": html(
        f'<a href="http://{"a." * 300_000}example{EXCLUDED_PATH}">x</a>'
    ),
    "links-in-punycode": html(
        "".join(
            f'<a href="http://{"ü" * 50}{i}.{"ß" * 60}.example{EXCLUDED_PATH}">x</a>'
            for i in range(300)
        )
    ),
    "links-with-100000-parameters": html(
        f'<a href="{EXCLUDED_PATH}?{"&amp;".join(f"b{i}=1" for i in range(100_000, 0, -1))}">x</a>'
    ),
    "links-javascript": html(
        "".join(
            f'<a href="java&#{10 if i % 2 else 9};script:alert({i})">x</a>' for i in range(2000)
        )
    ),
    "links-to-private-addresses": html("".join(f'<a href="{url}">x</a>' for url in SPELLINGS)),
    "charset-utf-16-without-bom": _raw("text/html; charset=utf-16le", _TEXT.encode("utf-16-le")),
    "charset-utf-16-undeclared": _raw("text/html", _TEXT.encode("utf-16-be")),
    "charset-utf-32": _raw("text/html; charset=utf-32", _TEXT.encode("utf-32")),
    "charset-utf-7": _raw("text/html; charset=utf-7", b"<title>+ADw-script+AD4-</title>"),
    "charset-wrong": _raw("text/html; charset=shift_jis", _TEXT.encode()),
    "charset-iso-2022-kr": _raw(
        "text/html; charset=iso-2022-kr", _TEXT.encode() + b"\x1b$)C\x0e" * 1000
    ),
    "charset-unknown": _raw("text/html; charset=" + "x" * 50_000, _TEXT.encode()),
    "charset-bom-lies": _raw("text/html; charset=utf-8", b"\xff\xfe" + _TEXT.encode()),
    "charset-declared-1000-times": html(
        "", head="".join(f"<meta charset=windows-125{i % 9}>" for i in range(1000))
    ),
    "noise-as-html": _raw("text/html", bytes((i * i * 31 + i * 7) & 0xFF for i in range(300_000))),
    "pdf-as-html": _raw("text/html", b"%PDF-1.7\n" + b"1 0 obj<</Kids[1 0 R]>>" * 5000),
    "xhtml-entities": _raw(
        "application/xhtml+xml",
        b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
        + b"".join(b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9))
        + b']><html xmlns="http://www.w3.org/1999/xhtml"><body>&j;</body></html>',
    ),
    "refresh-header-loop": lambda origin: Response(
        200, [_HTML, ("Refresh", "0; url=/")], b"<title>Again</title>"
    ),
    "robots-tags-50000": lambda origin: Response(
        200, [_HTML, ("X-Robots-Tag", "x: noindex," * 15_000)], b"<title>Tags</title>"
    ),
    "link-header-of-200-kb": lambda origin: Response(
        200, [_HTML, ("Link", f"<{EXCLUDED_PATH}>; rel=next," * 9000)], b"<title>Links</title>"
    ),
}


# robots.txt: of a host whose front page is ordinary


def _robots(body: bytes, *extra: tuple[str, str]) -> Make:
    return lambda origin: Response(200, [_PLAIN, *extra], body)


_RULES = b"User-agent: *\n"

ROBOTS: dict[str, Make] = {
    "robots-of-600-kib": _robots(
        _RULES + b"Disallow: /some/path/of/a/shop/\n" * 20_000 + b"Disallow: /\n"
    ),
    "robots-line-of-400-kb": _robots(_RULES + b"Disallow: /" + b"x" * 400_000 + b"\nAllow: /\n"),
    "robots-million-rules": lambda origin: Response(
        200,
        [_PLAIN, ("Content-Encoding", "gzip")],
        gzip.compress(
            _RULES + b"".join(b"Disallow: /%d\n" % i for i in range(1_000_000)), 1, mtime=0
        ),
    ),
    "robots-million-groups": _robots(b"User-agent: a\nDisallow: /\n" * 18_000),
    "robots-million-agents": _robots(b"User-agent: a\n" * 30_000 + b"Disallow: /\n"),
    "robots-nul-bytes": _robots(b"\0User-agent: *\0\nDisallow: /\0x\n\0\0\n" * 1000),
    "robots-utf-16": _robots("User-agent: *\nDisallow: /never/\n".encode("utf-16")),
    "robots-html": _raw(
        "text/html", b"<!DOCTYPE html><html><body>" + b"<p>User-agent: * Disallow: /</p>\n" * 1000
    ),
    "robots-binary": _robots(bytes((i * i * 31 + i * 7) & 0xFF for i in range(500_000))),
    "robots-wildcards": _robots(
        _RULES + b"".join(b"Disallow: /" + b"*a" * 60 + b"%d$\n" % i for i in range(3000))
    ),
    "robots-rules-24588": _robots(
        _RULES + b"".join(b"Disallow: /*a*b%05d\n" % i for i in range(24_588))
    ),
    "robots-rules-nearly-found": _robots(
        _RULES
        + b"".join(b"Disallow: /*%s%05d%s\n" % (b"a" * 8, i, b"a" * 8) for i in range(15_000))
    ),
    "robots-rules-permuted": _robots(
        _RULES
        + b"".join(
            b"Disallow: /*%s*z\n" % "*".join(each).encode()
            for each in islice(permutations("abcdefgh"), 17_000)
        )
    ),
    "robots-stars": _robots(_RULES + b"Disallow: /" + b"*" * 100_000 + b"b$\n"),
    "robots-bomb": lambda origin: Response(
        200, [_PLAIN, ("Content-Encoding", "gzip")], page_with_bomb("gzip")
    ),
    "robots-redirects-for-ever": lambda origin: Response(
        301, [("Location", f"{origin}/robots.txt")]
    ),
    "robots-percent": _robots(_RULES + b"Disallow: /%zz%%%" + b"%C3" * 100_000 + b"\n"),
    "robots-crawl-delay": _robots(
        _RULES
        + b"Crawl-delay: 1e308\nCrawl-delay: -1\nCrawl-delay: nan\nCrawl-delay: "
        + b"9" * 100_000
        + b"\n"
    ),
    "robots-sitemaps-10000": _robots(
        b"".join(b"Sitemap: http://x.example/never/%d\n" % i for i in range(10_000))
    ),
    "robots-endless": lambda origin: Response(200, [], program=PROGRAMS["body-endless"]),
}


QUEUED: dict[str, Callable[[int], str]] = {
    "robots-rules-24588": lambda number: f"/{number}/{'ab0000' * 300}b{number:05}",
    "robots-rules-nearly-found": lambda number: (
        f"/{'a' * 1900}{number:05}{'a' * (7 + (number % 60 > 0))}"
    ),
    "robots-rules-permuted": lambda number: f"/{number}/{'hgfedcba' * (9 if number % 2 else 200)}",
}
"""Hosts whose front page links to 600 of their URLs, nearly all of which robots.txt disallows.

The function gives the path of each.
"""


# Sitemaps: named in the host's robots.txt, at /sitemap.xml


def _entries(origin: str, count: int) -> str:
    return (
        _URLSET
        + "".join(f"<url><loc>{origin}{EXCLUDED_PATH}{i}</loc></url>" for i in range(count))
        + "</urlset>"
    )


def _laughs(origin: str) -> Response:
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha"}">' for i in range(10))
    body = (
        '<?xml version="1.0"?><!DOCTYPE urlset'
        f" [{entities}]><urlset><url><loc>{origin}/&l9;</loc></url></urlset>"
    )
    return Response(200, [_XML], body.encode())


def _quadratic(origin: str) -> Response:
    body = (
        '<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY a'
        f' "{"a" * 50_000}">]><urlset><url><loc>{"&a;" * 50_000}</loc></url></urlset>'
    )
    return Response(200, [_XML], body.encode())


def _external(origin: str) -> Response:
    body = (
        '<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY f SYSTEM "file:///etc/passwd"><!ENTITY %'
        ' p SYSTEM "http://169.254.169.254/">'
        f" %p;]><urlset><url><loc>{origin}/&f;</loc></url></urlset>"
    )
    return Response(200, [_XML], body.encode())


def _index(origin: str) -> Response:
    inner = "".join(
        f"<sitemap><loc>{origin}/sitemap{i}.xml</loc></sitemap>" for i in ("", *range(20))
    )
    return Response(
        200,
        [_XML],
        f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</sitemapindex>'.encode(),
    )


def _huge(origin: str) -> Response:
    """60 MB when unpacked, labelled as a file and not as an encoding."""
    body = gzip.compress(
        (
            _URLSET
            + f"<url><loc>{origin}{EXCLUDED_PATH}</loc></url>"
            + " " * 60_000_000
            + "</urlset>"
        ).encode(),
        6,
        mtime=0,
    )
    return Response(200, [("Content-Type", "application/gzip")], body)


def _xml(body: str) -> Make:
    return lambda origin: Response(200, [_XML], body.encode())


SITEMAPS: dict[str, Make] = {
    "sitemap-billion-laughs": _laughs,
    "sitemap-quadratic-entities": _quadratic,
    "sitemap-external-entities": _external,
    "sitemap-loops": _index,
    "sitemap-of-60-mb": _huge,
    "sitemap-million-urls": lambda origin: Response(
        200,
        [_XML, ("Content-Encoding", "gzip")],
        gzip.compress(_entries(origin, 1_000_000).encode(), 1, mtime=0),
    ),
    "sitemap-nested-100000-deep": _xml("<urlset>" + "<url>" * 100_000),
    "sitemap-attribute-of-9-mb": _xml(f'<urlset a="{"x" * 9_000_000}"></urlset>'),
    "sitemap-text-of-9-mb": _xml(
        f"<urlset><url><loc>http://x/{'y' * 9_000_000}</loc></url></urlset>"
    ),
    "sitemap-comment-endless": _xml("<urlset><!--" + "x" * 5_000_000),
    "sitemap-bomb": lambda origin: Response(
        200, [_XML, ("Content-Encoding", "gzip")], page_with_bomb("gzip, gzip")
    ),
    "sitemap-endless": lambda origin: Response(200, [_XML], program=PROGRAMS["body-endless"]),
}
