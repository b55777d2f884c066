"""Requests of every kind that the OpenAPI of the HTTP interface allows, and many that it does not,
against a real crawl: each answer is one that is documented, and none is an error of the server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from api_crawl import ApiCrawl, served_folder
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "negative_data_rejection",
)


def _examined(crawl: ApiCrawl, phases: str, examples: int, timeout_s: float) -> None:
    # a crawl that is stopped answers 503 as documented, which the check calls a server error
    run = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            f"{crawl.url}/api/v1/openapi.json",
            *("--phases", phases),
            *("--max-examples", str(examples)),
            *("--checks", ",".join(_CHECKS)),
            *("--exclude-path-regex", "/crawl/(stop|pause)"),
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
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]


@pytest.fixture
def crawl(tmp_path: Path):
    web = SyntheticWeb(WebPlan(hosts=20, pages=200))
    with (
        served(web) as port,
        served_folder(tmp_path / "crawl", [web.seed_url(0, port)], "--api-rate", "100000") as crawl,
    ):
        yield crawl


def test_every_answer_is_a_documented_one(crawl: ApiCrawl) -> None:
    _examined(crawl, "coverage", 1, 120)
    assert crawl.process.poll() is None
    assert httpx.get(f"{crawl.url}/api/v1/stats").json()["state"] == "running"


@pytest.mark.long
def test_no_generated_request_is_answered_otherwise(crawl: ApiCrawl) -> None:
    _examined(crawl, "examples,coverage,fuzzing", 100, 900)
    crawl.process.send_signal(signal.SIGTERM)
    assert crawl.process.wait(60) == 0
