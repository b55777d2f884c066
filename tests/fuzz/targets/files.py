"""The small files of a crawl folder and single records of its WARC files, damaged by a disk:
read as they were, or refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from fuzz.judging import scratch
from fuzz.targets.logs import with_damage
from lycosa.base.config.sections import Config
from lycosa.base.model.capture import Location
from lycosa.inspect.running import lock_holder
from lycosa.state.attempts import CrashCounts, Suspicion, left_storing
from lycosa.state.folder import manifest
from lycosa.state.folder.folder_notes import saved_settings
from lycosa.state.folder.lock import CrawlLock
from lycosa.state.folder.manifest import Identity, Manifest, ManifestError
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.store import layout
from lycosa.state.store.stored_data import RecordError, read_record
from lycosa.state.store.warc_records import Draft
from store_samples import capture

_FOLDER = scratch()
_WARC = _FOLDER / "warc" / "crawl-w000-000001-20260101000000.warc.gz"
_IDS = tuple(f"urn:uuid:00000000-0000-4000-8000-00000000000{number}" for number in range(1, 5))
_MANIFEST = manifest.create_crawl(
    _FOLDER,
    Identity(
        partitions=16, bands=4, canonical={"sort_query": False}, canonical_version=1, suffixes="s"
    ),
    "t",
    1e9,
)
_MADE = Draft(capture(), *_IDS, 1).build()
_MEMBER = b"".join(piece for piece in _MADE.data if isinstance(piece, bytes))[
    _MADE.request_length :
][: _MADE.main_length]
_PLACE = Location(layout.warc_name(layout.stem_of(_WARC)), 0, len(_MEMBER), _IDS[1])
_WARC.parent.mkdir()
_WARC.write_bytes(_MEMBER)
_RECORD = read_record(_FOLDER, _PLACE)

WORDS = (
    *(
        '{"crashes": {"http://a/": 2}}',
        '"counted": {"0": "run"}',
        '"format": ',
        '"kind": "lycosa-crawl"',
        '"crawl": "',
        '"identity": {',
    ),
    *(
        '"politeness": {"delay_s": ',
        '"fetch": {',
        "1e999",
        "-1",
        "null",
        "[[",
        "true",
        '"\\ud800"',
        '{"pid": 1, "host": "h"}',
    ),
)


def check(data: bytes) -> None:
    """The first byte says which file the rest is, or is to do to one."""
    kinds = (_crashes, _settling, _lock, _manifest, _settings, _member)
    kinds[data[0] % len(kinds) if data else 0](data[1:])


def _crashes(data: bytes) -> None:
    (_FOLDER / "crashes.json").write_bytes(data)
    store = MemoryKeyValue()
    table = Overlay(store)
    counts = CrashCounts({0: table}, lambda _: 0, _FOLDER)
    assert all(counts.suspicion_of(url) in Suspicion for url in counts.suspects())
    store.write(table.freeze())
    assert CrashCounts({0: Overlay(store)}, lambda _: 0, _FOLDER).suspects() == counts.suspects()


def _settling(data: bytes) -> None:
    (_FOLDER / "settling-w007").write_bytes(data)
    found = left_storing(_FOLDER)
    assert found.keys() <= {7} and all(0 < len(url) <= len(data) for url in found.values())


def _lock(data: bytes) -> None:
    (_FOLDER / "lock").write_bytes(data)
    lock_holder(_FOLDER)
    lock = CrawlLock(_FOLDER).acquire(1e9)
    assert lock_holder(_FOLDER) is not None
    lock.release()


def _manifest(data: bytes) -> None:
    path = _FOLDER / manifest.MANIFEST_NAME
    for content in (data, with_damage(path.read_bytes(), data)):
        path.write_bytes(content)
        with suppress(ManifestError):
            assert isinstance(manifest.load_manifest(_FOLDER), Manifest)
        manifest.save_manifest(_FOLDER, _MANIFEST)


def _settings(data: bytes) -> None:
    path = _FOLDER / "settings.json"
    for content in (data, with_damage(msgspec.json.encode(Config()), data)):
        path.write_bytes(content)
        with suppress(ManifestError):
            assert isinstance(saved_settings(_FOLDER), Config)


def _member(data: bytes) -> None:
    _WARC.write_bytes(with_damage(_MEMBER, data))
    with suppress(RecordError):
        assert read_record(_FOLDER, _PLACE) == _RECORD, "another record than was written"


def samples() -> Iterator[bytes]:
    yield b'\0{"format": 1, "crashes": {"http://a.example/": 2}, "counted": {"0": "run"}}'
    yield b"\1" + len(b"http://a.example/").to_bytes(2, "big") + b"http://a.example/" + bytes(100)
    yield b"\2" + b'{"pid": 1, "host": "h", "started": 5.5, "released": true}'
    yield b"\3" + msgspec.json.encode(_MANIFEST)
    yield b"\4" + msgspec.json.encode(Config())
    for way in range(4):
        for kind in (3, 4, 5):
            yield bytes((kind, way, 0, 40)) + b"\x00\xff"
