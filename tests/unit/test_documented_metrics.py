"""docs/metrics.md and docs/logs.md against the code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_page_of_metrics_is_what_the_script_writes() -> None:
    written = (DOCS / "metrics.md").read_text("utf-8")
    assert written == runpy.run_path(str(DOCS / "metrics.py"))["page"](), (
        "run: python docs/metrics.py"
    )


def test_every_event_of_the_log_is_documented() -> None:
    page = (DOCS / "logs.md").read_text("utf-8")
    events = set()
    for path in (ROOT / "src" / "lycosa").rglob("*.py"):
        text = path.read_text("utf-8")
        events |= set(re.findall(r"\.note\(\s*LogLevel\.\w+(?: if [^,]+)?,\s*\"(\w+)\"", text))
    assert events >= {"note", "worker_started", "worker_failed", "parser_died", "progress"}
    assert {event for event in events if f"`{event}`" not in page} == set()
