"""Which fingerprint tells the near-duplicates that people see: precision and recall on judged pairs
of pages, by features and by method.

    python -m bench.near_duplicates [--pairs FILE] [--seeds 24]

The pairs (texts of pages of Common Crawl, each with a grade from 3, most alike, to 0.5, least) were
made by others and are read from ``../shared/data``. What depends on a hash function is measured
with many, because thirteen pairs of the highest grade are few: a row is the mean over the seeds,
and the program's own fingerprint has its row alone as well.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from lycosa.stages.parse.fingerprint import simhash

PAIRS = Path(__file__).parents[2] / "shared" / "data" / "neardup" / "judged-pairs-120.jsonl.gz"
GRADES = ("3", "2", "1", "0.5")
BITS = 3
_WORD = re.compile(r"\w+")
# of the least hash, whose upper bits are nearly always 0
_ONE_BIT, _ONE = (
    np.uint64(32),
    np.uint64(1),
)

Signature = Any
Features = Callable[[str], dict[str, float]]


def distance(a: int, b: int) -> int:
    """The number of bits in which two fingerprints differ."""
    return (a ^ b).bit_count()


class Pair(NamedTuple):
    grade: str
    one: str
    other: str
    s3: float  # Jaccard index of word 8-grams, as it came with the pair


class Method(NamedTuple):
    """``sign`` makes a signature of a text with a seed; ``is_alike`` compares two. ``size`` is
    what a page's signature takes, in bytes.
    """

    name: str
    size: int
    sign: Callable[[str, int], Signature]
    is_alike: Callable[[Signature, Signature], bool]
    has_seeds: bool = True


class Score(NamedTuple):
    """Shares of the pairs of each grade that were found alike, and CPU microseconds a page."""

    found: dict[str, float]
    counts: dict[str, int]
    cost_us: float

    def recall(self, alike: Iterable[str]) -> float:
        return self._found(alike) / sum(self.counts[grade] for grade in alike)

    def precision(self, alike: Iterable[str]) -> float:
        found = self._found(GRADES)
        return self._found(alike) / found if found else math.nan

    def _found(self, grades: Iterable[str]) -> float:
        return sum(self.found[grade] * self.counts[grade] for grade in grades)


# -- features


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def telling_words(text: str) -> list[str]:
    """Those of three bytes or more that are no numbers, which is what the program takes."""
    return [word for word in words(text) if len(word.encode()) > 2 and not word.isdigit()]


def shingles(parts: list[str], length: int) -> list[str]:
    return [" ".join(parts[at : at + length]) for at in range(max(1, len(parts) - length + 1))]


def character_grams(text: str, length: int) -> list[str]:
    plain = " ".join(words(text))
    return [plain[at : at + length] for at in range(max(1, len(plain) - length + 1))]


def once(parts: list[str]) -> dict[str, float]:
    return dict.fromkeys(parts, 1.0)


def counted(parts: list[str]) -> dict[str, float]:
    return {part: float(count) for part, count in Counter(parts).items()}


def by_logarithm(parts: list[str]) -> dict[str, float]:
    return {part: math.log1p(count) for part, count in Counter(parts).items()}


# -- methods


def simhash_of(features: dict[str, float], seed: int) -> int:
    """Charikar's fingerprint in 64 bits."""
    hashes = np.array([xxh3_64_intdigest(part.encode(), seed) for part in features], np.uint64)
    weights = np.fromiter(features.values(), np.float64, len(features))
    votes = weights @ np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1)
    return int(np.packbits(votes * 2 > weights.sum()).view(np.uint64)[0])


