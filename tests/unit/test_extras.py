"""The command that installs an optional part never names the package ``lycosa`` of an index."""

from __future__ import annotations

import importlib.util
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
PARTS += ["mcp", "parsel", "traces", "all"]


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
    words = shlex.split(install_command(part, installed(tmp_path, origin)))
    by_pip = [sys.executable, "-m", "pip", "install"]
    by_uv = ["uv", "pip", "install", "--python", sys.executable]
    by = by_pip if importlib.util.find_spec("pip") else by_uv
    assert words == [*by, *EXTRAS[part]]


@pytest.mark.parametrize("has_pip", [True, False])
def test_an_environment_without_pip_is_told_of_uv(tmp_path: Path, has_pip: bool) -> None:
    packages = [each for each in sys.path if has_pip or not (Path(each) / "pip").is_dir()]
    code = (
        f"import sys; sys.path[:] = {packages!r} + [{str(tmp_path)!r}, {str(ROOT / 'src')!r}];"
        "from importlib.metadata import PathDistribution; from pathlib import Path;"
        "from lycosa.base.config.extras import install_command;"
        "print(install_command('api', PathDistribution(next(Path(sys.argv[1]).iterdir()))))"
    )
    if has_pip:
        (tmp_path / "pip").mkdir()
        (tmp_path / "pip" / "__init__.py").touch()
    folder = tmp_path / "metadata"
    folder.mkdir()
    installed(folder, None)
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = f"{sys.executable} -m pip" if has_pip else "uv pip install --python"
    assert done.stdout.startswith(expected)


def test_the_script_knows_every_part_and_refuses_others() -> None:
    assert set(PARTS) == EXTRAS.keys() - {"dev", "fuzz", "bench", "docs"}
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
