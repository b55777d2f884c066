"""What is published: the wheel, the sdist and their metadata, built here without an index."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from trove_classifiers import classifiers

from lycosa.cli.docs import command as docs
from lycosa.cli.main import cli

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TOOLS = {"all", "bench", "docs", "dev", "fuzz"}
BUILD = "import sys; from hatchling.build import build_{0}; print(build_{0}(sys.argv[1]))"
_VERSION = "Programming Language :: Python :: 3."


def built(kind: str, source: Path, into: Path, epoch: str = "") -> Path:
    """Build one file in a process of its own, because the build backend takes the folder."""
    environment = {key: each for key, each in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", BUILD.format(kind), str(into)],
        cwd=source,
        env=environment | ({"SOURCE_DATE_EPOCH": epoch} if epoch else {}),
        check=True,
        capture_output=True,
        text=True,
    )
    return into / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of the tree, the sdist, and the wheel that is built of the sdist."""
    into = tmp_path_factory.mktemp("dist")
    sdist = built("sdist", ROOT, into / "sdist", "1700000000")
    (into / "unpacked").mkdir()
    subprocess.run(["tar", "-xzf", sdist, "-C", into / "unpacked"], check=True)
    (unpacked,) = (into / "unpacked").iterdir()
    return {
        "sdist": sdist,
        "tree": built("wheel", ROOT, into / "tree", "1700000000"),
        "wheel": built("wheel", unpacked, into / "wheel", "1700000000"),
    }


def test_a_wheel_of_the_sdist_is_the_wheel_of_the_tree(files: dict[str, Path]) -> None:
    assert files["wheel"].name == files["tree"].name
    digests = {hashlib.sha256(files[each].read_bytes()).digest() for each in ("wheel", "tree")}
    assert len(digests) == 1


def test_times_in_the_files_are_the_time_of_the_source(files: dict[str, Path]) -> None:
    with zipfile.ZipFile(files["wheel"]) as wheel:
        assert {each.date_time for each in wheel.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    with tarfile.open(files["sdist"]) as sdist:
        assert {each.mtime for each in sdist.getmembers()} == {1700000000}
        assert {(each.uid, each.gid, each.uname) for each in sdist.getmembers()} == {(0, 0, "")}


def test_the_wheel_has_the_program_its_data_and_the_documents(files: dict[str, Path]) -> None:
    with zipfile.ZipFile(files["wheel"]) as wheel:
        names = set(wheel.namelist())
        record = wheel.read(next(each for each in names if each.endswith("/RECORD"))).decode()
    told = subprocess.run(
        ["git", "ls-files", "src/lycosa", "docs"], cwd=ROOT, capture_output=True, text=True
    )
    if told.returncode:
        pytest.skip("this folder is no checkout of git")
    kept = {each for each in told.stdout.split() if (ROOT / each).exists()}
    program = {each.removeprefix("src/") for each in kept if each.startswith("src/")}
    pages = {f"lycosa/{each}" for each in kept if re.search(r"^docs/.*\.(md|json)$", each)}
    assert program | pages <= names
    assert {"lycosa/py.typed", "lycosa/docs/formats.md"} <= names
    foreign = {each for each in names if not each.startswith(("lycosa/", "lycosa-"))}
    assert not foreign
    assert not {each for each in names if re.search(r"__pycache__|\.pyc$|/pictures/", each)}
    for name, digest, size in csv.reader(io.StringIO(record)):
        assert name.endswith("RECORD") or (digest.startswith("sha256=") and size)


def test_the_sdist_has_what_the_tests_need(files: dict[str, Path]) -> None:
    with tarfile.open(files["sdist"]) as archive:
        names = {each.partition("/")[2] for each in archive.getnames()}
    needed = {"LICENSE", "README.md", "pyproject.toml", "requirements/test.txt", "script/test"}
    assert needed <= names
    assert not {each for each in names if each.startswith((".git/", ".venv/", "crawls/"))}


def test_metadata_is_complete_and_names_no_address(files: dict[str, Path]) -> None:
    with zipfile.ZipFile(files["wheel"]) as wheel:
        (name,) = (each for each in wheel.namelist() if each.endswith("/METADATA"))
        told = Parser().parsestr(wheel.read(name).decode("utf-8"))
    assert (told["Name"], told["Version"]) == ("lycosa", PROJECT["version"])
    assert told["License-Expression"] == "Apache-2.0"
    assert told.get_all("License-File") == ["LICENSE"]
    assert told["Description-Content-Type"] == "text/markdown"
    assert told["Requires-Python"] == ">=3.11"
    assert len(told["Summary"]) < 120
    assert set(told.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])
    assert told.get_all("Project-URL") is None, "the project has no public address yet"
    assert not re.search(r"(?m)^Requires-Dist: lycosa\b", told.as_string())


