"""A cluster's crawl in object storage: its identity and settings, which all machines read there.

=========================  ======================================================================
``cluster.json``           the name in ``cluster.toml``: whose place this is; never replaced
``public_suffix_list.dat``  the list that the crawl began with; never replaced
``crawl.json``             the manifest, as in a crawl folder; never replaced
``manifests/NNNN.json``    the manifest of generation NNNN, after an import into more shards; the
                           greatest number counts; never replaced
``settings.json``          the settings, as in a crawl folder; replaced when they change
``formats.json``           the formats in force, at first those of the program that made the crawl;
                           replaced when they are raised. Crawls of earlier versions lack it (1)
``code.json``              what user code is named, with copies in ``code/``: see ``stored_code``
=========================  ======================================================================

They are made in this order, and each of the first three only if it does not exist. So two programs
that make the same crawl at the same time end with one crawl, and a program that was interrupted is
completed by the next one. A crawl without ``settings.json`` is incomplete.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TypeVar

import msgspec

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.config.fields import fields, value_of
from lycosa.base.config.sections import Config
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.code_version import CodeVersion
from lycosa.base.model.compatibility import (
    FIRST_FORMATS,
    LATE_FIELDS,
    PROTOCOL,
    formats_objection,
)
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.urls.identity import BUNDLED_LIST, Sites
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.manifest import FrozenChange, Manifest, ManifestError
from lycosa.state.folder.upload import PlaceTaken
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import create_or_read
from lycosa.state.objects.store_opening import check_create_only
from lycosa.state.objects.stored_code import DamagedCode, code_records, present_code

_Content = TypeVar("_Content")
CLUSTER_NAME = "cluster.json"
SUFFIXES_NAME = "public_suffix_list.dat"
SETTINGS_NAME = "settings.json"
FORMATS_NAME = "formats.json"
CLUSTER_FORMAT = 1
_MANIFESTS = "manifests"

_SINGLE = Config()
MACHINE_SETTINGS = {
    "workers": "a cluster runs one worker for each shard; set shards in cluster.toml",
    "limits.max_time_s": "a crawl on a cluster is ended by `lycosa cluster stop`",
    "limits.until": "a crawl on a cluster is ended by `lycosa cluster stop`",
    "limits.max_disk_bytes": "a crawl on a cluster is stored in a bucket; see limits.max_bytes",
    "extensions.allow": "each node allows code by its own cluster.toml, or `lycosa node --allow`",
    "upload.url": "a crawl on a cluster is stored at objects.url of cluster.toml",
}
"""Settings that concern one machine only, and what a cluster has instead."""


class NoStoredCrawl(ManifestError):
    """There is no crawl, or an incomplete one, in the object storage."""


class CrawlFrozen(ManifestError):
    """The settings would change what stored state depends on."""


class BucketOwner(msgspec.Struct, frozen=True):
    """The content of ``cluster.json``."""

    name: str
    format: int = CLUSTER_FORMAT


class _FormatsFile(msgspec.Struct, frozen=True):
    """The content of ``formats.json``."""

    number: int


class StoredCrawl(msgspec.Struct, frozen=True):
    """What all machines need to know of a crawl.

    ``suffixes`` is its public suffix list, ``formats`` are those of ``formats.json``. ``code`` is
    the user code of ``code.json``, which is only named, and not read.
    """

    manifest: Manifest
    config: Config
    suffixes: bytes
    formats: int = FIRST_FORMATS
    code: dict[str, CodeVersion] = {}


class CreationReport(msgspec.Struct, frozen=True):
    """The crawl after ``store_crawl``.

    ``changes`` lists settings that were changed, as ``KEY: OLD -> NEW``.
    """

    crawl: StoredCrawl
    is_new: bool
    changes: list[str]


def read_crawl(
    store: ObjectStore, given: ClusterFile | None = None, protocol: int = PROTOCOL
) -> StoredCrawl:
    """The crawl that ``lycosa cluster init`` made, which must be that of ``given``.

    ``protocol`` is the number of this program (``model.compatibility``). Raises ``NoStoredCrawl``,
    ``CrawlFrozen``, ``PlaceTaken``, another ``ManifestError``, or ``ObjectError``.
    """
    if given is not None:
        _check_place(store, given)
    try:
        manifest, _ = newest_manifest(store)
        config = _config(store.get(SETTINGS_NAME))
        suffixes = store.get(SUFFIXES_NAME)
    except ObjectMissing as error:
        raise NoStoredCrawl(
            f"{error}: the crawl was not created, or not completely; `lycosa cluster init FILE`"
            " creates it"
        ) from error
    formats = stored_formats(store)
    if objection := formats_objection(formats, protocol):
        raise manifests.NewerFormat(objection)
    if given is not None:
        _check_shards(manifest, given)
    if (version := stored_sites(suffixes).version) != manifest.identity.suffixes:
        raise manifests.DamagedFile(
            f"{SUFFIXES_NAME} in the object storage is not the list that the crawl began with (it"
            f" was {manifest.identity.suffixes}, this is {version}), and stored URLs would be"
            " searched for in other shards; restore it from a copy"
        )
    # an import that was killed may have left the settings of the division before it
    frontier = msgspec.structs.replace(config.frontier, partitions=manifest.identity.partitions)
    config = msgspec.structs.replace(config, frontier=frontier)
    return StoredCrawl(manifest, config, suffixes, formats, stored_code(store))


def stored_code(store: ObjectStore) -> dict[str, CodeVersion]:
    """The user code with which the crawl begins. Raises ``DamagedManifest`` or ``ObjectError``."""
    try:
        return present_code(code_records(store))
    except DamagedCode as error:
        raise manifests.DamagedManifest(f"object storage: {error}") from error


def stored_formats(store: ObjectStore) -> int:
    """The formats in force (``model.compatibility``).

    Raises ``DamagedManifest`` or ``ObjectError``.
    """
    try:
        return _decoded(FORMATS_NAME, store.get(FORMATS_NAME), _FormatsFile).number
    except ObjectMissing:
        return FIRST_FORMATS


def store_formats(store: ObjectStore, number: int) -> None:
    """Let readers know the formats in force. Raises ``ObjectError``."""
    store.put(FORMATS_NAME, msgspec.json.encode(_FormatsFile(number)))


def stored_config(store: ObjectStore, given: ClusterFile) -> Config | None:
    """The settings of the crawl, ``None`` when it was not created yet.

    Raises ``PlaceTaken``, ``DamagedManifest`` or ``ObjectError``.
    """
    _check_place(store, given)
    try:
        return _config(store.get(SETTINGS_NAME))
    except ObjectMissing:
        return None


def check_cluster_settings(config: Config) -> None:
    """Refuse settings that concern one machine only. Raises ``SettingsError``."""
    problems = [
        f"{key}: {why}"
        for key, why in MACHINE_SETTINGS.items()
        if value_of(config, key) != value_of(_SINGLE, key)
    ]
    if problems:
        raise SettingsError(problems)


def store_crawl(
    store: ObjectStore, given: ClusterFile, config: Config, software: str, wall: float
) -> CreationReport:
    """Create the crawl, or change the settings of an existing one; may be repeated.

    ``config.frontier.partitions`` is replaced by the number of shards. ``wall`` is seconds since
    1970. Raises ``SettingsError``, ``CrawlFrozen``, ``PlaceTaken``, ``CreateOnlyIgnored``, another
    ``ManifestError``, or ``ObjectError``.
    """
    check_cluster_settings(config)
    frontier = msgspec.structs.replace(config.frontier, partitions=given.shards)
    config = msgspec.structs.replace(config, frontier=frontier)
    before = stored_config(store, given)
    create_or_read(store, CLUSTER_NAME, msgspec.json.encode(BucketOwner(given.name)))
    _check_place(store, given)
    create_or_read(store, SUFFIXES_NAME, BUNDLED_LIST.read_bytes())
    suffixes = store.get(SUFFIXES_NAME)
    identity = manifests.identity_of(config, stored_sites(suffixes))
    made = manifests.new_manifest(identity, software, wall)
    create_or_read(store, manifests.MANIFEST_NAME, manifests.encoded_manifest(made))
    manifest, _ = newest_manifest(store)
    _check_shards(manifest, given)
    _check_identity(manifest, identity)
    check_create_only(store, manifests.MANIFEST_NAME, given.objects)
    if before is None:
        # No program works on the crawl yet, so it has the newest formats from its beginning.
        create_or_read(store, FORMATS_NAME, msgspec.json.encode(_FormatsFile(PROTOCOL)))
    elif config.agent.purpose and stored_formats(store) < LATE_FIELDS:
        # A node of the version before would derive files as if there were no purpose.
        raise SettingsError(
            [
                "agent.purpose: programs of the version before, which may work on this crawl, do"
                " not know it and would leave nothing out; install this version on all machines,"
                f" and raise the formats first: lycosa cluster upgrade {given.path}"
            ]
        )
    if before != config:
        store.put(SETTINGS_NAME, msgspec.json.format(msgspec.json.encode(config), indent=2))
    return CreationReport(
        StoredCrawl(manifest, config, suffixes, stored_formats(store)),
        is_new=before is None,
        changes=[] if before is None else changed_settings(before, config),
    )


def changed_settings(before: Config, after: Config) -> list[str]:
    """The settings that differ, as ``KEY: OLD -> NEW``."""
    found = []
    for key, field in fields().items():
        old, new = value_of(before, key), value_of(after, key)
        if old != new:
            found.append(f"{key}: {field.show(old)} -> {field.show(new)}")
    return found


def reserve_place(store: ObjectStore, given: ClusterFile, suffixes: bytes) -> None:
    """Make an empty place that of the crawl ``given``, which is not created yet; may be repeated.

    Raises ``PlaceTaken``, ``CreateOnlyIgnored`` or another ``ObjectError``.
    """
    _check_place(store, given)
    create_or_read(store, CLUSTER_NAME, msgspec.json.encode(BucketOwner(given.name)))
    _check_place(store, given)
    check_create_only(store, CLUSTER_NAME, given.objects)
    create_or_read(store, SUFFIXES_NAME, suffixes)
    if store.get(SUFFIXES_NAME) != suffixes:
        raise PlaceTaken(
            f"{given.objects} has the public suffix list of another crawl; give another prefix in"
            " objects.url"
        )


def _check_place(store: ObjectStore, given: ClusterFile) -> None:
    """Raise ``PlaceTaken`` when the place belongs to another crawl."""
    try:
        place = _decoded(CLUSTER_NAME, store.get(CLUSTER_NAME), BucketOwner)
    except ObjectMissing:
        if store.find(manifests.MANIFEST_NAME) is None:
            return
        raise PlaceTaken(
            f"{given.objects}: a crawl of one machine was uploaded there; give another prefix in"
            " objects.url"
        ) from None
    if place.name != given.name:
        raise PlaceTaken(
            f"{given.objects} belongs to the cluster crawl {place.name!r}, and this is"
            f" {given.name!r}; give another prefix in objects.url"
        )


def _check_shards(manifest: Manifest, given: ClusterFile) -> None:
    shards = manifest.identity.partitions
    if shards != given.shards:
        raise CrawlFrozen(
            f"the crawl {given.name!r} has {shards} shards, and {given.path} says {given.shards}:"
            f" set shards = {shards} there, or import the stopped crawl into more shards"
            f" (`lycosa cluster import {given.path} --shards N`)"
        )


def _check_identity(manifest: Manifest, wanted: manifests.Identity) -> None:
    try:
        manifests.check_identity(manifest, wanted)
    except manifests.IdentityChanged as error:
        raise CrawlFrozen(
            f"settings that are frozen with the crawl cannot change: {_listed(error.changes)}. Use"
            " the old values, or create another crawl with another name and objects.url"
        ) from error


def _listed(changes: list[FrozenChange]) -> str:
    return "; ".join(
        f"{each.setting} is {each.old!r} and would become {each.new!r}: {each.why}"
        for each in changes
    )


def newest_manifest(store: ObjectStore) -> tuple[Manifest, int]:
    """The manifest that counts, and the number of its generation.

    Raises ``ObjectMissing`` when there is no crawl, another ``ObjectError``, or ``ManifestError``.
    """
    key = max((each.key for each in store.list(f"{_MANIFESTS}/")), default=manifests.MANIFEST_NAME)
    number = int(key.rpartition("/")[2].partition(".")[0]) if "/" in key else 1
    return manifests.decoded_manifest(key, store.get(key)), number


def create_manifest(store: ObjectStore, manifest: Manifest, number: int) -> bool:
    """Create the manifest of a generation; ``False`` when another program was first.

    Raises ``ObjectError``.
    """
    key = f"{_MANIFESTS}/{number:04d}.json" if number > 1 else manifests.MANIFEST_NAME
    content = manifests.encoded_manifest(manifest)
    return create_or_read(store, key, content) == content


def _config(data: bytes) -> Config:
    return _decoded(SETTINGS_NAME, data, Config)


def _decoded(key: str, data: bytes, kind: type[_Content]) -> _Content:
    try:
        return msgspec.json.decode(data, type=kind)
    except UNREADABLE as error:
        raise manifests.DamagedManifest(
            f"{key} in the object storage cannot be read ({error}); it may be from a newer program,"
            " or restore it from a copy"
        ) from error


def stored_sites(suffixes: bytes) -> Sites:
    """Sites by the stored public suffix list. Blocks."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(suffixes)
        file.flush()
        return Sites(Path(file.name))
