"""Short form of the proof with parse children that are killed and processes that cannot be
started. Long form: ``script/prove parser``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from proofs import parser

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="finds the processes of a crawl in /proc"
    ),
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may trace any process"),
]


@pytest.mark.long
def test_killed_parsers_and_a_lack_of_processes_lose_no_page(tmp_path: Path) -> None:
    print("\n".join(parser.prove(tmp_path, short=True)))
