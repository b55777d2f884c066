"""What the repository says of itself: README and documents against the code, sizes, docstrings,
reasons of dependencies.
"""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import lycosa
from lycosa.base.config.fields import fields
from lycosa.cli.main import cli

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

# Look again at 400 and 50 lines. The limits are larger, so that no module is squeezed under one.
MOST_MODULE_LINES = 480
MOST_FUNCTION_LINES = 55
MOST_PARAMETERS = 7

# What is larger, with the reason; an entry that is not needed any more fails.
LARGE_MODULES = {
    "lycosa/stages/frontier/visit_state.py": "everything that is remembered of one host",
    "lycosa/stages/frontier/partition.py": "what happens to a URL, from its discovery to its refetch",
    "lycosa/inspect/explain/known_url.py": "a method for each state and each kind of fact",
    "lycosa/base/system/metric_catalogue.py": "a table of all metrics",
    "lycosa/stages/frontier/frontier.py": "where a host goes before and after each visit",
    "lycosa/worker/worker.py": "the loop of a worker",
    "lycosa/stages/parse/document.py": "the order in which a document is read, for every type",
}
LARGE_FUNCTIONS = {
    "lycosa/state/store/journal_rows.py:build_row": "one journal line, field by field",
    "lycosa/state/store/render_records.py:render_row": "one journal line, field by field",
}
MANY_PARAMETERS: dict[str, str] = {}


def _name(path: Path) -> str:
    return path.relative_to(ROOT / "src").as_posix()


class Function(NamedTuple):
    name: str
    lines: int
    parameters: int


@cache
def _sources() -> tuple[list[Function], list[str]]:
    """All functions, and the modules without a docstring. Trees are not kept: they are large."""
    functions: list[Function] = []
    silent: list[str] = []
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        silent += [] if ast.get_docstring(tree) else [_name(path)]
        functions += [
            Function(
                f"{_name(path)}:{node.name}",
                (node.end_lineno or 0) - node.lineno + 1,
                len(node.args.args) + len(node.args.kwonlyargs),
            )
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    return functions, silent


def test_no_module_is_larger_than_a_reader_bears() -> None:
    large = {
        _name(path) for path in SOURCES if path.read_text("utf-8").count("\n") > MOST_MODULE_LINES
    }
    assert large == LARGE_MODULES.keys()


def test_no_two_test_modules_have_one_name() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names)), (
        "pytest takes the second for the first and collects nothing at all"
    )


def test_no_function_is_larger_than_a_screen() -> None:
    large = {each.name for each in _sources()[0] if each.lines > MOST_FUNCTION_LINES}
    assert large == LARGE_FUNCTIONS.keys()


def test_constructors_take_few_parameters() -> None:
    many = {
        each.name
        for each in _sources()[0]
        if each.name.endswith(":__init__") and each.parameters - 1 > MOST_PARAMETERS
    }
    assert many == MANY_PARAMETERS.keys()


def test_every_module_says_what_it_promises() -> None:
    assert _sources()[1] == []


def test_nothing_is_left_to_be_done_in_the_source() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    assert [_name(path) for path in SOURCES if marks.search(path.read_text("utf-8"))] == []


def test_tests_neither_sleep_nor_mock() -> None:
    forbidden = re.compile(
        r"unittest" + r"\.mock|Magic" + r"Mock|monkeypatch\.(setattr|setitem)|time\." + r"sleep\("
    )
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert [path.name for path in files if forbidden.search(path.read_text("utf-8"))] == []


def test_every_dependency_says_what_it_is_for() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    for requirement in [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]:
        line = next(line for line in text.splitlines() if f'"{requirement}"' in line)
        assert re.search(r"#\s*\w+", line.rpartition('"')[2]), requirement


def test_locks_have_every_dependency_with_hashes_and_name_no_index() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    for kind, wanted in {
        "run": [],
        "test": extras["dev"],
        "fuzz": extras["fuzz"],
        "bench": extras["bench"],
        "docs": extras["docs"],
        "image": [
            *extras["api"],
            *extras["cluster"],
            *extras["objects"],
            *extras["postgres"],
            *extras["cassandra"],
            *extras["redis"],
            *extras["traces"],
        ],
    }.items():
        lock = (ROOT / "requirements" / f"{kind}.txt").read_text("utf-8")
        assert "://" not in lock
        locked = {
            re.sub("[-_.]+", "-", name).lower() for name in re.findall(r"(?m)^([\w.-]+)==", lock)
        }
        needed = {
            re.sub("[-_.]+", "-", re.match(r"[\w.-]+", each)[0]).lower()
            for each in [*project["dependencies"], *wanted]
        }  # type: ignore[index]
        assert needed <= locked, f"requirements/{kind}.txt lacks {needed - locked}; run script/lock"
        assert len(re.findall(r"(?m)^[\w.-]+==", lock)) <= lock.count("--hash=sha256:")


# -- what the documents say


def _commands() -> dict[str, click.Command]:
    context = click.Context(cli)
    found: dict[str, click.Command] = {}
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        found[name] = command
    return found


