"""``crawl.json``: the identity of a crawl folder, and the settings that its stored data depends on.

Some settings decide which partition owns a URL or what its canonical form is. A change of one would
make every stored key wrong without a visible error, so they are frozen here when the crawl is
created and compared at each start. The file is replaced as a whole and synced, and it is the first
file written: a folder without it is not a crawl.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.base.config.scope_sections import CanonicalSection
from lycosa.base.config.sections import Config
from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.urls.identity import CANONICAL_VERSION, Sites

MANIFEST_NAME = "crawl.json"
MANIFEST_FORMAT = 3
"""The newest format that is read."""
GENERATION_FORMAT, FOLDER_FORMAT = 2, 3
"""Format 2 has a generation. Format 3 is that of a crawl folder whose records have late fields
(``compatibility.LATE_FIELDS``), which a program that reads up to 2 would drop. All others are
written as 1: on a cluster ``formats.json`` says which records it has.
"""
_KIND = "lycosa-crawl"
# all that a start may leave before it writes the manifest
_BEFORE_MANIFEST = frozenset(
    {
        "lock",
        f".{MANIFEST_NAME}.tmp",
        "public_suffix_list.dat",
        ".public_suffix_list.dat.tmp",
        "seeds.json",
        ".seeds.json.tmp",
    }
)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The values that the identity and the place of a URL depend on.

    ``canonical`` has every option of the canonical form by name, ``canonical_version`` the version
    of the rules, ``suffixes`` names the public-suffix list, ``seen_urls`` the implementation of
    URL-seen. ``split_sites`` are sites that are divided by host among partitions.
    """

    partitions: int
    bands: int
    canonical: dict[str, bool | int | str]
    canonical_version: int
    suffixes: str
    split_sites: tuple[str, ...] = ()
    seen_urls: str = "sorted"


def identity_of(config: Config, sites: Sites) -> Identity:
    """The identity by these settings."""
    canonical = {
        name: getattr(config.canonical, name) for name in config.canonical.__struct_fields__
    }
    return Identity(
        partitions=config.frontier.partitions,
        bands=config.frontier.bands,
        canonical=canonical,
        canonical_version=CANONICAL_VERSION,
        suffixes=sites.version,
        seen_urls=config.seen.urls.value,
    )


