"""``cluster.toml``: the name of a crawl on many machines, and the addresses of its services.

All mistakes are reported together, one line each; the message for an unknown key has the nearest
valid name. The text of a value that may be a secret is never part of a message. Settings of
politeness, scope and so on are not here: a crawl has them wherever it runs (``sections``).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.config.checks import STORE_SCHEMES
from lycosa.base.config.near_names import near_name
from lycosa.base.config.sources import SettingsError

MOST_SHARDS = 1024
MOST_NODES = 1024
REDIS_PASSWORD_VARIABLE = "LYCOSA_REDIS_PASSWORD"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")  # topics begin with it, and paths of objects
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_SECURITY = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.")
_KEYS = {
    "": (
        "name",
        "shards",
        "nodes",
        "token_file",
        "kafka",
        "objects",
        "coordinator",
        "tls",
        "redis",
    ),
    "kafka": ("addresses", "replication", "min_insync", "security"),
    "objects": ("url",),
    "coordinator": ("addresses",),
    "tls": ("certificate", "key", "authority"),
    "redis": ("addresses", "database", "username", "password_file", "tls", "authority"),
}


class KafkaSection(msgspec.Struct, frozen=True):
    """The brokers. ``security`` is passed to the client library unchanged."""

    addresses: tuple[str, ...]
    replication: int = 3
    min_insync: int = 2
    security: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"KafkaSection({', '.join(self.addresses)}, security={sorted(self.security)})"


class TlsSection(msgspec.Struct, frozen=True):
    """PEM files, with absolute paths.

    Every machine proves itself by a certificate of the authority.
    """

    certificate: Path
    key: Path
    authority: Path


class RedisSection(msgspec.Struct, frozen=True):
    """Redis, for the limits of IP addresses.

    Of ``addresses`` the first one that is a primary is used. The password is in ``password_file``
    (an absolute path), else in the environment; it is read when a program connects, and never
    printed. ``authority`` is the PEM file that signs the server's certificate.
    """

    addresses: tuple[str, ...]
    database: int = 0
    username: str = ""
    password_file: Path | None = None
    tls: bool = False
    authority: Path | None = None

    def password(self) -> str:
        """The password, empty when there is none. Raises ``OSError``."""
        if self.password_file is not None:
            return self.password_file.read_text("utf-8").strip()
        return os.environ.get(REDIS_PASSWORD_VARIABLE, "")


class ClusterFile(msgspec.Struct, frozen=True):
    """The content of the file.

    ``objects`` is the URL of the object storage, empty when there is none. ``coordinators`` are the
    addresses (``HOST:PORT``) at which a coordinator may listen. ``nodes`` is the maximum number of
    nodes at the same time: each of them sends requests to an IP address as if there were so many.
    ``token_file`` is an absolute path.
    """

    path: Path
    name: str
    kafka: KafkaSection
    shards: int = 16
    nodes: int = 4
    objects: str = ""
    coordinators: tuple[str, ...] = ()
    token_file: Path | None = None
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
    """Read and check the file. Raises ``SettingsError`` or ``OSError``."""
    import tomllib  # most crawls have no such file

    try:
        tree = tomllib.loads(path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SettingsError([f"{path}: not UTF-8"]) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path}: not TOML: {error}"]) from error
    problems = [f"{path}: {problem}" for problem in _problems(tree, path)]
    if problems:
        raise SettingsError(problems)
    kafka = tree["kafka"]
    token_file = tree.get("token_file")
    return ClusterFile(
        path,
        tree["name"],
        KafkaSection(
            tuple(kafka["addresses"]),
            kafka.get("replication", 3),
            kafka.get("min_insync", min(2, kafka.get("replication", 3))),
            kafka.get("security", {}),
        ),
        tree.get("shards", 16),
        tree.get("nodes", 4),
        tree.get("objects", {}).get("url", ""),
        tuple(tree.get("coordinator", {}).get("addresses", ())),
        path.parent.absolute() / token_file if token_file else None,
        _tls_section(tree.get("tls"), path.parent.absolute()),
        _redis_section(tree.get("redis"), path.parent.absolute()),
    )


def _tls_section(tls: dict[str, str] | None, folder: Path) -> TlsSection | None:
    return TlsSection(*(folder / tls[key] for key in _KEYS["tls"])) if tls else None


def _redis_section(redis: dict[str, Any] | None, folder: Path) -> RedisSection | None:
    if redis is None:
        return None
    password_file, authority = redis.get("password_file"), redis.get("authority")
    return RedisSection(
        tuple(redis["addresses"]),
        redis.get("database", 0),
        redis.get("username", ""),
        folder / password_file if password_file else None,
        redis.get("tls", False),
        folder / authority if authority else None,
    )


def _problems(tree: dict[str, Any], path: Path) -> Iterator[str]:
    yield from _unknown("", tree)
    name = tree.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield (
            "name: needed, up to 100 small letters, digits, '.', '_' and '-', the first a letter"
            " or a digit"
        )
    yield from _number("shards", tree.get("shards", 16), MOST_SHARDS)
    yield from _number("nodes", tree.get("nodes", 4), MOST_NODES)
    for section in ("kafka", "objects", "coordinator", "tls", "redis"):
        if not isinstance(tree.get(section, {}), dict):
            yield f"{section}: a section is needed, [{section}]"
            return
    # All problems at once, so that an operator corrects the file once.
    yield from _kafka_problems(tree.get("kafka", {}))
    yield from _objects_problems(tree.get("objects", {}))
    yield from _unknown("coordinator", tree.get("coordinator", {}))
    if "coordinator" in tree:
        yield from _address_problems(
            "coordinator.addresses", tree["coordinator"].get("addresses"), '["10.0.0.1:7070"]'
        )
    yield from _tls_problems(tree.get("tls", {}), path.parent)
    if "redis" in tree:
        yield from _redis_problems(tree["redis"], path.parent)
    token_file = tree.get("token_file", "")
    if not isinstance(token_file, str):
        yield "token_file: a path is needed"
    elif token_file and not _has_content(path.parent / token_file):
        yield f"token_file: {path.parent / token_file} cannot be read, or is empty"


def _kafka_problems(kafka: dict[str, Any]) -> Iterator[str]:
    yield from _unknown("kafka", kafka)
    yield from _address_problems(
        "kafka.addresses", kafka.get("addresses"), '["10.0.0.1:9092", "10.0.0.2:9092"]'
    )
    replication, min_insync = kafka.get("replication", 3), kafka.get("min_insync", 1)
    yield from _number("kafka.replication", replication, 32)
    yield from _number("kafka.min_insync", min_insync, 32)
    if isinstance(replication, int) and isinstance(min_insync, int) and min_insync > replication:
        yield "kafka.min_insync: greater than kafka.replication"
    security = kafka.get("security", {})
    if not isinstance(security, dict):
        yield "kafka.security: a section is needed, [kafka.security]"
        return
    for key, value in _leaves("", security):
        if not key.startswith(_SECURITY):
            yield (
                f"kafka.security: {key} is not a security setting; they begin with"
                f" {', '.join(_SECURITY)}"
            )
        elif not isinstance(value, str):
            yield f"kafka.security: the value of {key} is no text"
        elif key not in security:
            yield f'kafka.security: write "{key}" in quotes; without them its dots make sections'


def _address_problems(key: str, addresses: object, example: str) -> Iterator[str]:
    if not isinstance(addresses, list) or not addresses:
        yield f"{key}: needed, a list such as {example}"
        return
    for address in addresses:
        found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
        if found is None or not 0 < int(found[2]) < 65536:
            # what has an @ may be a URL with a password
            is_shown = isinstance(address, str) and "@" not in address
            yield f"{key}: {repr(address) if is_shown else 'an entry'} is not HOST:PORT"


def _tls_problems(tls: dict[str, Any], folder: Path) -> Iterator[str]:
    yield from _unknown("tls", tls)
    for key in _KEYS["tls"] if tls else ():
        name = tls.get(key)
        if not isinstance(name, str) or not name:
            yield f"tls.{key}: needed, the path of a PEM file"
        elif not _has_content(folder / name):
            yield f"tls.{key}: {folder / name} cannot be read, or is empty"


def _redis_problems(redis: dict[str, Any], folder: Path) -> Iterator[str]:
    yield from _unknown("redis", redis)
    yield from _address_problems("redis.addresses", redis.get("addresses"), '["10.0.0.1:6379"]')
    database = redis.get("database", 0)
    if isinstance(database, bool) or not isinstance(database, int) or not 0 <= database < 1024:
        yield "redis.database: a whole number from 0 is needed"
    if not isinstance(redis.get("username", ""), str):
        yield "redis.username: a name is needed"
    if not isinstance(redis.get("tls", False), bool):
        yield "redis.tls: true or false"
    for key in ("password_file", "authority"):
        name = redis.get(key, "")
        if not isinstance(name, str):
            yield f"redis.{key}: a path is needed"
        elif name and not _has_content(folder / name):
            yield f"redis.{key}: {folder / name} cannot be read, or is empty"
    if redis.get("authority") and not redis.get("tls"):
        yield "redis.authority: without tls = true it is not used"


def _objects_problems(objects: dict[str, Any]) -> Iterator[str]:
    yield from _unknown("objects", objects)
    if "url" not in objects:
        return
    url = objects["url"]
    scheme, separator, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    if scheme not in STORE_SCHEMES or not separator or not rest:
        yield f"objects.url: a URL is needed that begins with {', '.join(STORE_SCHEMES)}"
    elif "@" in rest.partition("/")[0]:
        yield "objects.url: credentials do not belong there; they come from the environment"


def _unknown(section: str, given: Mapping[str, Any]) -> Iterator[str]:
    known = _KEYS[section]
    for key in given.keys() - set(known):
        full = f"{section}.{key}" if section else key
        near = near_name(key, known)
        yield (
            f"{full}: no such key; did you mean {near}?"
            if near
            else f"{full}: no such key; there are {', '.join(known)}"
        )


def _number(key: str, value: object, most: int) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        yield f"{key}: a whole number from 1 to {most} is needed"


def _leaves(prefix: str, tree: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


def _has_content(path: Path) -> bool:
    try:
        return os.access(path, os.R_OK) and path.stat().st_size > 0
    except OSError:
        return False
