"""The direction of imports, read from the source: what docs/architecture.md says about it is
checked here.

    cli -> processes -> moves, service -> worker, inspect, feeds -> cluster -> stages -> state -> base

A folder at the top imports from those that stand before it in ``LAYERS``, and from no other. Stages
do not know each other. The packages of ``worker`` have an order too.
"""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "lycosa"

LAYERS = [
    ["base"],
    ["state"],
    ["stages"],
    ["cluster"],
    ["worker", "inspect", "feeds"],
    ["moves", "service", "simulate"],
    ["processes"],
    ["cli"],
    ["__main__"],
]

# What a stage may import besides ``base`` and itself: memory in front of the disk, where files are
# that the disk does not have any more, values that are stored, and ports of other stages.
STAGE_TOOLS = {
    "state.kv",
    "state.objects",
    "state.attempts",
    "state.store.journal_rows",
    "state.shard.counters",
    "state.seen.seen_port",
    "state.cold.cold_rows",
}

# User code reads pages as the crawl does.
STAGE_USES = {("stages.extract", "stages.parse")}

# Stages, or parts of them, that only decide: no loop, no files, no threads, no clock of their own.
PURE = [
    "stages.admit",
    "stages.frontier",
    "stages.schedule",
    "base.model",
    "base.messages",
    "cluster.coordinator",
    *(
        f"state.seen.{name}"
        for name in ("simhash", "content_seen", "recent", "seen_port", "duplicates", "foreign_keys")
    ),
]
PURE.append("state.cold.cold_rows")
PURE += [
    f"stages.politeness.{name}"
    for name in ("delay", "robots_cache", "robots_parser", "robots_rules", "tdm_cache", "wildcards")
]
IMPURE_MODULES = {
    "asyncio",
    "os",
    "io",
    "pathlib",
    "socket",
    "ssl",
    "select",
    "signal",
    "subprocess",
    "threading",
    "multiprocessing",
}
IMPURE_MODULES |= {"time", "shutil", "tempfile"}


def _modules() -> dict[str, Path]:
    """Every module by its name below ``lycosa``; the package itself is the empty name."""
    names = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


MODULES = _modules()