class EarlierOwners(msgspec.Struct, frozen=True):
    """The owners of a crawl's state before an import.

    Their attempt logs are below ``place`` in object storage (empty: below its root); ``owners`` are
    shards of a cluster, or workers of one machine if ``is_machine``. ``term`` was the greatest.
    """

    place: str
    owners: int
    is_machine: bool
    term: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``crawl.json``.

    ``created`` and ``started`` (the last start) are ISO 8601 in UTC. ``software`` is the version
    that wrote the file last. ``term`` counts starts and is the term of the run's commits. ``seeds``
    counts the seeds taken until the last start. ``workers`` is the maximum number of workers of any
    run: each of them has a commit log. It is 0 before the first run, and when an earlier version
    made the last one. ``identity_digest`` distinguishes a damaged ``identity`` from a request to
    change settings; folders of early versions have none.

    On a cluster ``generation`` is part of the names of the topics and objects that belong to this
    division into shards; it is empty until the first import. ``earlier`` are the owners before it,
    the oldest first.
    """

    kind: str = _KIND
    format: int = 1
    crawl: str
    created: str
    started: str = ""
    software: str
    term: int = msgspec.field(default=0, name="runs")
    seeds: int = 0
    workers: int = 0
    identity: Identity
    identity_digest: str = ""
    generation: str = ""
    earlier: tuple[EarlierOwners, ...] = ()

    @property
    def first_term(self) -> int:
        """The term of the first owner of each shard of this generation."""
        return self.earlier[-1].term + 2 if self.earlier else 1


class FrozenChange(NamedTuple):
    """A requested change of a frozen setting."""

    setting: str
    old: object
    new: object
    why: str


class ManifestError(Exception):
    """The folder cannot be used as a crawl; the message says why and what to do."""


class NotACrawl(ManifestError):
    """There is no crawl in the folder."""


class NewerFormat(ManifestError):
    """A newer program wrote the folder."""


class DamagedManifest(ManifestError):
    """``crawl.json`` cannot be read, or is not the file that was written."""


class DamagedFile(ManifestError):
    """Another file that was frozen with the crawl is missing or was changed.

    The message names it and says what to do.
    """


class FolderUnusable(ManifestError):
    """The folder cannot be created or written."""


class IdentityChanged(ManifestError):
    """The settings would change the identity that stored state depends on."""

    def __init__(self, changes: list[FrozenChange]) -> None:
        listed = "; ".join(
            f"{change.setting} is {change.old!r} and would become {change.new!r}: {change.why}"
            for change in changes
        )
        super().__init__(
            f"settings that are frozen with the crawl cannot change: {listed}. Use the old values,"
            " or start a new crawl in another folder"
        )
        self.changes = changes


def create_crawl(
    folder: Path, identity: Identity, software: str, wall: float, crawl: str = ""
) -> Manifest:
    """Make the folder a crawl with the id ``crawl`` or a new UUID.

    The folder may be missing, or empty except for a lock. Raises ``NotACrawl`` when other files are
    in it, ``FolderUnusable``, ``DiskFull`` or ``OSError``.
    """
    prepare_folder(folder)
    return save_manifest(folder, new_manifest(identity, software, wall, crawl))


def new_manifest(identity: Identity, software: str, wall: float, crawl: str = "") -> Manifest:
    """The manifest of a new crawl with the id ``crawl`` or a new UUID."""
    return Manifest(
        crawl=crawl or str(uuid.uuid4()), created=_iso(wall), software=software, identity=identity
    )


def prepare_folder(folder: Path) -> None:
    """Ensure that the folder exists, is writable, and is a crawl or empty.

    Nothing is written into a folder with other files. Call it before taking the lock. Raises
    ``NotACrawl`` and ``FolderUnusable``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FolderUnusable(f"{folder} is a file, or below a file; use a folder") from None
    except OSError as error:
        raise FolderUnusable(
            f"{folder} cannot be created ({error.strerror}); use a folder that you may write to"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FolderUnusable(
            f"{folder} is not writable; use another folder, or change its permissions"
        )
    names = {path.name for path in folder.iterdir()}
    if MANIFEST_NAME not in names and (foreign := sorted(names - _BEFORE_MANIFEST)):
        raise NotACrawl(
            f"{folder} is not empty and not a crawl (it has {foreign[0]}, but no {MANIFEST_NAME});"
            " use an empty or a new folder"
        )


def load_manifest(folder: Path) -> Manifest:
    """Read the manifest.

    Raises ``NotACrawl``, ``NewerFormat``, ``DamagedManifest`` or ``FolderUnusable``.
    """
    path = folder / MANIFEST_NAME
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        what = (
            f"there is no {MANIFEST_NAME} in it" if folder.is_dir() else "there is no such folder"
        )
        # a crawl does not belong among the files of something else
        is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        advice = (
            f"`lycosa crawl --dir {shlex.quote(str(folder))} SEED` starts one"
            if is_free
            else "give the folder of a crawl"
        )
        raise NotACrawl(f"{folder} is not a crawl: {what}; {advice}") from None
    except OSError as error:
        raise FolderUnusable(f"{path} cannot be read ({error.strerror})") from error
    return decoded_manifest(path, data)


def has_manifest(folder: Path) -> bool:
    """Whether the folder has a manifest, readable or not."""
    return (folder / MANIFEST_NAME).exists()


def save_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """Replace the manifest, as a whole and synced; returns it with its digest.

    Raises ``FolderUnusable``, ``DiskFull`` or ``OSError``; the old file then stays.
    """
    manifest = _with_digest(manifest)
    text = encoded_manifest(manifest)
    try:
        replace_file(folder / MANIFEST_NAME, text)
    except PermissionError as error:
        raise FolderUnusable(
            f"{folder} is not writable ({error.strerror}); use another folder, or change its"
            " permissions"
        ) from error
    return manifest


def encoded_manifest(manifest: Manifest) -> bytes:
    """The bytes of the manifest, with its digest."""
    return msgspec.json.format(msgspec.json.encode(_with_digest(manifest)), indent=2) + b"\n"


def begin_run(
    folder: Path, manifest: Manifest, software: str, wall: float, seeds: int = 0, workers: int = 0
) -> Manifest:
    """Count a start and write it: ``term`` is then the term of this run's commits.

    The folder gets the format of its records, so an older program refuses it from then on. Call it
    under the lock, before the first commit, when each of ``workers`` workers has its commit log.
    """
    begun = msgspec.structs.replace(
        manifest,
        format=FOLDER_FORMAT,
        started=_iso(wall),
        software=software,
        term=manifest.term + 1,
        seeds=manifest.seeds + seeds,
        workers=max(manifest.workers, workers),
    )
    return save_manifest(folder, begun)


def check_identity(manifest: Manifest, wanted: Identity) -> None:
    """Raises ``IdentityChanged`` with each frozen setting that differs."""
    old, changes = manifest.identity, []
    for setting, why in _WHY.items():
        before, after = getattr(old, setting), getattr(wanted, setting)
        if before != after:
            changes.append(FrozenChange(_SETTING[setting], before, after, why))
    for name in sorted(old.canonical.keys() | wanted.canonical.keys()):
        # An option that is newer than the crawl has been at its default since the crawl began.
        before = old.canonical.get(name, _CANONICAL_DEFAULTS.get(name))
        after = wanted.canonical.get(name)
        if before != after:
            changes.append(
                FrozenChange(
                    f"canonical.{name}", before, after, "stored URLs would not be recognised"
                )
            )
    if changes:
        raise IdentityChanged(changes)


_WHY = {
    "partitions": "every stored URL would be searched for in another partition",
    "bands": "queued URLs would be searched for in another band",
    "canonical_version": "stored URLs would not be recognised",
    "suffixes": "sites, and with them the partitions of their URLs, would change",
    "seen_urls": "known URLs would be treated as new and fetched again",
    "split_sites": "hosts of these sites would be searched for in another partition",
}
_CANONICAL_DEFAULTS = msgspec.structs.asdict(CanonicalSection())
_SETTING = {
    "partitions": "frontier.partitions",
    "bands": "frontier.bands",
    "canonical_version": "the version of the canonical form",
    "suffixes": "the public suffix list",
    "seen_urls": "seen.urls",
    "split_sites": "the sites split by host",
}


class _Version(msgspec.Struct):
    """The fields that every format of the file has."""

    kind: str
    format: int


class _Sealed(msgspec.Struct):
    """The identity as it is in the file, with fields of later versions."""

    identity: msgspec.Raw
    identity_digest: str = ""


def _digest(identity: bytes | msgspec.Raw) -> str:
    """The digest of the identity's values, whatever the layout of the file."""
    values = msgspec.json.encode(msgspec.json.decode(identity), order="sorted")
    return hashlib.sha256(values).hexdigest()[:16]


def _with_digest(manifest: Manifest) -> Manifest:
    digest = _digest(msgspec.json.encode(manifest.identity))
    return msgspec.structs.replace(manifest, identity_digest=digest)


def decoded_manifest(path: Path | str, data: bytes) -> Manifest:
    """The manifest of these bytes; ``path`` is for messages.

    Raises ``NotACrawl``, ``NewerFormat`` or ``DamagedManifest``.
    """
    try:
        version = msgspec.json.decode(data, type=_Version)
        if version.kind != _KIND:
            raise NotACrawl(f"{path} is not the manifest of a crawl (its kind is {version.kind})")
        if version.format > MANIFEST_FORMAT:
            raise NewerFormat(
                f"{path} has format {version.format}, this program reads up to {MANIFEST_FORMAT};"
                " use the newer program that wrote it"
            )
        sealed = msgspec.json.decode(data, type=_Sealed)
        if sealed.identity_digest and sealed.identity_digest != _digest(sealed.identity):
            raise DamagedManifest(
                f"{path} is damaged: its identity is not the one that was written (digest"
                f" {sealed.identity_digest}); restore it from a copy; the rest of the crawl was"
                " not changed"
            )
        return msgspec.json.decode(data, type=Manifest)
    except UNREADABLE as error:
        raise DamagedManifest(
            f"{path} cannot be read ({error}); restore it from a copy; the rest of the crawl was"
            " not changed"
        ) from error


def _iso(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
