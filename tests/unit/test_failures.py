"""Whose fault it is that a worker ended, and which starts are tried again."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.base.messages.worker_messages import Failed
from lycosa.base.signing.signing_key import KeyFileError
from lycosa.cluster.coordinator.node_acts import Died
from lycosa.cluster.kafka.kafka_clients import BadClientSettings, KafkaClient, KafkaSettings
from lycosa.processes.failures import _LOCAL_KINDS, failed_start, failure_of
from lycosa.processes.worker_handle import WorkerHandle
from lycosa.stages.fetch.secret_values import SecretError
from lycosa.state.commit.record import LogDamaged
from lycosa.state.kv.kv_port import TableDamaged, TableError, TableLocked
from lycosa.state.seen.hash_files import HashFileDamaged
from lycosa.state.store.damage import StoreDamaged

LOCAL = [
    errno.EADDRNOTAVAIL,
    errno.EADDRINUSE,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EROFS,
    errno.EACCES,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENETDOWN,
    errno.ENETUNREACH,
]


@pytest.mark.parametrize("number", LOCAL, ids=errno.errorcode.get)
def test_an_error_of_the_system_is_the_machines_on_a_cluster(number: int) -> None:
    failed = failure_of(OSError(number, os.strerror(number)), is_on_cluster=True)
    assert failed.is_local and not failed.is_passing
    assert not failure_of(OSError(number, os.strerror(number)), is_on_cluster=False).is_local


@pytest.mark.parametrize("kind", [TableError, TableLocked, TableDamaged, HashFileDamaged])
def test_local_tables_are_only_a_copy_on_a_cluster(kind: Callable[[str], Exception]) -> None:
    failed = failure_of(kind("a table"), is_on_cluster=True)
    assert failed.is_local and failed.kind in _LOCAL_KINDS
    assert not failure_of(kind("a table"), is_on_cluster=False).is_local


def test_a_certificate_that_one_machine_lacks_is_wrong_there_only() -> None:
    """The shards that a new node without it is given must not stay there as failed."""
    missing = {"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"}
    client = KafkaClient(KafkaSettings(("kafka:9092",), missing))
    with pytest.raises(BadClientSettings, match="failed") as raised:
        client.consumer()
    assert failure_of(raised.value, is_on_cluster=True).is_local


@pytest.mark.parametrize("kind", [SecretError, KeyFileError])
def test_a_secret_that_one_machine_has_lost_is_wrong_there_only(
    kind: Callable[[str], Exception],
) -> None:
    """A node that has it can take the shard, and this one can when the file is back."""
    assert failure_of(kind("there is no file key"), is_on_cluster=True).is_local
    assert not failure_of(kind("there is no file key"), is_on_cluster=False).is_local


def test_a_full_disk_is_the_machines_whoever_reports_it() -> None:
    failed = failure_of(RuntimeError("arrow: No space left on device"), is_on_cluster=True)
    assert failed.is_local and failed.kind == "lycosa.base.system.durable.DiskFull"


@pytest.mark.parametrize(
    "error",
    [LogDamaged(Path("log"), 7, "a gap"), StoreDamaged(Path("part"), 1, 2)],
)
def test_what_is_wrong_with_the_log_or_the_store_is_wrong_on_every_machine(
    error: Exception,
) -> None:
    assert not failure_of(error, is_on_cluster=True).is_local


def test_a_shortage_is_a_death_and_not_the_machines_fault() -> None:
    assert failure_of(MemoryError(), is_on_cluster=True).is_passing


def test_an_error_that_is_not_of_this_program_may_pass() -> None:
    assert failure_of(ValueError("?"), is_on_cluster=True).is_local
    assert failure_of(TimeoutError(), is_on_cluster=True).is_local


def test_a_start_that_raises_anything_is_tried_again() -> None:
    ended = failed_start(ValueError("no signal has this number"), is_on_cluster=False)
    assert ended == Died("ValueError: no signal has this number")
    on_cluster = failed_start(ValueError("no signal has this number"), is_on_cluster=True)
    assert isinstance(on_cluster, Failed) and on_cluster.is_local
    for is_on_cluster in (True, False):
        assert isinstance(failed_start(MemoryError("no memory"), is_on_cluster), Died)


def test_a_start_that_finds_damage_ends_the_run_on_one_machine_only() -> None:
    damage = StoreDamaged(Path("part"), 1, 2)
    damaged = failed_start(damage, is_on_cluster=False)
    assert isinstance(damaged, Failed) and not damaged.is_local
    assert isinstance(failed_start(damage, is_on_cluster=True), Died)


def test_a_start_that_lacks_descriptors_is_tried_again() -> None:
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    on_cluster = failed_start(error, is_on_cluster=True)
    assert isinstance(on_cluster, Failed) and on_cluster.is_local
    assert isinstance(failed_start(error, is_on_cluster=False), Died)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGRTMIN + 1])
def test_a_worker_may_die_by_any_signal(number: int) -> None:
    handle = WorkerHandle(0, (0,), (), lambda handle, message: None)
    process = subprocess.Popen(["sh", "-c", f"kill -{int(number)} $$"])
    process.wait(30)
    handle._process = process
    assert handle.how_it_died() == ("SIGKILL" if number == signal.SIGKILL else f"signal {number}")
