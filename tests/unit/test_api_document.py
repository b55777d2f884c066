"""docs/api.md has every endpoint as the OpenAPI has it."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_list_of_endpoints_is_as_the_openapi_has_it() -> None:
    script = runpy.run_path(str(DOCS / "api.py"))
    text = (DOCS / "api.md").read_text("utf-8")
    assert text == script["page"](text), "run `python docs/api.py`"


def test_the_openapi_is_of_version_3_1_and_documents_its_errors() -> None:
    schema = runpy.run_path(str(DOCS / "api.py"))["openapi"]()
    assert schema["openapi"].startswith("3.1.")
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            assert operation["description"], path
            for status in ("401", "403", "422", "429", "503"):
                assert "application/problem+json" in operation["responses"][status]["content"], path
