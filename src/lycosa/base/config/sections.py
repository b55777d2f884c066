"""The settings: one frozen section per stage, with type, default, bound and meaning of each.

Units are in the names: ``_s`` seconds, ``_bytes`` bytes; in files, options and the environment
these also accept ``2h``, ``10GB``. Obedience to robots.txt is not a setting. Unknown keys and bad
values stop the start (``config.sources``).

``scope_sections`` has the settings of a crawl's scope, ``request_sections`` those of requests,
``render_section`` those of rendering, ``feature_sections`` those of parsing, users' code, cold
files, earlier crawls and webhooks; here are the other sections and the whole tree.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from lycosa.base.config.feature_sections import (
    ColdSection,
    EarlierSection,
    ExtensionSection,
    WebhookSection,
)
from lycosa.base.config.feature_sections import LinkRule as LinkRule
from lycosa.base.config.feature_sections import ParseSection as ParseSection
from lycosa.base.config.render_section import RenderMode as RenderMode
from lycosa.base.config.render_section import RenderSection as RenderSection
from lycosa.base.config.request_sections import (
    AddressTables,
    Cookies,
    DnsSection,
    FetchSection,
    PolitenessSection,
    RequestsSection,
    RetrySection,
    RobotsSection,
)
from lycosa.base.config.scope_sections import (
    AgentSection,
    BudgetSection,
    CanonicalSection,
    CopiesSection,
    IndexNowSection,
    RequisiteScope,
    ScopeRule,
    ScopeSection,
    SitemapSection,
    TrapSection,
)
from lycosa.base.config.setting import setting

__all__ = [
    "AddressTables",
    "AgentSection",
    "BudgetSection",
    "CanonicalSection",
    "ColdSection",
    "Config",
    "Cookies",
    "CopiesSection",
    "DnsSection",
    "EarlierSection",
    "ExtensionSection",
    "FetchSection",
    "FrontierSection",
    "IndexNowSection",
    "LimitSection",
    "LinkRule",
    "ParseSection",
    "PolitenessSection",
    "PrioritySection",
    "RefetchRule",
    "RefetchSection",
    "RenderMode",
    "RenderSection",
    "RequestsSection",
    "RequisiteScope",
    "RetrySection",
    "RobotsSection",
    "ScopeRule",
    "ScopeSection",
    "SeenSection",
    "SeenUrlsKind",
    "SitemapSection",
    "StoreSection",
    "TrapSection",
    "WebhookSection",
]


class RefetchRule(Enum):
    """When a fetched page is due again."""

    OFF = "off"
    ADAPTIVE = "adaptive"
    VALUE = "value"


class SeenUrlsKind(Enum):
    """Which URL-seen implementation."""

    SORTED = "sorted"
    BLOOM = "bloom"


class SeenSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Detection of known URLs and content."""

    urls: Annotated[SeenUrlsKind, setting("sorted (exact hash file) or bloom.")] = (
        SeenUrlsKind.SORTED
    )
    bloom_urls: Annotated[
        int, setting("Number of URLs per partition for which one Bloom filter is sized.", ge=1000)
    ] = 1_000_000
    bloom_error: Annotated[
        float, setting("False-positive rate of the Bloom filter.", gt=0, lt=0.5)
    ] = 0.001
    bloom_confirm: Annotated[
        bool, setting("Check the table when the Bloom filter says that a URL is known.")
    ] = True
    recent: Annotated[
        int,
        setting(
            "Number of recent URL hashes that are kept in memory and checked before URL-seen.", ge=0
        ),
    ] = 200_000
    near_duplicates: Annotated[bool, setting("Find near-duplicates by SimHash.")] = True
    max_distance: Annotated[
        int, setting("Maximum number of bits in which near-duplicates may differ.", ge=0, le=3)
    ] = 3


