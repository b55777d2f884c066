"""The settings: one frozen section per stage, each setting declared once with type, default, bound
and one sentence.

Units are in the names: ``_s`` seconds, ``_bytes`` bytes; in files, flags and the environment these
also take ``2h``, ``10GB``. Robots obedience is not a setting. Unknown keys and bad values stop the
start (``config.sources``).
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta


class ScopeRule(Enum):
    """Which URLs belong to a crawl, seen from its seeds."""

    HOST = "host"
    SITE = "site"
    PREFIX = "prefix"
    ANY = "any"


class Cookies(Enum):
    """Who gets cookies back."""

    OFF = "off"
    SITE = "site"


class RefetchRule(Enum):
    """When a fetched page is due again."""

    OFF = "off"
    ADAPTIVE = "adaptive"


class AddressTables(Enum):
    """Whose requests count against an address's delay and slots."""

    MACHINE = "machine"
    CRAWL = "crawl"


def _m(text: str, **bounds: Any) -> Meta:
    return Meta(description=text, **bounds)


Seconds = float
Bytes = int


class AgentSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the crawler identifies itself."""

    product: Annotated[
        str,
        Meta(
            description=(
                "Product token: part of User-Agent, and the name that selects the group "
                "in robots.txt."
            ),
            pattern="^[A-Za-z_-]+$",
        ),
    ] = "lycosa"
    contact: Annotated[
        str,
        _m(
            "URL or e-mail address for site owners; sent in User-Agent and, if an address, in From."
        ),
    ] = ""


class CanonicalSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Canonical form beyond RFC 3986 and WHATWG. These settings change the identity of URLs, so
    they are frozen with the crawl."""

    sort_query: Annotated[bool, _m("Sort query parameters by name.")] = False
    drop_index_files: Annotated[
        bool, _m("Drop index.html, index.htm, index.php, default.asp at the end of a path.")
    ] = False
    drop_trailing_slash: Annotated[bool, _m("Drop slashes at the end of a path.")] = False
    drop_session_ids: Annotated[
        bool, _m("Drop session ids (PHPSESSID, jsessionid, sid, ...) from query and path.")
    ] = True
    drop_tracking: Annotated[bool, _m("Drop tracking parameters (utm_*, gclid, fbclid, ...).")] = (
        True
    )
    drop_www: Annotated[bool, _m("Treat www.example.org as example.org.")] = False
    drop_empty_query: Annotated[bool, _m("Drop a question mark that nothing follows.")] = True


class ScopeSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which URLs belong to the crawl."""

    rule: Annotated[
        ScopeRule, _m("host, site (registrable domain), prefix (the seed's folder) or any.")
    ] = ScopeRule.HOST
    include: Annotated[
        tuple[str, ...], _m("Regular expressions; if there are any, a URL must match one of them.")
    ] = ()
    exclude: Annotated[
        tuple[str, ...], _m("Regular expressions; a URL that matches one of them is refused.")
    ] = ()
    max_depth: Annotated[
        int, _m("Maximum number of links from a seed; -1 is no limit.", ge=-1)
    ] = -1
    requisites: Annotated[bool, _m("Also fetch images, scripts and style sheets.")] = False
    follow_nofollow: Annotated[bool, _m("Follow links marked rel=nofollow, ugc or sponsored.")] = (
        True
    )
    max_hops: Annotated[int, _m("Maximum number of redirects in a row.", ge=0, le=20)] = 5


class TrapSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Defences against endless URL spaces."""

    max_url_length: Annotated[
        int, _m("Maximum number of characters of a URL.", ge=100, le=65536)
    ] = 2000
    max_path_depth: Annotated[int, _m("Maximum number of segments of a path.", ge=1)] = 15
    max_repeats: Annotated[
        int, _m("How often a path segment, or a sequence of them, may repeat.", ge=1)
    ] = 3
    max_parameters: Annotated[int, _m("Maximum number of query parameters.", ge=0)] = 40
    calendar_years: Annotated[
        int, _m("Years from today that a date in a URL may be away.", ge=0)
    ] = 10
    refuse_session_ids: Annotated[
        bool, _m("Refuse URLs that still carry a session id after canonicalisation.")
    ] = True


class BudgetSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Maximum that one host or site may take. 0 is no limit. A URL over a budget is parked, not
    dropped."""

    host_pages: Annotated[int, _m("Maximum number of pages of one host.", ge=0)] = 0
    site_pages: Annotated[int, _m("Maximum number of pages of one site.", ge=0)] = 0
    host_bytes: Annotated[int, _m("Maximum number of body bytes of one host.", ge=0)] = 0
    site_bytes: Annotated[int, _m("Maximum number of body bytes of one site.", ge=0)] = 0
    host_time_s: Annotated[float, _m("Maximum time spent fetching from one host.", ge=0)] = 0.0
    discovery_per_page: Annotated[
        int,
        _m(
            "New URLs of a host for each page fetched from it, in addition to the "
            "first 10,000; the others are parked.",
            ge=0,
        ),
    ] = 1000
    park_s: Annotated[float, _m("First wait of a parked host; it doubles each time.", ge=1)] = 600.0
    pages_per_linking_site: Annotated[
        int,
        _m(
            "Pages of a site in addition to site_pages, for each distinct other "
            "site that links to it; 0 adds none.",
            ge=0,
        ),
    ] = 0
    site_pages_max: Annotated[
        int, _m("Maximum of the pages of one site, with those that linking sites add.", ge=0)
    ] = 0
    site_hosts: Annotated[
        int, _m("Maximum number of hosts (subdomains) of one site that are visited.", ge=0)
    ] = 0


class PolitenessSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on the load of hosts. One request at a time per host, always."""

    delay_s: Annotated[
        float,
        _m("Minimum time from the end of a request to the start of the next, per host.", ge=0),
    ] = 1.0
    max_crawl_delay_s: Annotated[
        float, _m("Maximum of the Crawl-delay in robots.txt; a longer one is cut to this.", ge=0)
    ] = 30.0
    adaptive_factor: Annotated[
        float, _m("Delay as a multiple of the duration of the last fetch (Mercator).", ge=0)
    ] = 10.0
    max_adaptive_delay_s: Annotated[
        float, _m("Maximum of the delay that follows from the duration of the last fetch.", ge=0)
    ] = 30.0
    jitter: Annotated[
        float,
        _m(
            "Maximum share of the delay that is added at random; nothing is ever subtracted.",
            ge=0,
            le=1,
        ),
    ] = 0.1
    max_retry_after_s: Annotated[
        float, _m("Maximum of a Retry-After; a longer one is cut to this.", ge=0)
    ] = 86400.0
    backoff_s: Annotated[
        float,
        _m(
            "First back-off after 429 or 503 without Retry-After; each further one "
            "doubles it, good answers shorten it.",
            ge=0,
        ),
    ] = 30.0
    max_backoff_s: Annotated[float, _m("Maximum back-off.", ge=1)] = 86400.0
    forgive_s: Annotated[
        float, _m("Time without a refusal after which one good answer ends a back-off.", ge=1)
    ] = 3600.0
    address_delay_s: Annotated[
        float, _m("Minimum time between request starts to one IP address.", ge=0)
    ] = 0.2
    address_slots: Annotated[
        int, _m("Maximum number of simultaneous requests to one IP address.", ge=1)
    ] = 4
    address_table: Annotated[
        AddressTables,
        _m(
            "Which crawls share the limits of an IP address: machine (all crawls of "
            "this user on the machine) or crawl (only this one)."
        ),
    ] = AddressTables.MACHINE


class RobotsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits for robots.txt (RFC 9309)."""

    max_age_s: Annotated[
        float,
        _m(
            "How long a robots.txt is used before it is fetched again; RFC 9309 "
            "says at most 24 hours.",
            ge=60,
            le=86400,
        ),
    ] = 86400.0
    max_bytes: Annotated[
        int,
        _m("How many bytes of a robots.txt are parsed; RFC 9309 says at least 500 KiB.", ge=512000),
    ] = 512000
    retry_s: Annotated[
        float,
        _m("First wait after a robots.txt could not be fetched; it doubles up to max_age_s.", ge=1),
    ] = 60.0
    outage_s: Annotated[
        float,
        _m(
            "A robots.txt that is unreachable for longer than this counts as "
            "absent, if there is no cached copy (RFC 9309 2.3.1.4).",
            ge=86400,
        ),
    ] = 2592000.0


class SitemapSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which sitemaps are read, and how much of them."""

    follow: Annotated[bool, _m("Fetch the sitemaps that robots.txt names, and what they list.")] = (
        True
    )
    guess: Annotated[bool, _m("Also ask for /sitemap.xml where robots.txt names no sitemap.")] = (
        False
    )
    max_nesting: Annotated[
        int,
        _m("Levels of sitemaps below the one in robots.txt; the protocol allows one.", ge=0),
    ] = 2
    max_files: Annotated[int, _m("Maximum number of sitemaps of one host.", ge=1)] = 10_000
    max_urls: Annotated[
        int, _m("Maximum number of URLs that the sitemaps of one host list together.", ge=1)
    ] = 10_000_000


class DnsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """DNS lookups."""

    servers: Annotated[tuple[str, ...], _m("Name servers; if empty, those of the system.")] = ()
    pins: Annotated[
        tuple[str, ...],
        _m("NAME=ADDRESS, with * wildcards; used instead of a DNS lookup (--resolve)."),
    ] = ()
    min_ttl_s: Annotated[float, _m("Minimum time for which an answer is cached.", ge=0)] = 60.0
    max_ttl_s: Annotated[float, _m("Maximum time for which an answer is cached.", ge=1)] = 86400.0
    negative_ttl_s: Annotated[
        float, _m("How long the answer that a name does not exist is cached.", ge=0)
    ] = 300.0
    outage_s: Annotated[
        float, _m("During a DNS outage, no host is retired for this long.", ge=0)
    ] = 86400.0
    timeout_s: Annotated[float, _m("Timeout of one lookup.", ge=0.1)] = 10.0
    tries: Annotated[int, _m("Maximum number of queries for one lookup.", ge=1, le=10)] = 3
    concurrency: Annotated[int, _m("Maximum number of simultaneous lookups.", ge=1)] = 64
    cache_entries: Annotated[int, _m("Maximum number of cached names.", ge=10)] = 100_000
    ipv6: Annotated[bool, _m("Use IPv6 addresses too.")] = True


class FetchSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Requests and their limits."""

    slots: Annotated[
        int, _m("Maximum number of simultaneous requests, over all hosts.", ge=1, le=20000)
    ] = 256
    connect_s: Annotated[float, _m("Timeout for connecting, including TLS.", gt=0)] = 10.0
    first_byte_s: Annotated[float, _m("Timeout for the first byte of the answer.", gt=0)] = 30.0
    total_s: Annotated[float, _m("Timeout for the whole exchange.", gt=0)] = 60.0
    min_bytes_per_s: Annotated[
        int, _m("Minimum speed; a transfer that is slower over the window fails.", ge=0)
    ] = 50
    min_speed_window_s: Annotated[
        float, _m("Window over which the minimum speed is measured.", gt=0)
    ] = 20.0
    header_bytes: Annotated[int, _m("Maximum number of header bytes.", ge=1024)] = 262144
    header_count: Annotated[int, _m("Maximum number of header lines.", ge=10, le=5000)] = 1000
    body_bytes: Annotated[
        int,
        _m(
            "Maximum number of body bytes as received; a longer body is truncated and marked.", ge=1
        ),
    ] = 10_000_000
    spool_bytes: Annotated[
        int, _m("A body larger than this is written to disk while it arrives.", ge=1024)
    ] = 1_000_000
    open_bytes: Annotated[
        int, _m("Maximum number of bytes in memory of all open transfers together.", ge=1_000_000)
    ] = 256_000_000
    http2: Annotated[bool, _m("Use HTTP/2 with servers that support it.")] = True
    verify_tls: Annotated[bool, _m("Refuse invalid certificates.")] = True
    ca_file: Annotated[
        str, _m("File with trusted certificates, PEM; if empty, those of the system.")
    ] = ""
    allow_addresses: Annotated[
        tuple[str, ...],
        _m(
            "Special-purpose address ranges (CIDR) to which connections are allowed "
            "(--allow-address)."
        ),
    ] = ()
    accept: Annotated[str, _m("Accept header.")] = (
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    )
    accept_language: Annotated[str, _m("Accept-Language header; if empty, none is sent.")] = ""
    connections: Annotated[int, _m("Maximum number of idle connections that are kept.", ge=0)] = 512
    cookies: Annotated[
        Cookies, _m("off, or site: a cookie jar for each site until the run ends (--cookies).")
    ] = Cookies.OFF
    cookie_bytes: Annotated[
        int,
        _m(
            "Maximum size of all jars of a worker together; the jar of the site "
            "with the oldest request is dropped first.",
            ge=65536,
        ),
    ] = 32_000_000


class RetrySection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What happens after a failed request."""

    tries: Annotated[
        int, _m("Requests of one URL after which it becomes a dead letter.", ge=1, le=20)
    ] = 4
    first_s: Annotated[
        float, _m("Wait before the first retry; it doubles with each further one.", ge=0)
    ] = 10.0
    max_s: Annotated[float, _m("Maximum wait before a retry.", ge=1)] = 3600.0
    dns_tries: Annotated[
        int, _m("Lookups of a name that does not resolve, after which its host is retired.", ge=1)
    ] = 3
    host_failures: Annotated[
        int, _m("Failed connections in a row after which a host is retired.", ge=1)
    ] = 12


class ParseSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on parsing, which happens in a child process."""

    max_bytes: Annotated[int, _m("Maximum number of decoded bytes that are parsed.", ge=1024)] = (
        10_000_000
    )
    max_ratio: Annotated[
        int,
        _m("Maximum number of decoded bytes per received byte, beyond the first megabyte.", ge=10),
    ] = 1000
    deadline_s: Annotated[
        float, _m("Timeout for one document; after it the parse child is killed.", gt=0)
    ] = 10.0
    memory_bytes: Annotated[
        int, _m("Maximum address space of a parse child; 0 is no limit.", ge=0)
    ] = 2_000_000_000
    recycle_documents: Annotated[
        int, _m("Documents after which a parse child is replaced.", ge=1)
    ] = 20_000
    max_links: Annotated[int, _m("Maximum number of outlinks of one document.", ge=1)] = 50_000
    max_text: Annotated[
        int, _m("Maximum number of characters of visible text that are kept.", ge=0)
    ] = 1_000_000
    language: Annotated[bool, _m("Identify the language of the text.")] = True


class SeenUrls(Enum):
    """Which URL-seen implementation."""

    SORTED = "sorted"
    BLOOM = "bloom"


class SeenSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Detection of known URLs and content."""

    urls: Annotated[SeenUrls, _m("sorted (exact hash file) or bloom.")] = SeenUrls.SORTED
    bloom_urls: Annotated[
        int, _m("Number of URLs per partition for which one Bloom filter is sized.", ge=1000)
    ] = 1_000_000
    bloom_error: Annotated[float, _m("False-positive rate of the Bloom filter.", gt=0, lt=0.5)] = (
        0.001
    )
    bloom_confirm: Annotated[
        bool, _m("Check the table when the Bloom filter says that a URL is known.")
    ] = True
    recent: Annotated[
        int,
        _m(
            "Number of recent URL hashes that are kept in memory and checked before URL-seen.", ge=0
        ),
    ] = 200_000
    near_duplicates: Annotated[bool, _m("Find near-duplicates by SimHash.")] = True
    max_distance: Annotated[
        int, _m("Maximum number of bits in which near-duplicates may differ.", ge=0, le=3)
    ] = 3


class PrioritySection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Weights of the factors of a URL's priority (docs/priority.md). Only their ratios matter; the
    defaults add up to 1."""

    importance: Annotated[
        float,
        _m(
            "Importance of the link by which the URL was found, or the sitemap's "
            "priority if that is higher.",
            ge=0,
        ),
    ] = 0.30
    authority: Annotated[
        float,
        _m(
            "Importance of the host: the highest of all links found to it; 1 for a seed's host.",
            ge=0,
        ),
    ] = 0.25
    depth: Annotated[float, _m("Closeness to a seed.", ge=0)] = 0.15
    change: Annotated[
        float,
        _m(
            "How often the URL changes: from its refetch interval once it was "
            "fetched, before that from the sitemap.",
            ge=0,
        ),
    ] = 0.20
    staleness: Annotated[
        float, _m("Time since the last fetch; a URL that was never fetched gets the maximum.", ge=0)
    ] = 0.10


class RefetchSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a page is fetched again."""

    rule: Annotated[RefetchRule, _m("off or adaptive.")] = RefetchRule.ADAPTIVE
    first_s: Annotated[float, _m("Interval before the first refetch.", ge=1)] = 604800.0
    min_s: Annotated[float, _m("Minimum interval.", ge=1)] = 86400.0
    max_s: Annotated[float, _m("Maximum interval.", ge=1)] = 7776000.0


class StoreSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Output files."""

    segment_bytes: Annotated[int, _m("Size at which a segment is closed.", ge=100_000)] = (
        1_000_000_000
    )
    segment_age_s: Annotated[float, _m("Age at which a segment is closed.", ge=1)] = 3600.0
    commit_s: Annotated[float, _m("Maximum time between two commits.", ge=0.05)] = 1.0
    commit_pages: Annotated[
        int, _m("Number of finished URLs after which a commit starts.", ge=1)
    ] = 400
    gzip_level: Annotated[
        int,
        _m(
            "Compression level of WARC files, 0 to 3; 0 is the fastest (levels of libisal).",
            ge=0,
            le=3,
        ),
    ] = 2
    text: Annotated[bool, _m("Write WET text.")] = True
    links: Annotated[bool, _m("Write the link table.")] = True
    min_free_bytes: Annotated[
        int, _m("Start no new request while the disk has less free space than this.", ge=0)
    ] = 500_000_000


class UploadSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Object storage that closed segments are uploaded to."""

    url: Annotated[
        str,
        _m(
            "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER; "
            "empty uploads nothing. Credentials come from the environment."
        ),
    ] = ""
    options: Annotated[
        tuple[str, ...],
        _m("NAME=VALUE options of the store, such as endpoint=https://s3.example.org."),
    ] = ()
    kinds: Annotated[
        tuple[str, ...],
        _m(
            "Folders whose files are uploaded: warc, cdxj, pages, links, text; also journal and "
            "attempts (closed attempt logs)."
        ),
    ] = ("warc", "cdxj", "pages", "links", "text")
    remove: Annotated[
        bool, _m("Remove a local file after the store was seen to hold the same content.")
    ] = False
    finish_wait_s: Annotated[
        float,
        _m(
            "How long the end of a run waits for a store that accepts nothing, before it leaves "
            "the rest to the next run.",
            ge=0,
        ),
    ] = 60.0


class FrontierSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Queues of waiting URLs and hosts."""

    partitions: Annotated[
        int, _m("Number of partitions; frozen with the crawl.", ge=1, le=65536)
    ] = 16
    bands: Annotated[int, _m("Number of priority bands; frozen with the crawl.", ge=1, le=16)] = 8
    head: Annotated[int, _m("Maximum number of URLs of one host in memory.", ge=1, le=10000)] = 48
    workbench: Annotated[
        int, _m("Maximum number of hosts on the workbench of one worker.", ge=1)
    ] = 20_000
    finish_wait_s: Annotated[
        float, _m("A crawl is finished when nothing is due within this time.", ge=0)
    ] = 600.0


class LimitSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When the crawl stops by itself; 0 is no limit. These may differ from run to run."""

    max_pages: Annotated[int, _m("Maximum number of captures of the whole crawl.", ge=0)] = 0
    max_bytes: Annotated[
        int, _m("Maximum number of body bytes received by the whole crawl.", ge=0)
    ] = 0
    max_time_s: Annotated[float, _m("Maximum duration of this run.", ge=0)] = 0.0


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole tree."""

    agent: AgentSection = AgentSection()
    canonical: CanonicalSection = CanonicalSection()
    scope: ScopeSection = ScopeSection()
    traps: TrapSection = TrapSection()
    budgets: BudgetSection = BudgetSection()
    politeness: PolitenessSection = PolitenessSection()
    robots: RobotsSection = RobotsSection()
    sitemaps: SitemapSection = SitemapSection()
    dns: DnsSection = DnsSection()
    fetch: FetchSection = FetchSection()
    retry: RetrySection = RetrySection()
    parse: ParseSection = ParseSection()
    seen: SeenSection = SeenSection()
    priority: PrioritySection = PrioritySection()
    refetch: RefetchSection = RefetchSection()
    store: StoreSection = StoreSection()
    upload: UploadSection = UploadSection()
    frontier: FrontierSection = FrontierSection()
    limits: LimitSection = LimitSection()
    workers: Annotated[
        int,
        _m(
            "Number of worker processes; auto (0) starts one per core that the crawl may use.",
            ge=0,
            le=1024,
            extra={"words": {"auto": 0}},
        ),
    ] = 1
    memory_bytes: Annotated[
        int,
        _m(
            "Memory of the whole crawl, all processes together; auto (0) is 1.5 GB "
            "a worker, at most half of the memory of the machine or its control "
            "group.",
            ge=0,
            extra={"words": {"auto": 0}},
        ),
    ] = 0
    seed: Annotated[int, _m("Seed of all random numbers.", ge=0)] = 0
