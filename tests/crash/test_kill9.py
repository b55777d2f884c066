"""Short forms of the proofs of durability and poison: real processes, real kills, a real nginx.
Long forms: ``script/prove``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from nginx_site import nginx_program
from proofs import durability, inspecting, poison
from proofs.durability import Call, judge_order, parse_trace

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="finds the processes of a crawl in /proc"
)
needs_nginx = pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed")
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.mark.service
@linux
@needs_nginx
@needs_strace
def test_what_is_stored_is_synced_before_the_commit_log_and_nothing_is_told_before_that(
    tmp_path: Path,
) -> None:
    print("\n".join(durability.prove_order(tmp_path, short=True)))


@pytest.mark.service
@linux
@needs_nginx
def test_a_crawl_that_is_killed_again_and_again_ends_like_one_left_in_peace(tmp_path: Path) -> None:
    print("\n".join(durability.prove_kills(tmp_path, short=True)))


@pytest.mark.service
@linux
def test_a_running_crawl_and_a_killed_one_are_inspected_without_an_error_or_a_false_breach(
    tmp_path: Path,
) -> None:
    print("\n".join(inspecting.prove(tmp_path, short=True)))


# `test_poison.py` and `test_parse_child.py` have the parts, in every run of the tests
@pytest.mark.long
@pytest.mark.service
@linux
@needs_nginx
def test_pages_that_kill_the_worker_or_the_parser_are_recorded_and_the_crawl_completes(
    tmp_path: Path,
) -> None:
    print("\n".join(poison.prove(tmp_path, short=True)))


FOLDER = Path("/crawl")
GOOD = """
10 1.0 write(7</crawl/warc/a.warc.gz.open>, "member", 6) = 6
10 1.1 write(8</crawl/journal/a.jsonl.zst.open>, "line", 4) = 4
10 1.2 fdatasync(7</crawl/warc/a.warc.gz.open>) = 0
10 1.3 fdatasync(8</crawl/journal/a.jsonl.zst.open> <unfinished ...>
11 1.4 write(3</dev/null>, "x", 1) = 1
10 1.5 <... fdatasync resumed>) = 0
10 1.6 write(9</crawl/log/commit-w000-000000000001.log>, "frame", 5) = 5
10 1.7 fdatasync(9</crawl/log/commit-w000-000000000001.log>) = 0
10 1.8 sendto(5<socket:[1]>, "SeedsTaken", 10, 0, NULL, 0) = 10
""".strip().splitlines()


def wrong(lines: list[str]) -> list[str]:
    return judge_order(parse_trace(lines), FOLDER)[1]


def test_the_judge_of_the_order_accepts_a_good_trace() -> None:
    calls = parse_trace(GOOD)
    assert calls[3] == Call(
        10, "fdatasync", "/crawl/journal/a.jsonl.zst.open", " <unfinished ...>", 3, 5
    )
    assert wrong(GOOD) == []


@pytest.mark.parametrize(
    ("missing", "told"),
    [(2, "not synced"), (5, "not synced"), (7, "before the sync"), (8, "no SeedsTaken")],
)
def test_the_judge_of_the_order_sees_what_is_missing(missing: int, told: str) -> None:
    lines = [line for number, line in enumerate(GOOD) if number != missing]
    if missing == 5:  # the sync returns only behind the log's record
        lines.insert(7, GOOD[5])
    assert any(told in fault for fault in wrong(lines))
