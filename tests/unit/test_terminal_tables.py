"""Tables on narrow terminals, and the display on one that cannot redraw lines."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from crawling import Pages, crawl_folder, page
from lycosa.cli.main import main
from lycosa.cli.output import fitting_columns

COLUMNS = ("host", "state", "waiting", "parked", "captures", "errors", "why")
ROW = ("news.example.org:8081", "exhausted", "0", "0", "20", "1", "a reason of some length")
SPARE = ("parked", "errors", "captures", "why")


def fitted(width: int) -> list[str]:
    return [COLUMNS[number] for number in fitting_columns(COLUMNS, [ROW], SPARE, width)]


def test_a_narrow_table_loses_columns_before_its_names_are_folded() -> None:
    assert fitted(120) == list(COLUMNS)
    assert fitted(80) == ["host", "state", "waiting", "captures", "why"]
    assert fitted(20) == ["host", "state", "waiting"]


def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    code = (
        "from lycosa.cli.crawl_display import _live_lines; import sys;"
        "sys.exit(0 if _live_lines() is None else 7)"
    )
    for term, expected in (("dumb", 0), ("xterm", 7)):
        found = subprocess.run(
            [sys.executable, "-c", code],
            stderr=theirs,
            env=os.environ | {"TERM": term},
            check=False,
        )
        assert found.returncode == expected, term
    os.close(ours)
    os.close(theirs)


def test_numbers_that_no_file_can_hold_are_refused_before_anything_is_written(
    tmp_path: Path, capfd
) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "c"
    for option, value in (("--max-pages", "9" * 20), ("--delay", "9" * 20 + "d")):
        assert main(["crawl", "http://a.test/", option, value, "--dir", str(folder)]) == 2
        assert "too large" in capfd.readouterr().err
    assert not folder.exists()


def test_what_is_neither_a_url_nor_a_known_hash_is_bad_usage(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    crawl_folder(folder, Pages({"http://a.test/": page()}), ["http://a.test/"])
    assert main(["explain", str(folder), "http://a.test/"]) == 0
    assert main(["explain", str(folder), "/x"]) == 2
    assert main(["explain", str(folder), "0" * 16, "--json"]) == 2
    assert main(["status", str(folder), "--watch"]) == 2
