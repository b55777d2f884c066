"""Sitemaps and feeds against what crawler-commons' parser gives."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import ParseInput
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl
from lycosa.stages.admit.sitemap_scope import may_list
from lycosa.stages.parse.document import DocumentParser

FILE = (
    Path(__file__).parents[2].parent
    / "shared"
    / "data"
    / "sitemaps"
    / "crawler-commons-sitemaps.jsonl"
)
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not FILE.is_file(), reason="no conformance vectors beside the checkout"),
]

MISSES: dict[str, str] = {
    "0 testRSSFormat": "a guid that says it is no permalink is not followed",
    "11 testRSSPubDate": "a date without a zone is read as UTC",
    "33 testSitemapXXE": (
        "theirs refuses a document type; it is passed over here, and no entity is ever resolved"
    ),
    "37 testSitemapWithWrongNamespace": "theirs was asked to be strict about namespaces",
}


def verdicts() -> Iterable[tuple[str, object, object]]:
    canonicalizer = Canonicalizer(CanonicalSection())
    parser = DocumentParser(ParseSection(language=False), canonicalizer, "lycosa")
    for number, line in enumerate(FILE.read_text().splitlines()):
        row = json.loads(line)
        headers, body = (
            [("content-type", row["content_type"])],
            base64.b64decode(row["content_b64"]),
        )
        parsed = parser.parse(ParseInput(row["url"], 200, headers, body, is_sitemap=True))
        kind, is_index, _ = (row["kind"] or "|false|").split("|")
        wanted = (
            {LinkKind.FEED}
            if kind in ("RSS", "ATOM")
            else {LinkKind.SITEMAP, LinkKind.SITEMAP_FILE}
        )
        links = [link for link in parsed.links if link.kind in wanted]
        # as the intake is about a sitemap that no robots.txt names; theirs is not about indexes
        if row["strict"]:
            links = [
                link
                for link in links
                if link.kind is not LinkKind.SITEMAP or may_list(row["url"], link.url, ())
            ]
        ours = [(link.url, parsed.hints.get(link.url, (0, 0))[0]) for link in links]
        theirs = {}
        for entry in row["entries"]:
            try:
                theirs[canonicalizer.canonical(entry["loc"])] = (
                    int(entry["lastmod_ms"] or 0) // 1000
                )
            except InvalidUrl:
                continue
        yield (
            f"{number} {row['test'].rpartition('.')[2]}",
            (ours, parsed.is_sitemap_index),
            (list(theirs.items()), is_index == "true"),
        )


def test_sitemaps_as_crawler_commons_reads_them() -> None:
    found = list(verdicts())
    differing = {case: (ours, theirs) for case, ours, theirs in found if ours != theirs}
    print(f"crawler-commons-sitemaps.jsonl: passed {len(found) - len(differing)} of {len(found)}")
    for case in sorted(differing.keys() & MISSES.keys()):
        print(f"  {case}: {MISSES[case]}")
    unlisted = {case: values for case, values in differing.items() if case not in MISSES}
    assert not unlisted, "\n".join(
        f"{case}: ours {ours!r}, theirs {theirs!r}" for case, (ours, theirs) in unlisted.items()
    )
    assert not MISSES.keys() - differing.keys(), "listed misses that pass"
