"""The short form of ``script/prove unchanged``: a second pass over nginx, with hosts whose ETags
lie or that compress by chance.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nginx_site import nginx_program
from proofs import unchanged

pytestmark = [
    pytest.mark.long,  # `test_lying_validators.py` is without processes, in every run of the tests
    pytest.mark.service,
    pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed"),
]


def test_a_second_pass_finds_what_changed_and_saves_the_rest(tmp_path: Path) -> None:
    report = unchanged.prove(tmp_path, short=True, pages=60)
    assert report[0].endswith("3 of 60, 1 of 15, 54 of 60, 1 of 15"), report
