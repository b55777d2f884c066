"""A public name means one thing: it is defined in one module, so that a search finds its place."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "lycosa"

# One protocol: each file of ``cli`` has the command's arguments and what runs it, and each program
# that is started as a module has its ``main``.
OF_EACH_COMMAND = {"command", "run", "main"}


def _defined(path: Path) -> Iterator[str]:
    """Public names that the module defines at its top, imported ones left out."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            continue
        yield from (name for name in names if not name.startswith("_"))


def test_no_public_name_is_defined_in_two_modules() -> None:
    modules = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in _defined(path):
            modules[name].add(str(path.relative_to(SOURCE)))
    assert modules["Crawl"] == {"processes/embedded_crawl.py"}
    twice = {name: places for name, places in modules.items() if len(places) > 1}
    assert {name: twice[name] for name in twice.keys() - OF_EACH_COMMAND} == {}


def test_names_of_commands_are_those_of_commands_alone() -> None:
    programs = {
        "stages/extract/extension_process.py",
        "stages/parse/parser_process.py",
        "processes/worker_process.py",
        "processes/rendering/renderer_process.py",
        "stages/render/browser_start.py",
        "synthetic/__main__.py",
    }
    for path in sorted(SOURCE.rglob("*.py")):
        place = str(path.relative_to(SOURCE))
        if OF_EACH_COMMAND.intersection(_defined(path)):
            assert place.startswith("cli/") or place in programs, place
