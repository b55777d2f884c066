"""The proof of replay in its short form: real Chromium, pywb and py-wacz, which are not installed
with the tests because of their licences; ``PROVE_PYWB`` names an environment that has them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nginx_site import nginx_program
from proofs import replay

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.long]


@pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed")
@pytest.mark.skipif(not os.environ.get("PROVE_PYWB"), reason="PROVE_PYWB names no environment")
def test_a_site_looks_from_the_archive_as_from_its_server(tmp_path: Path) -> None:
    assert any("equal in each pixel" in line for line in replay.prove(tmp_path, short=True))
