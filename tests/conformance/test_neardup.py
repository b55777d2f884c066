"""The fingerprint against pairs of pages that people graded: which grades come within three bits."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from lycosa.parse.fingerprint import distance, simhash

FILE = Path(__file__).parents[2].parent / "shared" / "data" / "neardup" / "judged-pairs-120.jsonl.gz"
pytestmark = [pytest.mark.shared_data, pytest.mark.skipif(not FILE.is_file(), reason="no judged pairs beside the checkout")]


def test_the_most_alike_pages_are_within_three_bits_and_the_least_alike_are_not() -> None:
    near: dict[str, list[bool]] = defaultdict(list)
    for line in gzip.decompress(FILE.read_bytes()).splitlines():
        pair = json.loads(line)
        near[pair["label"]].append(distance(simhash(pair["src"]), simhash(pair["target"])) <= 3)
    for grade, hits in sorted(near.items()):
        print(f"judged-pairs-120.jsonl.gz, grade {grade}: {sum(hits)} of {len(hits)} pairs within 3 bits")
    assert sum(near["3"]) / len(near["3"]) >= 0.9
    assert sum(near["0.5"]) / len(near["0.5"]) <= 0.05
    found = near["3"] + near["2"] + near["1"]
    precision = sum(found) / (sum(found) + sum(near["0.5"]))
    print(f"passed {sum(near['3'])} of {len(near['3'])} of the most alike; precision against the lowest grade {precision:.2f}")
