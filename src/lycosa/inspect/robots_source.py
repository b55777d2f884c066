"""Sources of a robots.txt for ``check robots``: a file, a crawl's memory, or the server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from importlib.metadata import version

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.fetched import Fetched, FetchKind, FetchRequest, Limits
from lycosa.base.ports import Fetcher, Resolver
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.base.system.content_encoding import decode_content
from lycosa.base.system.private_folder import private_folder
from lycosa.base.urls.identity import (
    Canonicalizer,
    InvalidUrl,
    Sites,
    hash8,
    host_of,
    name_of,
    robots_url,
    scheme_of,
)
from lycosa.inspect.committed_state import CrawlReader
from lycosa.stages.fetch.dns import CachingResolver
from lycosa.stages.fetch.dns_query import AiodnsQuery
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.headers import build_user_agent
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks
from lycosa.stages.fetch.key_check import load_signer
from lycosa.stages.fetch.request_profiles import load_profiles
from lycosa.stages.politeness.robots_cache import RobotsRecord, after_fetch, answer_of
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.state.kv.table_records import robots_key
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import JournalRow

_HOPS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def _robots_url(url: str) -> str:
    return robots_url(host_of(url), scheme_of(url) == "https")


class NoRobots(Exception):
    """There is no robots.txt to check by; the message says what to do."""


def of_bytes(body: bytes, agent: str, now: float) -> RobotsRecord:
    """A given file, treated as if a server had just sent it."""
    digest = base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()
    return RobotsRecord(parse_robots(body, agent), digest, 200, now, now + 86400.0)


def of_crawl(reader: CrawlReader, url: str, agent: str, own: str) -> tuple[RobotsRecord, str]:
    """The robots.txt that a crawl remembers for a canonical URL, and a line about its source.

    Rules are remembered for the crawl's ``own`` product token; for another ``agent`` the stored
    file is parsed again.
    """
    with reader.partition_view(reader.partition_of(url)) as view:
        value = view.get(robots_key(hash8(host_of(url)), scheme_of(url) == "https"))
    if value is None:
        raise NoRobots(
            f"the crawl in {reader.name} has not fetched {_robots_url(url)} yet; --fetch fetches it"
            " now"
        )
    record = msgspec.msgpack.decode(value, type=RobotsRecord)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.fetched))
    source = f"{_robots_url(url)}, fetched {when} by the crawl in {reader.name}"
    if agent.lower() != own.lower() and record.has_file:
        record = msgspec.structs.replace(
            record, rules=parse_robots(_stored_body(reader, url), agent)
        )
    return record, source


def of_server(url: str, agent: str, config: Config) -> tuple[RobotsRecord, str]:
    """The file as the server sends it now, with up to five redirects (RFC 9309 2.3.1.2).

    Raises ``ResolveError``, ``NoRobots``.
    """
    fetched = asyncio.run(fetch_once(_robots_url(url), agent, config))
    if fetched.reason in (
        Reason.ADDRESS_FORBIDDEN,
        Reason.CONNECT_REFUSED,
        Reason.TLS_FAILED,
        Reason.NETWORK_UNREACHABLE,
    ):
        raise NoRobots(
            f"{fetched.url}: {fetched.reason.meaning}"
            + (f" ({fetched.detail})" if fetched.detail else "")
        )
    body = b""
    if 200 <= fetched.status < 300:
        body = decode_content(
            fetched.body, fetched.header("content-encoding"), config.robots.max_bytes + 1, 1000
        ).body
    record = after_fetch(None, answer_of(fetched, body), agent, config.robots, time.time())
    return record, f"{fetched.url}, fetched now with status {fetched.status}"


def _stored_body(reader: CrawlReader, url: str) -> bytes:
    """The newest stored robots.txt of an origin, decoded. Raises ``NoRobots``."""
    wanted, newest = _robots_url(url), None
    source = reader.source
    for row in (
        row
        for segment in source.list_segments()
        if segment.journal_length is not None
        for row in source.read_rows(segment)
    ):
        if _is_file(row, wanted) and (newest is None or row.date_us > newest.date_us):
            newest = row
    if newest is None:
        raise NoRobots(
            f"the crawl in {reader.name} has no stored file for {wanted}; give one with --robots,"
            " or use --fetch"
        )
    record = source.read_record(layout.warc_name(newest.segment), newest.offset)
    encoding = _header(record.header_block, b"content-encoding")
    return decode_content(record.body, encoding, 1_000_000, 1000).body


def _is_file(row: JournalRow, wanted: str) -> bool:
    return (
        row.kind is FetchKind.ROBOTS
        and row.url == wanted
        and 200 <= row.status < 300
        and not row.revisit
    )


def _header(block: bytes, name: bytes) -> str:
    for line in block.split(b"\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().decode("latin-1")
    return ""


async def fetch_once(url: str, agent: str, config: Config, hops: int = _HOPS) -> Fetched:
    """Request a small file, as the crawl would, and follow at most ``hops`` redirects.

    Without a robots.txt being asked. Raises ``ResolveError``, ``SecretError``.
    """
    clock = SystemClock()
    user_agent = build_user_agent(
        agent, version("lycosa"), config.agent.page or config.agent.contact
    )
    with private_folder("check") as spool:
        guard = Guard(config.fetch.allow_addresses)
        # As the crawl would send it, so that the answer is the one that the crawl would get.
        hooks = RequestHooks(
            signer=load_signer(config.agent, clock),
            profiles=load_profiles(config.requests, Sites().site_of),
        )
        fetcher = CurlFetcher(
            config.fetch, user_agent, config.agent.contact, guard, clock, spool, hooks
        )
        resolver: Resolver = CachingResolver(config.dns, clock, AiodnsQuery(config.dns))
        try:
            return await _follow(url, config, fetcher, resolver, hops)
        finally:
            await fetcher.close()
            await resolver.close()


async def _follow(
    url: str, config: Config, fetcher: Fetcher, resolver: Resolver, hops: int
) -> Fetched:
    size = config.robots.max_bytes + 1
    limits = Limits(body_bytes=size, spool_bytes=size + 1)
    canonicalizer = Canonicalizer(config.canonical)
    fetched = Fetched(url, Reason.TOO_MANY_REDIRECTS)
    for _ in range(hops + 1):
        # The first address is enough: a check for a person, who can repeat it.
        address = (await resolver.resolve(name_of(host_of(url))))[0]
        fetched = await fetcher.fetch(FetchRequest(url, address, FetchKind.ROBOTS, limits=limits))
        if fetched.status not in _REDIRECTS:
            return fetched
        try:
            url = canonicalizer.canonical(fetched.location, url)
        except InvalidUrl as error:
            return msgspec.structs.replace(fetched, reason=Reason.BAD_REDIRECT, detail=str(error))
    return msgspec.structs.replace(fetched, reason=Reason.TOO_MANY_REDIRECTS)
