"""What URL-seen and the stores beneath it cost: ``python bench/seen_urls.py [millions ...]``.

Prints, for each number of known URLs, microseconds a link in page-sized and commit-sized batches of
which 12 % are new, memory, file size, the time of a merge; then RocksDB writes and look-ups, and
the near-duplicate index. CPU time of the calling thread.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time

import numpy as np

from lycosa.base.model.capture import Original
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache
from lycosa.state.seen.seen_port import Hashes, SeenUrls
from lycosa.state.seen.simhash import NearIndex
from lycosa.state.seen.urls_bloom import BloomSeenUrls
from lycosa.state.seen.urls_sorted import SortedSeenUrls

NEW = 0.12


def _random(count: int, chance: np.random.Generator) -> Hashes:
    return chance.integers(0, 1 << 64, count, dtype=np.uint64)


def _batches(known: Hashes, size: int, count: int, chance: np.random.Generator) -> list[Hashes]:
    """Batches of links, 12 % of them new."""
    new = round(size * NEW)
    made = []
    for _ in range(count):
        batch = np.concatenate(
            (known[chance.integers(0, len(known), size - new)], _random(new, chance))
        )
        made.append(batch[chance.permutation(size)])
    return made


def _time(work: Callable[[], None]) -> float:
    start = thread_time()
    work()
    return thread_time() - start


def bench_seen(name: str, seen: SeenUrls, known: Hashes, chance: np.random.Generator) -> None:
    """One implementation at one size."""
    start = perf_counter()
    seen.rebuild((known[first : first + 100_000] for first in range(0, len(known), 100_000)), 0)
    print(
        f"  {name}: rebuild {perf_counter() - start:.2f} s, file"
        f" {seen.snapshot().disk_bytes / len(known):.2f} bytes a URL"
    )
    commit = 0
    for size, count in ((100, 1000), (50_000, 4)):
        spent = 0.0
        for number, batch in enumerate(_batches(known, size, count, chance), 1):
            spent += _time(lambda batch=batch: seen.unseen(batch))  # type: ignore[misc]
            if number * size % 40_000 == 0:
                commit += 1
                spent += _time(lambda commit=commit: seen.seal(commit))  # type: ignore[misc]
        memory = seen.snapshot().memory_bytes / 1e6
        print(
            f"    batches of {size:6}: {spent / size / count * 1e6:.3f} us a link; {memory:.1f} MB"
            " in memory"
        )
    unsaved, start = seen.snapshot().unsaved, perf_counter()
    seen.save(commit)
    print(f"    save of {unsaved} new: {perf_counter() - start:.2f} s")
    seen.close()


def bench_store(folder: Path, chance: np.random.Generator) -> None:
    """RocksDB as a partition uses it: rows of 17 bytes to 120, commits of 1,000."""
    store = RocksKeyValue(folder, SharedCache())
    keys = [b"U" + chance.bytes(16) for _ in range(200_000)]
    values = [chance.bytes(60) + bytes(60) for _ in range(1000)]
    commits = [
        list(zip(keys[first : first + 1000], values, strict=True))
        for first in range(0, len(keys), 1000)
    ]
    print(
        "  write"
        f" {_time(lambda: [store.write(commit) for commit in commits] and None) / len(keys) * 1e6:.2f}"
        " us a row"
    )
    asked = [keys[place] for place in chance.integers(0, len(keys), 20_000)]
    print(
        "  get, known"
        f" {_time(lambda: [store.get(key) for key in asked] and None) / len(asked) * 1e6:.2f} us"
    )
    absent = [b"U" + chance.bytes(16) for _ in range(20_000)]
    print(
        "  get, absent"
        f" {_time(lambda: [store.get(key) for key in absent] and None) / len(absent) * 1e6:.2f} us"
    )
    store.close()


class _Overlay:
    """A store with a batch laid over it."""

    def __init__(self, store: RocksKeyValue) -> None:
        self.store = store
        self.pending: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        value = self.pending.get(key)
        return self.store.get(key) if value is None else value

    def put(self, key: bytes, value: bytes) -> None:
        self.pending[key] = value

    def commit(self) -> None:
        self.store.write(list(self.pending.items()))
        self.pending = {}


def bench_near(folder: Path, count: int, chance: np.random.Generator) -> None:
    """Find and remember, a commit every 400."""
    overlay = _Overlay(RocksKeyValue(folder, SharedCache()))
    index, original = (
        NearIndex(lambda key: overlay),
        Original("https://example.org/a/page.html", 1_700_000_000_000_000, "<urn:uuid:0>"),
    )
    spent = 0.0
    for number, simhash in enumerate(_random(count, chance).tolist()):
        start = thread_time()
        if index.find_nearest(simhash) is None:
            index.remember_capture(simhash, original)
        if number >= count - 5000:
            spent += thread_time() - start
        if number % 400 == 0:
            overlay.commit()
    print(f"  near-duplicates: find and remember {spent / 5000 * 1e6:.1f} us at {count} known")
    overlay.store.close()


def main(millions: list[float]) -> None:
    chance = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in millions:
            known = _random(int(size * 1e6), chance)
            print(f"{size:g} million known")
            bench_seen("sorted", SortedSeenUrls(folder / f"sorted{size}"), known, chance)
            bench_seen(
                "bloom, not confirmed",
                BloomSeenUrls(folder / f"bloom{size}", len(known), 0.001),
                known,
                chance,
            )
        print("RocksDB")
        bench_store(folder / "store", chance)
        bench_near(folder / "near", 50_000, chance)
    print(
        "most memory of the process"
        f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main([float(text) for text in sys.argv[1:]] or [1, 10])
