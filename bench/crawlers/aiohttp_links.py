"""The least crawler that people write by hand: aiohttp fetches, selectolax finds links, a set
remembers. No robots.txt, nothing stored.

``python -m bench.crawlers.aiohttp_links URL``: 64 requests at once, one host.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urldefrag, urljoin, urlsplit

import aiohttp
import uvloop
from selectolax.lexbor import LexborHTMLParser

_AT_ONCE = 64


async def crawl(start: str) -> int:
    """Fetches every page of the host of ``start``; gives their number."""
    host = urlsplit(start).netloc
    seen = {start}
    queue: asyncio.Queue[str] = asyncio.Queue()
    queue.put_nowait(start)
    pages = 0

    async def work(session: aiohttp.ClientSession) -> None:
        nonlocal pages
        while True:
            url = await queue.get()
            async with session.get(url) as response:
                if response.status == 200 and response.content_type == "text/html":
                    pages += 1
                    for node in LexborHTMLParser(await response.read()).css("a[href], area[href]"):
                        _admit(node.attributes["href"], url)
            queue.task_done()

    def _admit(href: str | None, url: str) -> None:
        try:
            target = urldefrag(urljoin(url, (href or "").strip()))[0]
            if (
                target not in seen
                and target.startswith(("http:", "https:"))
                and urlsplit(target).netloc == host
            ):
                seen.add(target)
                queue.put_nowait(target)
        except ValueError:
            return  # not a URL

    connector = aiohttp.TCPConnector(limit=_AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session:
        workers = [asyncio.create_task(work(session)) for _ in range(_AT_ONCE)]
        await queue.join()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return pages


if __name__ == "__main__":
    print(f"{uvloop.run(crawl(sys.argv[1]))} pages")
