"""Reads a WACZ file for replay: checks its manifest and signature, and finds its records.

The file may be anyone's. Its WARC files are stored in the ZIP file as they are, so a record has a
place in the ZIP file itself: the beginning of the entry and the offset in the index. Nothing is
unpacked but the index, within limits.

Checked are the digest of the manifest, its signature if there is one (the anonymous form), and the
digests of the index files. Those of the WARC files are not: that reads the whole archive, and
``wacz validate`` of the package py-wacz does it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from lycosa.base.signing.archive_key import is_signature_of
from lycosa.inspect.wacz.wacz_export import DIGEST_ENTRY, MANIFEST_ENTRY
from lycosa.inspect.wacz.wacz_pages import FIRST_LIST

_MAX_DOCUMENT = 64 << 20
_MAX_LINE = 1 << 20
_MAX_PAGE_LINE = 16 << 20  # with the text of the page
_MAX_RATIO = 200  # of an index to its compressed form; real ones have about 15
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_MAGIC = b"PK\3\4"
_INDEXES = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
_WARCS = (".warc", ".warc.gz")
# RuntimeError: encrypted, or compressed by a method that Python does not know
_BROKEN = (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError, struct.error)


class WaczError(Exception):
    """A file cannot be replayed; the message says why."""


class WaczPage(NamedTuple):
    """A page that the archive names: URL, and time in RFC 3339 or empty."""

    url: str
    time: str


class WaczContent:
    """An opened WACZ; a context manager.

    ``title`` is for people. ``public_key`` is that of a valid signature, empty without any. Raises
    ``WaczError`` or ``OSError``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb")
        try:
            self._zip = zipfile.ZipFile(self._file)
            manifest = self._document(MANIFEST_ENTRY)
            self._manifest = _object(manifest, path, MANIFEST_ENTRY)
            self._hashes = {
                str(each.get("path")): str(each.get("hash"))
                for each in self._manifest.get("resources") or ()
                if isinstance(each, dict)
            }
            self.title = str(self._manifest.get("title") or path.name)
            self.public_key = self._checked_signature(manifest)
        except _BROKEN as error:
            self._file.close()
            raise WaczError(f"{path} is not a WACZ file: {error}") from error
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> WaczContent:
        return self

    def __exit__(self, *ended: object) -> None:
        self._zip.close()
        self._file.close()

    def main_page(self) -> WaczPage | None:
        """The page that the archive names to begin with, or else the first one of its list."""
        url = self._manifest.get("mainPageUrl") or self._manifest.get("mainPageURL")
        if isinstance(url, str):
            return WaczPage(url, str(self._manifest.get("mainPageDate") or ""))
        if FIRST_LIST not in self._zip.namelist():
            return None
        with self._zip.open(FIRST_LIST) as lines:
            for _ in range(2):  # the first line is a header
                page = _parsed(lines.readline(_MAX_PAGE_LINE))
                if isinstance(page.get("url"), str):
                    return WaczPage(page["url"], str(page.get("ts") or ""))
        return None

    def indexes(self) -> list[str]:
        """The entries with CDXJ lines."""
        return [name for name in self._zip.namelist() if _is_in(name, "indexes/", _INDEXES)]

    def index_lines(self, name: str, file: str) -> Iterator[bytes]:
        """The lines of an index, with places in the WACZ file itself, which they call ``file``.

        Raises ``WaczError`` if a line is none, or names no WARC file of the archive.
        """
        starts = self._warc_starts()
        try:
            for line in self._checked_lines(name):
                if not line.startswith(b"!"):
                    yield self._moved(line, starts, file)
        except _BROKEN as error:
            raise WaczError(f"{self.path}: {name}: {error}") from error

    def _moved(self, line: bytes, starts: dict[str, int], file: str) -> bytes:
        head, mark, fields = line.partition(b" {")
        key, _, stamp = head.rpartition(b" ")
        found = _parsed(mark + fields)
        name = str(found.get("filename", "")).rpartition("/")[2]
        try:
            offset = starts[name] + int(found["offset"])
        except (KeyError, TypeError, ValueError) as error:
            raise WaczError(f"{self.path}: a line of the index has no place: {error}") from error
        found |= {"filename": file, "offset": str(offset)}
        # pywb knows times of 14 digits
        return key + b" " + stamp[:14] + b" " + json.dumps(found).encode() + b"\n"

    def _warc_starts(self) -> dict[str, int]:
        """Where each WARC file begins in the ZIP file."""
        starts = {}
        for info in self._zip.infolist():
            if not _is_in(info.filename, "archive/", _WARCS):
                continue
            if info.compress_type != zipfile.ZIP_STORED:
                raise WaczError(
                    f"{self.path}: {info.filename} is compressed in the ZIP file, which WACZ"
                    " forbids: its records cannot be read by their places"
                )
            self._file.seek(info.header_offset)
            header = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
            if header[0] != _LOCAL_MAGIC:
                raise WaczError(f"{self.path}: {info.filename} does not begin where it should")
            start = info.header_offset + _LOCAL_HEADER.size + header[-2] + header[-1]
            starts[info.filename.rpartition("/")[2]] = start
        return starts

    def _checked_lines(self, name: str) -> Iterator[bytes]:
        info = self._zip.getinfo(name)
        with self._zip.open(name) as stored:
            summed = hashlib.sha256()
            while piece := stored.read(1 << 20):
                summed.update(piece)
        wanted = self._hashes.get(name)
        if wanted is None or not _is_digest(wanted, summed.hexdigest()):
            raise WaczError(f"{self.path}: {name} does not have the digest of {MANIFEST_ENTRY}")
        with self._zip.open(name) as stored:
            yield from _bounded_lines(stored, name, _MAX_RATIO * info.compress_size + _MAX_LINE)

    def _checked_signature(self, manifest: bytes) -> str:
        """The public key that signed the manifest, if any.

        Raises ``WaczError`` if the digest or the signature is wrong.
        """
        if DIGEST_ENTRY not in self._zip.namelist():
            return ""
        digest = _object(self._document(DIGEST_ENTRY), self.path, DIGEST_ENTRY)
        hashed = str(digest.get("hash"))
        if not _is_digest(hashed, hashlib.sha256(manifest).hexdigest()):
            raise WaczError(f"{self.path}: {MANIFEST_ENTRY} does not have its digest")
        signed = digest.get("signedData")
        if not isinstance(signed, dict) or "publicKey" not in signed:
            return ""  # unsigned, or in the name of a domain, whose certificates are not checked
        public = str(signed["publicKey"])
        is_same = signed.get("hash") == hashed
        if not is_same or not is_signature_of(hashed, str(signed.get("signature")), public):
            raise WaczError(f"{self.path}: the signature does not belong to this archive")
        return public

    def _document(self, name: str) -> bytes:
        try:
            with self._zip.open(name) as file:
                data = file.read(_MAX_DOCUMENT + 1)
        except KeyError:
            raise WaczError(f"{self.path} is not a WACZ file: it has no {name}") from None
        if len(data) > _MAX_DOCUMENT:
            raise WaczError(f"{self.path}: {name} is too large")
        return data


def _bounded_lines(stored: IO[bytes], name: str, most: int) -> Iterator[bytes]:
    lines = gzip.GzipFile(fileobj=stored) if name.endswith(".gz") else stored
    total = 0
    while line := lines.readline(_MAX_LINE + 1):
        total += len(line)
        if len(line) > _MAX_LINE or total > most:
            raise WaczError(f"{name}: a line or the whole is too large for an index")
        yield line


def _is_in(name: str, folder: str, suffixes: tuple[str, ...]) -> bool:
    return name.startswith(folder) and name.lower().endswith(suffixes)


def _is_digest(stated: str, sha256: str) -> bool:
    # Other kinds of digests (MD5) cannot show that nothing was changed.
    return stated == f"sha256:{sha256}"


def _object(data: bytes, path: Path, name: str) -> dict[str, Any]:
    found = _parsed(data)
    if not found:
        raise WaczError(f"{path}: {name} is not a JSON object")
    return found


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
