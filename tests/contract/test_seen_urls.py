"""What every URL-seen must do; each test runs on the sorted file, and on Bloom filters with a
table that confirms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.state.seen.seen_port import Hashes, Mask, SeenUrls, hashes_of
from lycosa.state.seen.urls_bloom import BloomSeenUrls
from lycosa.state.seen.urls_sorted import SortedSeenUrls

Open = Callable[[Path, set[int]], SeenUrls]


def _hashes(values: Iterable[int]) -> Hashes:
    return np.array(list(values), dtype=np.uint64)


def _sorted(path: Path, table: set[int]) -> SeenUrls:
    return SortedSeenUrls(path)


def _bloom(path: Path, table: set[int]) -> SeenUrls:
    def confirm(hashes: Hashes) -> Mask:
        return np.array([value in table for value in hashes.tolist()], dtype=np.bool_)

    return BloomSeenUrls(path, 500, 0.05, confirm)


OPENERS: dict[str, Open] = {"sorted": _sorted, "bloom": _bloom}


@pytest.fixture(params=sorted(OPENERS))
def opener(request: pytest.FixtureRequest) -> Open:
    return OPENERS[request.param]


def _commit(seen: SeenUrls, table: set[int], commit: int, values: Iterable[int]) -> list[bool]:
    """One commit as the worker makes it: look up, seal, apply to the table."""
    hashes = _hashes(values)
    mask = seen.unseen(hashes)
    seen.seal(commit)
    table.update(hashes.tolist())
    return [bool(value) for value in mask]


def test_hashes_are_url8_in_byte_order() -> None:
    assert hashes_of([b"\x00" * 7 + b"\x01", b"\x80" + b"\x00" * 7]).tolist() == [1, 1 << 63]
    assert len(hashes_of([])) == 0


def test_only_the_first_occurrence_is_unseen(opener: Open, tmp_path: Path) -> None:
    seen = opener(tmp_path / "f", set())
    assert seen.unseen(_hashes([5, 7, 5, 0, 2**64 - 1, 7])).tolist() == [
        True,
        True,
        False,
        True,
        True,
        False,
    ]
    assert seen.unseen(_hashes([7, 8, 0])).tolist() == [False, True, False]
    assert len(seen.unseen(_hashes([]))) == 0


def test_a_file_that_is_absent_has_no_stamp(opener: Open, tmp_path: Path) -> None:
    seen = opener(tmp_path / "f", set())
    assert seen.stamp == -1
    assert seen.snapshot().disk_bytes == 0


def test_what_is_saved_is_known_after_opening_again(opener: Open, tmp_path: Path) -> None:
    table: set[int] = set()
    seen = opener(tmp_path / "f", table)
    seen.rebuild([], 0)
    _commit(seen, table, 1, range(100))
    seen.save(1)
    assert seen.stamp == 1
    seen.close()
    again = opener(tmp_path / "f", table)
    assert again.stamp == 1
    assert again.unseen(_hashes(range(90, 110))).tolist() == [False] * 10 + [True] * 10


def test_the_file_holds_nothing_of_a_later_commit(opener: Open, tmp_path: Path) -> None:
    table: set[int] = set()
    seen = opener(tmp_path / "f", table)
    _commit(seen, table, 1, range(10))
    seen.unseen(_hashes(range(10, 20)))
    seen.seal(2)
    seen.unseen(_hashes(range(20, 30)))  # open
    seen.save(1)
    assert (seen.stamp, seen.snapshot().unsaved) == (1, 20)
    assert not seen.unseen(_hashes(range(30))).any()
    again = opener(tmp_path / "f", table)
    assert again.stamp == 1
    assert again.unseen(_hashes(range(30))).tolist() == [False] * 10 + [True] * 20


def test_a_commit_that_brought_nothing_still_moves_the_stamp(opener: Open, tmp_path: Path) -> None:
    table: set[int] = set()
    seen = opener(tmp_path / "f", table)
    _commit(seen, table, 1, [1])
    seen.save(1)
    for commit in (2, 3):
        _commit(seen, table, commit, [1])
    seen.save(3)
    assert seen.stamp == 3
    assert opener(tmp_path / "f", table).stamp == 3
    assert opener(tmp_path / "f", table).unseen(_hashes([1])).tolist() == [False]


def test_saving_beyond_what_is_sealed_stops_there(opener: Open, tmp_path: Path) -> None:
    seen = opener(tmp_path / "f", set())
    seen.unseen(_hashes([1]))
    seen.seal(4)
    seen.unseen(_hashes([2]))
    seen.save(9)
    assert seen.stamp == 4
    seen.seal(5)
    seen.save(5)
    assert opener(tmp_path / "f", {1, 2}).unseen(_hashes([1, 2])).tolist() == [False, False]


def test_sealing_new_hashes_under_an_old_number_is_refused(opener: Open, tmp_path: Path) -> None:
    seen = opener(tmp_path / "f", set())
    seen.unseen(_hashes([1]))
    seen.seal(3)
    seen.seal(3)
    seen.unseen(_hashes([2]))
    with pytest.raises(AssertionError):
        seen.seal(3)


@pytest.mark.parametrize("place", [0, 9, 20, 60, 70, -1])
def test_a_damaged_file_is_not_believed_and_can_be_rebuilt(
    opener: Open, tmp_path: Path, place: int
) -> None:
    table: set[int] = set()
    seen = opener(tmp_path / "f", table)
    _commit(seen, table, 1, range(50))
    seen.save(1)
    seen.close()
    content = bytearray((tmp_path / "f").read_bytes())
    content[place] ^= 1
    (tmp_path / "f").write_bytes(content)
    again = opener(tmp_path / "f", table)
    assert again.stamp == -1
    assert again.snapshot().damage
    again.rebuild([_hashes([3, 1, 3]), _hashes([]), _hashes([2, 1])], 7)
    assert (again.stamp, again.snapshot().damage) == (7, "")
    assert again.unseen(_hashes([1, 2, 3, 4])).tolist() == [False, False, False, True]
    assert opener(tmp_path / "f", table).snapshot().count == 3


@pytest.mark.parametrize("keep", [0, 10, 64, 100])
def test_a_file_cut_short_is_not_believed(opener: Open, tmp_path: Path, keep: int) -> None:
    seen = opener(tmp_path / "f", set())
    seen.rebuild([_hashes(range(50))], 1)
    seen.close()
    (tmp_path / "f").write_bytes((tmp_path / "f").read_bytes()[:keep])
    assert opener(tmp_path / "f", set()).stamp == -1


def test_a_temporary_file_of_a_crash_is_ignored(opener: Open, tmp_path: Path) -> None:
    table = set(range(5))
    seen = opener(tmp_path / "f", table)
    seen.rebuild([_hashes(range(5))], 1)
    seen.close()
    (tmp_path / "f.tmp").write_bytes(b"half")
    again = opener(tmp_path / "f", table)
    assert not again.unseen(_hashes(range(5))).any()
    _commit(again, table, 2, [5])
    again.save(2)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_large_and_small_batches_answer_alike(opener: Open, tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 40_000, 60_000, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    table: set[int] = set()
    seen = opener(tmp_path / "f", table)
    expected = np.zeros(len(values), dtype=np.bool_)
    expected[np.unique(values, return_index=True)[1]] = True
    masks = [
        seen.unseen(values[:50]),
        seen.unseen(values[50:20_000]),
        seen.unseen(values[20_000:20_100]),
    ]
    seen.seal(1)
    table.update(values[:20_100].tolist())
    seen.save(1)
    masks += [seen.unseen(values[20_100:50_000]), seen.unseen(values[50_000:])]
    assert np.array_equal(np.concatenate(masks), expected)


def test_saving_in_another_thread_does_not_disturb_look_ups(opener: Open, tmp_path: Path) -> None:
    chance, table, known = np.random.default_rng(2), set[int](), set[int]()
    seen = opener(tmp_path / "f", table)
    for commit in range(1, 40):
        saver = threading.Thread(target=seen.save, args=(commit - 1,))
        saver.start()
        for _ in range(5):
            values = chance.integers(0, 1 << 12, 60, dtype=np.uint64) * np.uint64(
                0x9E3779B97F4A7C15
            )
            expected = [
                value not in known and value not in values[:place].tolist()
                for place, value in enumerate(values.tolist())
            ]
            known.update(values.tolist())
            assert seen.unseen(values).tolist() == expected
        saver.join()
        assert seen.stamp in (commit - 1, -1)
        seen.seal(commit)
        table.update(known)
    seen.save(39)
    assert not opener(tmp_path / "f", table).unseen(_hashes(known)).any()


def test_much_unsaved_asks_to_be_saved(opener: Open, tmp_path: Path) -> None:
    seen = opener(tmp_path / "f", set())
    assert not seen.should_save
    seen.unseen(np.arange(40_000, dtype=np.uint64))
    seen.seal(1)
    assert seen.should_save
    seen.save(1)
    assert not seen.should_save
    snapshot = seen.snapshot()
    assert (snapshot.count, snapshot.unsaved, snapshot.asked, snapshot.unseen) == (
        40_000,
        0,
        40_000,
        40_000,
    )
    assert snapshot.disk_bytes == (tmp_path / "f").stat().st_size


VALUES = st.lists(
    st.one_of(
        st.integers(0, 30), st.integers(0, 2**64 - 1), st.integers(0, 30).map(lambda n: n << 58)
    ),
    max_size=30,
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["unseen", "commit", "save", "lag", "crash", "rebuild"]), VALUES),
    max_size=25,
)


@pytest.mark.parametrize("name", sorted(OPENERS))
def test_any_history_with_crashes_answers_like_a_set(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @settings(deadline=None, max_examples=120)
    @given(steps=STEPS)
    def run(steps: list[tuple[str, list[int]]]) -> None:
        _History(OPENERS[name], tmp_path_factory.mktemp("seen") / "f").run(steps)

    run()


class _History:
    """A worker in small: a commit log, a table one commit behind it, and the set that URL-seen
    must equal.
    """

    def __init__(self, opener: Open, path: Path) -> None:
        self.opener, self.path = opener, path
        self.table: set[int] = set()
        self.log: list[list[int]] = []
        self.pending: list[int] = []
        self.known: set[int] = set()
        self.seen = opener(path, self.table)

    def run(self, steps: list[tuple[str, list[int]]]) -> None:
        for step, values in steps:
            getattr(self, step)(values)
            assert self.seen.snapshot().count == len(self.known)
            assert self.seen.stamp <= len(self.log)

    def unseen(self, values: list[int]) -> None:
        expected = [
            value not in self.known and value not in values[:place]
            for place, value in enumerate(values)
        ]
        assert self.seen.unseen(_hashes(values)).tolist() == expected
        self.known.update(values)
        self.pending += values

    def commit(self, values: list[int]) -> None:
        self.unseen(values)
        self.log.append(self.pending)
        self.pending = []
        self.seen.seal(len(self.log))
        self.table.update(self.log[-1])

    def save(self, values: list[int]) -> None:
        self.unseen(values)
        self.seen.save(len(self.log))

    def lag(self, values: list[int]) -> None:
        self.seen.save(max(0, len(self.log) - 2))
        self.unseen(values)

    def crash(self, values: list[int]) -> None:
        self.pending = []
        self.known = {value for commit in self.log for value in commit}
        self.seen = self.opener(self.path, self.table)
        for number in range(max(0, self.seen.stamp) + 1, len(self.log) + 1):
            self.seen.unseen(_hashes(self.log[number - 1]))
            self.seen.seal(number)
        self.unseen(values)

    def rebuild(self, values: list[int]) -> None:
        self.path.unlink(missing_ok=True)
        self.pending = []
        self.known = set(self.table)
        self.seen = self.opener(self.path, self.table)
        self.seen.rebuild([_hashes(self.table), _hashes(self.table)], len(self.log))
        self.unseen(values)
