"""Pages, charsets, directives, srcset, refresh and media types against what others recorded or
standardised.
"""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.urls.identity import Canonicalizer, resolve
from lycosa.stages.parse.charset import charset_name, decode_text, decode_whatwg
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.html import read_html
from lycosa.stages.parse.markup_values import parse_refresh, srcset_urls
from lycosa.stages.parse.media_type import media_type_of, parse_media_type
from lycosa.stages.parse.outlinks import base_of, with_encoded_query

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "html"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not DATA.is_dir(), reason="no conformance vectors beside the checkout"),
]

PARSER = DocumentParser(ParseSection(language=False), Canonicalizer(CanonicalSection()), "lycosa")


def rows(name: str) -> list[Any]:
    text = (DATA / name).read_text()
    return (
        [json.loads(line) for line in text.splitlines() if line]
        if name.endswith("l")
        else json.loads(text)
    )


def check(
    name: str, verdicts: Iterable[tuple[str, object, object]], misses: dict[str, str]
) -> None:
    """``verdicts`` are (case, ours, theirs). Every difference must be listed with its reason,
    and every listed one must still differ.
    """
    found = list(verdicts)
    differing = {case: (ours, theirs) for case, ours, theirs in found if ours != theirs}
    print(f"{name}: passed {len(found) - len(differing)} of {len(found)}")
    for case in sorted(differing.keys() & misses.keys()):
        print(f"  {case}: {misses[case]}")
    unlisted = {case: values for case, values in differing.items() if case not in misses}
    assert not unlisted, "\n".join(
        f"{case}: ours {ours!r}, theirs {theirs!r}" for case, (ours, theirs) in unlisted.items()
    )
    assert not misses.keys() - differing.keys(), "listed misses that pass"


def parse(
    body: bytes | str,
    url: str = "http://example.com/",
    headers: Iterable[tuple[str, str]] = (("content-type", "text/html"),),
) -> Parsed:
    return PARSER.parse(
        ParseInput(url, 200, list(headers), body.encode() if isinstance(body, str) else body)
    )


def codec(name: str | None) -> str | None:
    """One name for all spellings of an encoding. The Encoding standard's names are wider than
    Python's; both sides go through this.
    """
    if name is None:
        return None
    name = name.lower()
    wider = {
        "gbk": "gb18030",
        "big5": "big5hkscs",
        "gb2312": "gb18030",
        "gb_2312-80": "gb18030",
        "iso-8859-1": "cp1252",
        "latin-1": "cp1252",
        "ascii": "cp1252",
        "iso-8859-9": "cp1254",
        "iso-8859-11": "cp874",
    }
    name = wider.get(name, name)
    try:
        return codecs.lookup(name.replace("x-mac-", "mac-").replace("windows-874", "cp874")).name
    except LookupError:
        return name


ENCODING_MISSES: dict[str, str] = {}


def test_encoding_sniffing() -> None:
    def verdicts() -> Iterable[tuple[str, object, object]]:
        for number, row in enumerate(rows("encoding-sniffing.jsonl")):
            content_type = parse_media_type(row["content_type"]) if row["content_type"] else None
            label = content_type.parameters.get("charset") if content_type else None
            page = read_html(base64.b64decode(row["data_b64"]), label)
            yield f"{number}", codec(page.charset), codec(row["encoding"])

    check("encoding-sniffing.jsonl", verdicts(), ENCODING_MISSES)


def test_srcset() -> None:
    def verdicts() -> Iterable[tuple[str, object, object]]:
        for number, row in enumerate(rows("wpt-srcset.json")):
            urls = srcset_urls(row["srcset"])
            yield f"{number}", (urls or [""])[0], row["expect"]

    check("wpt-srcset.json", verdicts(), {})


def test_meta_refresh() -> None:
    def verdicts() -> Iterable[tuple[str, object, object]]:
        for number, row in enumerate(rows("wpt-meta-refresh.json")):
            found = parse_refresh(row["content"])
            # Tabs and line feeds inside of a URL are dropped by the URL parser, which the vectors
            # include.
            yield (
                f"{number}",
                found and [found[0], found[1].translate({9: None, 10: None, 13: None}) or None],
                row["expected"],
            )

    check("wpt-meta-refresh.json", verdicts(), {})


