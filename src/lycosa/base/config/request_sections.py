"""Settings of requests: delays, robots.txt, DNS lookups, limits of a transfer, retries."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from lycosa.base.config.setting import setting


class Cookies(Enum):
    """Which servers get cookies back."""

    OFF = "off"
    SITE = "site"


class AddressTables(Enum):
    """Which crawls' requests count against an address's delay and slots."""

    MACHINE = "machine"
    CRAWL = "crawl"


class PolitenessSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on the load of hosts. One request at a time per host, except proved own hosts."""

    delay_s: Annotated[
        float,
        setting("Minimum time from the end of a request to the start of the next, per host.", ge=0),
    ] = 1.0
    max_crawl_delay_s: Annotated[
        float,
        setting("Maximum of the Crawl-delay in robots.txt; a longer one is cut to this.", ge=0),
    ] = 30.0
    adaptive_factor: Annotated[
        float, setting("Delay as a multiple of the duration of the last fetch (Mercator).", ge=0)
    ] = 10.0
    max_adaptive_delay_s: Annotated[
        float,
        setting("Longest delay that a slow server causes by the time of its last answer.", ge=0),
    ] = 30.0
    jitter: Annotated[
        float,
        setting(
            "Maximum share of the delay that is added at random; nothing is ever subtracted.",
            ge=0,
            le=1,
        ),
    ] = 0.1
    max_retry_after_s: Annotated[
        float, setting("Maximum of a Retry-After; a longer one is cut to this.", ge=0)
    ] = 86400.0
    backoff_s: Annotated[
        float,
        setting(
            "First back-off after 429 or 503 without Retry-After; each further one "
            "doubles it, good answers shorten it.",
            ge=0,
        ),
    ] = 30.0
    max_backoff_s: Annotated[float, setting("Maximum back-off.", ge=1)] = 86400.0
    forgive_s: Annotated[
        float, setting("Time without a refusal after which one good answer ends a back-off.", ge=1)
    ] = 3600.0
    address_delay_s: Annotated[
        float, setting("Minimum time between request starts to one IP address.", ge=0)
    ] = 0.2
    address_slots: Annotated[
        int, setting("Maximum number of simultaneous requests to one IP address.", ge=1)
    ] = 4
    address_table: Annotated[
        AddressTables,
        setting(
            "Which crawls share the limits of an IP address, and request a host in turn: machine "
            "(all crawls of this user on the machine) or crawl (only this one)."
        ),
    ] = AddressTables.MACHINE


class RobotsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits for robots.txt (RFC 9309)."""

    max_age_s: Annotated[
        float,
        setting(
            "How long a robots.txt is used before it is fetched again; RFC 9309 "
            "says at most 24 hours.",
            ge=60,
            le=86400,
        ),
    ] = 86400.0
    max_bytes: Annotated[
        int,
        setting(
            "How many bytes of a robots.txt are parsed; RFC 9309 says at least 500 KiB.", ge=512000
        ),
    ] = 512000
    retry_s: Annotated[
        float,
        setting(
            "First wait after a robots.txt could not be fetched; it doubles up to max_age_s.", ge=1
        ),
    ] = 60.0
    outage_s: Annotated[
        float,
        setting(
            "A robots.txt that is unreachable for longer than this counts as "
            "absent, if there is no cached copy (RFC 9309 2.3.1.4).",
            ge=86400,
        ),
    ] = 2592000.0


class DnsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """DNS lookups."""

    servers: Annotated[
        tuple[str, ...], setting("Name servers; if empty, those of the system.")
    ] = ()
    pins: Annotated[
        tuple[str, ...],
        setting("NAME=ADDRESS, with * wildcards; used instead of a DNS lookup (--resolve)."),
    ] = ()
    min_ttl_s: Annotated[float, setting("Minimum time for which an answer is cached.", ge=0)] = 60.0
    max_ttl_s: Annotated[float, setting("Maximum time for which an answer is cached.", ge=1)] = (
        86400.0
    )
    negative_ttl_s: Annotated[
        float, setting("How long the answer that a name does not exist is cached.", ge=0)
    ] = 300.0
    outage_s: Annotated[
        float, setting("During a DNS outage, no host is retired for this long.", ge=0)
    ] = 86400.0
    timeout_s: Annotated[float, setting("Timeout of one lookup.", ge=0.1)] = 10.0
    tries: Annotated[int, setting("Maximum number of queries for one lookup.", ge=1, le=10)] = 3
    concurrency: Annotated[int, setting("Maximum number of simultaneous lookups.", ge=1)] = 64
    cache_entries: Annotated[int, setting("Maximum number of cached names.", ge=10)] = 100_000
    ipv6: Annotated[bool, setting("Use IPv6 addresses too.")] = True


class FetchSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Requests and their limits."""

    slots: Annotated[
        int, setting("Maximum number of simultaneous requests, over all hosts.", ge=1, le=20000)
    ] = 256
    request_rate: Annotated[
        float,
        setting("Maximum number of requests a second of the whole crawl; 0 is no limit.", ge=0),
    ] = 0.0
    bytes_per_s: Annotated[
        int,
        setting(
            "Maximum number of body bytes a second that the whole crawl receives, as an average:"
            " requests wait after larger bodies; 0 is no limit.",
            ge=0,
        ),
    ] = 0
    hours: Annotated[
        tuple[str, ...],
        setting(
            "Hours in which requests are sent, as 22:00-06:00 or"
            " `Mon-Fri 20:00-06:30 Europe/Berlin`; several are alternatives. Without a zone they"
            " are local time."
        ),
    ] = ()
    own_pages: Annotated[
        bool,
        setting(
            "Request pages. Without it only outside fetchers do: the crawl requests robots.txt, and"
            " nothing while no fetcher asks."
        ),
    ] = True
    connect_s: Annotated[float, setting("Timeout for connecting, including TLS.", gt=0)] = 10.0
    first_byte_s: Annotated[float, setting("Timeout for the first byte of the answer.", gt=0)] = (
        30.0
    )
    total_s: Annotated[float, setting("Timeout for the whole request.", gt=0)] = 60.0
    min_bytes_per_s: Annotated[
        int, setting("Minimum speed; a transfer that is slower over the window fails.", ge=0)
    ] = 50
    min_speed_window_s: Annotated[
        float, setting("Window over which the minimum speed is measured.", gt=0)
    ] = 20.0
    header_bytes: Annotated[int, setting("Maximum number of header bytes.", ge=1024)] = 262144
    header_count: Annotated[int, setting("Maximum number of header lines.", ge=10, le=5000)] = 1000
    body_bytes: Annotated[
        int,
        setting(
            "Maximum number of body bytes as received; a longer body is truncated and marked.", ge=1
        ),
    ] = 10_000_000
    media_bytes: Annotated[
        int,
        setting(
            "The same for images, fonts, audio and video, which are written to disk while they"
            " arrive; 0 is fetch.body_bytes.",
            ge=0,
        ),
    ] = 0
    spool_bytes: Annotated[
        int, setting("A body larger than this is written to disk while it arrives.", ge=1024)
    ] = 1_000_000
    open_bytes: Annotated[
        int,
        setting("Maximum number of bytes in memory of all open transfers together.", ge=1_000_000),
    ] = 256_000_000
    http2: Annotated[bool, setting("Use HTTP/2 with servers that support it.")] = True
    verify_tls: Annotated[bool, setting("Refuse invalid certificates.")] = True
    ca_file: Annotated[
        str, setting("File with trusted certificates, PEM; if empty, those of the system.")
    ] = ""
    allow_addresses: Annotated[
        tuple[str, ...],
        setting(
            "Special-purpose address ranges (CIDR) to which connections are allowed "
            "(--allow-address)."
        ),
    ] = ()
    accept: Annotated[str, setting("Accept header.")] = (
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    )
    accept_language: Annotated[str, setting("Accept-Language header; if empty, none is sent.")] = ""
    connections: Annotated[
        int, setting("Maximum number of idle connections that are kept.", ge=0)
    ] = 512
    cookies: Annotated[
        Cookies, setting("off, or site: a cookie jar for each site until the run ends (--cookies).")
    ] = Cookies.OFF
    cookie_bytes: Annotated[
        int,
        setting(
            "Maximum size of all jars of a worker together; the jar of the site "
            "with the oldest request is dropped first.",
            ge=65536,
        ),
    ] = 32_000_000


class RetrySection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Retries of failed requests."""

    tries: Annotated[
        int, setting("Requests of one URL after which it becomes a dead letter.", ge=1, le=20)
    ] = 4
    first_s: Annotated[
        float, setting("Wait before the first retry; it doubles with each further one.", ge=0)
    ] = 10.0
    max_s: Annotated[float, setting("Maximum wait before a retry.", ge=1)] = 3600.0
    dns_tries: Annotated[
        int,
        setting(
            "Lookups of a name without an answer, after which its host is retired if retry.away_s "
            "have passed too.",
            ge=1,
        ),
    ] = 3
    host_failures: Annotated[
        int,
        setting(
            "Failed connections in a row after which a host is retired if retry.away_s have passed "
            "too.",
            ge=1,
        ),
    ] = 12
    away_s: Annotated[
        float,
        setting(
            "How long a host must have been unreachable before it is retired; and how long the "
            "crawl waits while its network is out, when failures do not count.",
            ge=0,
        ),
    ] = 86400.0


class RequestsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What requests to some hosts carry: credentials, cookies, a proxy (docs/requests.md)."""

    rules: Annotated[
        tuple[str, ...],
        setting(
            "MATCHER KIND SECRET, as `intranet.example basic file:/etc/lycosa/login`, `host:"
            "api.example header X-Api-Key env:KEY` or `* proxy http://10.0.0.1:3128`; of each kind"
            " the first that is for a URL counts (--auth, --bearer, --header, --client-cert,"
            " --cookies-from, --proxy)."
        ),
    ] = ()
    share: Annotated[
        bool,
        setting(
            "Give captures that were fetched with credentials to feeds, exports and replay too;"
            " otherwise they stay in the crawl."
        ),
    ] = False
    own_hosts: Annotated[
        tuple[str, ...],
        setting(
            "Exact names of your own hosts, which have no delay while the file"
            " /.well-known/lycosa-own-host of each has its token (lycosa own)."
        ),
    ] = ()
    own_secret: Annotated[
        str,
        setting(
            "Where the secret is that the tokens of own hosts are made with: file:FILE or env:NAME."
        ),
    ] = ""
    own_concurrency: Annotated[
        int,
        setting(
            "Requests at once to each of your own hosts while its file has its token; each also"
            " needs a slot of its address (politeness.address_slots).",
            ge=1,
            le=16,
        ),
    ] = 1
