"""New and due pages share the turns of a host, and those of a crawl with too few slots, by
``refetch.share``; probes have ``refetch.probes`` of the refetches.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from crawling import page
from judging import are_balanced, asked, is_polite, quick_config
from lycosa.base.config.sections import (
    Config,
    FetchSection,
    FrontierSection,
    LimitSection,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
)
from lycosa.base.model.due_band import DueBand
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.synthetic import VIRTUAL_EPOCH
from scripted import Answer, scripted_crawl

DAY = 86_400.0
LESS = DAY - 3600  # robots.txt is still known


def config_of(share: float, **more: object) -> Config:
    return quick_config(
        refetch=RefetchSection(
            rule=RefetchRule.ADAPTIVE, share=share, first_s=LESS, min_s=LESS, max_s=LESS
        ),
        **more,
    )


@pytest.mark.parametrize("share", [0.25, 0.8])
def test_a_host_gives_due_pages_their_share_while_new_ones_wait(
    tmp_path: Path, share: float
) -> None:
    host, old = "http://a.example/", [f"p{number}" for number in range(60)]
    new = [f"n{number}" for number in range(200)]
    web = {
        host: lambda earlier, _: page(*(old if not earlier else new)),
        **{f"{host}{path}": page(text=path) for path in old + new},
    }
    crawl, _ = scripted_crawl(tmp_path / "c", web, config_of(share))
    crawl.longest_s = 30 * DAY
    crawl.run([host])
    crawl.now += DAY - 60
    before = len(asked(crawl.log))
    crawl.config = msgspec.structs.replace(crawl.config, limits=LimitSection(max_pages=61 + 61))
    crawl.run()
    urls = asked(crawl.log)[before:]
    # The front page is the first that is due; from its links on both kinds wait.
    while_both = urls[5:45]
    due = sum(url.removeprefix(host) in old for url in while_both)
    assert due == pytest.approx(share * len(while_both), abs=1)
    is_polite(crawl.log, crawl.config.politeness)
    waiting = are_balanced(crawl).due[DueBand.DUE]
    assert waiting > 0
    reader = read_folder(crawl.folder)
    saved, now = load_saved_settings(reader), VIRTUAL_EPOCH + crawl.now
    assert crawl_status(reader, saved, now).due_pages == {"due": waiting}
    last = [path for path in old if f"{host}{path}" not in urls][-1]
    facts = {each.key: each for each in explain(reader, saved, f"{host}{last}", now).facts}
    assert facts["queue_band"].text.startswith("due: a fetch is worth about its price")
    assert f"{share:.0%} of the turns" in facts["queue_band"].text
    assert facts["queue_before"].value == waiting - 1, "of its kind"
    assert [each.name for each in audit(crawl.folder).checks if each.breaches] == []


def test_a_crawl_with_too_few_slots_gives_hosts_with_due_pages_their_share(
    tmp_path: Path,
) -> None:
    """Hosts have either kind alone: 150 with due pages, and 150 new ones."""
    web: dict[str, Answer] = {}
    for number in range(300):
        host = f"http://h{number}.example/"
        web |= {host: page("p0"), f"{host}p0": page(text=f"{number}")}
    config = config_of(
        0.3,
        fetch=FetchSection(slots=2),
        frontier=FrontierSection(partitions=1, bands=4, head=6, workbench=20),
        politeness=PolitenessSection(delay_s=0.1),
    )
    crawl, _ = scripted_crawl(tmp_path / "c", web, config)
    crawl.longest_s = 30 * DAY
    crawl.run([f"http://h{number}.example/" for number in range(150)])
    crawl.now += DAY - 60
    before = len(crawl.log)
    crawl.run([f"http://h{number}.example/" for number in range(150, 300)])
    # A new host has a turn for its robots.txt as well.
    urls = crawl.log.urls()[before:]
    numbers = [int(url.removeprefix("http://h").partition(".")[0]) for url in urls]
    pages = Counter(
        number for number, url in zip(numbers, urls, strict=True) if "robots" not in url
    )
    assert pages == dict.fromkeys(range(300), 2)
    turns = numbers[20:320]
    due = sum(number < 150 for number in turns)
    assert due == pytest.approx(0.3 * len(turns), rel=0.15)
    # and no stretch is left to one kind
    for at in range(0, 300, 25):
        assert 0 < sum(number < 150 for number in turns[at : at + 25]) < 25


def test_probes_have_a_twentieth_of_the_refetches_the_longest_unseen_first(
    tmp_path: Path,
) -> None:
    """Pages that never change, so that no fetch is worth the price within ``max_s``, and others
    that do.
    """
    host = "http://a.example/"
    still, news = [f"s{number}" for number in range(8)], [f"n{number}" for number in range(25)]

    def changing(path: str) -> Answer:
        return lambda earlier, _: page(text=f"{path} edition {earlier // 2}")

    web: dict[str, Answer] = {host: page(*still, *news)}
    web |= {f"{host}{path}": page(text=path) for path in still}
    web |= {f"{host}{path}": changing(path) for path in news}
    section = RefetchSection(
        rule=RefetchRule.VALUE,
        budget="",
        first_s=DAY,
        min_s=DAY,
        max_s=3 * DAY,
        price=5.0,
        policies=("re:/n every 1d",),
    )
    crawl, _ = scripted_crawl(tmp_path / "c", web, quick_config(refetch=section))
    crawl.run([host])
    for _ in range(20):
        crawl.now += DAY + 60
        crawl.run()
    counters = are_balanced(crawl)
    probes, all_refetches = counters.refetched[DueBand.PROBE], sum(counters.refetched.values())
    assert 8 < probes <= 0.05 * all_refetches + 1
    order = [url.removeprefix(host) for url in asked(crawl.log) if "/s" in url]
    rounds = [order[at : at + 8] for at in range(0, len(order), 8)]
    assert all(len(set(each)) == len(each) for each in rounds), "each before any again"
    assert len(rounds) > 3
    assert [each.name for each in audit(crawl.folder).checks if each.breaches] == []