@pytest.mark.parametrize("name", ["wpt-mime-types.json", "wpt-generated-mime-types.json"])
def test_media_types(name: str) -> None:
    def verdicts() -> Iterable[tuple[str, object, object]]:
        for number, row in enumerate(rows(name)):
            if isinstance(row, dict):
                found = parse_media_type(row["input"])
                yield f"{number}", found and str(found), row["output"]
                if "encoding" in row:
                    label = found.parameters.get("charset") if found else None
                    known = charset_name(label) if label else None
                    yield f"{number} encoding", codec(known), codec(row["encoding"])

    check(name, verdicts(), {})


def test_meta_robots() -> None:
    def verdicts() -> Iterable[tuple[str, object, object]]:
        for number, row in enumerate(rows("meta-robots.jsonl")):
            headers = [
                ("content-type", "text/html"),
                *(("x-robots-tag", value) for value in row["headers"].get("X-Robots-Tag", ())),
            ]
            directives = parse(row["html"], headers=headers).directives
            yield (
                f"{number}",
                (directives.noindex, directives.nofollow),
                (row["noindex"], row["nofollow"]),
            )

    check("meta-robots.jsonl", verdicts(), {})


def test_links_of_misnested_markup() -> None:
    def verdicts() -> Iterable[tuple[str, object, object]]:
        for number, row in enumerate(rows("tree-construction-links.jsonl")):
            wanted = dict.fromkeys(
                value
                for tag, name, value in row["links"]
                if name in ("href", "src") and not value.startswith("#")
            )
            yield f"{number}", list(read_html(row["html"]).links), list(wanted)

    check("tree-construction-links.jsonl", verdicts(), {})


_FRAGMENTS = "an area's alt is its anchor text here, and URLs that differ in their fragment are one"
LINK_MISSES = {
    "0 test_urls_type": _FRAGMENTS,
    "1 test_extract_all_links": _FRAGMENTS,
    "25 test_ignored_extensions": (
        "no file extension is refused here: what a URL is, its media type says"
    ),
}


def test_links_as_scrapy_finds_them() -> None:
    """Its default extractor: ``a`` and ``area``, no binary file extensions, text with its white
    space.
    """

    def verdicts() -> Iterable[tuple[str, object, object]]:
        for number, row in enumerate(rows("scrapy-linkextractor.jsonl")):
            if row["init"] == {"args": [], "kw": {}}:
                headers = [("content-type", f"text/html; charset={row['encoding']}")]
                ours = parse(base64.b64decode(row["body_b64"]), row["url"], headers).links
                canonicalizer = Canonicalizer(CanonicalSection())
                theirs = [
                    (
                        canonicalizer.canonical(link["url"]),
                        " ".join(link["text"].split()),
                        link["nofollow"],
                    )
                    for link in row["links"]
                    if not link["url"].startswith("ftp:")  # counted as refused here
                ]
                yield (
                    f"{number} {row['test'].rpartition('::')[2]}",
                    [
                        (link.url, link.anchor, link.nofollow)
                        for link in ours
                        if link.kind in (LinkKind.A, LinkKind.AREA)
                    ],
                    theirs,
                )

    check("scrapy-linkextractor.jsonl, default settings", verdicts(), LINK_MISSES)
    others = sum(
        row["init"] != {"args": [], "kw": {}} for row in rows("scrapy-linkextractor.jsonl")
    )
    print(
        f"scrapy-linkextractor.jsonl: {others} other calls ask for options of theirs (allow, tags,"
        " ...); here the scope decides"
    )


def _bytes(value: Any) -> Any:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value


def _label(value: str | None) -> str | None:
    value = value or ""
    found = media_type_of(
        [
            (
                "content-type",
                value.partition(":")[2] if value.lower().startswith("content-type") else value,
            )
        ]
    )
    return found.parameters.get("charset") if found else None


def _charset_of_type(value: str | None) -> str | None:
    label = _label(value)
    return codec(charset_name(label)) if label else None


def _declared(body: bytes | str) -> str | None:
    """Without a declaration the reader still has an answer; a byte that is no UTF-8 makes it
    windows-1252, which is then told apart.
    """
    data = body if isinstance(body, bytes) else body.encode("latin-1", "replace")
    charset = codec(read_html(data + b"<!-- \xff -->").charset)
    return charset if charset != "cp1252" or b"1252" in data or b"8859-1" in data else None


def _to_unicode(content_type: str | None, body: bytes) -> list[str | None]:
    page = read_html(body, _label(content_type))
    text = decode_whatwg(body, page.charset)
    return [codec(page.charset), text.lstrip("\ufeff")]


