"""Static imports of modules: what counts as code, and what a hostile script costs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.stages.parse.module_imports import MAX_IMPORTS, static_imports


@pytest.mark.parametrize(
    ("script", "imports"),
    [
        ('import "./a.js"', ["./a.js"]),
        ("import a from './a.js';import*as b from\"/b.js\"", ["./a.js", "/b.js"]),
        ('import a, {b as c, default as d} from "../a.js"', ["../a.js"]),
        ('import{a}from"./a.js";export{b}from"./b.js";export*from"./c.js"', ["./a.js", "./b.js", "./c.js"]),
        ('export * as n from "https://cdn.example/x.js"', ["https://cdn.example/x.js"]),
        ('import a from "./a.json" with { type: "json" }', ["./a.json"]),
        ('export { a as "./no.js" } from "./a.js"', ["./a.js"]),
        ('export {a}\nimport "./a.js"', ["./a.js"]),
        ('import from from "./a.js"', ["./a.js"]),
        ('import defer * as n from "./a.js"', ["./a.js"]),
        ('import "./a\\x2ejs"; import "./\\u{62}.js"', ["./a.js", "./b.js"]),
        # bare names are for import maps
        ('import "lodash"; import x from "@scope/y"', []),
        # not static, or no code
        ('import("./a.js"); import.meta.url; f(() => import("./b.js"))', []),
        ('// import "./a.js"\n/* import "./b.js" */ let s = "import \'./c.js\'"', []),
        ("`import './a.js' ${`${{a: '}'}.a} import './b.js'`}`", []),
        ('x = /import ".\\/a.js"["/]/; import "./b.js"', ["./b.js"]),
        ('a = b / c; import "./a.js"; d / e', ["./a.js"]),
        ('{ import "./a.js" } import "./b.js"', ["./b.js"]),
        ('x.import "./a.js"; importx "./b.js"', []),
        ("export default 'x'; export const a = './b.js'", []),
        ('import "./unfinished', ["./unfinished"]),
    ],
)  # fmt: skip
def test_a_module_imports(script: str, imports: list[str]) -> None:
    assert static_imports(script) == imports


def test_there_are_at_most_a_thousand() -> None:
    script = "".join(f'import "./{number}.js";' for number in range(MAX_IMPORTS + 50))
    assert len(static_imports(script)) == MAX_IMPORTS


@pytest.mark.parametrize(
    "piece",
    [
        "import{", "export{", 'import "./a', "import x,", "/", "x=/[", "/*", '"\\', "`${", "`}",
        "import a from", "export * ", "'", "//\n", "({[", "import x ",
    ],
)  # fmt: skip
def test_a_hostile_script_costs_its_size(piece: str) -> None:
    started = time.process_time()
    static_imports("import './a.js';" + (piece * 200_000)[:300_000] + ";import './b.js'")
    assert time.process_time() - started < 5


@given(st.lists(st.sampled_from(["import", "export", "from", "'./a.js'", '"/b"', "{", "}", "*", ",", ";", "(", ")", "`", "${", "/", "\\", " ", "\n", "x", "=", "//", "/*", "*/"]), max_size=40))  # fmt: skip
def test_any_script_ends_and_gives_addresses(pieces: list[str]) -> None:
    for found in static_imports("".join(pieces)):
        assert found.startswith(("/", "./", "../", "http"))
