"""Is this body in an archive of an earlier crawl?

The indexes on this machine are asked first, by the digest alone. Then OutbackCDX, if the settings
name it, by the URL. A capture that is found is looked at in its archive, if that is within reach:
its record must be a response with this digest; it gives the exact date and the record id. One of
``earlier.check_every`` is compared byte by byte. Whatever is in doubt is stored in full.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lycosa.base.config.feature_sections import EarlierSection
from lycosa.base.model.capture import StoredOriginal
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.fetched import Fetched
from lycosa.base.ports import Offload
from lycosa.state.store.earlier_bodies import (
    FOLDER,
    ArchiveFiles,
    original_elsewhere,
    place_elsewhere,
)
from lycosa.state.store.earlier_index import EarlierCapture, EarlierIndex
from lycosa.state.store.stored_data import RecordError, StoredRecord
from lycosa.state.store.warc import base32_sha1
from lycosa.worker.job import WorkerJob

_COMPARED_BYTES = 50_000_000
"""A larger body is not read into memory for a comparison."""


class CaptureServer(Protocol):
    """A server that knows captures of earlier crawls by their URLs. Its calls block."""

    def find(self, fetched: Fetched, digest: bytes) -> EarlierCapture | None:
        """A capture of this URL with this body, or ``None``, also if there was no answer."""
        ...

    def note(self, is_right: bool) -> None:
        """A capture that the server named was looked at in its archive, which is within reach."""
        ...


class EarlierCaptures:
    """One per worker.

    ``counts`` has the bodies that an archive has and the archive's record was right, those that
    were compared, and those where it was not (``differs``). A capture whose archive is not within
    reach counts as ``unseen``.
    """

    def __init__(
        self,
        indexes: list[EarlierIndex],
        files: ArchiveFiles,
        section: EarlierSection,
        offload: Offload,
        server: CaptureServer | None = None,
    ) -> None:
        self._indexes, self._files, self._offload, self._server = indexes, files, offload, server
        self._every = section.check_every
        self.counts = {"right": 0, "compared": 0, "unseen": 0, "differs": 0}

    async def find_original(self, fetched: Fetched, digest: bytes) -> StoredOriginal | None:
        """The capture of an earlier crawl with this body, or ``None``."""
        found = next((each for index in self._indexes if (each := index.find(digest))), None)
        if found is None and self._server is None:
            return None
        # On another thread: it reads the archive, or asks a server.
        return await self._offload.run(lambda: self._looked_up(fetched, digest, found))

    def _looked_up(
        self, fetched: Fetched, digest: bytes, found: EarlierCapture | None
    ) -> StoredOriginal | None:
        of_server = found is None
        if found is None and self._server is not None:
            found = self._server.find(fetched, digest)
        if found is None:
            return None
        record, is_right = self._record(found, fetched, digest, of_server)
        if record is not None and of_server and self._server is not None:
            self._server.note(is_right)
        return original_elsewhere(found, record) if is_right else None

    def _record(
        self, found: EarlierCapture, fetched: Fetched, digest: bytes, of_server: bool
    ) -> tuple[StoredRecord | None, bool]:
        """The record of a capture, if its archive is here, and whether it may be referred to."""
        place, counts = place_elsewhere(found), self.counts
        try:
            record = self._files.read_head(*place)
        except (RecordError, OSError):
            # What a server says cannot be compared without the archive. The body that would be is
            # stored, so that not all of them depend on what it says; that is no error of its.
            is_due = of_server and self._every and counts["unseen"] % self._every == 0
            counts["unseen"] += 1
            return None, not is_due
        is_right = record.fields.get("WARC-Type") == "response" and record.fields.get(
            "WARC-Payload-Digest", ""
        ) in ("", base32_sha1(digest))
        due = is_right and self._every and (counts["right"] + counts["differs"]) % self._every == 0
        if due and fetched.body_bytes <= _COMPARED_BYTES:
            is_right = self._is_equal(place, fetched)
        counts["right" if is_right else "differs"] += 1
        return record, is_right

    def _is_equal(self, place: tuple[str, int], fetched: Fetched) -> bool:
        self.counts["compared"] += 1
        try:
            body = Path(fetched.spool).read_bytes() if fetched.spool else fetched.body
            return self._files.read_record(*place).body == body
        except (RecordError, OSError):
            return False  # what cannot be read is no reason to store less


def earlier_of_job(job: WorkerJob, offload: Offload) -> EarlierCaptures | None:
    """The earlier crawls for one worker; ``None`` without any, and where formats lack the place.

    Blocks; raises ``EarlierError``.
    """
    archives, section = job.earlier, job.config.earlier
    if job.formats < LATE_FIELDS or not (archives.indexes or section.outbackcdx):
        return None
    # Imported here, because few crawls ask a server.
    from lycosa.worker.capture_server import OutbackServer

    server = OutbackServer(section) if section.outbackcdx else None
    indexes = [EarlierIndex(job.earlier_folder / FOLDER / name) for name in archives.indexes]
    return EarlierCaptures(indexes, ArchiveFiles(archives.folders), section, offload, server)
