"""Short forms of the proofs with several real workers: a real nginx, real kills, memory from
``/proc``. Long forms: ``script/prove``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nginx_site import nginx_program
from proofs import faults, kills, soak

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="finds the processes of a crawl in /proc"
    ),
    pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed"),
]


# `test_kill9.py` kills one of two workers, the supervisor and both in every run of the tests
@pytest.mark.long
def test_a_crawl_of_several_workers_that_are_killed_again_and_again_ends_like_one_left_in_peace(
    tmp_path: Path,
) -> None:
    print("\n".join(kills.prove(tmp_path, short=True)))


# `test_memory_bound.py` watches two workers in every run of the tests
@pytest.mark.long
def test_memory_and_descriptors_of_several_workers_are_watched(tmp_path: Path) -> None:
    print("\n".join(soak.prove(tmp_path, short=True)))


@pytest.mark.long
def test_stopped_processes_lost_connections_and_failing_disks_change_nothing(
    tmp_path: Path,
) -> None:
    print("\n".join(faults.prove(tmp_path, short=True)))
