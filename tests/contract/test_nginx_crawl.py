"""Short forms of the proofs against a real nginx: completeness, politeness, readers, bad input.
Long forms: ``script/prove``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from nginx_site import Hit, nginx_program
from proofs import bad_input, completeness, politeness, readers
from proofs.bad_input import Expected, judge
from proofs.crawls import Done
from proofs.politeness import judge_hits

needs_nginx = pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed")
needs_wget2 = pytest.mark.skipif(shutil.which("wget2") is None, reason="wget2 is not installed")
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"),
    reason="all of 127.0.0.0/8 is loopback on Linux alone; uses /proc",
)


@pytest.mark.service
@needs_nginx
@needs_wget2
def test_a_crawl_fetches_the_pages_that_wget2_reaches_each_once(tmp_path: Path) -> None:
    print("\n".join(completeness.prove(tmp_path, short=True)))


@pytest.mark.service
@linux
@needs_nginx
def test_nobody_is_pressed_across_a_kill_and_no_time_is_wasted(tmp_path: Path) -> None:
    print("\n".join(politeness.prove(tmp_path, short=True)))


@pytest.mark.service
@needs_nginx
def test_other_programs_read_what_a_crawl_wrote(tmp_path: Path) -> None:
    print("\n".join(readers.prove(tmp_path, short=True)))


@pytest.mark.service
@linux
@needs_nginx
def test_bad_input_gets_one_clear_line_and_its_exit_code(tmp_path: Path) -> None:
    print("\n".join(bad_input.prove(tmp_path, short=True)))


def hit(start: float, end: float, host: str = "a.test", address: str = "127.0.0.1") -> Hit:
    return Hit(start, end, host, address, 200, "text/html", "GET", "/", "lycosa")


def test_the_judge_of_politeness_sees_pauses_starts_and_requests_at_once() -> None:
    pressed = judge_hits(
        [hit(1.0, 1.5), hit(2.0, 2.1), hit(1.1, 1.2, "b.test"), hit(9.0, 9.1, "b.test")]
    )
    assert pressed.min_gap_s == pytest.approx(0.5)
    assert pressed.least_start_s == pytest.approx(0.1)
    assert pressed.most_at_once == 2


@pytest.mark.parametrize(
    ("done", "fault"),
    [
        (Done(2, "", "lycosa: no such thing\n"), ""),
        (Done(1, "", "lycosa: no such thing\n"), "exit 1 and not 2"),
        (Done(2, "", ""), "0 lines"),
        (Done(2, "", "no such thing\nno such thing\n"), "2 lines"),
        (Done(2, "", "Traceback (most recent call last)\nno such thing\n"), "a traceback"),
    ],
)
def test_the_judge_of_bad_input_sees_what_is_wrong(done: Done, fault: str) -> None:
    assert judge(done, Expected(2, "no such thing")).startswith(fault)