COMMANDS = _commands()
CODE = re.compile(
    r"```\w*\n(.*?)```|(?<!`)`([^`\n]+)`(?!`)|(?m:^ {4}(lycosa .*|script/.*))", re.DOTALL
)


def _code(document: Path) -> str:
    return "\n".join(
        "".join(part for part in found.groups() if part)
        for found in CODE.finditer(document.read_text("utf-8"))
    )


def _options(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help", "-h"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_in_the_documents_exist(document: Path) -> None:
    for line in _code(document).splitlines():
        for called in re.split(r"\blycosa(?= )|script/crawl\b", line)[1:]:
            name = "crawl" if "script/crawl" in line else called.split()[0]
            command = COMMANDS.get(name)
            if command is not None and not isinstance(command, click.Group):
                given = set(
                    re.findall(r"\s(--[a-z][a-z-]+)", called.partition('"')[0].partition("|")[0])
                )
                assert given <= _options(command), line
    for script in re.findall(r"\bscript/(\w+)", document.read_text("utf-8")):
        assert (ROOT / "script" / script).is_file(), script


def test_the_readme_uses_only_names_that_are_stable() -> None:
    used = set(re.findall(r"\blycosa\.([A-Z]\w+)", (ROOT / "README.md").read_text("utf-8")))
    assert used <= set(lycosa.__all__)
    assert all(hasattr(lycosa, name) for name in lycosa.__all__)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), f"{document.name}: {target}"
        if anchor:
            headings = re.findall(r"(?m)^#+ (.*)$", file.read_text("utf-8"))
            assert anchor in {
                re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
            }, target


def test_every_document_is_in_the_navigation_or_in_the_list_of_decisions() -> None:
    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    listed = re.findall(r'"([\w/-]+\.md)"', site["site_config"]())
    assert len(listed) == len(set(listed))
    decisions = (ROOT / "docs" / "decisions" / "index.md").read_text("utf-8")
    found = {*listed, *(f"decisions/{name}" for name in re.findall(r"\(([\w-]+\.md)\)", decisions))}
    pages = {str(site["place_of"](path)) for path in site["sources"]()}
    assert pages - found <= {f"project/{name}.md" for name in ("test-data", "security", "conduct")}
    assert found <= pages


def test_pages_of_the_reference_are_current() -> None:
    reference = runpy.run_path(str(ROOT / "docs" / "reference.py"))
    for name, text in reference["pages"]().items():
        assert (ROOT / "docs" / name).read_text("utf-8") == text, "run `python docs/reference.py`"


def test_remedies_of_reasons_name_settings_that_exist() -> None:
    keys = set(fields())
    for key in re.findall(r"`([a-z]+\.[a-z_]+)", (ROOT / "docs" / "reasons.md").read_text("utf-8")):
        assert key in keys, key


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_in_the_guides_exist(document: str) -> None:
    """Files of the source, tests and documents, as a contributor would open them."""
    places = (ROOT / "src" / "lycosa", ROOT, ROOT / "tests", *(ROOT / "tests").glob("*/"))
    for path in re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:py|md)|(?:[\w-]+/){2,})`", _text(document)):
        assert any((place / path).exists() for place in places), path


@cache
def _words_of_the_code() -> set[str]:
    return {
        word
        for folder in ("src", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for word in re.findall(r"\w+", path.read_text("utf-8"))
    }


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_names_in_the_guides_exist(document: str) -> None:
    """Classes, functions and constants that a guide names are somewhere in the code."""
    known = _words_of_the_code()
    for name in re.findall(r"`(_?[A-Za-z]\w+(?:\.[A-Za-z]\w+)*)(?:\([^`]*\))?`", _text(document)):
        is_file = name.endswith((".py", ".md", ".txt"))
        assert is_file or set(name.split(".")) <= known, name


def _text(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def test_settings_in_the_documents_exist() -> None:
    config = lycosa.Config()
    sections = {
        name
        for name in config.__struct_fields__
        if hasattr(getattr(config, name), "__struct_fields__")
    }
    modules = {(path.parent.name, path.stem) for path in SOURCES}
    for document in DOCUMENTS:
        for section, name in re.findall(r"`(\w+)\.(\w+)[=`]", document.read_text("utf-8")):
            is_module = name == "py" or (section, name) in modules
            if section in sections and not is_module:
                assert name in getattr(config, section).__struct_fields__, (
                    f"{document.name}: {section}.{name}"
                )


def test_every_trap_rule_is_documented() -> None:
    rules = (ROOT / "docs" / "canonical-form.md").read_text("utf-8").partition("Trap rules")[2]
    for name in lycosa.Config().traps.__struct_fields__:
        assert f"`{name}`" in rules, f"docs/canonical-form.md, Trap rules, lacks `{name}`"


def test_the_files_of_a_quick_run_exist() -> None:
    """Pytest runs nothing at all if one of them does not."""
    script = (ROOT / "script" / "test").read_text("utf-8")
    listed = script[script.index("QUICK=(") : script.index("\n)\n", script.index("QUICK=(")) + 2]
    told = subprocess.run(
        ["bash", "-c", f'{listed}\nprintf "%s\\n" "${{QUICK[@]}}"'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = told.stdout.split()
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
