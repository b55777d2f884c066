"""An outside fetcher: it leases URLs from a crawl, requests them, and returns what it got.

    lycosa serve DIR --seed URL --set fetch.own_pages=false    # in one terminal
    python outside_fetcher.py http://127.0.0.1:8470            # in another one, or in several

It needs httpx (pip install httpx). It keeps nothing: when it is killed, its leases expire and their
URLs return to the queue.
"""

import asyncio
import base64
import os
import sys
import time
from urllib.parse import urlsplit

import httpx

AGENT = {"user-agent": "lycosa/outside-fetcher"}  # robots.txt was judged for the name before the /
TOKEN = {"authorization": f"Bearer {os.environ.get('LYCOSA_TOKEN', 'none')}"}
WANTED = {"worker_id": f"example-{os.getpid()}", "batch_size": 20, "lease_s": 30}
MAX_PIECE_BYTES, IDLE_S = 5_000_000, float(os.environ.get("IDLE_S", "60"))


async def fetch(web: httpx.AsyncClient, lease: dict) -> dict:
    """Request a leased URL once; redirects are the crawl's to follow."""
    url, began, body = urlsplit(lease["url"]), time.time(), b""
    name = f"[{lease['address']}]" if ":" in lease["address"] else lease["address"]
    at = url._replace(netloc=f"{name}:{url.port}" if url.port else name).geturl()
    result = {"lease_id": lease["lease_id"], "began": began}
    more = {"headers": AGENT | {"host": url.netloc}, "extensions": {"sni_hostname": url.hostname}}
    try:
        async with web.stream("GET", at, **more) as answer:
            async for piece in answer.aiter_raw():  # as received: the crawl decodes it
                if len(body := body + piece) > MAX_PIECE_BYTES:
                    raise httpx.ReadError("the body is too long")
            result |= {"status": answer.status_code, "body": base64.b64encode(body).decode()}
            result["headers"] = list(map(list, answer.headers.multi_items()))
    except httpx.HTTPError as error:
        result["error"] = f"{error!r}"[:500]
    return result | {"ended": time.time()}


async def main(url: str) -> None:
    last = time.monotonic()
    begin = {"base_url": f"{url.rstrip('/')}/api/v1", "headers": TOKEN, "timeout": 60}
    async with httpx.AsyncClient(**begin) as api, httpx.AsyncClient(timeout=20) as web:
        while time.monotonic() - last < IDLE_S:
            try:
                leased = await api.get("/frontier/next", params=WANTED)
                work = [fetch(web, lease) for lease in leased.raise_for_status().json()["urls"]]
                if results := await asyncio.gather(*work):
                    given = {"worker_id": WANTED["worker_id"], "results": results}
                    (await api.post("/frontier/results", json=given)).raise_for_status()
                    last = time.monotonic()
            except httpx.HTTPError as error:  # for example: the interface is being started again
                print(f"{error!r}; trying again", flush=True)
                await asyncio.sleep(1)


asyncio.run(main(sys.argv[1]))
