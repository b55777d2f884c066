"""Requests of every kind that the OpenAPI of the HTTP interface allows, and many that it does not,
against a real crawl: each answer is one that is documented, and none is an error of the server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from api_crawl import PATIENCE_S, ApiCrawl, served_folder
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

pytestmark = pytest.mark.long
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "negative_data_rejection",
)

# A body can be too large before it is too long, and a long poll must not be one here.
_SETTINGS = """
[parameters]
timeout_ms = 50
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429, 431{more}]
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx"{more}]
"""
_PHASES = "examples,coverage,fuzzing"
_WHILE_IT_RUNS = ("--exclude-path-regex", "/crawl/(stop|pause)")


def _examined(
    crawl: ApiCrawl,
    phases: str,
    examples: int,
    timeout_s: float,
    *selection: str,
    may_be_away=False,
) -> None:
    """Examine the selected operations; a crawl that ``may_be_away`` answers 503 as documented."""
    settings = Path(crawl.folder) / "schemathesis.toml"
    settings.write_text(_SETTINGS.format(more=', "503"' if may_be_away else ""))
    run = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            *("--config-file", str(settings)),
            "run",
            f"{crawl.url}/api/v1/openapi.json",
            *("--phases", phases),
            *("--max-examples", str(examples)),
            *("--checks", ",".join(_CHECKS)),
            *selection,
            *("--request-timeout", "30"),
            *("--suppress-health-check", "all"),
            *("--seed", "1"),
        ],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd="/",
        env={**os.environ, "NO_COLOR": "1"},
    )
    said = "\n".join(line[:300] for line in run.stdout.splitlines())
    assert run.returncode == 0, said[-6000:] + run.stderr[-2000:]


@pytest.fixture
def crawl(tmp_path: Path):
    web = SyntheticWeb(WebPlan(hosts=20, pages=200))
    with (
        served(web) as port,
        served_folder(tmp_path / "crawl", [web.seed_url(0, port)], "--api-rate", "100000") as crawl,
    ):
        yield crawl


def test_every_answer_is_a_documented_one(crawl: ApiCrawl) -> None:
    _examined(crawl, "fuzzing", 2, 120, *_WHILE_IT_RUNS)
    assert crawl.process.poll() is None
    assert httpx.get(f"{crawl.url}/api/v1/stats").json()["state"] == "running"


def test_no_generated_request_is_answered_otherwise(crawl: ApiCrawl) -> None:
    _examined(crawl, _PHASES, 12, 900, *_WHILE_IT_RUNS)
    crawl.process.send_signal(signal.SIGTERM)
    assert crawl.process.wait(60) == 0


def test_a_crawl_that_is_paused_or_stopped_answers_as_documented(crawl: ApiCrawl) -> None:
    def steered(action: str, state: str) -> None:
        """Steer the crawl, again while its run ends."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := httpx.post(f"{crawl.url}/api/v1/crawl/{action}", timeout=300)).is_error:
            assert answer.status_code in (409, 503), answer.text
            assert time.monotonic() < deadline, answer.text
        crawl.await_answer("/api/v1/stats", lambda answer: answer.json().get("state") == state)

    def examine(phases: str, examples: int, *selection: str) -> None:
        _examined(crawl, phases, examples, 300, *selection, may_be_away=True)

    _examined(crawl, _PHASES, 12, 200, "--include-path-regex", "/crawl/(pause|resume)")
    steered("pause", "paused")
    examine("fuzzing", 2, *_WHILE_IT_RUNS)
    steered("resume", "running")
    examine(_PHASES, 12, "--include-path-regex", "/crawl/stop")
    steered("stop", "stopped")
    examine(
        "fuzzing", 2, "--exclude-path-regex", "/crawl/resume|/frontier/seed"
    )  # these begin a run
    examine("fuzzing", 2)  # runs begin and end meanwhile
    steered("resume", "running")
    crawl.process.send_signal(signal.SIGTERM)
    assert crawl.process.wait(60) == 0
