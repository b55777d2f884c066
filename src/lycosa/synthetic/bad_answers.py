"""Misbehaviours in valid HTTP: statuses, redirects, encodings, charsets, documents, endless URLs.

Every handler is a function of a ``MisbehaviourRequest``. Links that a correct crawler follows are
in ``LINKS``, which the oracle and the handler share, so that they cannot disagree.
"""

from __future__ import annotations

import gzip
import itertools
import sys
import zlib
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache, partial

import brotli
import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_pages import Anchor

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class MisbehaviourRequest(msgspec.Struct, frozen=True):
    """One request below ``/bad/``.

    ``origin`` is ``http://host:port``, ``arg`` the rest of the path after the name, ``earlier`` the
    number of earlier requests of this URL, ``at`` the time (seconds since 1970).
    """

    origin: str
    arg: str = ""
    query: str = ""
    earlier: int = 0
    at: float = 0.0


Handler = Callable[[MisbehaviourRequest], Response]
HTML = ("Content-Type", "text/html; charset=utf-8")
_TEXT = "An answer that is not as it should be, kept long enough to be a page of its own. " * 6
_BOMB_BYTES = 40_000_000


def html_document(content: str = "", *, head: str = "", title: str = "Misbehaviour") -> bytes:
    """A small HTML page with some content."""
    return (
        f"<!DOCTYPE html>\n<html><head>{head}<title>{title}</title></head>\n"
        f"<body><h1>{title}</h1>\n<p>{_TEXT}</p>\n{content}\n</body></html>\n"
    ).encode()


def page(
    content: str = "",
    *extra: tuple[str, str],
    head: str = "",
    title: str = "Misbehaviour",
    status: int = 200,
) -> Response:
    """``document`` as a response."""
    return Response(status, [HTML, *extra], html_document(content, head=head, title=title))


def _links(*references: str) -> str:
    return "".join(f'<p><a href="{reference}">{reference}</a></p>\n' for reference in references)


def _redirect(location: str, status: int = 302) -> Response:
    return Response(status, [HTML, ("Location", location)], html_document())


def _step(visit: MisbehaviourRequest) -> int:
    """The number at the end of the rest of the path, 0 without one."""
    last = visit.arg.rstrip("/").rpartition("/")[2]
    return int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0


# Redirects


def _redirect_cycle(visit: MisbehaviourRequest) -> Response:
    return _redirect("/bad/redirect-cycle" if visit.arg else "/bad/redirect-cycle/back")


def _redirect_chain(visit: MisbehaviourRequest) -> Response:
    left = _step(visit) if visit.arg else 3
    return (
        _redirect(f"/bad/redirect-chain/{left - 1}", 301)
        if left > 0
        else page(title="The end of a chain")
    )


def _redirect_no_location(visit: MisbehaviourRequest) -> Response:
    return Response(302, [HTML], html_document())


# Statuses that pass, or do not


def _at_first(
    status: int,
    times: int,
    retry: Callable[[MisbehaviourRequest], str] | None,
    visit: MisbehaviourRequest,
) -> Response:
    if visit.earlier >= times:
        return page(title="Now it works")
    extra = [("Retry-After", retry(visit))] if retry else []
    return Response(status, [HTML, *extra], html_document(title="Not now"))


def _seconds(seconds: int) -> Callable[[MisbehaviourRequest], str]:
    return lambda visit: str(seconds)


def _date(visit: MisbehaviourRequest) -> str:
    return formatdate(visit.at + 90, usegmt=True)


# Content encodings


def _encoded(label: str, body: bytes) -> Response:
    return Response(200, [HTML, ("Content-Encoding", label)], body)


@lru_cache(maxsize=8)
def packed_spaces(label: str) -> bytes:
    """Forty million spaces, compressed to at most 40 KB.

    ``label`` is ``gzip``, ``deflate``, ``br`` or ``zstd``.
    """
    plain = b"<html><body>" + b" " * _BOMB_BYTES
    if label == "br":
        return bytes(brotli.compress(plain, quality=5))
    if label == "zstd":
        return zstd.compress(plain, 3)
    return gzip.compress(plain, 9, mtime=0) if label == "gzip" else zlib.compress(plain, 9)


