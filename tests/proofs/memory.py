"""Memory: a crawl stays under the bound that it is given, and ends all the same.

The site is that of the soak: many small hosts, which fill every cache there is. Twice: with little
memory, and with workers that come near the bound because pages make them hold what nobody planned
for; then what they give back, and that they stop fetching for a while, is seen in ``status.json``
and in what the crawl says. Judged by ``/proc``: what all processes have of their own, and the
program's code once.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from nginx_site import NginxSite
from proofs.crawls import FAST, RunningCrawl
from proofs.soak import SITE, seeds
from proofs.watching import look

_LOOK_S = 0.25
_MOST_S = 3600.0
_HOARDS = 16
# on a busy machine what is in flight may come on top for the half second between two looks
_SLACK = 1.05
_BOUND_MB = 900  # the least for two workers is 855
_HOARDING = "".join(f"<a href=/hook-hoard/{number}>x</a> " for number in range(_HOARDS))
_HOARDER = f"""
  default_type text/html;
  location = /robots.txt {{ return 404; }}
  location = / {{ return 200 "<title>a</title>{_HOARDING}<a href=/more/1>more</a>"; }}
  location ~ "^/hook-hoard/" {{ return 200 "<title>$uri</title>$uri"; }}
  location ~ "^/more/(?<n>\\d{{1,3}})$" {{ return 200 "<title>$n</title><a href=${{uri}}1>1</a> <a href=${{uri}}2>2</a>"; }}
  location / {{ return 404; }}
"""


def _held_mb(supervisor: int) -> float:
    """What counts: each process's own memory, and the code once, as the supervisor has it."""
    parts = look(supervisor)
    return (
        sum(sample.own_mb for sample in parts.values()) + parts["supervisor"].mapped_mb
        if parts
        else 0.0
    )


def _watch(running: RunningCrawl, folder: Path) -> tuple[list[float], list[dict[str, Any]]]:
    """What was held at each look, and what the crawl said of it."""
    held, said = [], []
    began = time.monotonic()
    while running.runs_for(_LOOK_S) and time.monotonic() - began < _MOST_S:
        held.append(_held_mb(running.process.pid))
        try:
            said.append(json.loads((folder / "status.json").read_text())["memory"])
        except (OSError, ValueError):
            continue  # not yet, or no more
    return held, said


def prove(work: Path, short: bool) -> list[str]:
    """Both crawls; gives the lines of the report. Raises ``AssertionError``."""
    (work / "empty").mkdir()
    return [_with_little(work, 500 if short else 150_000), _with_hoarders(work)]


def _with_little(work: Path, pages: int) -> str:
    folder, log = work / "little", work / "little.out"
    seeds_file = work / "seeds"
    with NginxSite(work / "nginx", work / "empty", ("0.0.0.0",), extra=SITE) as site:
        seeds_file.write_text(seeds(site.port))
        bound = [
            "--workers",
            "2",
            "--memory",
            f"{_BOUND_MB}MB",
            "--max-pages",
            str(pages),
            "--set",
            "frontier.finish_wait_s=1",
        ]
        running = RunningCrawl(folder, ["--seeds", str(seeds_file), *FAST, *bound], log)
        held, said = _watch(running, folder)
        code = running.finish(60)
    assert code == 3, f"the crawl ended with {code}:\n{log.read_text()[-3000:]}"
    assert max(held) <= _BOUND_MB * _SLACK, (
        f"{max(held):.0f} MB were held with a bound of {_BOUND_MB} MB"
    )
    assert {each["bound_bytes"] for each in said} == {_BOUND_MB * 1_000_000}
    relief = ", ".join(_reliefs(said)) or "never"
    return (
        f"{pages} pages by 2 workers within {_BOUND_MB} MB: at most {max(held):.0f} MB, {len(held)}"
        f" looks, relief: {relief}"
    )


def _with_hoarders(work: Path) -> str:
    """One worker that would hold 300 MB more than planned at its pace, with little for
    everything.
    """
    folder, log, bound_mb = work / "hoarders", work / "hoarders.out", 420
    with NginxSite(work / "hoard-nginx", work / "empty", extra=_HOARDER) as site:
        url = f"http://127.0.0.1:{site.port}/"
        few = ["--set", "fetch.slots=16", "--set", "parse.language=false"]
        pace = [
            "--delay",
            "0.5s",
            *FAST[2:],
            *few,
            "--memory",
            f"{bound_mb}MB",
            "--set",
            "frontier.finish_wait_s=1",
        ]
        running = RunningCrawl(folder, [url, *pace], log, env={"LYCOSA_TEST_HOOKS": "1"})
        held, said = _watch(running, folder)
        code = running.finish(60)
    assert code == 0, f"the crawl ended with {code}:\n{log.read_text()[-3000:]}"
    assert max(held) <= bound_mb * _SLACK, (
        f"{max(held):.0f} MB were held with a bound of {bound_mb} MB"
    )
    assert "fetches nothing until there is more room" in _reliefs(said), f"it never stopped: {said}"
    notes = [line for line in log.read_text().splitlines() if "memory is near its bound" in line]
    assert sum("a worker fetches nothing until there is more room" in line for line in notes) == 1
    return (
        f"{_HOARDS} pages of 25 MB each for 10 s within {bound_mb} MB: at most {max(held):.0f} MB;"
        f" a worker {', '.join(_reliefs(said))}"
    )


def _reliefs(said: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(each["relief"] for each in said if each["relief"]))