def _mark(body: bytes) -> str | None:
    charset = (
        decode_text(body, None)[1]
        if body[:2] in (b"\xff\xfe", b"\xfe\xff") or body[:3] == b"\xef\xbb\xbf"
        else None
    )
    return codec({"utf-16be": "utf-16-be", "utf-16le": "utf-16-le"}.get(charset or "", charset))


def _refresh(text: bytes | str, base: bytes | str = "", label: str = "utf-8") -> str | None:
    page = read_html(text, label)
    targets = [raw for raw, found in page.links.items() if found.kind is LinkKind.REFRESH]
    return (
        resolve(with_encoded_query(targets[0], label), _base(text, base, label))
        if targets
        else None
    )


def _base(text: bytes | str, base: bytes | str = "", label: str = "utf-8") -> str:
    raw, fallback = read_html(text, label).base, base if isinstance(base, str) else base.decode()
    return base_of(fallback, raw) if fallback else resolve(raw) if raw else ""


W3LIB: dict[str, tuple[Callable[..., object], Callable[[Any], object]]] = {
    "w3lib.encoding:http_content_type_encoding": (_charset_of_type, codec),
    "w3lib.encoding:html_body_declared_encoding": (_declared, codec),
    "w3lib.encoding:html_to_unicode": (_to_unicode, lambda ret: [codec(ret[0]), ret[1]]),
    "w3lib.encoding:resolve_encoding": (lambda label: codec(charset_name(label)), codec),
    "w3lib.encoding:read_bom": (_mark, lambda ret: codec(ret[0])),
    "w3lib.html:get_meta_refresh": (_refresh, lambda ret: ret[1]),
    "w3lib.html:get_base_url": (_base, lambda ret: ret),
}
_UTF_32 = "the Encoding standard has no UTF-32, and browsers read none"
_MIME = "MIME Sniffing standard 4.4: that is how browsers read this header"
_PRESCAN = (
    "the prescan takes only <meta charset> and <meta http-equiv=content-type>, anywhere in the"
    " first 1,024 bytes"
)
W3LIB_MISSES = {
    **dict.fromkeys((f"{number} read_bom" for number in (2, 3, 119, 122)), _UTF_32),
    **dict.fromkeys(("130 resolve_encoding", "131 http_content_type_encoding"), _UTF_32),
    **dict.fromkeys((f"{number} html_to_unicode" for number in (120, 121, 123, 124, 132)), _UTF_32),
    **dict.fromkeys(
        (f"{number} http_content_type_encoding" for number in (18, 23, 24, 25, 33)), _MIME
    ),
    "37 http_content_type_encoding": (
        "of two types in one header the last one counts (Fetch standard, extract a MIME type)"
    ),
    **dict.fromkeys(
        (f"{number} html_body_declared_encoding" for number in (44, 49, 50, 52, 62, 66, 67)),
        _PRESCAN,
    ),
    "69 resolve_encoding": "latin-1 with a hyphen is not a label of the Encoding standard",
    "84 html_body_declared_encoding": "nothing is declared; the detector's guess for two bytes",
    "126 resolve_encoding": "utf-16 is a label of UTF-16LE",
    "127 http_content_type_encoding": "utf-16 is a label of UTF-16LE",
    "128 html_to_unicode": "utf-16 is a label of UTF-16LE, and no byte order is guessed",
    "144 html_to_unicode": (
        "ASCII without a declaration is named windows-1252, the standard's fallback; the text is"
        " the same"
    ),
    "147 html_to_unicode": "nothing at all is named windows-1252, the standard's fallback",
    "170 get_meta_refresh": "a tag that the file's end cuts is not an element",
    "188 get_meta_refresh": (
        "asked of theirs with an option to look into noscript; such a target says that scripts"
        " are off"
    ),
    "190 get_meta_refresh": "asked of theirs with an option to look into scripts",
}


def test_charsets_bases_and_refreshes_as_w3lib_reads_them() -> None:
    def verdicts() -> Iterable[tuple[str, object, object]]:
        for number, row in enumerate(rows("w3lib-encoding-base-refresh.jsonl")):
            ours, theirs = W3LIB[row["fn"]]
            arguments = [_bytes(argument) for argument in row["args"]]
            yield f"{number} {row['fn'].rpartition(':')[2]}", ours(*arguments), theirs(row["ret"])

    check("w3lib-encoding-base-refresh.jsonl", verdicts(), W3LIB_MISSES)