def _gzip(visit: MisbehaviourRequest, *, spoil: Callable[[bytes], bytes] = bytes) -> Response:
    return _encoded("gzip", spoil(gzip.compress(html_document(title="Packed"), 6, mtime=0)))


def _garble(packed: bytes) -> bytes:
    return packed[:60] + bytes(byte ^ 0x5A for byte in packed[60:90]) + packed[90:]


def _raw_deflate(visit: MisbehaviourRequest) -> Response:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return _encoded("deflate", packer.compress(html_document()) + packer.flush())


# Charsets

_FOREIGN = {
    "big5": "歡迎光臨本站 這是一個中文網頁 今天天氣很好",
    "shift_jis": "ようこそ これは日本語のページです 今日は天気がいい",
}


def _charset(
    declared: str, actual: str, text: str, visit: MisbehaviourRequest, *, meta: str = ""
) -> Response:
    head = f'<meta charset="{meta}">' if meta else ""
    body = (
        "<!DOCTYPE"
        f" html><html><head>{head}<title>{text}</title></head><body><p>{text * 8}</p></body></html>"
    )
    kind = f"text/html; charset={declared}" if declared else "text/html"
    return Response(200, [("Content-Type", kind)], body.encode(actual))


def _broken_utf8(visit: MisbehaviourRequest) -> Response:
    body = html_document(title="Broken UTF-8").replace(
        b"answer", b"\xff\xfe\xc3(\xf0\x9f\x98answer\xed\xa0\x80"
    )
    return Response(200, [HTML], body)


# Documents


def _binary(visit: MisbehaviourRequest) -> Response:
    return Response(200, [HTML], bytes((i * i * 31 + i * 7) & 0xFF for i in range(20_000)))


def _many_attributes(visit: MisbehaviourRequest) -> Response:
    return page(
        "<p " + " ".join(f"a{i}=1" for i in range(5_000)) + ">x</p>",
        title="Forty kilobytes of attributes",
    )


def _parser_bomb(visit: MisbehaviourRequest) -> Response:
    content = "<b><i><u><s>" * 1_500 + "<p>" * 1_500 + "<table><a>" * 1_500
    return page(content, title="Misnested formatting, quadratic in some parsers")


# Endless URL spaces


def _calendar(visit: MisbehaviourRequest) -> Response:
    month = _step(visit) or 24_300
    later, before = month + 1, month - 1
    ahead = f"/bad/calendar/{later // 12}/{later % 12 + 1:02d}/{later}"
    back = f"/bad/calendar/{before // 12}/{before % 12 + 1:02d}/{before}"
    return page(_links(ahead, back), title=f"Events of {month % 12 + 1}/{month // 12}")


def _growing_path(visit: MisbehaviourRequest) -> Response:
    return page(
        _links(
            f"{visit.origin}/bad/growing-path/{visit.arg}a/",
            f"{visit.origin}/bad/growing-path/{visit.arg}b/",
        )
    )


def _repeating_path(visit: MisbehaviourRequest) -> Response:
    return page(_links("/bad/repeating-path/" + visit.arg.rstrip("/") + "/list/item/"))


def _session_ids(visit: MisbehaviourRequest) -> Response:
    fresh = zlib.crc32(f"{visit.query}{visit.at}".encode())
    return page(
        _links(
            *(
                f"/bad/session-ids/{name}?PHPSESSID={fresh:08x}{i:024x}"
                for i, name in enumerate(("one", "two", "three"))
            )
        )
    )


def _query_permutations(visit: MisbehaviourRequest) -> Response:
    some = itertools.islice(
        itertools.permutations(("size=1", "colour=red", "sort=up", "page=1", "view=list")),
        _step(visit),
        24,
    )
    return page(_links(*("/bad/query-permutations?" + "&amp;".join(order) for order in some)))


