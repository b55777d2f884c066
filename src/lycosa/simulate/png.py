"""A picture as PNG, by whatever on this machine can turn SVG into it. None of that is worth a
dependency: an SVG file opens everywhere.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess

_LONG_S = 60.0
_PROGRAMS = {
    "rsvg-convert": ("--format", "png", "--zoom", "2"),
    "resvg": ("--zoom", "2", "-", "-c"),
    "inkscape": ("--pipe", "--export-type=png", "--export-filename=-"),
}


class NoPngError(Exception):
    """Nothing here turns SVG into PNG, or it failed; the message says what could be done."""


def png(svg: str) -> bytes:
    """The picture at twice its size. Raises ``NoPngError``."""
    if importlib.util.find_spec("cairosvg") is not None:
        return _by_cairo(svg)
    for program, arguments in _PROGRAMS.items():
        if found := shutil.which(program):
            return _by_program([found, *arguments], svg)
    raise NoPngError(
        "nothing on this machine turns SVG into PNG: install cairosvg (pip install cairosvg),"
        " rsvg-convert (librsvg), resvg or inkscape, or write the picture as .svg, which browsers"
        " open"
    )


def _by_cairo(svg: str) -> bytes:
    try:
        made: bytes = importlib.import_module("cairosvg").svg2png(bytestring=svg.encode(), scale=2)
    except Exception as error:  # whatever a drawing library raises
        raise NoPngError(
            f"cairosvg could not draw the picture: {error}; write it as .svg"
        ) from error
    return made


def _by_program(command: list[str], svg: str) -> bytes:
    try:
        done = subprocess.run(
            command, input=svg.encode(), capture_output=True, timeout=_LONG_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPngError(
            f"{command[0]} could not draw the picture: {error}; write it as .svg"
        ) from error
    if done.returncode or not done.stdout.startswith(b"\x89PNG"):
        raise NoPngError(
            f"{command[0]} could not draw the picture:"
            f" {done.stderr.decode(errors='replace').strip()[:200]}; write it as .svg"
        )
    return done.stdout
