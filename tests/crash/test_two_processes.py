"""Two worker processes on two sites with equal bodies: the second site's pages are found to be
duplicates, a kill in between or not.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import partition_of
from lycosa.cli.output import ExitCode
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.synthetic import Response, SyntheticServer
from proofs.crawls import FAST, RunningCrawl, Whom, crawl
from store_samples import crawl_rows

PAGES = 30
HTML = [("Content-Type", "text/html")]


def sites() -> tuple[str, str]:
    """Two sites that two workers own."""
    names = [f"site{n}.example" for n in range(20)]
    first = next(name for name in names if partition_of(name, 16) % 2 == 0)
    return first, next(name for name in names if partition_of(name, 16) % 2 == 1)


class Twins:
    """The first site links to the second from its last page alone, which takes three seconds, so
    that a commit lies in between.
    """

    def __init__(self) -> None:
        self.first, self.second = sites()

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        _scheme, _, host, path = url.split("/", 3)
        name, _, port = host.partition(":")
        if path == "":
            links = [*map(str, range(PAGES)), "last"]
            return Response(
                200,
                HTML,
                f"<p>{name}{''.join(f'<a href=/{link}>x</a>' for link in links)}".encode(),
                0.01,
            )
        if path == "last":
            body = f"<p>{name}<a href='http://{self.second}:{port}/'>next</a>"
            return Response(200, HTML, body.encode(), 3.0 if name == self.first else 0.01)
        if path.isdigit():
            return Response(200, HTML, b"<p>This is page %s of either site." % path.encode(), 0.03)
        return Response(404, HTML, b"<p>nothing", 0.01)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="finds the processes of a crawl in /proc"
)
@pytest.mark.parametrize("kill", [False, True])
async def test_two_processes_find_each_others_duplicates(kill: bool, tmp_path: Path) -> None:
    web, folder = Twins(), tmp_path / "c"
    async with SyntheticServer(web) as server:
        seed = f"http://{web.first}:{server.port}/"
        options = [
            "--workers",
            "2",
            "--scope",
            "any",
            "--resolve",
            "*=127.0.0.1",
            *FAST,
            "--set",
            "parse.language=false",
            seed,
        ]
        running = RunningCrawl(folder, options, tmp_path / "log")
        if kill:
            await asyncio.to_thread(running.runs_until, lambda: len(server.log) > PAGES // 2)
            running.kill(Whom.WORKER)
        assert await asyncio.to_thread(running.finish, 60) == 0, (tmp_path / "log").read_text()
    rows = {row.url: row for row in crawl_rows(folder) if row.kind is FetchKind.PAGE}
    assert (
        len([row for row in crawl_rows(folder) if row.kind is FetchKind.PAGE])
        == len(rows)
        == 2 * (PAGES + 2)
    )
    for n in range(PAGES):
        one, other = (
            rows[f"http://{web.first}:{server.port}/{n}"],
            rows[f"http://{web.second}:{server.port}/{n}"],
        )
        assert not one.revisit and other.revisit
        assert other.original is not None and other.original.record_id == one.record_id
    assert [entry.record.reason for entry in read_folder(folder).urls()].count(
        Reason.DUPLICATE
    ) == PAGES
    report = audit(folder)
    assert report.is_clean, report.first_breaches()


def test_two_processes_that_can_reach_nobody_end_at_once_and_say_so(tmp_path: Path) -> None:
    done = crawl(tmp_path / "c", "--workers", "2", "http://127.0.0.1:9/", timeout=300)
    assert done.code == ExitCode.NOTHING_FETCHED, done
    assert "refused by 127.0.0.1:9" in done.err