def minhash_of(parts: list[str], seed: int, permutations: int) -> NDArray[np.uint64]:
    """Broder's sketch: the least of the shingles' hashes under each of some permutations
    (multiply-add modulo 2^64 stands for one).
    """
    chance = np.random.default_rng(seed)
    factors = chance.integers(0, 2**63, permutations, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    addends = chance.integers(0, 2**63, permutations, dtype=np.uint64)
    hashes = np.array([xxh3_64_intdigest(part.encode()) for part in set(parts)], np.uint64)
    least: NDArray[np.uint64] = (hashes[:, None] * factors + addends).min(axis=0)
    return least


def text_profile(text: str) -> tuple[str, ...]:
    """Nutch's TextProfileSignature: words of two letters or more with their counts rounded down
    to a step that the highest count gives.
    """
    counts = Counter(word for word in words(text) if len(word) >= 2)
    highest = max(counts.values(), default=0)
    step = max(2 if highest > 1 else 1, round(highest * 0.01))
    kept = {word: count // step * step for word, count in counts.items() if count >= step}
    return tuple(
        f"{word} {count}"
        for word, count in sorted(kept.items(), key=lambda item: (-item[1], item[0]))
    )


def _simhash_by(features: Features) -> Callable[[str, int], int]:
    return lambda text, seed: simhash_of(features(text), seed)


def _within(bits: int) -> Callable[[int, int], bool]:
    return lambda one, other: distance(one, other) <= bits


def _agree(least: float) -> Callable[[Any, Any], bool]:
    return lambda one, other: float((one == other).mean()) >= least


def methods() -> Iterator[Method]:
    yield Method(
        "Lycosa's own, as it is", 8, lambda text, _: simhash(text), _within(BITS), has_seeds=False
    )
    kinds: tuple[tuple[str, Features], ...] = (
        (
            "words of 3 bytes up, no numbers, by log of count",
            lambda text: by_logarithm(telling_words(text)),
        ),
        ("the same, by count", lambda text: counted(telling_words(text))),
        ("the same, each once", lambda text: once(telling_words(text))),
        ("all words, by log of count", lambda text: by_logarithm(words(text))),
        ("pairs of words, by log of count", lambda text: by_logarithm(shingles(words(text), 2))),
        ("word 3-grams, each once", lambda text: once(shingles(words(text), 3))),
        ("character 4-grams, by log of count", lambda text: by_logarithm(character_grams(text, 4))),
    )
    for name, features in kinds:
        yield Method(f"SimHash: {name}", 8, _simhash_by(features), _within(BITS))
    for least in (0.8, 0.9):
        name = f"MinHash of word 3-grams, 128 of 64 bits, {least} agree"
        yield Method(
            name,
            1024,
            lambda text, seed: minhash_of(shingles(words(text), 3), seed, 128),
            _agree(least),
        )
    for most in (BITS, 1):
        name = f"MinHash of words as above, 64 of 1 bit, {64 - most} agree"
        yield Method(
            name,
            8,
            lambda text, seed: minhash_of(telling_words(text), seed, 64) >> _ONE_BIT & _ONE,
            _agree(1 - most / 64),
        )
    yield Method(
        "Nutch's TextProfileSignature, equal",
        16,
        lambda text, _: text_profile(text),
        lambda a, b: bool(a == b),
        has_seeds=False,
    )


# -- measuring


def read(path: Path) -> list[Pair]:
    rows = (json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines())
    return [Pair(row["label"], row["src"], row["target"], row["s3"]) for row in rows]


def measure(method: Method, pairs: list[Pair], seeds: int) -> Score:
    """The mean over the seeds. Pairs whose grade is unknown are left out."""
    graded = [pair for pair in pairs if pair.grade in GRADES]
    counts = Counter(pair.grade for pair in graded)
    found: Counter[str] = Counter()
    runs = seeds if method.has_seeds else 1
    began = time.process_time()
    for seed in range(runs):
        for pair in graded:
            found[pair.grade] += method.is_alike(
                method.sign(pair.one, seed), method.sign(pair.other, seed)
            )
    cost_us = (time.process_time() - began) / (2 * runs * len(graded)) * 1e6
    return Score(
        {grade: found[grade] / (runs * counts[grade]) for grade in GRADES}, dict(counts), cost_us
    )


def compare(
    one: Features, other: Features, pairs: list[Pair], seeds: int, samples: int = 2000
) -> list[str]:
    """Two kinds of features under the same hash functions: ``other`` minus ``one`` in points of
    precision and recall, with the range that holds 90 % of the differences when the pairs are drawn
    anew, with replacement. Few pairs of a grade make it wide.
    """
    graded = [pair for pair in pairs if pair.grade in GRADES]
    is_found = np.zeros((2, len(graded)))
    for seed in range(seeds):
        for kind, features in enumerate((one, other)):
            signs = [
                (simhash_of(features(pair.one), seed), simhash_of(features(pair.other), seed))
                for pair in graded
            ]
            is_found[kind] += np.array([distance(*pair) <= BITS for pair in signs])
    is_found /= seeds
    chance, lines = np.random.default_rng(1), []
    for title, alike in (("3", ("3",)), ("3 or 2", ("3", "2"))):
        is_alike = np.array([pair.grade in alike for pair in graded])
        drawn = [
            np.arange(len(graded)),
            *(chance.integers(0, len(graded), len(graded)) for _ in range(samples)),
        ]
        scores = (
            np.array(
                [[_precision_recall(found[at], is_alike[at]) for found in is_found] for at in drawn]
            )
            * 100
        )
        low, high = np.nanquantile(scores[1:, 1] - scores[1:, 0], (0.05, 0.95), axis=0)
        differences = (scores[0, 1] - scores[0, 0]).tolist()
        told = [
            f"{name} {difference:+.1f} ({least:+.1f} to {most:+.1f})"
            for name, difference, least, most in zip(
                ("precision", "recall"), differences, low, high, strict=True
            )
        ]
        lines.append(f"alike is {title}: {', '.join(told)}")
    return lines


def _precision_recall(
    found: NDArray[np.float64], is_alike: NDArray[np.bool_]
) -> tuple[float, float]:
    right = float(found[is_alike].sum())
    return right / max(float(found.sum()), 1e-9), right / max(int(is_alike.sum()), 1)


def measure_s3(pairs: list[Pair], least: float) -> Score:
    """What the exact Jaccard index of word 8-grams says, for which both texts are needed."""
    counts = Counter(pair.grade for pair in pairs)
    found = Counter(pair.grade for pair in pairs if pair.s3 >= least)
    return Score({grade: found[grade] / counts[grade] for grade in GRADES}, dict(counts), math.nan)


def row(name: str, size: str, score: Score) -> str:
    shares = " ".join(f"{100 * score.found[grade]:5.0f}" for grade in GRADES)
    alike, wide = ("3",), ("3", "2")
    both = " ".join(
        f"{100 * score.precision(kind):5.0f} {100 * score.recall(kind):5.0f}"
        for kind in (alike, wide)
    )
    cost = "" if math.isnan(score.cost_us) else f"{score.cost_us:.0f}"
    return f"{name:66} {size:>6} {shares}  {both}  {cost:>7}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.near_duplicates", description=__doc__)
    parser.add_argument(
        "--pairs",
        type=Path,
        default=PAIRS,
        metavar="FILE",
        help="judged pairs, lines of JSON, by gzip",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=24,
        metavar="N",
        help="how many hash functions each method is tried with (24)",
    )
    asked = parser.parse_args()
    if not asked.pairs.is_file():
        print(
            f"{asked.pairs} is not there; --pairs says where the judged pairs are", file=sys.stderr
        )
        return 2
    pairs = read(asked.pairs)
    counts = Counter(pair.grade for pair in pairs)
    print(
        f"{len(pairs)} pairs; by grade "
        + ", ".join(f"{grade}: {count}" for grade, count in sorted(counts.items(), reverse=True))
    )
    print(
        f"{'':66} {'bytes':>6} {'found alike, % of grade':^23}  {'alike is 3':^11} {'3 or 2':^11} "
        f" {'CPU us':>7}"
    )
    print(
        f"{'':73} "
        + " ".join(f"{grade:>5}" for grade in GRADES)
        + "   prec.  rec. prec.  rec.   a page"
    )
    for method in methods():
        print(row(method.name, str(method.size), measure(method, pairs, asked.seeds)), flush=True)
    for least in (0.84, 0.9):
        print(
            row(
                f"exact Jaccard index of word 8-grams, {least} (with the pairs)",
                "text",
                measure_s3(pairs, least),
            )
        )
    print(
        "\neach word once minus by log of count, points, the same hash functions (90 % of the draws"
        " of pairs)"
    )
    for line in compare(
        lambda text: by_logarithm(telling_words(text)),
        lambda text: once(telling_words(text)),
        pairs,
        asked.seeds,
    ):
        print(line)
    print("\nLycosa's own, by the bits that may differ")
    for bits in range(9):
        method = Method(
            f"{bits} bits", 8, lambda text, _: simhash(text), _within(bits), has_seeds=False
        )
        print(row(method.name, "8", measure(method, pairs, 1)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
