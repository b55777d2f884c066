"""The cost of a page in a past crawl, from its folder: the means of the next one.

The folder has what each run cost in processor time (``run_cost``) and what it did. A request
without a page (robots.txt, an error, 304) is assumed to cost a fixed part of a page, since one
crawl does not show the two costs separately. Bytes on disk are the sizes of the folder's files, by
the number that they grow with: bodies (WARC and text), captures (all other files of output).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from lycosa.base.config.sources import SettingsError
from lycosa.simulate.resources import Resources
from lycosa.state.folder.run_cost import RunCost, read_costs

_REQUEST = Resources().request_ms / Resources().page_ms
_MIN_PAGES = 500  # with fewer pages, most of a run's time is its start and end
_MIN_BODIES = 1_000_000
_MIN_CAPTURES = 1000
_COUNTS = ("captures", "pages", "requests", "hosts", "body_bytes")
_BY_BODY = "warc", "text"
_BY_CAPTURE = "journal", "cdxj", "pages", "links", "content", "renders", "items"


def past_means(folder: Path) -> dict[str, object]:
    """Values by their keys in a model (``means.page_ms`` and others).

    Raises ``SettingsError`` when the folder has too few pages.
    """
    runs = _whole_runs(read_costs(folder))
    pages = sum(run.pages for run in runs)
    if pages < _MIN_PAGES:
        raise SettingsError(
            [
                f"{folder} does not show the cost of a page: it has {pages} pages in completed runs"
                f" of `lycosa crawl`, and at least {_MIN_PAGES} are required; give --let"
                " means.page_ms=..."
            ]
        )
    spent = sum(max(run.cpu_s - run.start_cpu_s, 0.0) for run in runs)
    later = sum(run.captured - run.start_captured for run in runs) / max(
        sum(run.captured for run in runs), 1
    )
    # a robots.txt for each host
    others = sum(max(run.requests - run.pages, 0) + run.hosts for run in runs)
    page_s = spent / max(later * (pages + _REQUEST * others), 1.0)
    start_s = sum(run.start_cpu_s - page_s * run.start_captured for run in runs) / len(runs)
    work = sum(run.cpu_s for run in runs)
    return {
        "means.cores": float(runs[-1].cores),
        "means.page_ms": 1000 * page_s,
        "means.request_ms": 1000 * _REQUEST * page_s,
        "means.start_cpu_s": max(start_s, 0.0),
        "means.loop_share": min(max(sum(run.worker_cpu_s for run in runs) / work, 0.11), 1.0),
        **_disk(folder, read_costs(folder)[-1]),
    }


def _whole_runs(costs: Iterable[RunCost]) -> list[RunCost]:
    """Each run with its own counts; a run after one that left no line is left out."""
    found, before = [], dict.fromkeys(_COUNTS, 0)
    for run in costs:
        counts = {name: int(getattr(run, name)) for name in _COUNTS}
        own = {name: counts[name] - before[name] for name in _COUNTS}
        if run.captured == own["captures"] > 0:
            found.append(msgspec.structs.replace(run, **own))
        before = counts
    return found


def _disk(folder: Path, last: RunCost) -> dict[str, object]:
    found: dict[str, object] = {}
    if last.body_bytes >= _MIN_BODIES:
        found["means.disk_factor"] = (
            sum(_size(folder / name) for name in _BY_BODY) / last.body_bytes
        )
    if last.captures >= _MIN_CAPTURES:
        found["means.record_bytes"] = round(
            sum(_size(folder / name) for name in _BY_CAPTURE) / last.captures
        )
    return found


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("[!.]*") if path.is_file())
