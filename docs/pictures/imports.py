"""Draws which package imports which, on levels: ``python docs/pictures/imports.py`` writes
``imports.svg`` beside this file.

A package stands on the lowest level that is above all it imports. An arrow is left out when a
longer way says the same.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "lycosa"
PICTURE = Path(__file__).with_suffix(".svg")
_BOX, _GAP, _ROW, _TOP, _HEIGHT, _WIDTH = 92, 22, 92, 30, 34, 1040
_COLOURS = (
    "#f1f5f9",
    "#dbeafe",
    "#e0f2fe",
    "#d1fae5",
    "#ecfccb",
    "#fef3c7",
    "#ffedd5",
    "#fee2e2",
    "#fce7f3",
    "#f3e8ff",
)


def graph() -> dict[str, set[str]]:
    """What each package imports; a module beside the packages counts as one."""
    modules = {
        path.relative_to(SOURCE).with_suffix("").parts: path for path in SOURCE.rglob("*.py")
    }
    packages = {parts[0] for parts in modules} - {"__init__"}
    found: dict[str, set[str]] = {package: set() for package in packages}
    for parts, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            if isinstance(node, ast.ImportFrom) and node.module == "lycosa":
                names = [f"lycosa.{alias.name}" for alias in node.names]
            targets = {
                name.split(".")[1] for name in names if name.startswith("lycosa.")
            } & packages
            if parts[0] in found:
                found[parts[0]] |= targets - {parts[0]}
    return found


def levels(imports: dict[str, set[str]]) -> dict[str, int]:
    """The level of each package, from 0."""

    @functools.cache
    def level(package: str) -> int:
        return 1 + max(map(level, imports[package]), default=-1)

    return {package: level(package) for package in imports}


def direct(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The arrows that follow from no others."""

    @functools.cache
    def below(package: str) -> frozenset[str]:
        return frozenset(imports[package]).union(*(below(target) for target in imports[package]))

    return sorted(
        (a, b)
        for a in imports
        for b in imports[a]
        if not any(b in below(other) for other in imports[a] - {b})
    )


def drawn(imports: dict[str, set[str]]) -> str:
    """The picture."""
    level = levels(imports)
    most = max(level.values())
    rows = [
        sorted(package for package in imports if level[package] == number)
        for number in range(most + 1)
    ]
    middle = {}
    # under what it is imported by most, as far as there is room: by the mean place of what it
    # imports
    for row in rows:
        row.sort(
            key=lambda package: (
                (
                    sum(middle[t] for t in imports[package]) / len(imports[package])
                    if imports[package]
                    else 0.0
                ),
                package,
            )
        )
        left = (_WIDTH - len(row) * _BOX - (len(row) - 1) * _GAP) / 2
        for number, package in enumerate(row):
            middle[package] = left + number * (_BOX + _GAP) + _BOX / 2
    top = {package: _TOP + (most - level[package]) * _ROW for package in imports}
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH}'
        f' {_TOP + most * _ROW + _HEIGHT + 20}"'
    )
    marker = (
        '<marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6"'
        ' orient="auto">'
    )
    lines = [
        f'{head} font-family="sans-serif" font-size="13">',
        f'{marker}<path d="M0 0L8 4L0 8z" fill="#64748b"/></marker>',
    ]
    for a, b in direct(imports):
        x1, y1, x2, y2 = middle[a], top[a] + _HEIGHT, middle[b], top[b]
        bend = (y2 - y1) / 2
        path = f"M{x1:.0f} {y1}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2 - 1}"
        lines.append(
            f'<path d="{path}" fill="none" stroke="#94a3b8" stroke-width="1.2"'
            f' marker-end="url(#to)"><title>{a} imports {b}</title></path>'
        )
    for package in sorted(imports):
        x, colour = middle[package] - _BOX / 2, _COLOURS[level[package] % len(_COLOURS)]
        lines.append(
            f'<rect x="{x:.0f}" y="{top[package]}" width="{_BOX}" height="{_HEIGHT}" rx="6"'
            f' fill="{colour}" stroke="#475569"/>'
        )
        lines.append(
            f'<text x="{middle[package]:.0f}" y="{top[package] + 22}"'
            f' text-anchor="middle">{package}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawn(graph()), "utf-8")
