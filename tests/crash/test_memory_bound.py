"""Short form of the proof that a crawl stays under its memory: real processes, a real nginx,
memory from ``/proc``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nginx_site import nginx_program
from proofs import memory
from proofs.crawls import crawl

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
    pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed"),
]


def test_a_crawl_with_little_memory_stays_under_it_and_ends(tmp_path: Path) -> None:
    print("\n".join(memory.prove(tmp_path, short=True)))


def test_too_little_memory_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    done = crawl(tmp_path / "crawl", "http://127.0.0.1:9/", "--memory", "100MB", "--workers", "2")
    assert done.code == 2
    assert "is too little for 2 workers: the minimum is" in done.err
    assert not (tmp_path / "crawl").exists()
