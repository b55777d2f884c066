"""``cluster.toml``: the name of a crawl on many machines, and the addresses of its services.

All mistakes are reported together, one line each; the message for an unknown key has the nearest
valid name. The text of a value that may be a secret is never part of a message. Settings of
politeness, scope and so on are not here: a crawl has them wherever it runs (``sections``).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lycosa.base.config.fields import Field, build, fields_of
from lycosa.base.config.given_values import given_in_file, read_given
from lycosa.base.config.near_names import near_name
from lycosa.base.config.setting import setting
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.code_version import is_digest

MAX_SHARDS = 1024
MAX_NODES = 1024
REDIS_PASSWORD_VARIABLE = "LYCOSA_REDIS_PASSWORD"
_MAY_BE_EMPTY = ("objects", "tls")  # sections


class KafkaSection(msgspec.Struct, frozen=True):
    """The brokers. ``security`` is passed to the client library unchanged."""

    addresses: Annotated[tuple[str, ...], setting('Brokers, as ["10.0.0.1:9092"].')]
    replication: Annotated[int, setting("Copies of each partition.", ge=1, le=32)] = 3
    min_insync: Annotated[
        int, setting("Copies that must have a record before it counts.", ge=1, le=32)
    ] = 2
    security: Annotated[Mapping[str, str], setting("Options of the client library.")] = {}

    def __repr__(self) -> str:
        return f"KafkaSection({', '.join(self.addresses)}, security={sorted(self.security)})"


class TlsSection(msgspec.Struct, frozen=True):
    """PEM files, with absolute paths.

    Every machine proves itself by a certificate of the authority.
    """

    certificate: Annotated[Path, setting("PEM file of this machine's certificate.")]
    key: Annotated[Path, setting("PEM file of its private key.")]
    authority: Annotated[Path, setting("PEM file of the authority of all machines.")]


class RedisSection(msgspec.Struct, frozen=True):
    """Redis, for the limits of IP addresses.

    Of ``addresses`` the first one that is a primary is used. The password is in ``password_file``
    (an absolute path), else in the environment; it is read when a program connects, and never
    printed. ``authority`` is the PEM file that signs the server's certificate.
    """

    addresses: Annotated[tuple[str, ...], setting('Primary and replicas, as ["10.0.0.1:6379"].')]
    database: Annotated[int, setting("Number of the database.", ge=0, lt=1024)] = 0
    username: Annotated[str, setting("User; empty for the default one.")] = ""
    password_file: Annotated[Path | None, setting("File that has the password.")] = None
    tls: Annotated[bool, setting("Whether the connection is encrypted.")] = False
    authority: Annotated[Path | None, setting("PEM file of the server's authority.")] = None

    def password(self) -> str:
        """The password, empty when there is none. Raises ``OSError``."""
        if self.password_file is not None:
            return self.password_file.read_text("utf-8").strip()
        return os.environ.get(REDIS_PASSWORD_VARIABLE, "")


class ClusterFile(msgspec.Struct, frozen=True):
    """The content of the file at ``path``.

    ``objects`` is the URL of the object storage, empty when there is none. ``coordinators`` are the
    addresses (``HOST:PORT``) at which a coordinator may listen. ``nodes`` is the maximum number of
    nodes at the same time: each of them sends requests to an IP address as if there were so many.
    ``token_file`` is an absolute path. ``allow`` are the digests of user code that the machine of
    this file runs; the files of other machines may have others.
    """

    path: Annotated[Path, setting("Not a key of the file.")]
    name: Annotated[str, setting("Name of the crawl; topics begin with it.")]
    kafka: KafkaSection
    shards: Annotated[int, setting("Parts of the crawl.", ge=1, le=MAX_SHARDS)] = 16
    nodes: Annotated[int, setting("Maximum number of nodes.", ge=1, le=MAX_NODES)] = 4
    objects: Annotated[str, setting("URL of the object storage.")] = msgspec.field(
        default="", name="objects.url"
    )
    coordinators: Annotated[tuple[str, ...], setting('Coordinators, as ["10.0.0.1:7070"].')] = (
        msgspec.field(default=(), name="coordinator.addresses")
    )
    token_file: Annotated[Path | None, setting("File that has the token of all machines.")] = None
    allow: Annotated[tuple[str, ...], setting("SHA-256 of code that may run here.")] = (
        msgspec.field(default=(), name="extensions.allow")
    )
    tls: TlsSection | None = None
    redis: RedisSection | None = None

    def warnings(self) -> list[str]:
        """Faults that do not stop the crawl but should be corrected."""
        secret = [key for key in self.kafka.security if "password" in key or key.endswith(".pem")]
        return [
            f"{path} can be read by other users of this machine: chmod 600 {path}"
            for path in (
                self.path if secret else None,
                self.token_file,
                self.tls.key if self.tls else None,
                self.redis.password_file if self.redis else None,
            )
            if path is not None and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
        ]


def read_cluster_file(path: Path) -> ClusterFile:
    """Read and check the file. Raises ``SettingsError``."""
    problems: list[str] = []
    given = list(given_in_file(path, _MAY_BE_EMPTY, problems))
    read, _ = read_given(given, _keys(), _unknown, problems)
    folder = path.parent.absolute()
    values = {
        key: folder / value if isinstance(value, Path) else value
        for key, value in read.items()
        if value is not None  # an empty path
    }
    replication = values.get("kafka.replication", _keys()["kafka.replication"].default)
    values.setdefault("kafka.min_insync", min(2, replication))
    keys = {each.key for each in given}
    if given:  # else it was not read
        mistaken = keys - read.keys()
        problems += (f"{path}: {each}" for each in _missing(keys, values.keys() | mistaken))
    problems += (f"{path}: {each}" for each in _unreadable(values))
    if not problems:  # values are compared with each other only when each of them is valid
        problems += (f"{path}: {each}" for each in _contradictions(values, replication))
    if problems:
        raise SettingsError(problems)
    return build({**values, "path": path}, ClusterFile)


@cache
def _keys() -> dict[str, Field]:
    """Every key of the file."""
    return {key: field for key, field in fields_of(ClusterFile).items() if key != "path"}


def _missing(given: Collection[str], valued: Collection[str]) -> Iterator[str]:
    """Needed keys without a value; an optional section needs its keys only if any is ``given``."""
    sections = {"", "kafka", *(key.rpartition(".")[0] for key in given)}
    for key, field in _keys().items():
        is_needed = field.default is msgspec.NODEFAULT and key.rpartition(".")[0] in sections
        if is_needed and key not in valued:
            yield f"{key}: needed: {field.meaning}"


def _unreadable(values: Mapping[str, object]) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Path) and not _has_content(value):
            yield f"{key}: {value} cannot be read, or is empty"


def _contradictions(values: Mapping[str, Any], replication: int) -> Iterator[str]:
    if values["kafka.min_insync"] > replication:
        yield f"kafka.min_insync: greater than kafka.replication ({replication})"
    for each in values.get("extensions.allow", ()):
        if not is_digest(each):
            yield (
                f"extensions.allow: {each!r} is not a SHA-256 of 64 hexadecimal digits in lower"
                " case; `lycosa extension digest FILE.py:NAME` prints it"
            )
    if "redis.authority" in values and not values.get("redis.tls"):
        yield "redis.authority: without tls = true it is not used"


def _unknown(key: str) -> str:
    """What is wrong with a key that is none of the file: a near name in its section, or all."""
    if inside := _names_in(key):
        return f"{key}: a section is needed, [{key}], with {', '.join(inside)}"
    section, _, name = key.rpartition(".")
    if (field := _keys().get(section)) is not None:
        return f"{section}: a {field.kind.value} is needed, not a section"
    if not (names := _names_in(section)):
        key, name, names = section, section, _names_in("")
    near = near_name(name, names)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
    return f"{key}: no such key; {hint}"


def _names_in(section: str) -> list[str]:
    """The names of the keys of a section; for the empty one those without, and the sections."""
    if not section:
        return list(dict.fromkeys(key.partition(".")[0] for key in _keys()))
    return [key.rpartition(".")[2] for key in _keys() if key.startswith(f"{section}.")]


def _has_content(path: Path) -> bool:
    try:
        return os.access(path, os.R_OK) and path.stat().st_size > 0
    except OSError:
        return False
