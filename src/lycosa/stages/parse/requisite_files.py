"""Files that pages load and that load others: style sheets, modules, manifests, drawings.

They are read only for crawls that fetch requisites or render pages. None of them has text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.stages.parse.charset import decode_text
from lycosa.stages.parse.element_readers import RawPage
from lycosa.stages.parse.html import read_drawing
from lycosa.stages.parse.module_imports import static_imports
from lycosa.stages.parse.style_sheets import MAX_STYLE_BYTES, read_style_file

_JSON = frozenset({"application/json", "text/json"})
_MANIFEST = "application/manifest+json"
_MAX_MANIFEST = 1 << 20
SCRIPTS = frozenset(
    {f"{kind}/{name}" for kind in ("text", "application") for name in ("javascript", "ecmascript")}
    | {
        f"{kind}/x-{name}"
        for kind in ("text", "application")
        for name in ("javascript", "ecmascript")
    }
    | {"text/jscript", "text/livescript", *(f"text/javascript1.{each}" for each in range(6))}
)
"""Media types of scripts (MIME Sniffing standard 4.6, "JavaScript MIME type")."""


def read_requisite_file(
    essence: str, url: str, body: bytes, label: str | None, max_links: int
) -> tuple[RawPage | None, bool]:
    """The links of such a file, and whether only its beginning was read.

    ``None`` for a file of another type. ``essence`` is its media type, ``label`` its charset by
    HTTP.
    """
    if essence == "text/css":
        charset, found = read_style_file(body, label)
        page = RawPage(charset, max_links=max_links)
        for loaded, kind in found:
            page.add(loaded, kind)
        return page, len(body) > MAX_STYLE_BYTES
    if essence in SCRIPTS:
        # Only "import" and "export" begin what is read. Most scripts are not even decoded.
        page = RawPage(label.lower() if label else "", max_links=max_links)
        if b"import" in body or b"export" in body:
            for loaded in static_imports(decode_text(body, label)[0]):
                page.add(loaded, LinkKind.SCRIPT)
        return page, False
    if essence == _MANIFEST or (essence in _JSON and _is_manifest_name(url)):
        page = RawPage("utf-8", max_links=max_links)
        for loaded in manifest_images(body[:_MAX_MANIFEST]):
            page.add(loaded, LinkKind.IMG)
        return page, False
    if essence == "image/svg+xml":
        return read_drawing(body, label, max_links), False
    return None, False


def _is_manifest_name(url: str) -> bool:
    """Whether a JSON file is a manifest by its name: many servers know no type for them."""
    name = url.partition("?")[0].rpartition("/")[2].lower()
    return name.endswith((".webmanifest", "manifest.json"))


def manifest_images(body: bytes) -> Iterator[str]:
    """Raw URLs of the images of a web application manifest: icons, shortcuts' icons, screenshots.

    Source: W3C Web Application Manifest, "process an image resource".
    """
    try:
        manifest = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return  # it is no manifest, and loads nothing
    owners = [manifest, *_members(manifest, "shortcuts")]
    for owner in owners:
        for name in ("icons", "screenshots"):
            for image in _members(owner, name):
                if isinstance(image, dict) and isinstance(source := image.get("src"), str):
                    yield source


def _members(value: Any, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
