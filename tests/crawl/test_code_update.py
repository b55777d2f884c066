"""``lycosa extension update`` while the crawl of a folder runs: each segment has the rows of one
version, and pages that were in flight at the change have those of the new one.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusters import LONGEST_S, LYCOSA, SETTINGS, WatchedLog, seed_at
from lycosa.base.system.code_file import CodeFile
from lycosa.inspect.audit.folder_audit import audit
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = pytest.mark.long
PLAN = WebPlan(hosts=2, pages=30, seed=5, latency_s=0.0, page_bytes=2000, distribution="fixed")
SOURCE = """import lycosa


class Product(lycosa.Item, frozen=True):
    name: str


@lycosa.extract(Product, version={version})
def products(page):
    yield Product(page.url)
"""


def lycosa_in(folder: Path, *arguments: str, code: int = 0) -> Any:
    command = [*LYCOSA, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST_S)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def test_code_changes_while_the_crawl_runs(tmp_path: Path) -> None:
    log, update = WatchedLog(), ("extension", "update", "crawl", "./shop.py:products", "--json")
    first, second = (SOURCE.format(version=number) for number in (1, 2))
    (tmp_path / "shop.py").write_text(first)
    settings = {
        **SETTINGS,
        "politeness.delay_s": "0.3",
        "workers": "2",
        "extensions.allow": json.dumps([CodeFile(second.encode()).digest]),
    }
    pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        command = [*LYCOSA, "crawl", seed_at(port), "--dir", "crawl", *pairs]
        crawl = subprocess.Popen(
            [*command, "--extension", "./shop.py:products"],
            cwd=tmp_path,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            log.await_more(12)
            (tmp_path / "shop.py").write_text(f"{second}# not allowed\n")
            assert "this run does not allow" in lycosa_in(tmp_path, *update, code=2)
            (tmp_path / "shop.py").write_text(second)
            found = lycosa_in(tmp_path, *update)["code"]["shop:products"]
            assert found["sha256"] == CodeFile(second.encode()).digest
            assert crawl.wait(LONGEST_S) == 0
        finally:
            crawl.kill()
            crawl.wait(LONGEST_S)
    folder = tmp_path / "crawl"
    report = audit(folder)
    assert report.is_clean, report.first_breaches()
    rows = lycosa_in(
        tmp_path,
        *("sql", "crawl", "--format", "json"),
        "SELECT count(DISTINCT _version) versions, count(DISTINCT _url) pages FROM items.products",
    )
    pages = lycosa_in(
        tmp_path,
        *("sql", "crawl", "--format", "json"),
        "SELECT count(DISTINCT url) pages FROM pages WHERE fetch_status = 200",
    )
    assert rows[0]["versions"] == 2
    assert rows[0]["pages"] == pages[0]["pages"]
