"""How many near-duplicates are found, and when: asked of the owners before a page is stored, or
judged by events afterwards.

    python -m bench.near_verdicts [--hosts 24] [--pages 60]

Whole crawls in virtual time, with the workers and the exchange of the tests: one, two and four
workers, who ask (as on one machine) or judge by events; events travel over connections, or through
topics that are up to ten seconds late (as on a cluster). Two webs: the synthetic web with near
copies of pages of the same host, and sites with nearly the same texts that are crawled at the same
time. What could be found is known from the simhashes of all captures.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from judging import new_folder, quick_config, stored_rows, tables, urls_of
from lycosa.base.config.sections import FrontierSection, PolitenessSection
from lycosa.base.model.parcel_items import Verdict
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.alike_pages import AlikePages
from lycosa.state.exchange.exchange_port import ExchangeEnds, Lateness
from lycosa.state.exchange.topic import MemoryTopics, TopicPost
from lycosa.state.seen.simhash import MAX_DISTANCE
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from lycosa.worker.worker_ports import Ports
from scripted import Answer, page, scripted_crawl
from several_workers import SlowExchange, run_workers
from virtual_crawl import VirtualCrawl

_PARTITIONS = 16


class Topics(SlowExchange):
    """Parcels through topics, up to ten seconds late."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = MemoryTopics()

    def ends(self, number: int) -> ExchangeEnds:
        return ExchangeEnds(
            TopicPost(self.topics.append_parcel), self, self.topics.inbound(number), Lateness()
        )


class Found(NamedTuple):
    """Pages of one crawl, those with an earlier page within three bits, those whose record and
    whose row at the time of storing say so, and seconds from a capture to its verdict.
    """

    pages: int
    similar: int
    by_record: int
    by_row: int
    lags_s: list[float]
    parcels: int


@contextmanager
def watched(by_events: bool, lags: list[float]) -> Iterator[None]:
    """Verdicts come later, whatever the exchange; their lags are noted."""
    import asyncio

    has_topic, note = Ports.has_topic, AlikePages.note_verdict

    def noted(self: AlikePages, verdict: Verdict) -> None:
        before = self._noted
        note(self, verdict)
        if self._noted > before:
            now = VIRTUAL_EPOCH + asyncio.get_running_loop().time()
            value = self._table.get(b"U" + _keys(verdict.url))
            from lycosa.state.kv.table_records import decode_url

            assert value is not None
            history = decode_url(value).history
            assert history is not None
            lags.append(now - history.date_us / 1e6)

    Ports.has_topic = property(lambda ports: by_events)  # type: ignore[assignment,method-assign]
    AlikePages.note_verdict = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        Ports.has_topic = has_topic  # type: ignore[method-assign]
        AlikePages.note_verdict = note  # type: ignore[method-assign]


def _keys(url: str) -> bytes:
    from lycosa.base.urls.identity import hash8, host_of

    return hash8(host_of(url)) + hash8(url)


def similar_pages(rows: list[JournalRow]) -> set[str]:
    """URLs of pages that have an earlier page within three bits, which is not such a page itself."""
    originals: list[JournalRow] = []
    found = set()
    for row in sorted(rows, key=lambda row: (row.date_us, row.url)):
        if not row.simhash or row.revisit:
            continue
        if any((row.simhash ^ each.simhash).bit_count() <= MAX_DISTANCE for each in originals):
            found.add(row.url)
        else:
            originals.append(row)
    return found


