"""What a worker says it waits for, and what it would request next."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawling import QUICK, Pages, crawl_folder
from crawling import page as html_page
from judging import quick_config
from lycosa.base.config.sections import RetrySection
from lycosa.base.messages.progress import HostNote, Progress
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import hash8, host_of
from lycosa.inspect.committed_state import read_folder
from lycosa.processes.status_file import waiting_for
from lycosa.stages.politeness.address_table import AddressTable
from lycosa.state.attempts import read_attempts
from lycosa.state.folder.names import addresses_path, attempts_folder
from lycosa.worker.assemble import Assembled
from lycosa.worker.worker_progress import ProgressReport
from progress_making import progress_with
from scripted import error, page, robots, scripted_crawl

A = "http://a.example/"


def test_a_retry_that_is_due_is_something_to_wait_for(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(
        tmp_path / "c", {A: error(503)}, quick_config(retry=RetrySection(first_s=1000))
    )
    crawl.run([A])
    found: list[Progress] = []
    crawl.run(
        meanwhile=lambda assembled: found.append(
            ProgressReport(assembled, crawl.config).make_report()
        )
    )
    assert 900 < found[0].next_in_s <= 1001
    assert waiting_for(found[0]).startswith("the next URL to be due, at 20")
    assert waiting_for(found[0]).endswith(" seconds)") and "(in 16 minutes" in waiting_for(found[0])


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (
            progress_with(next_in_s=3.0, slowest=[HostNote("a.example", 5, 1.0, 3.0)]),
            "a.example, ready in 3 seconds",
        ),
        (
            progress_with(next_in_s=3.0, slowest=[HostNote("a.example", 5, 1.0, 90.0)]),
            "a host or a retry that is due in 3 seconds",
        ),
        (progress_with(next_in_s=3.0), "a host or a retry that is due in 3 seconds"),
        (progress_with(next_in_s=0.0421), "a host or a retry that is due in less than a second"),
        (progress_with(next_in_s=89.6), "a host or a retry that is due in 1 minute 30 seconds"),
        (Progress(), "nothing"),
    ],
)
def test_what_comes_first_is_named(progress: Progress, line: str) -> None:
    assert waiting_for(progress) == line


def test_a_url_that_is_disallowed_does_not_hide_the_one_behind_it(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(
        tmp_path / "c",
        {A: page(), f"{A}robots.txt": robots("User-agent: *\nDisallow: /no"), f"{A}x": page()},
    )
    found: list[tuple[str, ...]] = []

    def look(assembled: Assembled, *seeds: str) -> None:
        assembled.intake.take_seeds([A + seed for seed in seeds])
        host8 = hash8(host_of(A))
        host = next(
            v
            for p in assembled.worker.frontier.partitions.values()
            if (v := p.visits.find_host(host8)) is not None
        )
        with pytest.raises(StopIteration) as over:
            assembled.pipeline.next_urls(host).send(None)  # it waits for nothing here
        found.append(over.value.value)

    crawl.run(meanwhile=lambda assembled: look(assembled, "no", "x"))
    assert found == [(f"{A}robots.txt", f"{A}no")]
    crawl.run(meanwhile=lambda assembled: look(assembled, "no/2"))
    assert found[1:] == [()]
    crawl.run(meanwhile=lambda assembled: look(assembled, "no/3", "y"))
    assert found[2:] == [(f"{A}y",)] and web.asked[f"{A}x"] == 1


def test_an_address_whose_slots_others_hold_is_named_as_the_cause(tmp_path: Path) -> None:
    """Such as those of a crawl that was suspended. It goes on when they count no more."""
    folder, said = tmp_path / "c", list[str]()
    own_table = replace(QUICK.politeness, address_table="crawl", delay_s=30.0)
    config = replace(QUICK, politeness=own_table)
    pages = {A: html_page(f"{A}1", f"{A}2"), f"{A}1": html_page(), f"{A}2": html_page()}

    async def hold_slots(assembled: Assembled) -> None:
        report, address = ProgressReport(assembled, config), "198.18.1.1"
        await assembled.clock.sleep(10.0)
        suspended = AddressTable(addresses_path(folder), config.politeness)
        while suspended.take_slot(address, assembled.clock.monotonic()) > 0:
            await assembled.clock.sleep(0.1)
        for _ in range(3):
            await assembled.clock.sleep(0.3)
            assert suspended.take_slot(address, assembled.clock.monotonic()) == 0
        for _ in range(16):
            await assembled.clock.sleep(10.0)
            said.append(waiting_for(report.make_report()))
        suspended.close()

    crawl_folder(folder, Pages(pages), [A], config, meanwhile=hold_slots)
    expected = r"a.example, ready in (less than a second|\d seconds?) \(requests of other crawls to 198.18.1.1 have left no room for \d+ s\)"
    assert [line for line in said if re.fullmatch(expected, line)], said
    assert {each.url: each.state for each in read_folder(folder).urls()} == dict.fromkeys(
        pages, UrlState.FETCHED
    )
    starts = [each.started for each in read_attempts(attempts_folder(folder))]
    assert max(b - a for a, b in pairwise(starts)) < 90.0, "not for as long as they were held"
