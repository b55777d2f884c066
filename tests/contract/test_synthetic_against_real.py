"""The in-process fetcher is held against the real one: same server programs, same answers, for
every misbehaviour.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import msgspec

from lycosa.base.config.sections import FetchSection
from lycosa.base.model.fetched import Fetched, FetchRequest, Limits
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher
from lycosa.synthetic import (
    VIRTUAL_EPOCH,
    Misbehaviour,
    SyntheticFetcher,
    SyntheticServer,
    SyntheticWeb,
    VirtualClock,
    WebPlan,
    run_virtual,
)

# Answers that come at once have a minute: one second of a busy machine is no property of a fetcher.
# What never comes meets one limit only.
PATIENT = Limits(first_byte_s=60.0, total_s=60.0, min_bytes_per_s=1, min_speed_window_s=60.0)
SILENT = msgspec.structs.replace(PATIENT, first_byte_s=0.6)
SLOW = msgspec.structs.replace(PATIENT, min_bytes_per_s=5000, min_speed_window_s=1.0)
LIMITED = {
    "slow-headers": SILENT,
    "never-answers": SILENT,
    "slow-drip": SLOW,
    "stalls-in-body": SLOW,
}
PLAN = WebPlan(seed=9, hosts=3, pages=15, latency_s=0.0, gzip=0.5, chunked=0.5, gone=0.1)
NETWORK = "127.0.0.0/8"


class _RealClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


def said(fetched: Fetched) -> dict[str, object]:
    """All that the two must agree on; the Date line depends on when."""
    lines = re.sub(rb"Date: [^\r\n]*", b"", fetched.header_block)
    body = Path(fetched.spool).read_bytes() if fetched.spool else fetched.body
    facts = {
        name: getattr(fetched, name)
        for name in ("reason", "status", "truncated", "protocol", "url", "address")
    }
    if fetched.truncated != "time":  # how much comes in a given real time is not exact
        assert fetched.body_bytes == len(body)
        facts |= {"body": body, "spooled": bool(fetched.spool)}
    return facts | {"lines": lines}


def request(url: str) -> FetchRequest:
    return FetchRequest(url, "127.0.0.1", limits=LIMITED.get(url.rpartition("/")[2], PATIENT))


async def over_sockets(paths: list[str], folder: Path) -> tuple[list[str], list[Fetched]]:
    web = SyntheticWeb(PLAN)
    async with SyntheticServer(web, wall=lambda: VIRTUAL_EPOCH) as server:
        section = FetchSection(allow_addresses=(NETWORK,))
        fetcher = CurlFetcher(section, "lycosa", "", Guard([NETWORK]), _RealClock(), folder)
        urls = [web.seed_url(port=server.port) + path for path in paths]
        try:
            answers = await asyncio.gather(*(fetcher.fetch(request(url)) for url in urls))
        finally:
            await fetcher.close()
    return urls, answers


def in_process(urls: list[str], folder: Path) -> list[Fetched]:
    async def main() -> list[Fetched]:
        clock = VirtualClock()
        fetcher = SyntheticFetcher(SyntheticWeb(PLAN), clock, spool_dir=folder)
        return [await fetcher.fetch(request(url)) for url in urls]

    return run_virtual(main(), seed=None)


def agree(paths: list[str], folder: Path) -> None:
    urls, real = asyncio.run(over_sockets(paths, folder))
    for url, one, other in zip(urls, real, in_process(urls, folder), strict=True):
        assert said(one) == said(other), url


def test_every_misbehaviour_comes_to_the_same_with_both_fetchers(tmp_path: Path) -> None:
    # The session ids of a page are drawn from the time it is asked for.
    agree(
        [f"bad/{each.value}" for each in Misbehaviour if each is not Misbehaviour.SESSION_IDS],
        tmp_path,
    )


def test_every_page_comes_to_the_same_with_both_fetchers(tmp_path: Path) -> None:
    web = SyntheticWeb(PLAN)
    agree(
        [web.pages.path(0, page)[1:] for page in range(15)]
        + ["robots.txt", "static/logo.png", "no-such"],
        tmp_path,
    )
