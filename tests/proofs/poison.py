"""Poison: pages that kill the worker, crash the parser or hang it cost few requests, are recorded,
and the crawl completes.

A page that the parser does not survive is asked for twice at most. One that kills the worker is
asked for three times at most: it is in flight with others at first, then alone, then once more with
every limit tightened.

The pages do nothing by themselves: with ``LYCOSA_TEST_HOOKS=1`` the worker kills itself when it
stores a page whose path contains ``/hook-kill-worker``, and its parse child crashes at
``/hook-segfault`` and hangs at ``/hook-hang``.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from nginx_site import NginxSite, write_tree
from proofs.crawls import FAST, crawl, lycosa
from proofs.outputs import Outputs

POISON = ("/hook-kill-worker/a.html", "/hook-segfault/a.html", "/hook-hang/a.html")
_PARSE_REMARKS = {POISON[1]: "parse_killed", POISON[2]: "parse_timeout"}


def prove(work: Path, short: bool) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    root = work / "site"
    targets = write_tree(root, 25 if short else 1000, seed=4)
    for poison in POISON:
        path = root / poison.lstrip("/")
        path.parent.mkdir()
        path.write_text(f"<!DOCTYPE html><title>{poison}</title><p>Poison <a href='/'>home</a>")
    front = root / "index.html"
    front.write_text(
        front.read_text().replace(
            "<ul>", "<ul>" + "".join(f"<li><a href='{poison}'>x</a></li>" for poison in POISON)
        )
    )
    with NginxSite(work / "nginx", root) as site:
        done = crawl(
            work / "crawl",
            f"{site.base}/",
            *FAST,
            "--set",
            "parse.deadline_s=2",
            env={"LYCOSA_TEST_HOOKS": "1"},
            timeout=300,
        )
        hits = Counter(hit.target for hit in site.hits())
    outputs = Outputs(work / "crawl")
    remarks = {row["url"].removeprefix(site.base): row["parse_reason"] for row in outputs.rows}
    killer = json.loads(
        lycosa("explain", str(work / "crawl"), f"{site.base}{POISON[0]}", "--json").out
    )
    deaths = done.err.count(" died (")
    report = [
        f"exit {done.code}; requests: "
        + ", ".join(f"{poison} {hits[poison]}" for poison in POISON),
        f"the worker died {deaths} times; remarks: "
        + ", ".join(f"{poison} {remarks.get(poison)}" for poison in POISON[1:]),
        f"explain {POISON[0]}: {killer['headline']}",
        (
            f"pages: {len(outputs.pages())}, which are all {len(targets)} of the site and the"
            f" {len(POISON) - 1} that were survived"
        ),
    ]
    told = "\n".join([*report, done.err[-2000:]])
    assert done.code == 0, told
    assert all(1 <= hits[poison] <= (3 if poison == POISON[0] else 2) for poison in POISON), told
    assert {poison: remarks.get(poison) for poison in _PARSE_REMARKS} == _PARSE_REMARKS, told
    assert (killer["verdict"], killer["facts"]["reason"]) == ("failed", "crashed_worker"), (
        told,
        killer,
    )
    assert {url.removeprefix(site.base) for url in outputs.pages()} == targets | set(POISON[1:]), (
        told
    )
    return report
