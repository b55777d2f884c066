"""Files that pages load, and pages with what only browsers load: any bytes give links within their
limits.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.targets.html import parts, within_limits
from hostile_documents import DOCUMENTS
from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser

_SECTION = ParseSection(max_links=300, max_text=20_000, language=False)
_CANONICALIZER = Canonicalizer(CanonicalSection())
_PARSER = DocumentParser(
    _SECTION, Canonicalizer(CanonicalSection()), "lycosa", reads_requisites=True
)
_URL = "https://www.example.org/a/b.css?c"
_TYPES = (
    "text/css",
    "text/javascript",
    "application/manifest+json",
    "image/svg+xml",
    "text/html",
)
_REASONS = frozenset(
    {
        Reason.NONE,
        Reason.DECODE_FAILED,
        Reason.DECODE_LIMIT,
        Reason.CONTENT_TYPE,
        Reason.LOOKS_SCRIPTED,
    }
)

WORDS = (
    *("@import ", "@charset ", "@font-face{", "@namespace ", "src:", "url(", "src(", "image-set("),
    *("type(", ")", '"', "'", "\\", "/*", "*/", "{", "}", ";", "#x", "data:", "\\75 rl("),
    *(
        "import ",
        "export ",
        "from ",
        "* as n",
        "`",
        "${",
        "//",
        "/[",
        "with{type:'json'}",
        "./a.js",
    ),
    *('{"icons":[', '{"src":"x"}', '"shortcuts":', "[", "]", ",", ":"),
    *("<svg>", "<image href=", "<style>", "<p style=", "fill='url(", "<iframe srcdoc=", "<!--[if "),
    *("]>", "<![endif]-->", "<script type=importmap>", "<script type=module>", "<?xml-stylesheet "),
    *("src='data:image/svg+xml,", ";base64,", "background=", "<table ", "content-type: text/css"),
)


def check(data: bytes) -> None:
    """Header lines, an empty line, the body; without them the body, as a file of each type."""
    headers, body = parts(data, "")
    types = _TYPES if headers == [("content-type", "")] else [""]
    for each in types:
        lines = [("content-type", each)] if each else headers
        parsed = _PARSER.parse(ParseInput(_URL, 200, lines, body))
        assert parsed.reason in _REASONS, f"{parsed.reason.label}: {parsed.detail}"
        within_limits(parsed, _SECTION, _CANONICALIZER)


def samples() -> Iterator[bytes]:
    yield (
        b"@charset 'utf-8';@import 'a.css' layer(b);@namespace svg url(c);@font-face{src:url(d)"
        b" format('woff2')}e{f:image-set('g' 1x type('h'),url( \"i\" ) 2x);j:\\75 rl(k\\29)}/* url(l) */"
    )
    yield (
        b"import a,{b as c}from'./d.js';export*from\"/e.js\"\n// import './f.js'\nconst g=/['\"]/,"
        b"h=`${`import './i.js'`}`;import('./j.js');import{k}from'https://l.example/m.js'"
    )
    yield b'{"icons":[{"src":"a"}],"shortcuts":[{"icons":[{"src":"b"}]}],"screenshots":[{"src":"c"}]}'
    yield (
        b"<?xml version='1.0'?><?xml-stylesheet href='a.css'?><svg xmlns='http://www.w3.org/2000/svg'>"
        b"<style><![CDATA[b{c:url(d)}]]></style><rect fill='url(e.svg#f)'/><image href='g'/></svg>"
    )
    yield (
        b"<!doctype html><html manifest=a><style>@import 'b'</style><p style='c:url(d)'><table"
        b" background=e><iframe srcdoc='<img src=f><iframe srcdoc=&quot;<p style=g:url(h)>&quot;>'>"
        b"</iframe><img src='data:image/svg+xml,<svg><image href=i></svg>'><!--[if IE]><link"
        b' rel=stylesheet href=j><![endif]--><script type=importmap>{"imports":{"k":"./l.js"}}'
        b"</script><script type=module>import './m.js'</script><div id=root></div>"
    )
    yield b"content-type: text/css; charset=utf-16\n\n" + "a{b:url(c)}".encode("utf-16-le")
    for name in ("deep", "attributes"):
        if name in DOCUMENTS:
            yield DOCUMENTS[name]("http://www.example.org").body[:16_384]
