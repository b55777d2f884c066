"""The benchmark that says where a crawl's CPU time goes: which stage a file's time counts for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # benchmarks are not installed

from bench.stages import STAGES, owner, stage_of

from lycosa.base.system.environment import for_parser

ROOT = Path(__file__).parents[2]
_PACKAGES = ROOT / "src" / "lycosa"
_ELSEWHERE = "/home/me/lycosa/.venv/lib/python3.11/site-packages"


def _modules() -> list[str]:
    paths = [path.relative_to(_PACKAGES.parent) for path in _PACKAGES.rglob("*.py")]
    names = [".".join(path.with_suffix("").parts) for path in paths]
    return sorted(name.removesuffix(".__init__") for name in names)


def test_every_module_has_a_stage() -> None:
    assert len(_modules()) > 300
    assert [name for name in _modules() if not stage_of(name) or stage_of(name) == STAGES[""]] == []


def test_every_folder_has_a_stage_of_its_own() -> None:
    """So that a new one is not counted as the start."""
    split = ("base", "stages", "state")  # their packages belong to several stages
    parts = [name.split(".")[1:] for name in _modules() if name.count(".") > 1]
    folders = {".".join(part[: 2 if part[0] in split and len(part) > 2 else 1]) for part in parts}
    assert len(folders) > 25
    assert [name for name in folders if f"lycosa.{name}" not in STAGES] == []


def test_the_table_names_no_module_that_is_gone() -> None:
    known = _modules()
    assert [name for name in STAGES if name.startswith("lycosa.") and name not in known] == []


@pytest.mark.parametrize("root", ["/home/me/lycosa", "/tmp/other"])
def test_time_of_our_code_is_ours_wherever_the_checkout_is(root: str) -> None:
    stack = f"{root}/.venv/bin/lycosa:8:<module>;{root}/src/lycosa/state/store/warc.py:10:member"
    assert owner(stack.split(";")) == ("lycosa.state.store.warc", "member")
    assert owner([f"{root}/src/lycosa/state/kv/__init__.py:1:<module>"])[0] == "lycosa.state.kv"


def test_libraries_below_a_folder_named_lycosa_are_not_ours() -> None:
    ours = "/home/me/lycosa/src/lycosa/state/store/journal.py:10:add"
    library = f"{_ELSEWHERE}/backports/zstd/_streams.py:5:read"
    assert owner([ours, library]) == ("lycosa.state.store.journal", "add")
    assert owner([library]) == ("", "_streams.py:5:read")
    assert owner([ours, f"{_ELSEWHERE}/pycurl/async_multi.py:5:step"])[0] == "pycurl.async_multi"


def test_parse_children_are_sampled_and_counted_too() -> None:
    for folder in ("sampler", "call_counter"):
        source = (ROOT / "bench" / folder / "sitecustomize.py").read_text()
        names = [word.split('"')[1] for word in source.split("os.environ.get(")[1:]]
        assert names
        given = dict.fromkeys([*names, "PYTHONPATH"], os.curdir)
        assert for_parser(given).items() >= given.items()
