"""The user code that one node of a cluster allows, with the copies from which its workers run it.

A node allows digests by its own command line (``lycosa node --allow``) and by ``extensions.allow``
of its own ``cluster.toml``, which is read again when it changes. Nothing that comes from the
bucket, the topics or the coordinator adds to them. The code itself may come from the bucket: a copy
counts only if its SHA-256 is one that is allowed. The folder ``code`` of the node has exactly these
copies, and the node reports a digest only when it has one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.code_version import is_digest, shown_digest
from lycosa.base.system.code_file import FILE, PACKAGE, CodeFile, read_code
from lycosa.base.system.durable import replace_file
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.stored_code import CODE_FOLDER, find_code

_Stamp = tuple[int, int]  # time of change and size of a file


def read_allowed(given: Sequence[str]) -> tuple[tuple[str, ...], list[CodeFile]]:
    """What ``--allow`` names: the digests, and the code of those given as a file or a folder.

    Raises ``SettingsError``.
    """
    codes, digests = [], []
    for each in given:
        if is_digest(each.lower()):
            digests.append(each.lower())
            continue
        try:
            codes.append(read_code(Path(each)))
        except ValueError as error:
            raise SettingsError(
                [f"--allow {each}: neither a SHA-256 (64 hexadecimal digits) nor code: {error}"]
            ) from error
    return (*digests, *(code.digest for code in codes)), codes


class NodeCode:
    """The code of the node whose local folder is ``folder``; ``file`` is its ``cluster.toml``.

    ``given`` are texts of ``--allow``. ``tell`` gets lines for the operator. All calls block, one
    at a time. Raises ``SettingsError`` or ``OSError``.
    """

    def __init__(
        self,
        folder: Path,
        file: Path,
        given: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.folder = folder / CODE_FOLDER
        self._file, self._tell = file, tell
        self._own, self._codes = read_allowed(given)
        self._allowed = frozenset(self._own)
        self._stamp: _Stamp | None = None
        self._told: set[str] = set()
        for path in self._copies():
            if hashlib.sha256(path.read_bytes()).hexdigest() != path.stem:
                path.unlink()  # it was cut off, or changed by someone

    def refresh(self, store: Callable[[], ObjectStore]) -> tuple[str, ...]:
        """Allow what ``cluster.toml`` says now; returns the digests of which there is a copy.

        Copies that are missing are taken from the bucket, those that are not allowed any more are
        deleted. Raises ``OSError``.
        """
        self._follow_file()
        copies = {path.stem: path for path in self._copies()}
        for digest in copies.keys() - self._allowed:
            copies[digest].unlink()
        for code in self._codes:
            self._keep(code)
        found = {*(copies.keys() & self._allowed), *(code.digest for code in self._codes)}
        for digest in sorted(self._allowed - found):
            if self._fetch(store, digest):
                found.add(digest)
        return tuple(sorted(found))

    def _follow_file(self) -> None:
        try:
            found = self._file.stat()
            if (stamp := (found.st_mtime_ns, found.st_size)) == self._stamp:
                return
            self._stamp = stamp
            allowed = frozenset((*self._own, *read_cluster_file(self._file).allow))
        except (OSError, SettingsError) as error:
            # what was allowed before is what the operator decided last
            self._tell_once(f"{self._file} cannot be read, so the same extensions stay: {error}")
            return
        if allowed != self._allowed:
            shown = ", ".join(map(shown_digest, sorted(allowed))) or "none"
            self._tell(f"this node allows extensions by SHA-256: {shown}")
        self._allowed = allowed

    def _copies(self) -> list[Path]:
        """The copies in the folder, of any digest."""
        if not self.folder.exists():
            return []
        return [path for path in self.folder.iterdir() if path.suffix in (FILE, PACKAGE)]

    def _keep(self, code: CodeFile) -> None:
        path = self.folder / f"{code.digest}{code.suffix}"
        if not path.exists():
            self.folder.mkdir(exist_ok=True)
            replace_file(path, code.content)

    def _fetch(self, store: Callable[[], ObjectStore], digest: str) -> bool:
        """Take a copy from the bucket; false when it has none, or cannot be reached."""
        try:
            code = find_code(store(), digest)
        except ObjectError as error:
            self._tell_once(f"the code of an extension cannot be fetched for now: {error}")
            return False
        if code is not None:
            self._keep(code)
        return code is not None

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)