def test_classifiers_exist() -> None:
    assert set(PROJECT["classifiers"]) <= classifiers
    assert not any(each.startswith("License ::") for each in PROJECT["classifiers"]), "PEP 639"


def test_supported_pythons_are_the_same_everywhere() -> None:
    """They are stated by the classifiers; scripts and documents repeat them."""
    minors = sorted(
        int(each.removeprefix(_VERSION))
        for each in PROJECT["classifiers"]
        if each.startswith(_VERSION)
    )
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    setup = (ROOT / "script" / "setup").read_text("utf-8")
    assert f"(3, {minors[0]}) <= sys.version_info[:2] <= (3, {minors[-1]})" in setup
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "script" / "setup"]
    for path in documents:
        for first, last in re.findall(r"3\.(1\d) to 3\.(1\d)", path.read_text("utf-8")):
            assert [int(first), int(last)] == [minors[0], minors[-1]], path.name


def test_all_is_every_optional_part() -> None:
    extras = PROJECT["optional-dependencies"]
    parts = [each for name in extras.keys() - TOOLS for each in extras[name]]
    assert sorted(extras["all"]) == sorted(parts)


# -- the documents that help texts name


def test_help_names_pages_that_the_installation_has() -> None:
    named = set()
    for path in (ROOT / "src" / "lycosa" / "cli").glob("*.py"):
        text = " ".join(path.read_text("utf-8").split())
        if path.name != "docs.py":
            assert not re.search(r"(?<!lycosa )\bdocs/[\w-]+\.md", text), path.name
            named |= set(re.findall(r"`?lycosa docs ([\w-]+)", text))
    assert len(named) > 8
    for page in named:
        assert CliRunner().invoke(docs, [page, "--path"]).exit_code == 0, page


def test_a_page_is_printed_or_a_near_one_named() -> None:
    shown = CliRunner().invoke(cli, ["docs", "docs/politeness.md"])
    assert shown.output == (ROOT / "docs" / "politeness.md").read_text("utf-8")
    listed = CliRunner().invoke(cli, ["docs"]).output
    assert re.search(r"(?m)^politeness +\w", listed) and "decisions/memory" in listed
    wrong = CliRunner().invoke(cli, ["docs", "politenes"])
    assert wrong.exit_code == 2 and "did you mean 'politeness'?" in wrong.output


def test_the_recording_of_a_first_crawl_is_short_small_and_of_these_commands() -> None:
    cast = ROOT / "docs" / "pictures" / "first-crawl.cast"
    head, *events = map(json.loads, cast.read_text("utf-8").splitlines())
    assert head["version"] == 2
    times = [when for when, _, _ in events]
    assert times == sorted(times) and 20 < times[-1] < 90
    assert all(later - before <= 2.01 for before, later in pairwise(times))
    shown = "".join(text for _, _, text in events)
    script = (ROOT / "script" / "recording").read_text("utf-8")
    for command in re.findall(r"(?m)^    [f'\"]+lycosa (\w+)", script):
        assert f"lycosa {command}" in shown.replace("\r\n", "")
    assert "Every check passed" in shown and "rror" not in shown
    assert sum(cast.with_suffix(each).stat().st_size for each in (".cast", ".svg")) < 200_000
