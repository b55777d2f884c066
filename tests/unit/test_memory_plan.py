"""The memory of a crawl dealt out: never more than there is, no part below its least or above
its setting, and a clear refusal.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.fields import fields, value_of
from lycosa.base.config.sections import Config, SeenSection, SeenUrlsKind
from lycosa.base.config.sources import settings
from lycosa.base.config.units import read_bytes
from lycosa.base.system.memory_plan import MB, MemoryPlan, TooLittleMemory, fitted, plan_memory

_MACHINE = 64_000 * MB
_OF_WORKER = (
    "cache", "memtables", "seen", "recent", "hosts", "notes", "robots", "names", "bodies", "batches", "connections",
)  # fmt: skip


def _plan(memory: int, workers: int = 1, machine: int = _MACHINE, **values: object) -> MemoryPlan:
    return plan_memory(settings({"memory_bytes": memory, **values}), workers, machine)


def _least(workers: int, **values: object) -> int:
    with pytest.raises(TooLittleMemory) as refused:
        _plan(1, workers, **values)
    found = re.search(r"the minimum is (\w+)", str(refused.value))
    assert found is not None
    return read_bytes(found[1])


def _sum(plan: MemoryPlan) -> int:
    return plan.program + plan.supervisor + plan.workers * plan.share


@given(st.integers(1000, 100_000), st.integers(1, 16))
def test_the_parts_never_exceed_the_whole(megabytes: int, workers: int) -> None:
    if megabytes * MB < _least(workers):
        return
    plan = _plan(megabytes * MB, workers)
    assert _sum(plan) <= plan.total == megabytes * MB
    assert sum(getattr(plan, name) for name in _OF_WORKER) < plan.worker


@given(st.integers(600, 20_000), st.integers(0, 5_000))
def test_more_memory_makes_no_part_smaller(megabytes: int, more: int) -> None:
    few, many = _plan(megabytes * MB), _plan((megabytes + more) * MB)
    # Rounding to whole bytes may take a few from one part when another is full.
    assert all(getattr(many, name) >= getattr(few, name) - 16 for name in (*_OF_WORKER, "parser"))


@given(st.integers(600, 50_000), st.integers(1, 8))
def test_settings_are_only_ever_lowered_and_stay_usable(megabytes: int, workers: int) -> None:
    config = Config()
    if megabytes * MB < _least(workers):
        return
    small = fitted(config, _plan(megabytes * MB, workers))
    for key, field in fields().items():
        before, after = value_of(config, key), value_of(small, key)
        if before != after:
            assert after < before, key
            assert field.read(after) == after, key


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_the_least_that_is_told_is_enough_and_a_megabyte_less_is_not(workers: int) -> None:
    least = _least(workers)
    assert _sum(_plan(least, workers)) <= least
    with pytest.raises(TooLittleMemory, match="is too little for"):
        _plan(least - MB, workers)


def test_less_work_at_once_needs_less() -> None:
    assert _least(1, **{"fetch.slots": 16, "parse.language": False}) < _least(1) - 80 * MB
    assert _least(3) - _least(2) < _least(1)


def test_without_a_setting_a_crawl_takes_a_bounded_part_of_the_machine() -> None:
    assert _plan(0, 1).total == 1500 * MB
    assert _plan(0, 4).total == 6000 * MB
    assert _plan(0, 4, machine=8000 * MB).total == 4000 * MB
    # asks for the least rather than refuse
    assert _plan(0, 1, machine=600 * MB).total == pytest.approx(_least(1), abs=MB)


def test_much_memory_gives_every_part_what_its_setting_allows() -> None:
    config = settings({"memory_bytes": 64_000 * MB})
    small = fitted(config, plan_memory(config, 1, _MACHINE))
    for key in (
        "fetch.open_bytes",
        "fetch.connections",
        "seen.recent",
        "frontier.workbench",
        "dns.cache_entries",
    ):
        assert value_of(small, key) == value_of(config, key), key


def test_a_document_of_the_largest_size_can_be_parsed_by_default() -> None:
    config = Config()
    plan = plan_memory(config, 1, _MACHINE)
    assert plan.document >= 16 * config.parse.max_bytes  # measured; see docs/decisions/memory.md


def test_the_parts_of_a_partition_follow_from_those_of_its_worker() -> None:
    plan = _plan(700 * MB)
    assert plan.owned == 16
    assert 2 * plan.owned * plan.memtable <= max(plan.memtables, 2 * plan.owned * (256 << 10))
    assert 1 << 15 <= plan.delta <= 1 << 18
    assert _plan(4000 * MB).delta == 1 << 18


def test_bloom_filters_are_reckoned_with() -> None:
    exact, filters = _plan(2000 * MB), plan_memory(
        Config(memory_bytes=2000 * MB, seen=SeenSection(urls=SeenUrlsKind.BLOOM, bloom_urls=10_000_000)), 1, _MACHINE
    )  # fmt: skip
    assert filters.seen > exact.seen + 16 * 10_000_000
