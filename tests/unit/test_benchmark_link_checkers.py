"""The comparison of link checkers: what it takes for broken, and how it judges a server's log."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from urllib.parse import urlsplit

sys.path.append(str(Path(__file__).parents[2]))  # benchmarks are not installed

from bench.link_checkers import MadeSite, Politeness, Request, politeness


def test_the_links_that_count_as_broken_are() -> None:
    site = MadeSite(100)
    assert len(site.links) == 1000
    for url in site.links:
        parts = urlsplit(url)
        status, target, _ = site.answer(parts.hostname or "", parts.path)
        if status == 302:
            status = site.answer(parts.hostname or "", target)[0]
        is_closed = parts.port == 1
        assert (url in site.broken) == (is_closed or status in (404, 500))
        assert (url in site.busy) == (status == 429)
    kinds = {urlsplit(url).path.split("/")[1] for url in site.broken}
    assert kinds == {"missing", "fails", "moved", "closed"}


def test_a_log_shows_requests_at_once_and_pauses_of_each_host() -> None:
    log = [
        *(Request("a", "/", 0.0, 1.0), Request("a", "/", 3.0, 4.0), Request("a", "/", 4.5, 5.0)),
        *(Request("b", "/", 0.0, 9.0), Request("b", "/", 1.0, 2.0), Request("b", "/", 1.5, 2.5)),
        Request("c", "/", 0.0, 1.0),
    ]
    assert politeness(log, lambda host: host == "a") == Politeness(3, 1, 0.5)
    assert politeness(log, lambda host: host == "b") == Politeness(3, 3, 0.0)
    assert politeness(log, lambda host: host == "c") == Politeness(1, 1, inf)
