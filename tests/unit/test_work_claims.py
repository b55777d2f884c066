"""Claims: who works on a part, and when another program takes it over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from lycosa.state.objects.object_errors import StoreFailed
from lycosa.state.objects.work_claims import (
    CLAIM_STALE_S,
    WorkClaim,
    WorkClaims,
    machine_text,
    own_claim,
    process_text,
)
from memory_objects import MemoryStore

ELSEWHERE = WorkClaim("other", "machine-2", 7, "another machine", "1")


class Now:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def claims(
    store: MemoryStore,
    mine: WorkClaim | None = None,
    now: Now | None = None,
    prefix: str = "items/x/1",
) -> WorkClaims:
    return WorkClaims(store, prefix, now or Now(), mine)


def test_a_part_is_claimed_by_one_program_until_it_is_given_back() -> None:
    store = MemoryStore()
    first, second = claims(store), claims(store, ELSEWHERE)
    assert first.try_claim("a") is None
    assert first.try_claim("a") is None, "it is ours"
    assert second.try_claim("a") == first.mine
    assert second.try_claim("b") is None
    first.release("a")
    assert second.try_claim("a") is None
    assert sorted(store.objects) == ["claims/items/x/1/a.json", "claims/items/x/1/b.json"]


def test_a_claim_that_does_not_change_is_taken_over() -> None:
    store, now = MemoryStore(), Now()
    slow, other = claims(store), claims(store, ELSEWHERE, now)
    slow.try_claim("a")
    assert other.try_claim("a") is not None
    now.seconds += CLAIM_STALE_S - 1
    assert other.try_claim("a") is not None
    slow.renew()
    now.seconds += 2
    assert other.try_claim("a") is not None, "it was renewed"
    now.seconds += CLAIM_STALE_S
    assert other.try_claim("a") is None


def test_the_claim_of_a_process_that_ended_on_this_machine_is_taken_over_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        running = process_text(process.pid)
        assert running is not None
        dead = WorkClaim("dead", "here", process.pid, machine_text(), running)
        store = MemoryStore()
        claims(store, dead).try_claim("a")
        mine = claims(store)
        assert mine.try_claim("a") == dead
        process.kill()
        process.wait()
        assert mine.try_claim("a") is None


def test_a_process_id_that_was_given_again_is_another_process() -> None:
    store = MemoryStore()
    before = msgspec.structs.replace(own_claim(), owner="before", process="1")
    claims(store, before).try_claim("a")
    assert claims(store).try_claim("a") is None


def test_bytes_that_are_no_claim_are_replaced() -> None:
    store = MemoryStore({"claims/items/x/1/a.json": b"\xff{"})
    assert claims(store).try_claim("a") is None
    assert msgspec.json.decode(store.objects["claims/items/x/1/a.json"], type=WorkClaim)


def test_everything_is_given_back_at_the_end_and_an_error_of_the_store_is_no_end() -> None:
    failing = False

    def fail(call: str, key: str) -> None:
        if failing:
            raise StoreFailed("away")

    store = MemoryStore(fail=fail)
    mine = claims(store)
    with mine.renewing():
        mine.try_claim("a")
        mine.try_claim("b")
        failing = True
        mine.renew()
        failing = False
    assert store.objects == {}
    mine.release("a")  # again, without effect


def test_what_dead_programs_left_is_cleared_for_one_version_only() -> None:
    store = MemoryStore()
    claims(store, ELSEWHERE).try_claim("a")
    claims(store, ELSEWHERE, prefix="items/x/2").try_claim("a")
    claims(store).clear()
    assert list(store.objects) == ["claims/items/x/2/a.json"]


def test_what_the_system_does_not_say_is_taken_for_another_machine(tmp_path: Path) -> None:
    assert machine_text() == machine_text()
    assert machine_text(tmp_path) != machine_text(tmp_path)
    assert process_text(os.getpid(), tmp_path) is None
