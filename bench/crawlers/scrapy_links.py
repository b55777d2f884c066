"""Scrapy with its own LinkExtractor: follows every link of one host and counts pages. ``python -m
bench.crawlers.scrapy_links URL``.

Its settings are its defaults but for those in ``SETTINGS``, which take away delays, the log and
what a plain crawl does not need.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor

SETTINGS = {
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "HTTPCACHE_ENABLED": False,
    "ROBOTSTXT_OBEY": True,
    "COOKIES_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "WARNING",
}


class Pages(scrapy.Spider):
    """Counts HTML pages of one host and yields no items."""

    name = "pages"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.allowed_domains = [urlsplit(url).hostname]
        self.extractor = LinkExtractor()
        self.pages = 0

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.url)

    def parse(self, response: Response, **_: Any) -> Iterator[scrapy.Request]:
        if not isinstance(response, HtmlResponse):
            return
        self.pages += response.status == 200
        for link in self.extractor.extract_links(response):
            yield scrapy.Request(link.url)

    def closed(self, reason: str) -> None:
        print(f"scrapy {scrapy.__version__}: {self.pages} pages, {reason}")


if __name__ == "__main__":
    process = CrawlerProcess(SETTINGS)
    process.crawl(Pages, url=sys.argv[1])
    process.start()
