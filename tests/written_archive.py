"""Reads a WACZ file by its specification alone, and checks that everything in it agrees."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator


class WrittenArchive:
    """A WACZ file: its entries, the lines of its index, and its pages without the headers."""

    def __init__(self, path: Path) -> None:
        self.raw = path.read_bytes()
        with zipfile.ZipFile(path) as file:
            self.infos = {info.filename: info for info in file.infolist()}
            self.entries = {name: file.read(name) for name in self.infos}
        self.manifest: dict[str, Any] = json.loads(self.entries["datapackage.json"])
        self.digest: dict[str, Any] = json.loads(self.entries["datapackage-digest.json"])
        self.keys: list[bytes] = []
        self.lines: list[dict[str, Any]] = []
        for line in gzip.decompress(self.entries["indexes/index.cdx.gz"]).splitlines(True):
            self.keys.append(line)
            self.lines.append(json.loads(line.split(b" ", 2)[2]))
        self.lists = {
            name: [json.loads(line) for line in data.splitlines()]
            for name, data in self.entries.items()
            if name.startswith("pages/")
        }
        self.pages = [row for rows in self.lists.values() for row in rows[1:]]

    def record(self, line: dict[str, Any]) -> bytes:
        """The compressed record at the place of a line."""
        start, length = int(line["offset"]), int(line["length"])
        return self.entries[f"archive/{line['filename']}"][start : start + length]

    def all_text(self) -> str:
        """Everything that is in the archive, unpacked."""
        found = []
        for name, data in self.entries.items():
            found.append(
                (gzip.decompress(data) if name.endswith(".gz") else data).decode("latin-1")
            )
        return "".join(found)

    def check(self) -> None:
        """Raises ``AssertionError`` unless sizes, digests, index and records agree."""
        listed = {each["path"]: each for each in self.manifest["resources"]}
        documents = {"datapackage.json", "datapackage-digest.json"}
        assert listed.keys() == self.entries.keys() - documents
        for path, each in listed.items():
            assert each["bytes"] == len(self.entries[path])
            assert each["hash"] == _sha256(self.entries[path])
        assert self.digest["hash"] == _sha256(self.entries["datapackage.json"])
        assert self.digest["path"] == "datapackage.json"
        assert self.keys == sorted(self.keys)
        self._check_members()
        for line in self.lines:
            self._check_record(line)
        for name, info in self.infos.items():
            start = info.header_offset + 28  # ReplayWeb.page expects no fields of ZIP64 here
            assert self.raw[start : start + 2] == b"\0\0" and not info.extra
            if name.endswith(".gz"):
                assert info.compress_type == zipfile.ZIP_STORED

    def _check_members(self) -> None:
        """The list of members names the first line of each, its place and its digest."""
        data, found = self.entries["indexes/index.cdx.gz"], []
        first, *members = self.entries["indexes/index.idx"].splitlines()
        assert first.startswith(b"!meta 0 ")
        for member in members:
            key, _, place = member.partition(b" {")
            each = json.loads(b"{" + place)
            part = data[each["offset"] : each["offset"] + each["length"]]
            assert each["digest"] == _sha256(part)
            lines = gzip.decompress(part).splitlines(True)
            assert lines[0].startswith(key + b" {")
            found += lines
        assert found == self.keys

    def _check_record(self, line: dict[str, Any]) -> None:
        packed = self.record(line)
        assert line["recordDigest"] == _sha256(packed)
        records = ArchiveIterator(io.BytesIO(packed))
        record = next(records)
        assert record.rec_headers["WARC-Target-URI"] == line["url"]
        assert record.rec_headers["WARC-Payload-Digest"] == line["digest"]
        if not line["url"].startswith("urn:"):
            assert record.http_headers.get_statuscode() == line["status"]
        if record.rec_type == "response":
            body = hashlib.sha1(record.raw_stream.read(), usedforsecurity=False).digest()
            assert line["digest"] == f"sha1:{base64.b32encode(body).decode()}"
        assert next(records, None) is None


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
