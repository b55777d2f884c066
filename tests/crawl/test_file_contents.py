"""PDF files and feeds in a crawl: their text, their links, their rows of the content table."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from crawling import HTML, QUICK, Pages, crawl_folder, page
from lycosa.base.config.sections import StoreSection
from lycosa.inspect.audit.folder_audit import audit
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.synthetic import Response
from pdf_files import pdf_file

SITE = "http://papers.example/"
PDF = pdf_file(
    [["Wolf spiders hunt at night"]],
    info={"Title": "On spiders", "Author": "A. Person"},
    links=[(0, 0, "/only-in-the-file")],
)
FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>
<item><title>A bridge</title><link>/bridge</link><pubDate>Sat, 01 Mar 2025 12:00:00 GMT</pubDate>
<description>&lt;p&gt;It is &lt;a href="plan"&gt;old&lt;/a&gt;.&lt;/p&gt;</description></item>
<item><title>A road</title><link>/road</link><description>Plain &amp;amp; short</description>
<content:encoded xmlns:content="http://purl.org/rss/1.0/modules/content/">The whole text
</content:encoded></item></channel></rss>"""
WEB = {
    SITE: page("/one.pdf", "/feed"),
    f"{SITE}one.pdf": Response(200, [("Content-Type", "application/pdf")], PDF),
    f"{SITE}only-in-the-file": page(),
    f"{SITE}feed": Response(200, [("Content-Type", "application/rss+xml")], FEED.encode()),
    f"{SITE}bridge": page(),
    f"{SITE}road": page(),
    f"{SITE}robots.txt": Response(404, [HTML], b""),
}


def test_files_are_read_as_pages_are(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    config = msgspec.structs.replace(QUICK, store=StoreSection(content=True))
    crawl_folder(
        folder,
        Pages(WEB),
        [SITE],
        config,
        parser=lambda limits: InlineParser(msgspec.structs.replace(limits, reads_files=True)),
    )
    pages = {
        row["url"]: row
        for path in (folder / "pages").iterdir()
        for row in pq.read_table(path).to_pylist()
    }
    assert f"{SITE}only-in-the-file" in pages
    assert (pages[f"{SITE}one.pdf"]["title"], pages[f"{SITE}one.pdf"]["via"]) == (
        "On spiders",
        SITE,
    )
    content = {
        row["url"]: row
        for path in (folder / "content").iterdir()
        for row in pq.read_table(path).to_pylist()
    }
    paper, feed = content[f"{SITE}one.pdf"], content[f"{SITE}feed"]
    assert (paper["main_text"], paper["author"]) == ("Wolf spiders hunt at night", "A. Person")
    assert feed["main_text"] == "A bridge\nIt is old.\nA road\nThe whole text"
    assert feed["markdown"] == (
        f"## [A bridge]({SITE}bridge)\n\nIt is [old]({SITE}plan).\n\n## [A road]({SITE}road)\n\nThe whole text"
    )
    assert feed["modified"] == "2025-03-01T12:00:00+00:00"
    report = audit(folder)
    assert report.is_clean, report