@cache
def _imported(path: Path) -> list[str]:
    """Full names of what a module imports, inside functions too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def _ours(path: Path) -> set[str]:
    """Names below ``lycosa`` of the modules of ours that a module imports."""
    found = set()
    for full in _imported(path):
        top, _, name = full.partition(".")
        if top != "lycosa":
            continue
        while name not in MODULES:  # a class or function of a module
            name = name.rpartition(".")[0]
        found.add(name)
    return found


@cache
def graph() -> dict[str, set[str]]:
    """Not when the tests are collected, which each process of pytest does."""
    return {name: _ours(path) for name, path in MODULES.items()}


def _part(name: str) -> str:
    return name.partition(".")[0]


def _layer(name: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if _part(name) in layer)


def _edges() -> list[tuple[str, str]]:
    return [
        (name, target) for name, targets in graph().items() for target in sorted(targets) if name
    ]


def test_every_package_belongs_to_a_layer() -> None:
    assert {"", "synthetic"}.union(*LAYERS) == {_part(name) for name in MODULES}


def test_imports_point_downwards() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, target in _edges()
        if _part(name) != "synthetic"
        and _part(target) != "synthetic"
        and _layer(target) > _layer(name)
    ]
    assert wrong == []


def _package(name: str) -> str:
    """The folder of a module and the folder within it, such as ``stages.frontier``."""
    return ".".join(name.split(".")[:2])


def test_stages_do_not_know_each_other() -> None:
    wrong = []
    for name, target in _edges():
        is_shared = (
            _part(target) == "base"
            or _package(target) == _package(name)
            or {_package(target), target} & STAGE_TOOLS
            or (_package(name), _package(target)) in STAGE_USES
        )
        if _part(name) == "stages" and not is_shared:
            wrong.append(f"{name} imports {target}")
    assert wrong == []


def _circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Names of which each imports the next, and the last the first; none when there are no such."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        found = next(
            filter(None, (visit(target, [*path, name]) for target in sorted(graph.get(name, ())))),
            [],
        )
        done.add(name)
        return found

    return next(filter(None, (visit(name, []) for name in graph)), [])


def test_no_module_reaches_itself_by_its_imports() -> None:
    # the package's own are for type checkers alone
    assert _circle({name: targets for name, targets in graph().items() if name}) == []


@pytest.mark.parametrize("depth", [1, 2], ids=["folders", "packages"])
def test_no_package_reaches_itself_by_its_imports(depth: int) -> None:
    packages: dict[str, set[str]] = {}
    for name, target in _edges():
        here, there = (".".join(each.split(".")[:depth]) for each in (name, target))
        if here != there:
            packages.setdefault(here, set()).add(there)
    assert _circle(packages) == []


def _levels(package: str) -> int:
    """How many modules of a package stand on each other at most."""
    inside = {name for name in graph() if name.startswith(package + ".")}
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            levels[name] = 1 + max(map(level, graph()[name] & inside), default=0)
        return levels[name]

    return max(map(level, inside))


@pytest.mark.parametrize("package", ["visit", "intake", "commit", "calls"])
def test_a_package_of_the_worker_has_few_levels(package: str) -> None:
    """So at most five other modules of its package are to be read below a module."""
    assert _levels(f"worker.{package}") <= 6


def test_the_rooms_of_the_worker_stand_on_each_other_in_order() -> None:
    order = ["intake", "visit", "commit", "worker", "calls", "assemble"]
    packages = {f"worker.{name}": number for number, name in enumerate(order)}
    wrong = [
        f"{name} imports {target}"
        for name, target in _edges()
        if packages.get(_package(target), -1) > packages.get(_package(name), len(order))
    ]
    assert wrong == []


def test_a_file_name_occurs_once() -> None:
    """So a name in a traceback or a text says which file it is."""
    names = Counter(
        path.name for path in SOURCE.rglob("*.py") if path.stem not in ("__init__", "__main__")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_a_name_is_imported_from_the_module_that_defines_it() -> None:
    """A package that lists names of its modules gives them a second home."""
    listing = {
        ".".join(path.relative_to(SOURCE).parts[:-1])
        for path in SOURCE.rglob("__init__.py")
        if any(_imported(path))
    }
    listing.remove("")  # the names of the Python API
    assert listing <= {"base.calls", "cli", "state.attempts", "state.commit", "synthetic"}


def test_a_circle_of_imports_is_found() -> None:
    assert _circle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d"]


def test_the_command_line_is_imported_by_nothing() -> None:
    assert [
        name
        for name, target in _edges()
        if _part(target) == "cli" and _part(name) not in ("cli", "__main__")
    ] == []


def test_what_reads_a_crawl_is_imported_by_what_answers_questions_about_it() -> None:
    assert {_part(name) for name, target in _edges() if _part(target) == "inspect"} <= {
        "inspect",
        "processes",
        "service",
        "cli",
    }


def test_the_synthetic_web_shares_no_code_with_the_crawler_that_it_judges() -> None:
    assert [
        name
        for name, target in _edges()
        if _part(target) == "synthetic" and _part(name) != "synthetic"
    ] == []
    web = [name for name in MODULES if _part(name) == "synthetic"]
    assert {_part(target) for name in web for target in graph()[name]} <= {"synthetic", "base"}


@pytest.mark.parametrize("part", PURE)
def test_what_decides_does_no_io(part: str) -> None:
    members = [name for name in MODULES if name == part or name.startswith(part + ".")]
    assert members
    for name in members:
        assert {
            full.partition(".")[0] for full in _imported(MODULES[name])
        } & IMPURE_MODULES == set(), name


_ALWAYS_HEAVY = {
    "numpy",
    "pyarrow",
    "duckdb",
    "lxml",
    "rich",
    "py3langid",
    "importlib.metadata",
    "difflib",
    "tomllib",
    "confluent_kafka",
    "psycopg",
    "redis",
}
_STAGES_HEAVY = {"turbohtml", "pycurl", "aiodns", "pycares", "uvloop", "brotli", "isal.igzip_lib"}


@pytest.mark.parametrize(
    ("entry", "heavy"),
    [
        ("lycosa.cli.main", {"msgspec", "asyncio", *_ALWAYS_HEAVY, *_STAGES_HEAVY}),
        # It finds the versions and plug-ins that are installed, once for all workers.
        (
            "lycosa.cli.crawl, lycosa.processes.supervisor, lycosa.cli.crawl_display",
            {*_ALWAYS_HEAVY - {"importlib.metadata"}, *_STAGES_HEAVY},
        ),
        (
            "lycosa.cli.crawl_summary",
            {*_ALWAYS_HEAVY - {"importlib.metadata"}, *_STAGES_HEAVY - {"isal.igzip_lib"}},
        ),
        ("lycosa.processes.worker_process", {*_ALWAYS_HEAVY - {"numpy"}, "turbohtml", "email"}),
        (
            "lycosa.stages.parse.parser_process",
            {
                *_ALWAYS_HEAVY - {"numpy"},
                *_STAGES_HEAVY - {"turbohtml", "brotli", "isal.igzip_lib"},
                "asyncio",
                "email",
            },
        ),
    ],
)
def test_a_process_starts_without_the_libraries_that_it_may_never_need(
    entry: str, heavy: set[str]
) -> None:
    code = f"import sys, {entry}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy.intersection(run.stdout.split()) == set()


def test_values_are_made_without_the_libraries_of_stages() -> None:
    heavy = {
        "pycurl",
        "rocksdict",
        "pyarrow",
        "numpy",
        "turbohtml",
        "duckdb",
        "lxml",
        "aiodns",
        "uvloop",
        "py3langid",
    }
    for name in MODULES:
        if _part(name) == "base":
            assert {full.partition(".")[0] for full in _imported(MODULES[name])} & heavy == set(), (
                name
            )


@cache
def _defined(path: Path) -> set[str]:
    """Names that a module defines or imports at its top, or lists as those it loads on first use."""
    tree = ast.parse(path.read_text("utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("folder", ["bench", "examples", "docs", "deploy"])
def test_programs_beside_the_package_import_names_that_exist(folder: str) -> None:
    """No type checker reads them, and most of them run seldom."""
    wrong, seen = [], 0
    for path in sorted((SOURCE.parents[1] / folder).rglob("*.py")):
        for full in _imported(path):
            top, _, name = full.partition(".")
            module = name if name in MODULES else name.rpartition(".")[0]
            if top != "lycosa":
                continue
            seen += 1
            if module not in MODULES or (
                module != name and name.rpartition(".")[2] not in _defined(MODULES[module])
            ):
                wrong.append(f"{path.name}: {full}")
    assert wrong == []
    assert seen or folder in ("examples", "deploy")


def test_the_picture_of_the_imports_is_as_they_are() -> None:
    drawing = runpy.run_path(str(SOURCE.parents[1] / "docs" / "pictures" / "imports.py"))
    imports: dict[str, set[str]] = {_part(name): set() for name in MODULES if name}
    for name, others in graph().items():
        if name:
            imports[_part(name)] |= {_part(each) for each in others if each} - {_part(name)}
    assert drawing["PICTURE"].read_text("utf-8") == drawing["drawn"](imports), (
        "draw it again: python docs/pictures/imports.py"
    )
    assert max(drawing["levels"](imports).values()) + 1 <= 9, "levels"
