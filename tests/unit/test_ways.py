"""The ways through the house (``docs/ways``): each module that they name exists, and each step is
reached as the page says.

The last column of a step has one or more claims, which the source has to bear out:

    step 3 calls `acquire`          module 3 refers to the name, this module defines it
    calls `acquire` of step 5       the reverse
    step 3 sends `Calls`            both refer to the value, which travels as bytes or as a row
    step 3 includes `router`        both refer to the name
    ... through `worker/x.py`       that module hands the function, or an object that has it, on

Of two modules that call each other, one imports the other, a port that has the name, or a struct
of parts that has the other one; or else the page names the module that wires them.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "lycosa"
PAGES = sorted((ROOT / "docs" / "ways").glob("*.md"))
_ROW = re.compile(r"(?m)^\| (\d+) \| `([\w/]+\.py)` \| (.+?) \| (.+?) \|$")
_CLAIM = re.compile(
    r"step (\d+) (calls|sends|includes) `(\w+)`(?: through `([\w/]+\.py)`)?|calls `(\w+)` of step (\d+)"
)


class Step(NamedTuple):
    """A row of a page."""

    number: int
    module: str
    action: str
    reached: str


class Names(NamedTuple):
    """The names of a module; ``objects`` are its classes and variables."""

    defined: frozenset[str]
    objects: frozenset[str]
    used: frozenset[str]
    imports: frozenset[str]


@cache
def names(module: str) -> Names:
    """What a module defines, refers to, and imports from us (as paths below the source)."""
    defined, objects, used, imports = (set[str]() for _ in range(4))
    tree = ast.parse((SOURCE / module).read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign):
            objects |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    defined |= objects
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
            if isinstance(node, ast.ClassDef):
                objects.add(node.name)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lycosa."):
            for alias in node.names:
                imports |= _files(f"{node.module}.{alias.name}")
    return Names(frozenset(defined), frozenset(objects), frozenset(used), frozenset(imports))


def _files(name: str) -> set[str]:
    """The file of a module, or that which defines a name of a package or module."""
    parts = name.split(".")[1:]
    while parts:
        path = "/".join(parts)
        if (SOURCE / f"{path}.py").exists():
            return {f"{path}.py"}
        if (SOURCE / path).is_dir():  # a package loads its names from its modules
            last = name.rpartition(".")[2]
            return {
                each.relative_to(SOURCE).as_posix()
                for each in (SOURCE / path).glob("*.py")
                if re.search(
                    rf"(?m)^(?:class {last}\b|(?:async )?def {last}\b|{last}\b ?[:=])",
                    each.read_text("utf-8"),
                )
            }
        parts.pop()
    return set()


def steps_of(page: str) -> list[Step]:
    """The steps of all tables of a page."""
    return [Step(int(row[0]), *row[1:]) for row in _ROW.findall(page)]


def _is_connected(caller: str, called: str, name: str) -> bool:
    """Whether one imports the other, or both know a port that has the name."""
    here, there = names(caller), names(called)
    if called in here.imports or caller in there.imports:
        return True
    # a port that has the name, or a struct of the parts that the caller is given
    return any(
        name in names(near).defined or called in names(near).imports for near in here.imports
    )


def fault_of(claim: re.Match[str], step: Step, steps: dict[int, Step]) -> str:
    """Why a claim of a step is wrong; empty when it is right."""
    number, verb, name, wiring, back, other = claim.groups()
    near = steps.get(int(number or other))
    if near is None:
        return f"there is no step {number or other}"
    if verb in ("sends", "includes"):
        is_right = name in names(near.module).used and name in names(step.module).used
        return "" if is_right else f"{near.module} and {step.module} do not share {name}"
    name = name or back
    caller, called = (near.module, step.module) if number else (step.module, near.module)
    if name not in names(called).defined:
        return f"{called} does not define {name}"
    if wiring:
        is_wired = _wires(wiring, called, name)
        return "" if is_wired else f"{wiring} does not give {name} of {called} to others"
    if name not in names(caller).used:
        return f"{caller} does not refer to {name}"
    return "" if _is_connected(caller, called, name) else f"{caller} does not know {called}"


def _wires(wiring: str, called: str, name: str) -> bool:
    """Whether a module knows the called one, and hands on the function or an object that has it."""
    near = names(wiring).imports
    knows = called in near or any(called in names(each).imports for each in near)
    return knows and bool(names(wiring).used & {name, *names(called).objects})


def faults(page: str) -> list[str]:
    """What is wrong with a page."""
    rows = steps_of(page)
    by_number = {step.number: step for step in rows}
    found = []
    if [step.number for step in rows] != list(range(1, len(rows) + 1)):
        found.append("the steps are not numbered from 1 on")
    if len(rows) != len(re.findall(r"(?m)^\| *\d", page)):
        found.append("a row is not written as a step")
    found += [
        f"step {step.number}: no module {step.module}"
        for step in rows
        if not (SOURCE / step.module).exists()
    ]
    if found:
        return found
    for step in rows:
        claims = list(_CLAIM.finditer(step.reached))
        if not claims and step.number > 1:
            found.append(f"step {step.number}: it says not how it is reached")
        reasons = (fault_of(claim, step, by_number) for claim in claims)
        found += [f"step {step.number}: {reason}" for reason in reasons if reason]
    return found


def test_there_are_four_ways() -> None:
    assert [page.stem for page in PAGES] == ["action", "commit", "parcel", "url"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_step_is_reached_as_the_page_says(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(steps_of(text)) >= 10
    assert faults(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_step_says_in_a_sentence_what_the_module_does(page: Path) -> None:
    for step in steps_of(page.read_text("utf-8")):
        assert step.action[0].isupper() and step.action.endswith("."), step
        assert len(step.action) <= 260, step


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (["worker/visit/nothing.py"], "no module"),
        (["worker/visit/pipeline.py", "stages/parse/parser_process.py"], "says not how"),
    ],
)
def test_a_page_that_is_wrong_is_found(rows: list[str], reason: str) -> None:
    page = "\n".join(f"| {at} | `{row}` | It works. | - |" for at, row in enumerate(rows, 1))
    assert reason in faults(page)[0]


@pytest.mark.parametrize(
    ("module", "claim", "reason"),
    [
        ("stages/schedule/visit_decisions.py", "step 1 calls `decide`", ""),
        ("stages/schedule/visit_decisions.py", "step 1 calls `frozen`", "does not define"),
        ("stages/schedule/visit_decisions.py", "step 1 calls `park_s`", "does not refer"),
        ("stages/schedule/visit_decisions.py", "step 7 calls `decide`", "no step 7"),
        ("stages/schedule/steps.py", "step 1 sends `Commit`", "do not share"),
        ("stages/schedule/priority.py", "step 1 calls `prioritizer`", "does not refer"),
        ("state/kv/rocks.py", "step 1 calls `close`", "does not refer"),
        ("service/api/places.py", "step 1 calls `host`", "does not know"),
    ],
)
def test_a_claim_that_is_wrong_is_found(module: str, claim: str, reason: str) -> None:
    page = (
        "| 1 | `worker/visit/pipeline.py` | It works. | - |\n"
        f"| 2 | `{module}` | It works. | {claim} |\n"
    )
    found = faults(page)
    assert (found == []) == (not reason)
    assert all(reason in each for each in found)
