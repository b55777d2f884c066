"""The command that installs an optional part never names the package ``lycosa`` of an index."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from lycosa.base.config.extras import install_command

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
PARTS = ["api", "cassandra", "cluster", "iceberg", "objects", "office", "postgres", "redis"]
PARTS += ["parsel", "traces", "all"]


def installed(folder: Path, origin: dict[str, object] | None) -> Distribution:
    """The metadata of an installation from ``origin`` (PEP 610)."""
    info = folder / "lycosa-0.1.0.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.4", "Name: lycosa", "Version: 0.1.0"]
    for extra, needed in EXTRAS.items():
        lines += [
            f'Requires-Dist: {each}; extra == "{extra}"' for each in needed if ";" not in each
        ]
    (info / "METADATA").write_text("\n".join([*lines, "Requires-Dist: click>=8.3,<9", "", ""]))
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))
    return PathDistribution(info)


@pytest.mark.parametrize("part", PARTS)
def test_a_checkout_has_a_script_for_its_optional_parts(tmp_path: Path, part: str) -> None:
    origin = {"url": ROOT.as_uri(), "dir_info": {"editable": True}}
    script, named = shlex.split(install_command(part, installed(tmp_path, origin)))
    assert (Path(script), named) == (ROOT / "script" / "setup", part)


@pytest.mark.parametrize("origin", [None, {"url": ROOT.as_uri(), "dir_info": {}}])
@pytest.mark.parametrize("part", PARTS)
def test_another_installation_is_given_the_packages_of_the_part(
    tmp_path: Path, part: str, origin: dict[str, object] | None
) -> None:
    python, *words = shlex.split(install_command(part, installed(tmp_path, origin)))
    assert (python, words[:3]) == (sys.executable, ["-m", "pip", "install"])
    assert words[3:] == EXTRAS[part]


def test_the_script_knows_every_part_and_refuses_others() -> None:
    assert set(PARTS) == EXTRAS.keys() - {"dev", "fuzz", "bench"}
    script = (ROOT / "script" / "setup").read_text("utf-8")
    line = next(line for line in script.splitlines() if "kind=image" in line)
    assert set(PARTS) <= set(re.findall(r"\w+", line.partition(")")[0]))
    for arguments, told in ((["apy"], "unknown argument 'apy'"), (["api", "test"], "does not go")):
        asked = subprocess.run(
            [ROOT / "script" / "setup", *arguments], capture_output=True, text=True, check=False
        )
        assert asked.returncode == 1 and told in asked.stderr


def test_no_text_names_a_package_that_no_index_has() -> None:
    named = re.compile(r"pip install[^\n`]*['\" ]lycosa\b")
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    assert [path.name for path in files if named.search(path.read_text("utf-8"))] == []
