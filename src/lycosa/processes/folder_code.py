"""The user code of a run in a crawl folder: what the command names, with copies in the folder.

Whoever starts a run names the code with it; that a folder has code, or settings that name some,
gets nothing run. What is named is read once at the start, kept in the folder under its SHA-256, and
run from there, so a file that is edited meanwhile changes nothing in the run. Where the named file
is not there any more, the folder's copy is used if ``extensions.allow`` of this start has its
SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from lycosa.base.config.sections import ExtensionSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.code_version import CodeVersion, code_name, is_digest
from lycosa.base.model.known_code import CodeError, KnownCode
from lycosa.base.system.code_file import CodeFile, UnreadableCode, code_place, read_named
from lycosa.stages.extract.code_check import described
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.stored_code import (
    CODE_FOLDER,
    CodeRecord,
    code_records,
    find_code,
    keep_code,
    note_code,
    present_code,
)
from lycosa.worker.job import RunCode


class NamedCode(msgspec.Struct, frozen=True):
    """Code that was named, as ``given``, and read."""

    name: str
    given: str
    code: CodeFile


def read_named_code(
    given: Iterable[str], copies: Mapping[str, CodeFile] | None = None
) -> list[NamedCode]:
    """Read the code that is named; nothing of it runs.

    ``copies`` are used by name where there is no file. Raises ``SettingsError``.
    """
    found: dict[str, NamedCode] = {}
    problems = []
    for each in given:
        try:
            name = code_name(each)
            if name in found:
                raise UnreadableCode(f"{each} has the name of {found[name].given}: rename one")
            try:
                code = read_named(each)
            except UnreadableCode:
                if copies is None or name not in copies:
                    raise
                code = copies[name]
            found[name] = NamedCode(name, each, code)
        except ValueError as error:
            problems.append(f"extensions.code: {error}")
    if problems:
        raise SettingsError(problems)
    return list(found.values())


class FolderCode:
    """The code of one run in a folder. Raises ``SettingsError``."""

    def __init__(self, folder: Path, section: ExtensionSection) -> None:
        if wrong := [each for each in section.allow if not is_digest(each)]:
            raise SettingsError(
                [
                    f"extensions.allow: {each!r} is not a SHA-256 of 64 hexadecimal digits in"
                    " lower case"
                    for each in wrong
                ]
            )
        self._folder, self._allow = folder, section.allow
        self._store = FolderStore(str(folder), folder)
        self._named = read_named_code(section.code, self._copies())

    def check(self, section: ExtensionSection) -> None:
        """Import what was named once, in a process of the kind that will run it. Blocks.

        So a run that begins has code that can be called. Raises ``SettingsError``.
        """
        _check_named(self._named, section, self._folder / CODE_FOLDER)

    def keep(self, version: int, term: int, wall: float) -> RunCode:
        """Store what was named, for the run of that term, whose settings begin at that version.

        Blocks. Raises ``DamagedCode`` or ``ObjectError``.
        """
        before = present_code(code_records(self._store))
        for each in self._named:
            keep_code(self._store, each.code)
        named = {each.name for each in self._named}
        changes = [
            CodeRecord(each.name, each.code.digest, each.given, version, term, wall)
            for each in self._named
        ]
        changes += [
            CodeRecord(name, "", since=version, term=term, wall=wall)
            for name in before.keys() - named
        ]
        note_code(self._store, changes)
        code = {
            each.name: before[each.name]
            if before.get(each.name, CodeVersion("")).digest == each.code.digest
            else CodeVersion(each.code.digest, version)
            for each in self._named
        }
        allowed = {each.code.digest for each in self._named} | set(self._allow)
        return RunCode(code, self._folder / CODE_FOLDER, tuple(sorted(allowed)))

    def _copies(self) -> dict[str, CodeFile]:
        """The folder's copies by name, of those that this start allows."""
        if not self._allow:
            return {}
        present = present_code(code_records(self._store))
        found = {
            name: find_code(self._store, each.digest)
            for name, each in present.items()
            if each.digest in self._allow
        }
        return {name: code for name, code in found.items() if code is not None}


def _check_named(named: Iterable[NamedCode], section: ExtensionSection, copies: Path) -> None:
    codes = []
    for each in named:
        place = code_place(each.given.rpartition(":")[0])
        if not place.exists():
            place = copies / f"{each.code.digest}{each.code.suffix}"
        codes.append(KnownCode(each.name, str(place), each.code.digest))
    try:
        described(codes, section)
    except (CodeError, OSError) as error:
        raise SettingsError([f"extensions.code: {error}"]) from None
