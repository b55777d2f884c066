"""The short form of the proof that a hostile web costs a bounded amount, is recorded, and never
stops the crawl.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proofs import hostile


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read from /proc")
def test_a_hostile_web_is_survived_and_every_attack_is_on_record(tmp_path: Path) -> None:
    report = hostile.prove(tmp_path, short=True)
    assert any("ordinary pages in one crawl" in line for line in report)
