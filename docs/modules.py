"""Writes modules.md next to this file: ``python docs/modules.py`` lists every package and module.

The text is the first paragraph of each module's docstring, so the page cannot contradict the code.
A test compares the page with what this script would write.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "lycosa"
PAGE = Path(__file__).with_suffix(".md")
_HEAD = """# Modules

Every package and module of `src/lycosa`, with the first sentences of its docstring.
`python docs/modules.py` writes this page. [Architecture](architecture.md) explains how the parts
work together.
"""


def first_paragraph(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line, as Markdown."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    line = " ".join(text.partition("\n\n")[0].split())
    return re.sub(r"``(.+?)``", r"`\1`", line)


def page() -> str:
    """The whole page."""
    lines = [_HEAD.rstrip()]
    for package in sorted(path.parent for path in SOURCE.rglob("__init__.py")):
        name = "lycosa" if package == SOURCE else package.relative_to(SOURCE).as_posix()
        lines += ["", f"## `{name}`", ""]
        lines += textwrap.wrap(first_paragraph(package / "__init__.py"), 100)
        modules = sorted(path for path in package.glob("*.py") if path.name != "__init__.py")
        if modules:
            lines += ["", "| module | content |", "|---|---|"]
        for path in modules:
            content = first_paragraph(path).replace("|", "\\|")
            lines.append(f"| `{path.stem}` | {content} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
