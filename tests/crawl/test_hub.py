"""Short form of ``script/prove hub``: real processes over loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs import hub


@pytest.mark.long
def test_a_hub_of_robots_txt_is_not_pressed_by_several_processes(tmp_path: Path) -> None:
    print("\n".join(hub.prove(tmp_path, short=True)))
