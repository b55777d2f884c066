"""Renders to store, made of the capture that they are of."""

from __future__ import annotations

from lycosa.base.model.capture import Capture, Location, StoredOriginal, Want
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.finished_render import FinishedRender, RoundNote
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.rendered_page import PageRequest, Rendered, RenderEnd
from lycosa.state.store.journal_rows import date_us
from store_samples import parsed

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
SCRIPT = "https://www.example.org/app.js"
TEXT = "Written by a script. " * 20
HTML = f'<html><head><script nonce="r4nd0m">1</script></head><body><p>{TEXT}</p></body></html>'


def rendered(url: str, **changes: object) -> Rendered:
    values: dict[str, object] = {
        "end": RenderEnd.QUIET,
        "url": url,
        "title": "From a script",
        "html": HTML,
        "requests": (
            PageRequest(url, "document", "urn:uuid:1", status=200, media_type="text/html"),
            PageRequest(SCRIPT, "script", "urn:uuid:2", status=200, media_type="text/javascript"),
            PageRequest("https://www.example.org/data.json", "", "", "robots_disallowed"),
        ),
        "wants": (Want("https://www.example.org/data.json"),),
        "refused": {"popup": 2},
        "changed": {"cors": 1},
        "console": ("a line",),
        "errors": ("TypeError: x is not a function",),
        "elapsed_s": 1.5,
        "processor_s": 0.7,
        "memory_bytes": 200_000_000,
        "browser": "Chromium 140.0",
        "fonts": "f0f0",
    }
    return Rendered(**{**values, **changes})  # type: ignore[arg-type]


def finished_render(
    capture: Capture, place: Location, document: Parsed | None = None, **changes: object
) -> FinishedRender:
    """The render of a stored capture, a minute after its fetch."""
    fetched = capture.fetched
    values: dict[str, object] = {
        "url": fetched.url,
        "host": capture.host,
        "site": capture.site,
        "original": StoredOriginal(
            fetched.url, date_us(fetched.started), place.record_id, place.segment, place.offset
        ),
        "rendered": rendered(fetched.url),
        "parsed": document or parsed(5, title="From a script", text=TEXT),
        "rendered_at": fetched.started + 60,
        "rounds": (
            RoundNote(fetched.started + 10, "quiet", 1.0, 0.5, 2, 1),
            RoundNote(fetched.started + 58, "quiet", 1.5, 0.7, 0, 2),
        ),
        "depth": capture.depth,
        "via": capture.via,
        "link_kind": LinkKind.A,
        "fetch_number": capture.fetch_number,
        "page_characters": len(capture.parsed.text) if capture.parsed else 0,
        "page_links": len(capture.parsed.links) if capture.parsed else 0,
    }
    return FinishedRender(**{**values, **changes})  # type: ignore[arg-type]


def failed_render(capture: Capture, place: Location) -> FinishedRender:
    """One whose scripts never ended."""
    url = capture.fetched.url
    gone = rendered(url, end=RenderEnd.HUNG, html="", title="", detail="20 s")
    return finished_render(capture, place, Parsed(), rendered=gone)
