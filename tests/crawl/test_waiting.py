"""What a worker says it waits for, and what it would request next."""

from __future__ import annotations

from pathlib import Path

import pytest

from judging import quick_config
from lycosa.cluster.progress import HostNote, Progress
from lycosa.config.sections import RetrySection
from lycosa.processes.status_file import waiting_for
from lycosa.urls.identity import hash8, host_of
from lycosa.worker.assembly import Assembled
from lycosa.worker.progress import ProgressReport
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
    assert waiting_for(found[0]).startswith("a host or a retry that is due in ")


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (
            progress_with(next_in_s=3.0, slowest=[HostNote("a.example", 5, 1.0, 3.0)]),
            "a.example, ready in 3 s",
        ),
        (
            progress_with(next_in_s=3.0, slowest=[HostNote("a.example", 5, 1.0, 90.0)]),
            "a host or a retry that is due in 3 s",
        ),
        (progress_with(next_in_s=3.0), "a host or a retry that is due in 3 s"),
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
