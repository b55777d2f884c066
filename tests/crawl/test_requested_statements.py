"""tdmrep.json and licences requested by real processes on a real socket, also when they are killed."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.base.preferences.preference_model import PreferenceSource
from lycosa.cli.main import main
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import Response
from scripted import Answer, ScriptedWeb, page, robots
from serving import served_with_log
from store_samples import crawl_rows

RULES = gzip.compress(json.dumps([{"location": "/art", "tdm-reservation": 1}]).encode())
TDM = "/.well-known/tdmrep.json"


class Site(ScriptedWeb):
    """Answers by host and path, whatever the port; ``met`` is set when ``path`` is requested."""

    def __init__(self, answers: Mapping[str, Answer], path: str = "") -> None:
        super().__init__(answers)
        self.path, self.met = path, threading.Event()

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        host, _, path = url.removeprefix("http://").partition("/")
        if f"/{path}" == self.path and self.asked[f"{host.partition(':')[0]}/{path}"] == 0:
            self.met.set()
        return super().respond(f"{host.partition(':')[0]}/{path}", at, headers)


def site(latency_s: float = 0.0, path: str = "") -> Site:
    """A site whose robots.txt names a licence on another host."""
    headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")]
    return Site(
        {
            "a.test/robots.txt": robots("User-agent: *\nDisallow: /no\nLicense: {license}"),
            f"a.test{TDM}": Response(200, headers, RULES, latency_s),
            "a.test/": page("/art", "/news"),
            "a.test/art": page(text="art"),
            "a.test/news": page(text="news"),
            "rsl.test/terms": Response(
                200, [("Content-Type", "application/rsl+xml")], b"<rsl/>", latency_s
            ),
        },
        path,
    )


def command(folder: Path, port: int, *more: str) -> list[str]:
    quick = ("delay_s=0.1", "adaptive_factor=0", "address_delay_s=0", "address_table=crawl")
    options = [each for name in quick for each in ("--set", f"politeness.{name}")]
    options += ["--resolve", "*=127.0.0.1", "--allow-address", "127.0.0.0/8"]
    options += ["--contact", "test@example.org", "--set", "frontier.partitions=2"]
    seed = f"http://a.test:{port}/"
    return [sys.executable, "-m", "lycosa", "crawl", seed, "--dir", str(folder), *options, *more]


BOTH = ["--set", "agent.purpose=ai-train", "--set", "agent.fetch_licenses=true"]


def name_license(web: Site, port: int) -> None:
    text = f"User-agent: *\nDisallow: /no\nLicense: http://rsl.test:{port}/terms"
    web.answers["a.test/robots.txt"] = robots(text)


def rows_of(folder: Path, kind: FetchKind) -> list[JournalRow]:
    return [row for row in crawl_rows(folder) if row.kind is kind]


def is_stated(folder: Path, port: int) -> None:
    """All is stored once, with what was stated, and the audit finds nothing."""
    pages = rows_of(folder, FetchKind.PAGE)
    reserved = {
        row.url
        for row in pages
        for each in row.preferences.statements
        if each.source is PreferenceSource.TDM_FILE
    }
    assert reserved == {f"http://a.test:{port}/art"}
    (license,) = [row for row in pages if row.link_kind is LinkKind.LICENSE]
    assert license.url == f"http://rsl.test:{port}/terms" and license.status == 200
    assert len(pages) == 4 and len({row.url for row in pages}) == 4
    assert main(["audit", str(folder)]) == 0


@pytest.mark.parametrize("wanted", [True, False])
def test_a_process_requests_what_its_settings_ask_for(wanted: bool, tmp_path: Path) -> None:
    web = site()
    with served_with_log(web) as (port, log):
        name_license(web, port)
        done = subprocess.run(
            command(tmp_path / "c", port, *(BOTH if wanted else [])), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        own = [each.path for each in log.exchanges if each.host.startswith("a.test")]
        other = [each.path for each in log.exchanges if each.host.startswith("rsl.test")]
        first = ["/robots.txt", TDM, "/"] if wanted else ["/robots.txt", "/"]
        assert own[: len(first)] == first and sorted(own[len(first) :]) == ["/art", "/news"]
        # the answer there is a capture too, so its origin is asked as well
        assert other == (["/robots.txt", TDM, "/terms"] if wanted else [])
        if wanted:
            is_stated(tmp_path / "c", port)


@pytest.mark.parametrize("path", [TDM, "/terms"])
def test_a_kill_between_request_and_answer_repeats_it_and_loses_nothing(
    path: str, tmp_path: Path
) -> None:
    web = site(2.0, path)
    with served_with_log(web, pace=1.0) as (port, log):
        name_license(web, port)
        crawl = subprocess.Popen(
            command(tmp_path / "c", port, *BOTH),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            assert web.met.wait(60)
        finally:
            os.killpg(crawl.pid, signal.SIGKILL)
            crawl.wait()
        before = log.urls().count(f"http://a.test:{port}/")
        assert before == (path == "/terms"), "no page is requested before the file is answered"
        done = subprocess.run(command(tmp_path / "c", port, *BOTH), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        host = "rsl.test" if path == "/terms" else "a.test"
        assert log.urls().count(f"http://{host}:{port}{path}") == 2
        assert min(log.gaps(f"a.test:{port}"), default=1.0) >= 0.1
        is_stated(tmp_path / "c", port)
