"""Scrapy extracting an item a page, with a fault at some of them. ``python -m
bench.crawlers.scrapy_items URL FAULT FOLDER``; run it again to resume.

As its manual says for jobs that can be paused: ``JOBDIR``, and a feed of JSON lines.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import scrapy
from bench.crawlers.faults import misbehave
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response


class Items(scrapy.Spider):
    """Follows every link and yields the URL and heading of every page."""

    name = "items"

    def __init__(self, url: str, fault: str) -> None:
        super().__init__()
        self.url, self.fault = url, fault
        self.allowed_domains = [urlsplit(url).hostname]

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.url)

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        misbehave(self.fault, response.url)
        yield {"url": response.url, "name": response.css("h1::text").get()}
        yield from response.follow_all(css="a")


if __name__ == "__main__":
    start_url, fault, folder = sys.argv[1:4]
    Path(folder).mkdir(exist_ok=True)
    process = CrawlerProcess(
        {
            "JOBDIR": f"{folder}/job",
            "FEEDS": {f"{folder}/items.jsonl": {"format": "jsonlines", "overwrite": False}},
            "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": True,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "CRITICAL",
        }
    )
    process.crawl(Items, url=start_url, fault=fault)
    process.start()
