"""What is wrong with the Redis servers of a ``cluster.toml``, each with its correction.

Nothing is changed except that the pool's script is loaded, which every worker does as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from lycosa.base.config.cluster_file import REDIS_PASSWORD_VARIABLE, RedisSection
from lycosa.cluster.redis.pool import SCRIPT, connection_to, parse_info

_ANSWER_S = 5.0
_OLDEST = (6, 0)


class RedisFinding(msgspec.Struct, frozen=True):
    """What is not as it must be, and how it is corrected. A ``warning`` does not stop a crawl."""

    what: str
    fix: str
    is_warning: bool = False


async def check_redis(section: RedisSection) -> list[RedisFinding]:
    """Everything that is wrong with the servers; empty when nothing is."""
    found: list[RedisFinding] = []
    primaries: list[str] = []
    for address in section.addresses:
        try:
            async with asyncio.timeout(_ANSWER_S):
                facts = await _facts(section, address)
        except (RedisError, OSError, TimeoutError) as error:
            found.append(_no_answer(address, error))
            continue
        found += _settings(address, facts)
        if facts.get("role") == "master":
            primaries.append(address)
    return found + _roles(section, primaries)


async def _facts(section: RedisSection, address: str) -> Mapping[str, str]:
    connection = connection_to(section, address)
    try:
        await connection.connect()  # type: ignore[no-untyped-call]  # in the library
        await connection.send_command("INFO")
        facts = parse_info(await connection.read_response())
        await connection.send_command("SCRIPT", "LOAD", SCRIPT)
        await connection.read_response()
        return facts
    finally:
        await connection.disconnect(nowait=True)


def _no_answer(address: str, error: Exception) -> RedisFinding:
    what = f"Redis at {address} gave no answer within {_ANSWER_S:g} s"
    if not isinstance(error, TimeoutError):
        what = f"Redis at {address}: {str(error) or type(error).__name__}"
    if isinstance(error, AuthenticationError):
        return RedisFinding(
            what, f"correct redis.username, redis.password_file or ${REDIS_PASSWORD_VARIABLE}"
        )
    if isinstance(error, NoPermissionError):
        return RedisFinding(
            what,
            "ACL SETUSER NAME on >PASSWORD ~{lycosa}:* +@connection +@scripting +@read"
            " +@write +time +info",
        )
    return RedisFinding(
        what,
        "start it, or correct redis.addresses; until it answers, every node uses its part of the"
        " limits of IP addresses",
        is_warning=True,
    )


def _settings(address: str, facts: Mapping[str, str]) -> list[RedisFinding]:
    found = []
    version = facts.get("redis_version", "0")
    numbers = tuple(int(each) for each in version.split(".")[:2] if each.isdigit())
    if numbers < _OLDEST:
        found.append(
            RedisFinding(f"Redis at {address} is {version}", "use Redis 6.0 or newer, or Valkey")
        )
    policy = facts.get("maxmemory_policy", "noeviction")
    if facts.get("maxmemory", "0") != "0" and policy != "noeviction":
        found.append(
            RedisFinding(
                f"Redis at {address} deletes keys when its memory is full ({policy}), so that last"
                " requests to addresses would be forgotten",
                "CONFIG SET maxmemory-policy noeviction",
            )
        )
    if facts.get("redis_mode") == "cluster":
        found.append(
            RedisFinding(
                f"Redis at {address} is a Redis Cluster, which is not supported",
                "give the addresses of one primary and its replicas",
            )
        )
    return found


def _roles(section: RedisSection, primaries: list[str]) -> list[RedisFinding]:
    if len(primaries) > 1:
        return [
            RedisFinding(
                f"several servers are primaries: {', '.join(primaries)}; workers that reach"
                " different ones do not share addresses",
                "make all but one of them replicas: REPLICAOF HOST PORT",
            )
        ]
    if not primaries and len(section.addresses) > 0:
        return [
            RedisFinding(
                "no address of [redis] answers as a primary",
                "start the primary, or promote a replica: REPLICAOF NO ONE",
                is_warning=True,
            )
        ]
    return []