def _numbers(name: str, visit: MisbehaviourRequest) -> Response:
    return page(
        _links(*(f"/bad/{name}/{_step(visit) * 2 + i}" for i in (1, 2))), title="The same again"
    )


def _sitemap_index(visit: MisbehaviourRequest) -> Response:
    inner = "".join(
        f"<sitemap><loc>{visit.origin}/bad/sitemap-index/{_step(visit) * 2 + i}</loc></sitemap>"
        for i in (1, 2)
    )
    body = (
        '<?xml version="1.0"?><sitemapindex'
        f' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</sitemapindex>'
    )
    return Response(200, [("Content-Type", "application/xml")], body.encode())


# Links that a correct crawler follows


def _anchors(
    path: str, kind: LinkKind = LinkKind.A, *, nofollow: bool = False
) -> Callable[[MisbehaviourRequest], tuple[Anchor, ...]]:
    return lambda visit: (Anchor(visit.origin + path, path, kind, nofollow),)


def _leaves(visit: MisbehaviourRequest) -> tuple[Anchor, ...]:
    return tuple(Anchor(f"{visit.origin}/bad/leaf/{i}", f"/bad/leaf/{i}") for i in range(2_000))


LINKS: dict[str, Callable[[MisbehaviourRequest], tuple[Anchor, ...]]] = {
    "meta-refresh": _anchors("/bad/leaf/refreshed", LinkKind.REFRESH),
    "base-href": _anchors("/bad/leaf/below-base"),
    "many-links": _leaves,
    "nofollow-link": _anchors("/bad/leaf/nofollow", nofollow=True),
    "deep-nesting": _anchors("/bad/leaf/deep"),
    "commented-link": _anchors("/bad/leaf/not-commented"),
}


def _many_links(visit: MisbehaviourRequest) -> Response:
    return page(
        "".join(f'<a href="{link.written}">{i}</a>\n' for i, link in enumerate(_leaves(visit)))
    )


def _leaf(visit: MisbehaviourRequest) -> Response:
    return page(title=f"Leaf {visit.arg}") if visit.arg else page(title="Leaf")


