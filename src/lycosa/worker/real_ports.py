"""The ports of a real crawl: libcurl, the name servers, the parse child, RocksDB, threads."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config, Cookies, FetchSection, LinkRule, ParseSection
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.system.clock import SystemClock, ThreadOffload
from lycosa.base.system.memory_plan import MemoryPlan
from lycosa.base.system.meter import Meter
from lycosa.base.urls.identity import Sites
from lycosa.stages.fetch.cookies import CookieJars
from lycosa.stages.fetch.dns import CachingResolver
from lycosa.stages.fetch.dns_query import AiodnsQuery
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks
from lycosa.stages.fetch.key_check import load_signer
from lycosa.stages.fetch.request_profiles import RequestProfiles, load_profiles
from lycosa.stages.parse.parser_config import ParserConfig, check_readers
from lycosa.stages.parse.parser_pair import ParserPair
from lycosa.state.commit import ShardLease, folder_lease
from lycosa.state.folder.names import spool_folder, suffix_list
from lycosa.state.kv.kv_port import Opener
from lycosa.state.kv.rocks import SharedCache, rocks_opener
from lycosa.worker.job import WorkerJob
from lycosa.worker.measures import measure_network
from lycosa.worker.worker_ports import FaultPoint, Ports


def cache_of(plan: MemoryPlan) -> SharedCache:
    """The block cache of the tables, by the worker's memory plan."""
    return SharedCache(plan.cache, min(plan.memtables, plan.cache // 2), plan.memtable)


def real_ports(
    job: WorkerJob,
    open_table: Opener | None = None,
    reach: FaultPoint = lambda _: None,
    lease: ShardLease | None = None,
    threads: int = 2,
    fetches: bool = True,
) -> Ports:
    """Make the ports.

    ``lease`` is the lease of the worker's shard; a crawl on one machine has none. Blocking work has
    so many ``threads``. A worker that never ``fetches`` needs no key. Raises ``ValueError`` when a
    setting of the fetcher or the resolver is not usable, and ``KeyFileError``.
    """
    folder, config = job.folder, job.config
    clock, lease = SystemClock(), lease or folder_lease()
    guard, cookies = Guard(config.fetch.allow_addresses), _cookies(folder, config.fetch)
    fetcher = CurlFetcher(
        config.fetch,
        job.user_agent,
        config.agent.contact,
        guard,
        clock,
        spool_folder(folder),
        RequestHooks(
            cookies,
            may_send=lambda: lease.holds(clock.monotonic()),
            signer=load_signer(config.agent, clock) if fetches else None,
            profiles=_profiles(folder, config) if fetches else None,
        ),
    )
    if fetches:
        check_readers(config.parse)
    return Ports(
        clock=clock,
        offload=ThreadOffload(threads),
        fetcher=fetcher,
        resolver=CachingResolver(config.dns, clock, AiodnsQuery(config.dns)),
        parser=ParserPair(
            ParserConfig(
                _parse_section(job),
                config.canonical,
                config.agent.product,
                job.store.content,
                reads_requisites=config.scope.requisites,
                judges_scripts=config.render.is_on,
            ),
            clock,
        ),
        open_table=open_table or rocks_opener(),
        reach=reach,
        free_bytes=lambda: shutil.disk_usage(folder).free,
        lease=lease,
    )


def _parse_section(job: WorkerJob) -> ParseSection:
    """The settings of parsing; formats 1 have no number for other kinds of links."""
    section = job.config.parse
    if job.formats >= LATE_FIELDS or section.links is LinkRule.A:
        return section
    return msgspec.structs.replace(section, links=LinkRule.A)


def child_parser(ports: Ports) -> ParserPair:
    """The parser of real ports, for what only child processes have."""
    assert isinstance(ports.parser, ParserPair)
    return ports.parser


def measure_ports(meter: Meter, ports: Ports) -> None:
    """Let the meter read real ports."""
    resolver, fetcher = ports.resolver, ports.fetcher
    assert isinstance(resolver, CachingResolver) and isinstance(fetcher, CurlFetcher)
    measure_network(meter, resolver, fetcher)


def _profiles(folder: Path, config: Config) -> RequestProfiles | None:
    """What requests to some hosts carry, if the settings have rules. Raises ``SecretError``."""
    site_of = Sites(suffix_list(folder)).site_of if config.requests.rules else str
    keeps = config.fetch.cookies is Cookies.SITE
    return load_profiles(config.requests, site_of, keeps_cookies=keeps)


def _cookies(folder: Path, section: FetchSection) -> CookieJars | None:
    """Cookie jars by the crawl's sites, if the settings ask for them."""
    return (
        CookieJars(Sites(suffix_list(folder)).site_of, section.cookie_bytes)
        if section.cookies is Cookies.SITE
        else None
    )
