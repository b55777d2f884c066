"""The user code of a crawl, stored beside its settings, in a folder and in object storage alike.

================  ================================================================================
``code/SHA256.py``   a module, ``.zip`` for a package (``base.system.code_file``); never replaced
``code.json``        what each name stands for, and what it stood for before; replaced as a whole
================  ================================================================================

It is kept so that anyone can see which code made the rows of a page, and so that machines of a
cluster get code that they allow. That it is stored here never gets it run: a copy is used only by
its SHA-256, where the machine allows that (``base.model.code_version``). Commands that read a crawl
read ``code.json`` at most.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from lycosa.base.model.code_version import CodeVersion, is_digest
from lycosa.base.system.code_file import FILE, PACKAGE, CodeFile
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.objects.object_errors import ObjectExists, ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore

CODE_FOLDER = "code"
CODE_NAME = "code.json"


class CodeRecord(msgspec.Struct, frozen=True):
    """A name stands for the code of a digest from now on, or for none if that is empty.

    ``given`` is how the operator named it. ``since`` is the version of the settings, ``term`` the
    term of the run, whose first commit can have it; ``wall`` is seconds since 1970.
    """

    name: str
    digest: str
    given: str = ""
    since: int = 0
    term: int = 0
    wall: float = 0.0


class _CodeFile(msgspec.Struct, frozen=True):
    """The content of ``code.json``, the oldest record first."""

    records: list[CodeRecord]


class DamagedCode(Exception):
    """``code.json`` cannot be read."""


def code_key(digest: str, suffix: str) -> str:
    """Where code is stored."""
    return f"{CODE_FOLDER}/{digest}{suffix}"


def code_records(store: ObjectStore) -> list[CodeRecord]:
    """All records, the oldest first. Raises ``DamagedCode`` or ``ObjectError``."""
    try:
        return msgspec.json.decode(store.get(CODE_NAME), type=_CodeFile).records
    except ObjectMissing:
        return []
    except UNREADABLE as error:
        raise DamagedCode(
            f"{CODE_NAME} cannot be read ({error}); restore it from a copy"
        ) from error


def present_code(records: Sequence[CodeRecord]) -> dict[str, CodeVersion]:
    """What each name stands for now."""
    last = {each.name: CodeVersion(each.digest, each.since) for each in records}
    return {name: each for name, each in last.items() if each.digest}


def note_code(store: ObjectStore, changes: Sequence[CodeRecord]) -> bool:
    """Add records of what is not so yet; returns whether there was any.

    Raises ``DamagedCode`` or ``ObjectError``.
    """
    records = code_records(store)
    before = present_code(records)
    new = [
        each
        for each in changes
        if each.digest != (before[each.name].digest if each.name in before else "")
    ]
    if new:
        content = msgspec.json.encode(_CodeFile([*records, *new]))
        store.put(CODE_NAME, msgspec.json.format(content, indent=2) + b"\n")
    return bool(new)


def keep_code(store: ObjectStore, code: CodeFile) -> None:
    """Store code, unless the store has it. Raises ``ObjectError``."""
    with suppress(ObjectExists):
        store.create(code_key(code.digest, code.suffix), code.content)


def find_code(store: ObjectStore, digest: str) -> CodeFile | None:
    """The code of that digest; ``None`` if there is none, or if it has another content.

    Raises ``ObjectError``.
    """
    if is_digest(digest):
        for suffix in (FILE, PACKAGE):
            with suppress(ObjectMissing):
                content = store.get(code_key(digest, suffix))
                if hashlib.sha256(content).hexdigest() == digest:
                    return CodeFile(content, suffix)
    return None
