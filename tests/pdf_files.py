"""Makes small PDF files as programs write them: pages of lines, links, metadata, bookmarks."""

from __future__ import annotations

from collections.abc import Sequence


def pdf_file(
    pages: Sequence[Sequence[str]],
    *,
    info: dict[str, str] | None = None,
    links: Sequence[tuple[int, int, str]] = (),
    bookmarks: Sequence[str] = (),
    language: str = "",
    trailer: str = "",
) -> bytes:
    """A file with a line of text for each string, from the top of the page.

    ``links`` are page, line and URL; ``bookmarks`` are titles, one a page; ``trailer`` is added to
    the trailer's dictionary.
    """
    objects: list[bytes] = [b""] * 3  # catalog, page tree, font
    objects[2] = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"

    def add(content: str | bytes) -> int:
        objects.append(content if isinstance(content, bytes) else content.encode("latin-1"))
        return len(objects)

    numbers: list[int] = []
    for number, lines in enumerate(pages):
        drawn = b"".join(
            b"BT /F1 10 Tf 50 %d Td (%s) Tj ET\n" % (780 - 14 * at, _escaped(line))
            for at, line in enumerate(lines)
        )
        stream = add(b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn))
        areas = [
            add(
                f"<</Type/Annot/Subtype/Link/Rect[50 {776 - 14 * line} 500 {790 - 14 * line}]"
                f"/A<</S/URI/URI({url})>>>>"
            )
            for page, line, url in links
            if page == number
        ]
        annotations = " ".join(f"{each} 0 R" for each in areas)
        numbers.append(
            add(
                "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]"
                f"/Resources<</Font<</F1 3 0 R>>>>/Contents {stream} 0 R/Annots[{annotations}]>>"
            )
        )
    kids = " ".join(f"{each} 0 R" for each in numbers)
    objects[1] = f"<</Type/Pages/Kids[{kids}]/Count {len(numbers)}>>".encode()
    catalog = "<</Type/Catalog/Pages 2 0 R"
    if language:
        catalog += f"/Lang({language})"
    if bookmarks:
        root = len(objects) + 1
        add("")
        first = len(objects) + 1
        for at, title in enumerate(bookmarks):
            following = f"/Next {first + at + 1} 0 R" if at + 1 < len(bookmarks) else ""
            page = numbers[min(at, len(numbers) - 1)]
            add(f"<</Title({title})/Parent {root} 0 R/Dest[{page} 0 R/Fit]{following}>>")
        last = len(objects)
        objects[root - 1] = f"<</First {first} 0 R/Last {last} 0 R>>".encode()
        catalog += f"/Outlines {root} 0 R"
    objects[0] = (catalog + ">>").encode()
    if info:
        fields = "".join(f"/{name}({value})" for name, value in info.items())
        trailer += f"/Info {add(f'<<{fields}>>')} 0 R"
    return _written(objects, trailer)


def _escaped(line: str) -> bytes:
    return line.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _written(objects: Sequence[bytes], trailer: str) -> bytes:
    written, places = bytearray(b"%PDF-1.7\n"), list[int]()
    for number, content in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    begin = len(written)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    written += b"".join(b"%010d 00000 n \n" % place for place in places)
    written += b"trailer<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        trailer.encode(),
        begin,
    )
    return bytes(written)
