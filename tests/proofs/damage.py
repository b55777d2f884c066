"""Commit logs that are deleted, emptied or cut behind a crawl's back: nothing is lost in silence.

Each round is a crawl by one, two or four workers that dies once or more, whose logs are then
damaged: deleted, emptied, cut by one byte, by the last record or by several; of one worker, or of
all. The next start must come to what an undisturbed crawl comes to, or be refused with not one file
changed, by bytes and times; and after what was taken is put back, the same command must come to
that end. In a second series the file that says apart from the log where it ends is taken away as
well: then tables, outputs and the other workers must tell, and a log whose loss nobody can tell
must do no harm.

The rounds are in virtual time, with real files and RocksDB (``tests/damaging.py``). A round that
fails is printed and replays: ``script/prove damage --first SEED --seeds 1``.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from damaging import WORKERS, DamagedCrawl, Kind

_ROUNDS, _SHORT = 50, 1
_FEW, _FEWER = (Kind.DELETED, Kind.BYTE), (Kind.RECORDS,)  # of the short form
# a round takes some seconds; one that hangs in virtual time ends by its own bound, and is a failure
_MOST_S = 300.0


class Round(msgspec.Struct, frozen=True):
    """What one round came to; ``failure`` is empty when no promise was broken."""

    seed: int
    kind: str
    workers: int
    has_statement: bool
    refusal: str
    failure: str


def live(work: str, seed: int, kind: Kind, has_statement: bool) -> Round:
    """One round in a folder of its own, which is gone afterwards."""
    workers = WORKERS[seed % len(WORKERS)]
    with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as folder:
        crawl = DamagedCrawl(seed, Path(folder), workers, has_statement)
        try:
            came = crawl.live(kind)
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__}: {error}"[:900]
            return Round(
                seed,
                kind.value,
                workers,
                has_statement,
                "",
                f"{what} (history: {'; '.join(crawl.told)})",
            )
    return Round(seed, kind.value, workers, has_statement, came.refusal, "")


def prove(work: Path, short: bool, seeds: int = 0, first: int = 0) -> list[str]:
    """Raises ``AssertionError`` with the rounds that broke a promise."""
    seeds = seeds or (_SHORT if short else _ROUNDS)
    began, lived = time.monotonic(), list[Round]()
    for has_statement, few in ((True, _FEW), (False, _FEWER)):
        lived += _series(
            work, range(first, first + seeds), few if short else tuple(Kind), has_statement
        )
    failed = [each for each in lived if each.failure]
    for each in failed:
        print(
            f"seed {each.seed}, {each.kind}, {each.workers} workers,"
            f" has_statement={each.has_statement}: {each.failure}",
            flush=True,
        )
    assert not failed, f"{len(failed)} of {len(lived)} rounds broke a promise"
    return [
        _report(lived, True),
        _report(lived, False),
        f"{len(lived)} rounds in {time.monotonic() - began:.0f} s, no promise broken",
    ]


def _series(work: Path, seeds: range, kinds: Sequence[Kind], has_statement: bool) -> list[Round]:
    # Fresh processes for memory's sake; two series, so that what they hold is given back in
    # between.
    done: list[Round] = []
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        rounds = [
            pool.submit(live, str(work), seed, kind, has_statement)
            for seed in seeds
            for kind in kinds
        ]
        for future in as_completed(rounds, timeout=_MOST_S * len(rounds)):
            done.append(future.result())
            if len(done) % 50 == 0:
                print(f"{len(done)} of {len(rounds)} rounds", file=sys.stderr, flush=True)
    return done


def _report(lived: list[Round], has_statement: bool) -> str:
    mine = [each for each in lived if each.has_statement is has_statement]
    refused = Counter(each.kind for each in mine if each.refusal)
    number = Counter(each.kind for each in mine)
    told = "; ".join(f"{kind}: {number[kind]} rounds, {refused[kind]} refused" for kind in number)
    where = "with the last commit on record" if has_statement else "with that record lost too"
    return f"{where}: {told}; all others and all after the repair ended like an undisturbed crawl"
