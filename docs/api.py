"""Writes the list of endpoints in ``api.md`` from the OpenAPI: ``python docs/api.py``.

A test compares the page with what this script would write.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI

from lycosa.base.logs.log_writer import EventLog
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.app import make_app
from lycosa.service.api.gate import API, GateRules
from lycosa.service.api.process_log import ProcessLog
from lycosa.service.api.service import CrawlService
from lycosa.service.api.tokens import Tokens

PAGE = Path(__file__).parent / "api.md"
_MOST_LABELS = 10  # of a value are listed
BEGIN, END = "<!-- endpoints: written by docs/api.py -->\n", "<!-- end of the endpoints -->\n"


def openapi() -> dict[str, Any]:
    """The OpenAPI of the interface, which does not depend on a crawl."""
    rules = GateRules("localhost", True, False, ApiLimits())
    gate = make_app(cast(CrawlService, None), rules, Tokens([]), ProcessLog(EventLog(None, "api")))
    return cast(FastAPI, gate.inner).openapi()


def page(text: str) -> str:
    """The page with its present list of endpoints."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    lines = [part for line in _lines(openapi()) for part in _wrapped(line)]
    return head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + tail


def _wrapped(line: str) -> list[str]:
    indent = "  " if line.startswith("*") else ""
    return textwrap.wrap(line, 100, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _lines(schema: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            lines += [f"### `{method.upper()} {path.removeprefix(API)}`", ""]
            lines += [" ".join(operation["description"].split()), ""]
            for each in operation.get("parameters", []):
                lines.append(_parameter(each))
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for each in _fields(schema, body.get("schema", {})):
                lines += [_field(schema, each), *_inner_fields(schema, each)]
            if lines[-1]:
                lines.append("")
            answer = operation["responses"]["200"]
            lines += [f"Answer: {_answer(schema, answer)}", ""]
            model = answer["content"].get("application/json", {}).get("schema", {})
            meanings = [line for each in _fields(schema, model) for line in _meanings(schema, each)]
            lines += [*meanings, ""] if meanings else []
    return lines


def _parameter(each: dict[str, Any]) -> str:
    need = _need(each["required"], each["schema"].get("default"))
    about = each.get("description") or each["schema"].get("description", "")
    kind = _type(each["schema"])
    return f"* `{each['name']}` ({each['in']}, {kind}, {need}){': ' + about if about else ''}"


def _need(is_needed: bool, default: object) -> str:
    if is_needed:
        return "required"
    return f"default `{json.dumps(default)}`" if default not in (None, "", []) else "optional"


def _fields(schema: dict[str, Any], body: dict[str, Any]) -> list[tuple[str, Any, bool]]:
    model = _resolved(schema, body)
    needed = model.get("required", [])
    return [(name, each, name in needed) for name, each in model.get("properties", {}).items()]


def _field(schema: dict[str, Any], field: tuple[str, Any, bool]) -> str:
    name, each, is_needed = field
    about = each.get("description", "")
    need = _need(is_needed, each.get("default"))
    more = " of objects" if _fields(schema, each.get("items", {})) else ""
    return f"* `{name}` (body, {_type(each)}{more}, {need}){': ' + about if about else ''}"


def _inner_fields(schema: dict[str, Any], field: tuple[str, Any, bool]) -> list[str]:
    """The fields of the objects in a list."""
    name, each, _ = field
    return [
        _field(schema, (f"{name}[].{key}", part, is_needed))
        for key, part, is_needed in _fields(schema, each.get("items", {}))
    ]


def _meanings(schema: dict[str, Any], field: tuple[str, Any, bool]) -> list[str]:
    """What a field of an answer means, and those of the objects in a list."""
    name, each, _ = field
    inner = [(f"{name}[].{key}", part) for key, part, _ in _fields(schema, each.get("items", {}))]
    return [
        f"* `{key}`: {part['description']}"
        for key, part in [(name, each), *inner]
        if part.get("description")
    ]


def _answer(schema: dict[str, Any], response: dict[str, Any]) -> str:
    (kind, content), *others = response["content"].items()
    if kind != "application/json":
        return f"`{'` or `'.join([kind, *(other for other, _ in others)])}`"
    model = _resolved(schema, content["schema"])
    names = [f"`{name}`" for name in model.get("properties", {})]
    return f"an object with {', '.join(names)}" if names else "an object"


def _resolved(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """What a reference refers to; of alternatives the first object."""
    for option in [part, *part.get("anyOf", [])]:
        if "$ref" in option:
            found: dict[str, Any] = schema["components"]["schemas"][option["$ref"].split("/")[-1]]
            return found
    return part


def _type(part: dict[str, Any]) -> str:
    if "anyOf" in part:
        return " or ".join(_type(each) for each in part["anyOf"] if each.get("type") != "null")
    if "enum" in part:
        labels = [each for each in part["enum"] if each]
        if len(labels) > _MOST_LABELS:
            return "one of the labels in the OpenAPI"
        return " or ".join(f"`{each}`" for each in labels)
    low, high = part.get("minimum"), part.get("maximum")
    kind = {"array": "list", "number": "number", "object": "object"}.get(
        part.get("type", "object"), part.get("type", "object")
    )
    return f"{kind} from {low:g} to {high:g}" if low is not None and high is not None else kind


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
