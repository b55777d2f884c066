"""Makes small office documents as programs write them: ZIP archives of XML."""

from __future__ import annotations

import io
import zipfile
from xml.sax.saxutils import escape, quoteattr

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_ODF = "urn:oasis:names:tc:opendocument:xmlns"

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
ODT = "application/vnd.oasis.opendocument.text"


def docx_file(
    heading: str, text: str, link: tuple[str, str] = ("", ""), *, title: str = "", author: str = ""
) -> bytes:
    """A heading, a paragraph, and a link: URL and anchor."""
    url, anchor = link
    document = (
        f'<w:document xmlns:w="{_WORD}" xmlns:r="{_OFFICE}"><w:body><w:p><w:pPr>'
        f'<w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>{escape(heading)}</w:t></w:r></w:p>'
        f'<w:p><w:r><w:t xml:space="preserve">{escape(text)} </w:t></w:r>'
        f'<w:hyperlink r:id="rId1"><w:r><w:t>{escape(anchor)}</w:t></w:r></w:hyperlink></w:p>'
        "</w:body></w:document>"
    )
    core = (
        '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/'
        'core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/" '
        'xmlns:dcterms="http://purl.org/dc/terms/" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f"<dc:title>{escape(title)}</dc:title><dc:creator>{escape(author)}</dc:creator>"
        '<dcterms:created xsi:type="dcterms:W3CDTF">2025-03-01T12:00:00Z</dcterms:created>'
        "</cp:coreProperties>"
    )
    return _archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{_TYPES}"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/><Override '
            f'PartName="/word/document.xml" ContentType="{_MAIN}"/></Types>',
            "_rels/.rels": _relations(
                ("rId1", f"{_OFFICE}/officeDocument", "word/document.xml", False),
                ("rId2", f"{_RELATIONS}/metadata/core-properties", "docProps/core.xml", False),
            ),
            "word/document.xml": document,
            "word/_rels/document.xml.rels": _relations(("rId1", f"{_OFFICE}/hyperlink", url, True)),
            "docProps/core.xml": core,
        }
    )


def odt_file(text: str, url: str, anchor: str) -> bytes:
    """An OpenDocument text of one paragraph that ends with a link."""
    content = (
        f'<office:document-content xmlns:office="{_ODF}:office:1.0" '
        f'xmlns:text="{_ODF}:text:1.0" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"<office:body><office:text><text:p>{escape(text)} <text:a xlink:type="
        f'"simple" xlink:href={quoteattr(url)}>{escape(anchor)}</text:a></text:p>'
        "</office:text></office:body></office:document-content>"
    )
    return _archive({"mimetype": ODT, "content.xml": content})


def _relations(*relations: tuple[str, str, str, bool]) -> str:
    return (
        f'<Relationships xmlns="{_RELATIONS}">'
        + "".join(
            f'<Relationship Id="{name}" Type="{kind}" Target={quoteattr(target)}'
            + (' TargetMode="External"/>' if is_external else "/>")
            for name, kind, target, is_external in relations
        )
        + "</Relationships>"
    )


def _archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
