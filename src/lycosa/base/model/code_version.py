"""Which user code a crawl runs: a name in the settings, and the SHA-256 of the source.

A name says what an operator wants, and never gets code run by itself. A worker runs code only when
its SHA-256 is one that its own machine allows: in a crawl of one machine what the command line or
the settings of this start name, on a cluster ``lycosa node --allow`` and ``extensions.allow`` of
that machine's ``cluster.toml``. So whoever can write into a folder or a bucket cannot choose what
runs, and whoever can change the settings of a crawl chooses among what each machine allows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec

MAX_CODES = 32
"""Pieces of user code that a crawl may run."""
MAX_NAME = 200
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"\w[\w.-]*:[A-Za-z_][\w.]*", re.ASCII)
_SLASHES = re.compile(r"[/\\]")
_SHOWN = 12  # characters of a digest


class CodeVersion(msgspec.Struct, frozen=True):
    """The code that a name stands for.

    ``digest`` is its SHA-256. The first commits that were made with it name the version ``since``
    of the settings; 0 is the beginning of the crawl, or of a run in a folder.
    """

    digest: str
    since: int = 0


CodeTable = Mapping[str, CodeVersion]
"""What a crawl runs, by name."""


def code_name(given: str) -> str:
    """The name of code that is given as ``FILE.py:NAME``, ``FOLDER:NAME`` or ``module:NAME``.

    It is without the folder, so the same file of another machine has the same name. Raises
    ``ValueError``.
    """
    place, colon, attribute = given.rpartition(":")
    last = _SLASHES.split(place.rstrip("/\\"))[-1]
    name = f"{last.removesuffix('.py')}:{attribute}"
    if not colon or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise ValueError(f"{given!r}: write FILE.py:NAME, or module:NAME")
    return name


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 as 64 hexadecimal digits in lower case."""
    return _DIGEST.fullmatch(text) is not None


def shown_digest(digest: str) -> str:
    """The beginning of a digest, for lines that people read."""
    return digest[:_SHOWN]


def lacking_code(code: CodeTable, allowed: Collection[str]) -> list[str]:
    """The names whose code is not ``allowed``, with the beginning of its digest, in order."""
    return [
        f"{name} (SHA-256 {shown_digest(each.digest)})"
        for name, each in sorted(code.items())
        if each.digest not in allowed
    ]


def code_refusal(code: CodeTable, allowed: Collection[str]) -> str:
    """Why a machine that allows these digests runs no worker; empty when it may."""
    if not (lacking := lacking_code(code, allowed)):
        return ""
    digests = sorted({each.digest for each in code.values()} - set(allowed))
    return (
        f"it does not allow the extension {', '.join(lacking)}, or has not found its code: add"
        f" --allow {' --allow '.join(digests)} to `lycosa node` there, or the digest to allow of"
        " [extensions] in its cluster.toml, if you trust that code"
    )


def changed_code(
    code: CodeTable, changes: Mapping[str, str], version: int
) -> dict[str, CodeVersion]:
    """The table after ``changes`` of digests by name, which settings of that version have.

    An empty digest ends the use of a name. A digest that is in force keeps its ``since``.
    """
    table = dict(code)
    for name, digest in changes.items():
        if not digest:
            table.pop(name, None)
        elif name not in table or table[name].digest != digest:
            table[name] = CodeVersion(digest, version)
    return table


def objection_to(changes: Mapping[str, str], present: CodeTable) -> str:
    """Why a change is not one of code; empty when it is."""
    for name, digest in changes.items():
        if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
            return f"{name[:MAX_NAME]!r} is not the name of code: write module:NAME"
        if digest and not is_digest(digest):
            return f"{digest[:70]!r} is not a SHA-256 of 64 hexadecimal digits"
        if not digest and name not in present:
            return f"the crawl does not run {name}; it runs {', '.join(present) or 'no extension'}"
    if not changes:
        return "no code is named"
    if len(present.keys() | changes.keys()) > MAX_CODES:
        return f"a crawl runs at most {MAX_CODES} extensions"
    return ""
