"""The tables of the state: every column is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lycosa.inspect.state_rows import STATE_COLUMNS

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


@pytest.mark.parametrize("table", ["urls", "hosts"])
def test_every_column_is_documented_and_no_other(table: str) -> None:
    part = PAGE.read_text("utf-8").partition(f"| column of `{table}` |")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in part.splitlines()[2:]]
    documented = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert documented == {name for name, *_ in STATE_COLUMNS[table]}
