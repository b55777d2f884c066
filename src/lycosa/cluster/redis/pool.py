"""The address pool in Redis, as one worker reaches it: one connection, one script.

Every call is one run of ``address_pool.lua``, which is atomic. The connection belongs to one server
process, whose ``run_id`` names its life; another server, also one that continues the data of the
first, has another name, and the script then begins with nothing known.

Several addresses may be given: the first one whose server is a primary is used, and the others are
tried when the connection is lost. Each step has a time limit, and a call that gets no answer closes
the connection, so an answer is never taken for that of another call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from lycosa.base.config.cluster_file import RedisSection
from lycosa.base.ports import Clock
from lycosa.cluster.network.endpoints import split_address
from lycosa.stages.politeness import address_pool

SCRIPT = files("lycosa.cluster.redis").joinpath("address_pool.lua").read_text("utf-8")
_SHA = sha1(SCRIPT.encode()).hexdigest()  # as Redis names it
# One hash tag, so that a script may use all keys where Redis is a cluster behind a proxy.
_PRESENT, _STATE, _CRAWLS, _ADDRESS = (
    f"{{lycosa}}:{name}" for name in ("present", "state", "crawls", "address:")
)
_CONNECT_S = 1.0
# with these a server refuses every write of a script, so a call has had no effect
_WRITES_REFUSED = ("MISCONF", "NOREPLICAS")


class RedisPool:
    """The pool of ``section``, in whose servers no key begins with ``{lycosa}:`` otherwise."""

    def __init__(self, section: RedisSection, clock: Clock) -> None:
        self._section, self._clock = section, clock
        self._connection: Connection | None = None
        self._server = ""
        self._times = address_pool.PoolClock()

    def __repr__(self) -> str:
        at = self._server[:8] if self._connection else "not connected"
        return f"<RedisPool {', '.join(self._section.addresses)} {at}>"

    async def exchange(self, call: address_pool.PoolCall) -> address_pool.PoolAnswer:
        """Perform a call. Raises ``PoolAway``."""
        if self._connection is None:
            await self._connect()
        arguments = (*_heads(call), *(part for each in call.requests for part in _parts(each)))
        keys = (_PRESENT, _STATE, _CRAWLS, *(_ADDRESS + each.address for each in call.requests))
        sent = self._clock.monotonic()
        # The script drops a call that arrives later than this: its slots would be given to a worker
        # that has stopped waiting.
        head = (self._server, self._times.deadline_us(sent))
        try:
            async with asyncio.timeout(address_pool.ANSWER_S):
                found = await self._run(len(keys), *keys, *head, *arguments)
        except (RedisError, OSError, TimeoutError) as error:
            await self.close()
            # A server that refuses the write has not counted this worker as present.
            server = "" if _refuses_writes(error) else self._server
            raise address_pool.PoolAway(_said(error, self._used), server) from error
        except BaseException:
            await self.close()  # its answer must not be taken for that of the next call
            raise
        now_us = int(found[0])
        self._times.note_answer(now_us, sent, self._clock.monotonic())
        if found[1] == b"late":
            return address_pool.PoolAnswer(self._server, now_us, is_late=True)
        numbers = [int(each) for each in found[2:]]
        return address_pool.PoolAnswer(
            self._server,
            now_us,
            found[1] == b"shared",
            tuple(numbers[3:]),
            present=numbers[0],
            expected=numbers[1],
            unsettled_us=numbers[2],
        )

    async def close(self) -> None:
        """Close the connection; the next call makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _run(self, *arguments: Any) -> Any:
        try:
            return await self._ask("EVALSHA", _SHA, *arguments)
        except NoScriptError:  # a new server, or its scripts were removed
            return await self._ask("EVAL", SCRIPT, *arguments)

    async def _ask(self, *words: Any) -> Any:
        assert self._connection is not None
        await self._connection.send_command(*words)
        return await self._connection.read_response()

    # -- connecting

    async def _connect(self) -> None:
        """Connect to the first address that is a primary. Raises ``PoolAway``."""
        reasons = []
        for address in self._section.addresses:
            connection = None
            try:
                connection = connection_to(self._section, address)
                async with asyncio.timeout(_CONNECT_S):
                    await connection.connect()  # type: ignore[no-untyped-call]  # in the library
                    self._connection, self._used = connection, address
                    facts = parse_info(await self._ask("INFO"))
                    # Only the primary sees what all workers write; a replica would answer with old
                    # slots.
                    if facts.get("role") == "master":
                        await self._read_clock()
                        self._server = facts["run_id"]
                        return
                    reasons.append(f"{address} is a replica")
            except (RedisError, OSError, TimeoutError) as error:
                reasons.append(_said(error, address))
            self._connection = None
            if connection is not None:
                await connection.disconnect(nowait=True)
        raise address_pool.PoolAway("; ".join(reasons))

    async def _read_clock(self) -> None:
        sent = self._clock.monotonic()
        seconds, micros = await self._ask("TIME")
        self._times = address_pool.PoolClock()
        now_us = int(seconds) * address_pool.MICRO + int(micros)
        self._times.note_answer(now_us, sent, self._clock.monotonic())


def connection_to(section: RedisSection, address: str) -> Connection:
    """A connection that is not open yet, and that retries nothing by itself. Raises ``OSError``."""
    host, port = split_address(address)
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "db": section.database,
        "username": section.username or None,
        "password": section.password() or None,
        "socket_connect_timeout": _CONNECT_S,
        "socket_timeout": _CONNECT_S,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "client_name": "lycosa",
    }
    if not section.tls:
        return Connection(**options)
    authority = str(section.authority) if section.authority else None
    return SSLConnection(**options, ssl_ca_certs=authority, ssl_check_hostname=True)


def parse_info(answer: bytes) -> dict[str, str]:
    """The facts of an answer to ``INFO``."""
    lines = answer.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and line[0] != "#")


def _heads(call: address_pool.PoolCall) -> Sequence[Any]:
    member = call.member
    return (
        member.crawl,
        member.shard,
        member.shards,
        member.delay_us,
        member.slots,
        member.slot_us,
        member.settle_us,
        int(call.is_new),
        int(call.leaves),
        int(address_pool.PRESENT_S * address_pool.MICRO),
        int(address_pool.SET_BACK_S * address_pool.MICRO),
        int(address_pool.GRANT_S * address_pool.MICRO),
    )


def _parts(request: address_pool.PoolRequest) -> Sequence[Any]:
    if isinstance(request, address_pool.WantedSlot):
        return "T", request.slot, ""
    if isinstance(request, address_pool.StartedSlot):
        return "S", request.slot, request.age_us
    return "F", request.slot, int(request.was_sent)


def _refuses_writes(error: Exception) -> bool:
    return isinstance(error, ResponseError) and any(code in str(error) for code in _WRITES_REFUSED)


def _said(error: Exception, address: str) -> str:
    """One line about an error, without secrets: Redis never repeats a password."""
    if isinstance(error, TimeoutError):
        return f"{address} gave no answer in time"
    return f"{address}: {str(error).partition(chr(10))[0] or type(error).__name__}"