def crawled(
    make: Callable[[Path, int], tuple[VirtualCrawl, list[str]]],
    workers: int,
    exchange: SlowExchange,
    by_events: bool,
) -> Found:
    """One crawl to its end."""
    lags: list[float] = []
    with TemporaryDirectory() as name, watched(by_events, lags):
        is_topic = isinstance(exchange, Topics)
        crawl, seeds = make(Path(name), workers if is_topic else _PARTITIONS)
        run_workers(crawl, workers, seeds, exchange=exchange)
        rows = [row for row in stored_rows(crawl.folder) if row.status == 200 and not row.revisit]
        with tables(crawl) as opened:
            near = sum(
                record.reason is Reason.NEAR_DUPLICATE
                for table in opened
                for _, _, record in urls_of(table)
            )
            parcels = sum(
                int.from_bytes(value)
                for table in opened
                for key, value in table.scan(b"O", b"P")
                if len(key) == 5
            )
    told = sum(row.near_duplicate_of is not None for row in rows)
    first: list[float] = lags
    return Found(len(rows), len(similar_pages(rows)), near, told, first, parcels)


def _config(partitions: int) -> Any:
    return quick_config(
        frontier=FrontierSection(partitions=partitions, bands=4, head=6),
        politeness=PolitenessSection(delay_s=1.0),
    )


def synthetic(hosts: int, pages: int) -> Callable[[Path, int], tuple[VirtualCrawl, list[str]]]:
    """The synthetic web, with a fifth of near copies."""

    def make(folder: Path, partitions: int) -> tuple[VirtualCrawl, list[str]]:
        plan = WebPlan(hosts=hosts, pages=pages, near_duplicates=0.2, duplicates=0.05)
        web = SyntheticWeb(plan)
        crawl = VirtualCrawl(new_folder(folder / "c"), web, _config(partitions))
        return crawl, [web.seed_url(number) for number in range(hosts)]

    return make


def mirrors(hosts: int, pages: int) -> Callable[[Path, int], tuple[VirtualCrawl, list[str]]]:
    """Sites with the same pages but for a word, all crawled at the same time."""
    chance = random.Random(1)
    texts = [" ".join(f"word{chance.randrange(5000)}" for _ in range(800)) for _ in range(pages)]
    sites = [f"http://m{number}.test/" for number in range(hosts)]
    answers: dict[str, Answer] = {}
    for number, site in enumerate(sites):
        answers[site] = page(*(f"{site}{n}" for n in range(pages)), text=f"home of {number}")
        for n, text in enumerate(texts):
            latency_s = chance.uniform(0.05, 0.5)
            answers[f"{site}{n}"] = page(text=f"odd{number} {text}", latency_s=latency_s)

    def make(folder: Path, partitions: int) -> tuple[VirtualCrawl, list[str]]:
        crawl, _ = scripted_crawl(folder / "c", answers, _config(partitions))
        return crawl, sites

    return make


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.near_verdicts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--hosts", type=int, default=24)
    parser.add_argument("--pages", type=int, default=60, help="of each host")
    asked = parser.parse_args()
    webs = {
        "synthetic web": synthetic(asked.hosts, asked.pages),
        "sites in step": mirrors(8, asked.pages),
    }
    ways: list[tuple[str, Callable[[], SlowExchange], bool]] = [
        ("asked", SlowExchange, False),
        ("events", SlowExchange, True),
        ("events, topics", Topics, True),
    ]
    print(
        f"{'':14} {'':16} {'workers':>7} {'pages':>6} {'similar':>7} {'record':>7} {'row':>7}"
        f" {'verdict after s':>17} {'parcels a page':>14}"
    )
    for web, make in webs.items():
        for way, exchange, by_events in ways:
            for workers in (1, 2, 4):
                if way == "events, topics" and workers == 1:
                    continue
                found = crawled(make, workers, exchange(), by_events)
                share = 100 / max(found.similar, 1)
                lags = sorted(found.lags_s)
                late = f"{statistics.median(lags):.1f}, {lags[-1]:.1f} at most" if lags else "-"
                print(
                    f"{web:14} {way:16} {workers:7} {found.pages:6} {found.similar:7}"
                    f" {found.by_record * share:5.1f} % {found.by_row * share:5.1f} % {late:>17}"
                    f" {found.parcels / found.pages:14.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