HANDLERS: dict[str, Handler] = {
    "redirect-loop": lambda visit: _redirect("/bad/redirect-loop"),
    "redirect-cycle": _redirect_cycle,
    "redirect-chain": _redirect_chain,
    "redirect-endless": lambda visit: _redirect(f"/bad/redirect-endless/{_step(visit) + 1}"),
    "redirect-no-location": _redirect_no_location,
    "redirect-bad-location": lambda visit: _redirect("http://[not-an-address/"),
    "redirect-other-scheme": lambda visit: _redirect("ftp://ftp.example/file"),
    "redirect-private": lambda visit: _redirect("http://169.254.169.254/latest/meta-data/"),
    "redirect-relative": lambda visit: _redirect("leaf/relative"),
    "429-retry-after": partial(_at_first, 429, 1, _seconds(120)),
    "429-date": partial(_at_first, 429, 1, _date),
    "429-bare": partial(_at_first, 429, 1, None),
    "429-negative": partial(_at_first, 429, 1, _seconds(-5)),
    "429-always": partial(_at_first, 429, sys.maxsize, None),
    "503-retry-after": partial(_at_first, 503, 1, _seconds(60)),
    "503-always": partial(_at_first, 503, sys.maxsize, None),
    "500-then-fine": partial(_at_first, 500, 1, None),
    "500-always": partial(_at_first, 500, sys.maxsize, None),
    "401-always": partial(_at_first, 401, sys.maxsize, None),
    "status-999": partial(_at_first, 999, sys.maxsize, None),
    "status-204": lambda visit: Response(204, []),
    "soft-404": lambda visit: page("<p>The page was not found.</p>", title="Not found"),
    "gzip-truncated": partial(_gzip, spoil=lambda packed: packed[: len(packed) // 2]),
    "gzip-broken": partial(_gzip, spoil=_garble),
    "gzip-twice": partial(_gzip, spoil=lambda packed: gzip.compress(packed, 6, mtime=0)),
    "gzip-trailing": partial(_gzip, spoil=lambda packed: packed + b"\0" * 100),
    "gzip-mislabelled": lambda visit: _encoded("gzip", html_document(title="Not packed")),
    "gzip-unlabelled": lambda visit: Response(
        200, [HTML], gzip.compress(html_document(), 6, mtime=0)
    ),
    "gzip-bomb": lambda visit: _encoded("gzip", packed_spaces("gzip")),
    "br": lambda visit: _encoded(
        "br", brotli.compress(html_document(title="Packed by Brotli"), quality=4)
    ),
    "br-bomb": lambda visit: _encoded("br", packed_spaces("br")),
    "zstd": lambda visit: _encoded(
        "zstd", zstd.compress(html_document(title="Packed by Zstandard"), 3)
    ),
    "zstd-bomb": lambda visit: _encoded("zstd", packed_spaces("zstd")),
    "deflate": lambda visit: _encoded(
        "deflate", zlib.compress(html_document(title="Packed by zlib"))
    ),
    "deflate-raw": _raw_deflate,
    "encoding-unknown": lambda visit: _encoded("x-packed", html_document(title="Who knows")),
    "charset-wrong": partial(
        _charset, "utf-8", "latin-1", "Crème brûlée à côté, Grüße aus München. "
    ),
    "charset-conflict": partial(
        _charset, "iso-8859-1", "utf-8", "Crème brûlée à côté, Grüße aus München. ", meta="utf-8"
    ),
    "charset-unknown": partial(_charset, "x-nowhere", "utf-8", "Crème brûlée. "),
    "utf-16": partial(_charset, "", "utf-16", "Crème brûlée à côté. "),
    "utf-16-declared": partial(_charset, "utf-16be", "utf-16-be", "Crème brûlée à côté. "),
    "big5": partial(_charset, "", "big5", _FOREIGN["big5"], meta="big5"),
    "shift-jis": partial(_charset, "", "shift_jis", _FOREIGN["shift_jis"]),
    "utf-8-broken": _broken_utf8,
    "empty-body": lambda visit: Response(200, [HTML]),
    "no-content-type": lambda visit: Response(200, [], html_document(title="Of no declared type")),
    "binary-as-html": _binary,
    "html-as-text": lambda visit: Response(200, [("Content-Type", "text/plain")], html_document()),
    "nul-bytes": lambda visit: Response(
        200, [HTML], html_document(title="Nul\0 bytes").replace(b" ", b"\0 ")
    ),
    "deep-nesting": lambda visit: page("<div>" * 10_000 + '<a href="/bad/leaf/deep">deep</a>'),
    "many-links": _many_links,
    "many-attributes": _many_attributes,
    "parser-bomb": _parser_bomb,
    "huge-title": lambda visit: page(title="Endless " * 50_000),
    "unclosed-tag": lambda visit: page("<p>text <a href='/bad/leaf/unclosed>" + "lost " * 2_000),
    "commented-link": lambda visit: page(
        '<!-- <a href="/bad/leaf/commented">no</a> --><a href="/bad/leaf/not-commented">yes</a>'
    ),
    "meta-refresh": lambda visit: page(
        head='<meta http-equiv="refresh" content="0; url=/bad/leaf/refreshed">'
    ),
    "meta-refresh-loop": lambda visit: page(head='<meta http-equiv="refresh" content="0">'),
    "base-href": lambda visit: page(
        '<a href="below-base">below</a>', head='<base href="/bad/leaf/">'
    ),
    "noindex-header": lambda visit: page("", ("X-Robots-Tag", "noindex, nofollow")),
    "nofollow-link": lambda visit: page('<a rel="nofollow" href="/bad/leaf/nofollow">x</a>'),
    "calendar": _calendar,
    "growing-path": _growing_path,
    "repeating-path": _repeating_path,
    "session-ids": _session_ids,
    "query-permutations": _query_permutations,
    "duplicates": partial(_numbers, "duplicates"),
    "sitemap-index": _sitemap_index,
    "leaf": _leaf,
}
