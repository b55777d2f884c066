"""A crawl that accepts some media: what is fetched, what is left, and what a program gets of it."""

from __future__ import annotations

from pathlib import Path

import msgspec

import lycosa
from crawling import QUICK, Pages, crawl_folder, html
from lycosa.base.config.sections import ScopeSection
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.synthetic import Response

SITE, CDN = "http://site.test", "http://cdn.test"


def file(kind: str, size: int, *more: tuple[str, str], status: int = 200) -> Response:
    return Response(status, [("Content-Type", kind), *more], b"\0\1" * (size // 2))


def test_accepted_media_are_stored_whole_and_others_without_their_body(tmp_path: Path) -> None:
    web = Pages(
        {
            f"{SITE}/": html(
                f"<img src='{CDN}/a.png'><script src=/s.js></script><a href=/film>Film</a>"
                "<a href=/get?7>Plan</a><video src=/v.mp4></video><a href=/half>Part</a>"
            ),
            f"{CDN}/a.png": file("image/png", 3_000_000),
            f"{SITE}/film": file("video/mp4", 50_000),
            f"{SITE}/v.mp4": file("video/mp4", 50_000),
            f"{SITE}/half": file(
                "image/png", 100, ("Content-Range", "bytes 5-104/900"), status=206
            ),
            f"{SITE}/get?7": file(
                "application/octet-stream",
                1000,
                ("Content-Disposition", "attachment; filename*=UTF-8''Grundri%C3%9F.pdf"),
            ),
        }
    )
    fetch = msgspec.structs.replace(QUICK.fetch, body_bytes=20_000, media_bytes=4_000_000)
    scope = ScopeSection(accept=("image", "pdf"))
    folder = tmp_path / "crawl"
    config = msgspec.structs.replace(QUICK, scope=scope, fetch=fetch)
    crawl_folder(folder, web, [f"{SITE}/"], config)
    records = {each.url: each.record for each in read_folder(folder).urls()}
    reasons = {url: (each.state, each.reason) for url, each in records.items()}
    assert f"{SITE}/s.js" not in records and f"{SITE}/v.mp4" not in records
    assert reasons[f"{CDN}/a.png"][0] is UrlState.FETCHED
    assert reasons[f"{SITE}/film"] == (UrlState.FETCHED, Reason.TYPE_REFUSED)
    assert reasons[f"{SITE}/half"] == (UrlState.FAILED, Reason.PARTIAL_ANSWER)
    pages = {page.url: page for page in lycosa.open(folder).pages()}
    assert len(pages[f"{CDN}/a.png"].raw_body) == 3_000_000
    assert pages[f"{CDN}/a.png"].media_type == "image/png"
    assert pages[f"{SITE}/film"].raw_body == b""
    assert pages[f"{SITE}/get?7"].file_name == "Grundriß.pdf"
    report = audit(folder)
    assert report.is_clean, report.first_breaches()
