"""The short forms of the proof ``cluster``: real nodes, brokers and object store, through faults.
The whole form: ``script/prove cluster``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nginx_site import nginx_program
from proofs import cluster
from proofs.cluster_parts import missing_service
from proofs.cluster_web import SHORT, Web

pytestmark = [
    pytest.mark.service,
    pytest.mark.long,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="finds the processes of a crawl in /proc"
    ),
    pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed"),
]
SEED = 385
"""Draws a lost machine, a blackholed node, a killed broker, a coordinator with a wrong clock, foreign
records and a spell of conflicts.
"""


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, cluster.Calm]]:
    """The web, and what an undisturbed crawl of it came to."""
    if missing := missing_service():
        pytest.skip(f"missing: {missing}")
    size = cluster.sized(SHORT, faults=6)
    with cluster.calm_web(tmp_path_factory.mktemp("calm"), size) as found:
        yield found


def test_a_crawl_through_faults_ends_like_one_left_in_peace(
    tmp_path: Path, calm: tuple[Web, cluster.Calm]
) -> None:
    print("\n".join(cluster.prove_disturbed(calm[0], tmp_path / "cluster", calm[1], SEED)))


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_an_owner_that_slept_while_its_shard_moved_sends_and_writes_nothing(
    tmp_path: Path, calm: tuple[Web, cluster.Calm]
) -> None:
    print("\n".join(cluster.prove_woken(calm[0], tmp_path / "cluster", calm[1])))


def test_a_crawl_whose_nodes_are_gone_with_their_disks_continues_on_empty_ones(
    tmp_path: Path, calm: tuple[Web, cluster.Calm]
) -> None:
    print("\n".join(cluster.prove_anew(calm[0], tmp_path / "cluster", calm[1])))


def test_damaged_parts_are_reported_and_everything_else_is_indexed(
    tmp_path: Path, calm: tuple[Web, cluster.Calm]
) -> None:
    print("\n".join(cluster.prove_damaged(calm[0], tmp_path / "cluster", calm[1])))


def test_a_log_that_was_made_again_stops_the_crawl_and_a_rescue_completes_it(
    tmp_path: Path, calm: tuple[Web, cluster.Calm]
) -> None:
    print("\n".join(cluster.prove_remade(calm[0], tmp_path / "cluster", calm[1])))
