"""Changes of several commits: the last value counts, a repeated batch does not, a gap is seen."""

from __future__ import annotations

import pytest

from lycosa.feeds.registry.changed_rows import Changes, CommitsMissing
from lycosa.state.commit import Commit, Mark, PartitionBatch

URL = b"U" + bytes(16)
HOST = b"H" + bytes(8)


def commit(term: int, sequence: int, before: Mark, **values: bytes | None) -> Commit:
    writes = {URL if name == "url" else HOST: value for name, value in values.items()}
    batch = PartitionBatch(0, {**writes, b"Q" + bytes(15): b"x"})
    return Commit(
        term=term, sequence=sequence, wall=float(sequence), batches=[batch], before={0: before}
    )


def test_the_last_value_of_a_row_counts() -> None:
    changes = Changes({0: Mark(1, 1)})
    changes.add_commit(commit(1, 2, Mark(1, 1), url=b"old", host=b"host"))
    changes.add_commit(commit(1, 3, Mark(1, 2), url=b"new"))
    assert (changes.urls[URL].value, changes.urls[URL].when.mark) == (b"new", Mark(1, 3))
    assert changes.hosts[HOST].when.mark == Mark(1, 2)
    assert changes.positions[0].mark == Mark(1, 3)
    assert (len(changes), changes.commits) == (2, 2)


def test_a_record_that_becomes_cold_is_no_change() -> None:
    changes = Changes({0: Mark(1, 1)})
    changes.add_commit(commit(1, 2, Mark(1, 1), url=b"last"))
    changes.add_commit(commit(1, 3, Mark(1, 2), url=None))
    assert (changes.urls[URL].value, changes.urls[URL].when.mark) == (b"last", Mark(1, 2))
    assert changes.positions[0].mark == Mark(1, 3)


def test_a_batch_that_the_registry_has_changes_nothing() -> None:
    changes = Changes({0: Mark(1, 5)})
    changes.add_commit(commit(1, 5, Mark(1, 4), url=b"old"))
    assert not changes.urls
    assert not changes.positions


def test_a_partition_that_is_not_followed_is_left_out() -> None:
    changes = Changes({1: Mark(1, 5)})
    changes.add_commit(commit(1, 9, Mark(1, 8), url=b"value"))
    assert not changes.positions


def test_a_batch_that_was_not_read_is_noticed() -> None:
    changes = Changes({0: Mark(1, 5)})
    with pytest.raises(CommitsMissing, match="partition 0") as caught:
        changes.add_commit(commit(2, 1, Mark(1, 6), url=b"value"))
    assert caught.value.partition == 0


def test_crawl_time_ahead_of_the_wall_clock_is_kept_with_the_rows() -> None:
    changes = Changes({0: Mark(0, 0)})
    ahead = commit(1, 1, Mark(0, 0), url=b"value")
    ahead.time = ahead.wall + 3600
    changes.add_commit(ahead)
    assert changes.urls[URL].when.ahead_s == 3600
