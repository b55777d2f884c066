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
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429, 431]
"""


def _examined(crawl: ApiCrawl, phases: str, examples: int, timeout_s: float) -> None:
    # a crawl that is stopped answers 503 as documented, which the check calls a server error
    settings = Path(crawl.folder) / "schemathesis.toml"
    settings.write_text(_SETTINGS)
    run = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            *("--config-file", str(settings)),
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
    _examined(crawl, "fuzzing", 2, 120)
    assert crawl.process.poll() is None
    assert httpx.get(f"{crawl.url}/api/v1/stats").json()["state"] == "running"


def test_no_generated_request_is_answered_otherwise(crawl: ApiCrawl) -> None:
    _examined(crawl, "examples,coverage,fuzzing", 12, 900)
    crawl.process.send_signal(signal.SIGTERM)
    assert crawl.process.wait(60) == 0
