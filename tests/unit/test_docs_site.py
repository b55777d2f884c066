"""What ``script/docs`` changes of the pages before it builds the site."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = runpy.run_path(str(ROOT / "docs" / "site.py"))


def text_of(name: str) -> tuple[str, list[Path]]:
    return SITE["site_text"](ROOT / name)  # type: ignore[no-any-return]


def test_links_out_of_the_documents_lead_to_their_copies() -> None:
    text, files = text_of("docs/python.md")
    assert "](files/examples/products.py)" in text
    assert files == [ROOT / "examples" / "products.py"]
    assert "](../project/results.md)" in text_of("docs/decisions/host-turns.md")[0]
    assert "](../ways/url.md)" in text_of("CONTRIBUTING.md")[0]


def test_a_bar_in_the_code_of_a_table_has_no_backslash() -> None:
    text, _ = text_of("docs/cli.md")
    assert "<code>--links [a&#124;document&#124;all]</code>" in text
    assert "\\|" not in re.sub(r"(?s)```.*?```", "", text).replace("read\\|operate", "")


def test_code_and_other_links_are_copied_as_they_are() -> None:
    original = (ROOT / "docs" / "scope.md").read_text("utf-8")
    assert text_of("docs/scope.md")[0] == original


def test_stars_in_the_navigation_stand_for_files() -> None:
    config = tomllib.loads(SITE["site_config"]())
    listed = re.findall(r"'([\w/-]+\.md)'", str(config["project"]["nav"]))
    assert "*" not in str(config["project"]["nav"])
    expected = {path.name for path in (ROOT / "docs" / "how-to").glob("*.md")}
    assert {Path(name).name for name in listed if name.startswith("how-to/")} == expected


@pytest.mark.long
def test_the_site_is_built_without_a_warning() -> None:
    if not (Path(sys.executable).parent / "zensical").exists():
        pytest.skip("needs zensical: script/setup docs")
    shutil.rmtree(ROOT / "build" / "docs", ignore_errors=True)
    told = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "site.py")], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout
    for page in ("index.html", "cli/index.html", "python-api/index.html", "search.json"):
        assert (ROOT / "build" / "docs" / "site" / page).is_file(), page
    api = (ROOT / "build" / "docs" / "site" / "python-api" / "index.html").read_text("utf-8")
    assert ":::" not in api and 'id="lycosa.Crawl"' in api
