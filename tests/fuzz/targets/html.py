"""Pages: any bytes under any header lines give an answer within its limits, with links that are
canonical.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fuzz.judging import MAX_BYTES, vectors
from hostile_documents import DOCUMENTS
from lycosa.base.config.sections import CanonicalSection, LinkRule, ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.reasons import UNREMARKABLE, Reason
from lycosa.base.urls.identity import Canonicalizer, hash8, host_of
from lycosa.stages.parse.document import DocumentParser

_SECTION = ParseSection(max_links=300, max_text=20_000, language=False)
_CANONICALIZER = Canonicalizer(CanonicalSection())
_PARSER = DocumentParser(_SECTION, Canonicalizer(CanonicalSection()), "lycosa")
_GUESSER = DocumentParser(
    msgspec.structs.replace(_SECTION, links=LinkRule.ALL),
    Canonicalizer(CanonicalSection()),
    "lycosa",
)
_URL = "https://www.example.org/a/b?c"
_REASONS = UNREMARKABLE | {Reason.DECODE_FAILED, Reason.DECODE_LIMIT, Reason.CONTENT_TYPE}
_FORMS = frozenset({LinkKind.FORM})  # the address of one may be a guess
_DECODER = msgspec.msgpack.Decoder(Parsed)

WORDS = (
    *(
        "<a href=",
        "<base href=",
        "<meta charset=",
        '<meta http-equiv="refresh" content="0;url=',
        '<meta name="robots" content="noindex">',
    ),
    *(
        "<template>",
        "<template shadowrootmode=open>",
        "</template>",
        "<svg>",
        "<math>",
        "<table>",
        "<select>",
        "<script>",
        "<noscript>",
    ),
    *(
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "srcset=",
        "<link rel=canonical href=",
        "rel=nofollow",
        "&amp;",
        "&#0;",
        "&notin",
        "<plaintext>",
    ),
    *(
        "content-type: text/html; charset=",
        "link: <x>; rel=canonical",
        "x-robots-tag: none",
        "refresh: 0;url=x",
        "content-encoding: gzip",
    ),
    *(
        "utf-16",
        "iso-2022-jp",
        "x-user-defined",
        "gb18030",
        "replacement",
        "<frameset>",
        "<!-- /a/b.html",
        "data-x=/c",
        "<script>'/d'",
        "<form action=",
        "<object data=",
        "<image ",
    ),
)


def check(data: bytes) -> None:
    """Header lines, an empty line, the body; all is body where there is no empty line or the
    first line is no header line.
    """
    headers, body = parts(data, "text/html")
    parsed = _PARSER.parse(ParseInput(_URL, 200, headers, body))
    assert parsed.reason in _REASONS, f"{parsed.reason.label}: {parsed.detail}"
    within_limits(parsed, _SECTION, _CANONICALIZER)
    more = _GUESSER.parse(ParseInput(_URL, 200, headers, body))
    assert more.reason in _REASONS, f"{more.reason.label}: {more.detail}"
    within_limits(more, _SECTION, _CANONICALIZER)
    if len(more.links) < _SECTION.max_links:
        assert {link.url for link in parsed.links if link.kind not in _FORMS} <= {
            link.url for link in more.links
        }


def parts(data: bytes, media_type: str) -> tuple[list[tuple[str, str]], bytes]:
    """The header lines and the body of an input; without header lines there is one with the
    media type.
    """
    head, empty, body = data.partition(b"\n\n")
    lines = head.decode("latin-1").split("\n")
    if not empty or not all(
        ":" in line and line.partition(":")[0].replace("-", "").isalpha() for line in lines
    ):
        return [("content-type", media_type)], data
    return [
        (name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)
    ], body


def within_limits(parsed: Parsed, section: ParseSection, canonicalizer: Canonicalizer) -> None:
    """What holds of everything that is parsed."""
    assert len(parsed.links) <= section.max_links
    assert len({link.url for link in parsed.links}) == len(parsed.links)
    for link in parsed.links:
        assert canonicalizer.canonical(link.url) == link.url, link.url
        assert (link.host8, link.url8) == (hash8(host_of(link.url)), hash8(link.url))
        assert len(link.anchor) <= 200 and "\n" not in link.anchor
    assert not parsed.canonical or canonicalizer.canonical(parsed.canonical) == parsed.canonical
    assert len(parsed.text) <= section.max_text
    assert len(parsed.title) <= 2000 and len(parsed.description) <= 2000
    assert 0 <= parsed.simhash < 1 << 64
    assert set(parsed.refused_links) <= {Reason.UNPARSABLE, Reason.SCHEME}
    assert parsed.hints.keys() <= {link.url for link in parsed.links}
    for lastmod, priority in parsed.hints.values():
        assert lastmod >= 0 and (priority == -1 or 0 <= priority <= 1)
    assert parsed.changes.keys() <= {link.url for link in parsed.links} and all(
        seconds > 0 for seconds in parsed.changes.values()
    )
    # it has to go through a socket
    assert _DECODER.decode(msgspec.msgpack.encode(parsed)) == parsed


def samples() -> Iterator[bytes]:
    yield (
        b"content-type: text/html; charset=windows-1252\nlink: <c>; rel=canonical\nx-robots-tag:"
        b" bot: noindex, nofollow\n\n<!doctype html><html lang=de><base"
        b" href='//b.example/x/'><title>A &amp; B</title><meta name=robots content=noindex><a"
        b" href='y?\xe4=1#z' rel=nofollow>Text <b>in</b> bold</a><img srcset='a 1x, b,c 2x'"
        b" alt=x><table><td>cell<td>cell</table><meta http-equiv=refresh content='5; URL=z'><area"
        b" href=w alt=q><iframe src=v title=t></iframe><noscript><a href=n></noscript>"
    )
    yield (
        "<meta charset=utf-8><p>Gr\u00fcezi \u65e5\u672c\u8a9e</p><template><a href=x></template>".encode()
    )
    yield (
        b"<div style='display:none'>x</div><svg><a xlink:href=s /><image href=i><title><a"
        b" href=t></title></svg><math href=m>"
    )
    yield (
        b'<?xml version="1.0" encoding="shift_jis"?><html xmlns="http://www.w3.org/1999/xhtml"><a'
        b' href="x"/></html>'
    )
    yield "\ufeff<a href=x>y".encode("utf-16-le")
    for make in DOCUMENTS.values():
        answer = make("http://www.example.org")
        if b"<" in answer.body[:200]:
            yield answer.body[: MAX_BYTES // 4]
    yield from vectors("html/encoding-sniffing.jsonl", "data", most=60)
    yield from vectors("html/tree-construction-links.jsonl", "html")
    yield from vectors("html/scrapy-linkextractor.jsonl", "body", most=30)
    yield from vectors("html/meta-robots.jsonl", "html")