class PrioritySection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Weights of the factors of a URL's priority (docs/priority.md). Only their ratios matter; the
    defaults add up to 1, without the score of user code."""

    importance: Annotated[
        float,
        setting(
            "Rank of the page (`priority.ranks`); without one the importance of the link by which"
            " it was found, or the sitemap's priority if that is higher.",
            ge=0,
        ),
    ] = 0.30
    authority: Annotated[
        float,
        setting(
            "Rank of the host (`priority.ranks`); without one its importance, by how many sites"
            " link to it; 1 for a seed's host.",
            ge=0,
        ),
    ] = 0.25
    depth: Annotated[float, setting("Closeness to a seed.", ge=0)] = 0.15
    change: Annotated[
        float,
        setting(
            "How often the URL changes: estimated from its fetches, before the first"
            " from the sitemap.",
            ge=0,
        ),
    ] = 0.20
    staleness: Annotated[
        float,
        setting("Time since the last fetch; a URL that was never fetched gets the maximum.", ge=0),
    ] = 0.10
    score: Annotated[
        float,
        setting(
            "What scorers of users say of a URL; it counts only where they say something.", ge=0
        ),
    ] = 1.0
    ranks: Annotated[
        str,
        setting(
            "The ranks of hosts and pages to go by, as the SHA-256 under which the crawl has them;"
            " `--ranks FILE` stores them and sets it. Empty: none.",
            pattern="^([0-9a-f]{64})?$",
        ),
    ] = ""


class RefetchSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a page is fetched again."""

    rule: Annotated[
        RefetchRule,
        setting(
            "value: the time after which a fetch is worth its price (`refetch.budget`); adaptive:"
            " half the interval after a change, 1.5 times it without one; or off."
        ),
    ] = RefetchRule.VALUE
    first_s: Annotated[float, setting("Interval before the first refetch.", ge=1)] = 604800.0
    min_s: Annotated[float, setting("Minimum interval.", ge=1)] = 86400.0
    max_s: Annotated[float, setting("Maximum interval.", ge=1)] = 7776000.0
    price: Annotated[
        float,
        setting(
            "With the rule `value`: the days for which a fetch must be expected to keep the copy of"
            " a page of mean weight as the page is. Half the price means about 1.4 to 2 times as"
            " many fetches; `lycosa status` shows how many. With a rate as `refetch.budget` the"
            " search for the price begins here; with a share of the capacity this is the lowest"
            " price, however much is idle.",
            gt=0,
        ),
    ] = 1.0
    budget: Annotated[
        str,
        setting(
            "With the rule `value`: how many refetches there may be, as `12000/d`, `2/s`, or `20%`"
            " of what slots and processor allow; the price is then found by itself. Empty: it is"
            " `refetch.price`."
        ),
    ] = "50%"
    least_chance: Annotated[
        float,
        setting(
            "With the rule `value`: no page is fetched before the chance that it has changed is"
            " this great, however low the price.",
            ge=0,
            lt=1,
        ),
    ] = 0.1
    share: Annotated[
        float,
        setting(
            "Share of due pages in the turns of a host, and in those of hosts that wait, while new"
            " pages wait as well.",
            ge=0.01,
            le=0.99,
        ),
    ] = 0.5
    probes: Annotated[
        float,
        setting(
            "Maximum share of refetches for pages of which no fetch is worth the price within four"
            " times `refetch.max_s`; after a week without other refetches, one a day in each"
            " partition.",
            ge=0,
            le=0.5,
        ),
    ] = 0.05
    intervals: Annotated[
        tuple[str, ...],
        setting(
            "Fixed intervals in place of the adaptive one: DOMAIN TIME or DOMAIN PATTERN TIME, as"
            " `news.example /live/* 10m`; the first that is for a URL counts."
        ),
    ] = ()
    gone_first_s: Annotated[
        float,
        setting(
            "Interval before a page that is gone (404 or 410) is looked at again; each further"
            " interval is three times as long. 0: never again.",
            ge=0,
        ),
    ] = 86400.0
    gone_max_s: Annotated[
        float,
        setting("Longest interval of a page that is gone; after it the page is left.", ge=0),
    ] = 7776000.0
    soft_gone: Annotated[
        bool,
        setting(
            "Ask hosts, when it matters and at most once a week, for a path that does not exist,"
            " and treat pages that begin to answer as it does as gone."
        ),
    ] = True
    check_every: Annotated[
        int,
        setting(
            "One in this many 304s is checked by a fetch without validators within the hour: more"
            " of them at a host that confirms everything, fewer at one that was always right. 0:"
            " none, as long as none was found to hide a change.",
            ge=0,
        ),
    ] = 50
    policies: Annotated[
        tuple[str, ...],
        setting(
            "Rules for some pages: MATCHER POLICY, as `news.example /live/* every 10m`,"
            " `host:www.example.org daily`, `re:[?&]page= never` or `* adaptive min=6h max=30d`;"
            " the first that is for a URL counts, and refetch.intervals come after them."
        ),
    ] = ()


class StoreSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Output files."""

    segment_bytes: Annotated[int, setting("Size at which a segment is closed.", ge=100_000)] = (
        1_000_000_000
    )
    segment_age_s: Annotated[float, setting("Age at which a segment is closed.", ge=1)] = 3600.0
    commit_s: Annotated[float, setting("Maximum time between two commits.", ge=0.05)] = 1.0
    commit_pages: Annotated[
        int, setting("Number of finished URLs after which a commit starts.", ge=1)
    ] = 400
    gzip_level: Annotated[
        int,
        setting(
            "Compression level of WARC files, 0 to 3; 0 is the fastest (levels of libisal).",
            ge=0,
            le=3,
        ),
    ] = 2
    text: Annotated[bool, setting("Write WET text.")] = True
    links: Annotated[bool, setting("Write the link table.")] = True
    content: Annotated[
        bool,
        setting(
            "Write the content table: main text without boilerplate, Markdown, headings, author,"
            " dates and structured data of each page."
        ),
    ] = False
    min_free_bytes: Annotated[
        int, setting("Start no new request while the disk has less free space than this.", ge=0)
    ] = 500_000_000


class UploadSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Object storage that closed segments are uploaded to."""

    url: Annotated[
        str,
        setting(
            "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER; "
            "empty uploads nothing. Credentials come from the environment."
        ),
    ] = ""
    options: Annotated[
        tuple[str, ...],
        setting("NAME=VALUE options of the store, such as endpoint=https://s3.example.org."),
    ] = ()
    kinds: Annotated[
        tuple[str, ...],
        setting(
            "Folders whose files are uploaded: warc, cdxj, pages, links, text, content, renders, "
            "items; also journal and attempts (closed attempt logs)."
        ),
    ] = ("warc", "cdxj", "pages", "links", "text", "content", "renders", "items")
    remove: Annotated[
        bool, setting("Remove a local file after the store was seen to hold the same content.")
    ] = False
    finish_wait_s: Annotated[
        float,
        setting(
            "How long the end of a run waits for a store that accepts nothing, before it leaves "
            "the rest to the next run.",
            ge=0,
        ),
    ] = 60.0


class FrontierSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Queues of waiting URLs and hosts."""

    partitions: Annotated[
        int, setting("Number of partitions; frozen with the crawl.", ge=1, le=65536)
    ] = 16
    bands: Annotated[
        int, setting("Number of priority bands; frozen with the crawl.", ge=1, le=16)
    ] = 8
    head: Annotated[
        int, setting("Maximum number of URLs of one host in memory.", ge=1, le=10000)
    ] = 48
    workbench: Annotated[
        int, setting("Maximum number of hosts that one worker holds in memory.", ge=1)
    ] = 20_000
    finish_wait_s: Annotated[
        float, setting("A crawl is finished when nothing is due within this time.", ge=0)
    ] = 600.0
    changes_days: Annotated[
        float,
        setting("Days for which the list of changed pages is kept; 0 makes none.", ge=0),
    ] = 30.0


class LimitSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When the crawl stops by itself; 0 is no limit. These may differ from run to run."""

    max_pages: Annotated[
        int,
        setting(
            "Maximum number of captures of the whole crawl, without those that renders need.",
            ge=0,
        ),
    ] = 0
    max_bytes: Annotated[
        int, setting("Maximum number of body bytes received by the whole crawl.", ge=0)
    ] = 0
    max_time_s: Annotated[float, setting("Maximum duration of this run.", ge=0)] = 0.0
    until: Annotated[
        str,
        setting(
            "Date and time at which this run stops, as 2027-01-31T18:00 or 18:00 (the next time of"
            " that hour), in local time or with an offset such as +01:00."
        ),
    ] = ""
    max_disk_bytes: Annotated[
        int, setting("Maximum size of the files of the crawl folder.", ge=0)
    ] = 0
    continuous: Annotated[
        bool,
        setting(
            "Do not end when nothing is left or due: wait for the next due time, until a signal, a"
            " stop or another limit."
        ),
    ] = False


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole tree."""

    agent: AgentSection = AgentSection()
    canonical: CanonicalSection = CanonicalSection()
    scope: ScopeSection = ScopeSection()
    traps: TrapSection = TrapSection()
    budgets: BudgetSection = BudgetSection()
    copies: CopiesSection = CopiesSection()
    politeness: PolitenessSection = PolitenessSection()
    robots: RobotsSection = RobotsSection()
    sitemaps: SitemapSection = SitemapSection()
    dns: DnsSection = DnsSection()
    fetch: FetchSection = FetchSection()
    requests: RequestsSection = RequestsSection()
    retry: RetrySection = RetrySection()
    parse: ParseSection = ParseSection()
    render: RenderSection = RenderSection()
    seen: SeenSection = SeenSection()
    priority: PrioritySection = PrioritySection()
    refetch: RefetchSection = RefetchSection()
    store: StoreSection = StoreSection()
    upload: UploadSection = UploadSection()
    frontier: FrontierSection = FrontierSection()
    cold: ColdSection = ColdSection()
    limits: LimitSection = LimitSection()
    indexnow: IndexNowSection = IndexNowSection()
    extensions: ExtensionSection = ExtensionSection()
    webhooks: WebhookSection = WebhookSection()
    earlier: EarlierSection = EarlierSection()
    workers: Annotated[
        int,
        setting(
            "Number of worker processes; auto (0) starts one per core that the crawl may use.",
            ge=0,
            le=1024,
            extra={"words": {"auto": 0}},
        ),
    ] = 1
    memory_bytes: Annotated[
        int,
        setting(
            "Memory of the whole crawl, all processes together; auto (0) is 1.5 GB "
            "a worker, at most half of the memory of the machine or its control "
            "group.",
            ge=0,
            extra={"words": {"auto": 0}},
        ),
    ] = 0
    seed: Annotated[int, setting("Seed of all random numbers.", ge=0)] = 0
