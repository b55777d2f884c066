"""Files that were removed after their upload: their store must have them as ``log/removed`` says.

For some of these files the store has the only copy. So an object that the store does not have, or
has with another size or checksum, is a breach. A store that cannot be asked (no credentials, no
connection) proves nothing: its files are counted as unread.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

from lycosa.inspect.audit.audit_report import Check, OnAuditProgress
from lycosa.state.objects.object_errors import ObjectError, ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import object_pieces
from lycosa.state.objects.store_opening import open_store
from lycosa.state.store.removed_files import RemovedFile, removed_files

_EVERY = 100


class RemovedCheck:
    """``share`` is the part of the files whose content is read; sizes are compared of all."""

    def __init__(self, share: float, progress: OnAuditProgress) -> None:
        self.check = Check(
            "removed", "files removed here after their upload: the store has each, by its checksum"
        )
        self.unread: list[str] = []
        """What could not be read: a line for each store."""
        self._share, self._progress = share, progress

    def check_folder(self, folder: Path) -> None:
        """Check every file that was removed from the folder and did not come back."""
        stores: dict[tuple[str, tuple[str, ...]], list[RemovedFile]] = {}
        for removed in removed_files(folder).values():
            if not (folder / removed.file).exists():
                stores.setdefault((removed.url, removed.options), []).append(removed)
        for place, files in stores.items():
            self._check_store(place, files)

    def _check_store(self, place: tuple[str, tuple[str, ...]], files: list[RemovedFile]) -> None:
        done = 0
        try:
            store = open_store(*place)
            for done, removed in enumerate(files):
                if done % _EVERY == 0:
                    self._progress("removed files", done, len(files))
                fault = self._fault(store, removed)
                self.check.expect(not fault, f"{removed.file} was removed here, and {fault}")
        except ObjectError as error:
            # The rest is left out, because each file could take as long to fail.
            what = f"{len(files) - done} files that were removed here after their upload"
            self.unread.append(f"{what}: {error}")

    def _fault(self, store: ObjectStore, removed: RemovedFile) -> str:
        """What is wrong with an object; empty if nothing is. Raises ``ObjectError``."""
        try:
            found = store.find(removed.file)
            if found is None:
                return f"{removed.url} does not have it: restore it there or here from a copy"
            if found.size != removed.bytes:
                return f"{removed.url} has {found.size} bytes of its {removed.bytes}"
            # The same share of files at each audit: chosen by name, not by chance.
            if zlib.crc32(removed.file.encode()) >= self._share * 2**32:
                return ""
            content = hashlib.sha256()
            for piece in object_pieces(store, removed.file, removed.bytes):
                content.update(piece)
        except ObjectMissing:
            # It was there at the `find` above, so another program deleted it since.
            return f"{removed.url} does not have it any more"
        if content.hexdigest() != removed.sha256:
            return f"{removed.url} has another content of it: its SHA-256 is not the recorded one"
        return ""
