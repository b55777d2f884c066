"""Which ends of a worker's process accuse the URLs that it was fetching."""

from __future__ import annotations

import pytest

from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import Ended, Failed
from lycosa.cluster.coordinator.node_acts import Died
from lycosa.processes.cluster.cluster_node import is_crash


def test_an_end_by_a_signal_without_a_word_is_a_crash() -> None:
    assert is_crash(Died("SIGSEGV"), was_killed=True)
    assert not is_crash(Died("exit code 1"), was_killed=False)


def test_lack_of_memory_is_a_crash() -> None:
    assert is_crash(Failed("MemoryError", "", "", is_passing=True), was_killed=False)


@pytest.mark.parametrize("kind", ["Fenced", "OutcomeUnknown"])
def test_a_fenced_process_that_is_killed_because_it_lingers_accuses_no_url(kind: str) -> None:
    assert not is_crash(Failed(f"lycosa.state.commit.log_port.{kind}", "", ""), was_killed=True)
    assert not is_crash(Ended("stopped", Progress()), was_killed=True)
