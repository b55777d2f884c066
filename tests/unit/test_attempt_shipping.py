"""Attempt logs that leave their machine, and what they prove afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.state.attempts import AttemptLog, Keeping, LogOwner
from lycosa.state.attempts.coverage import (
    LoggedFile,
    UnprovenTime,
    read_logged_file,
    unproven_times,
)
from lycosa.state.attempts.read import AttemptHead, head_of, read_attempt_files
from lycosa.state.attempts.shipping import (
    AttemptShipper,
    ShippedFile,
    last_files,
    parse_shipped_key,
    ship_left_files,
    shipped_files,
)
from lycosa.state.objects.object_errors import StoreUnreachable
from memory_objects import MemoryStore

SHARD = 3
FIVE_MINUTES = Keeping(age_s=300.0)


class Owner:
    """A worker of the shard; ``at`` is both of its clocks."""

    def __init__(self, folder: Path, term: int, at: float, boot: str = "boot-a") -> None:
        self.log = AttemptLog(
            folder,
            SHARD,
            at,
            at,
            owner=LogOwner(term, "here:table"),
            boot=boot,
            keeping=FIVE_MINUTES,
        )

    def fetch(self, at: float, host: str = "a.test") -> None:
        number = self.log.begin_attempt(
            host, "192.0.2.1", f"http://{host}/{at:g}", FetchKind.PAGE, at, at
        )
        self.log.end_attempt(number, Reason.NONE, 200, 0.5, at + 0.5, at + 0.5, 1.0)


def keys(store: MemoryStore) -> list[str]:
    """The logs in the store."""
    found = (key.removeprefix(f"attempts/{SHARD:05d}/") for key in store.objects)
    return sorted(key for key in found if not key.endswith(".last"))


def spans(store: MemoryStore, folder: Path, newest_term: int) -> list[UnprovenTime]:
    """What the files in the store cannot prove."""
    folder.mkdir(exist_ok=True)
    files = []
    for each in shipped_files(store, SHARD):
        path = folder / each.key.replace("/", "_")
        path.write_bytes(store.get(each.key))
        key = parse_shipped_key(each.key)
        assert key is not None
        file = read_logged_file(path, key.number, last_files(store, SHARD))
        assert file is not None
        files.append(file)
    return list(unproven_times(SHARD, files, newest_term))


def test_a_file_is_closed_by_its_age(tmp_path: Path) -> None:
    owner = Owner(tmp_path, 1, 1000.0)
    assert not owner.log.is_full(1299.0)
    assert owner.log.is_full(1300.0)
    owner.log.rotate_file(1300.0, 1300.0)()
    assert not owner.log.is_full(1300.0)


def test_closed_files_are_sent_once_and_the_open_one_is_not(tmp_path: Path) -> None:
    store, owner = MemoryStore(), Owner(tmp_path, 1, 1000.0)
    shipper = AttemptShipper(store, tmp_path, SHARD)
    owner.fetch(1001.0)
    owner.log.rotate_file(1300.0, 1300.0)()
    owner.fetch(1301.0)
    shipper.ship_closed(owner.log.path)
    assert keys(store) == ["0000000001-000001.log.zst"]
    sent = dict(store.objects)
    shipper.ship_closed(owner.log.path)
    assert store.objects == sent
    owner.log.close(1400.0, 1400.0)
    owner.log.compress_closed()
    shipper.ship_closed()
    assert keys(store) == ["0000000001-000001.log.zst", "0000000001-000002.log.zst"]
    assert spans(store, tmp_path / "there", 1) == []


def test_files_of_a_killed_worker_are_sent_by_the_next_one(tmp_path: Path) -> None:
    store = MemoryStore()
    Owner(tmp_path, 1, 1000.0).fetch(1001.0)
    later = Owner(tmp_path, 2, 1100.0)
    later.log.rotate_file(1400.0, 1400.0)()
    AttemptShipper(store, tmp_path, SHARD).ship_closed(later.log.path)
    assert keys(store) == ["0000000001-000001.log.zst", "0000000002-000002.log.zst"]
    assert last_files(store, SHARD) == {(1, 1)}
    # the killed one sent nothing after its last line, and the present one has an open file
    assert [(each.term, each.until) for each in spans(store, tmp_path / "there", 2)] == [(2, 0.0)]


def test_what_dead_workers_left_is_sent_without_a_worker(tmp_path: Path) -> None:
    store = MemoryStore()
    Owner(tmp_path, 4, 1000.0).fetch(1001.0)
    assert ship_left_files(store, tmp_path, SHARD) == ""
    assert keys(store) == ["0000000004-000001.log.zst"]
    assert last_files(store, SHARD) == {(4, 1)}


def test_a_store_that_is_away_is_tried_again(tmp_path: Path) -> None:
    def fail(call: str, key: str) -> None:
        raise StoreUnreachable("the store is away")

    store, owner = MemoryStore(), Owner(tmp_path, 1, 1000.0)
    owner.log.rotate_file(1300.0, 1300.0)()
    store.fail = fail
    shipper = AttemptShipper(store, tmp_path, SHARD)
    shipper.ship_closed(owner.log.path)
    assert shipper.failure == "the store is away"
    assert keys(store) == []
    store.fail = lambda call, key: None
    shipper.ship_closed(owner.log.path)
    assert shipper.failure == ""
    assert keys(store) == ["0000000001-000001.log.zst"]


def test_attempts_name_their_term_and_place(tmp_path: Path) -> None:
    owner = Owner(tmp_path, 7, 1000.0)
    owner.fetch(1001.0)
    (attempt,) = read_attempt_files({SHARD: [owner.log.path]})
    assert (attempt.term, attempt.place) == (7, "here:table")
    head = head_of(owner.log.path)
    assert head is not None
    assert (head.term, head.place) == (7, "here:table")


@pytest.mark.parametrize(
    "key", ["attempts/00003/1-1.log", "warc/x.warc.gz", "attempts/x/1-2.log.zst"]
)
def test_other_objects_are_no_attempt_logs(key: str) -> None:
    assert parse_shipped_key(key) is None


def test_a_key_says_what_it_is() -> None:
    assert parse_shipped_key("attempts/00003/0000000007-000012.log.zst") == ShippedFile(3, 7, 12)


def logged(
    term: int, number: int, began: float, until: float, *, first: int = 0, is_last: bool = False
) -> LoggedFile:
    head = AttemptHead(f"1-2-{first or number}", "boot", began, began, term)
    return LoggedFile(number, head, until, is_last)


def unproven(*files: LoggedFile, newest: int) -> list[tuple[int, float, float]]:
    return [(each.term, each.since, each.until) for each in unproven_times(SHARD, files, newest)]


def test_consecutive_files_of_owners_that_ended_prove_everything() -> None:
    files = [
        logged(1, 1, 100, 390),
        logged(1, 2, 400, 500, first=1, is_last=True),
        logged(2, 1, 510, 600, is_last=True),
    ]
    assert unproven(*files, newest=2) == []


def test_a_lost_machine_leaves_the_time_until_its_successor_unproven() -> None:
    files = [logged(1, 1, 100, 390), logged(2, 5, 700, 800, is_last=True)]
    assert unproven(*files, newest=2) == [(1, 390, 700)]


def test_the_open_file_of_the_present_owner_is_unproven_until_now() -> None:
    assert unproven(logged(1, 1, 100, 390), newest=1) == [(1, 390, 0)]


def test_owners_without_a_file_are_unproven() -> None:
    assert unproven(newest=2) == [(2, 0, 0)]
    files = [logged(2, 1, 100, 200, is_last=True), logged(4, 1, 400, 500, is_last=True)]
    assert unproven(*files, newest=5) == [(1, 0, 100), (3, 200, 400), (5, 500, 0)]


def test_missing_files_of_one_owner_are_unproven() -> None:
    between = [logged(1, 1, 100, 200), logged(1, 3, 500, 600, first=1, is_last=True)]
    assert unproven(*between, newest=1) == [(1, 200, 500)]
    assert unproven(logged(1, 4, 500, 600, first=2, is_last=True), newest=1) == [(1, 0, 500)]


def test_an_owner_without_a_request_is_proven_by_its_empty_file(tmp_path: Path) -> None:
    store = MemoryStore()
    owner = Owner(tmp_path, 1, 1000.0)
    owner.log.close(1005.0, 1005.0)
    assert ship_left_files(store, tmp_path, SHARD) == ""
    assert spans(store, tmp_path / "there", 1) == []
