"""Settings of a crawl's scope: who crawls, which URLs are the same, which are wanted."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from lycosa.base.config.setting import setting


class UnstatedUse(Enum):
    """What is done with a page that states nothing about a use of the purpose."""

    USE = "use"
    SKIP = "skip"


class ScopeRule(Enum):
    """Which URLs belong to a crawl, relative to its seeds."""

    HOST = "host"
    SITE = "site"
    PREFIX = "prefix"
    ANY = "any"
    PAGE = "page"
    SURT = "surt"


class RequisiteScope(Enum):
    """The hosts of which requisites are fetched, relative to the document that names them."""

    ANY = "any"
    SITE = "site"
    HOST = "host"


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
        setting(
            "URL or e-mail address for site owners; sent in User-Agent and, if an address, in From."
        ),
    ] = ""
    page: Annotated[
        str,
        setting(
            "URL of the page for site owners (lycosa identity page); sent in User-Agent in place of"
            " the contact."
        ),
    ] = ""
    key_file: Annotated[
        str,
        setting(
            "File with this machine's private key (lycosa identity new), by which every request is"
            " signed; empty signs none. Only the path is a setting; each node may have another."
        ),
    ] = ""
    key_directory: Annotated[
        str,
        setting(
            "URL of the directory with the public keys of all nodes (lycosa identity directory);"
            " sent in Signature-Agent."
        ),
    ] = ""
    purpose: Annotated[
        tuple[str, ...],
        setting(
            "Uses for which the outputs are meant (search, ai-train, ai-input, tdm, bots, archive, "
            "research): content that its site refuses to one of them is left out of derived files, "
            "feeds, sinks and texts; if empty, what sites state is only recorded."
        ),
    ] = ()
    unstated: Annotated[
        UnstatedUse,
        setting(
            "Whether content whose site states nothing about a use of the purpose is left out."
        ),
    ] = UnstatedUse.USE
    fetch_licenses: Annotated[
        bool,
        setting(
            "Fetch each license (RSL) that captures name, once, from any host, and store it; "
            "it is neither read nor negotiated. On a cluster with formats 1 it has no effect."
        ),
    ] = False


class CanonicalSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Canonical form beyond RFC 3986 and WHATWG. These settings change the identity of URLs, so
    they are frozen with the crawl.
    """

    sort_query: Annotated[bool, setting("Sort query parameters by name.")] = False
    drop_index_files: Annotated[
        bool, setting("Drop index.html, index.htm, index.php, default.asp at the end of a path.")
    ] = False
    drop_trailing_slash: Annotated[bool, setting("Drop slashes at the end of a path.")] = False
    drop_session_ids: Annotated[
        bool, setting("Drop session ids (PHPSESSID, jsessionid, sid, ...) from query and path.")
    ] = True
    drop_tracking: Annotated[
        bool, setting("Drop tracking parameters (utm_*, gclid, fbclid, ...).")
    ] = True
    drop_www: Annotated[bool, setting("Treat www.example.org as example.org.")] = False
    drop_empty_query: Annotated[bool, setting("Drop a question mark that nothing follows.")] = True


class ScopeSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which URLs belong to the crawl."""

    rule: Annotated[
        ScopeRule,
        setting(
            "host, site (registrable domain), prefix (the seed's folder), page (the seeds alone),"
            " surt (only what surts names) or any."
        ),
    ] = ScopeRule.HOST
    surts: Annotated[
        tuple[str, ...],
        setting(
            "SURT prefixes as +http://(org,example, that are in scope too, and as -http://... that"
            " are not; the longest one of a URL decides."
        ),
    ] = ()
    per_seed: Annotated[
        tuple[str, ...],
        setting(
            "Seeds with a separate rule, as `https://example.org/docs/ prefix`; host, site,"
            " prefix or page."
        ),
    ] = ()
    one_hop_out: Annotated[
        bool,
        setting("Also fetch pages elsewhere that a page in scope links to, but not their links."),
    ] = False
    include: Annotated[
        tuple[str, ...],
        setting("Regular expressions (RE2); if there are any, a URL must match one of them."),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        setting("Regular expressions (RE2); a URL that matches one of them is refused."),
    ] = ()
    max_depth: Annotated[
        int, setting("Maximum number of links from a seed; -1 is no limit.", ge=-1)
    ] = -1
    requisites: Annotated[
        bool, setting("Also fetch what pages load: images, scripts, style sheets, frames.")
    ] = False
    requisites_from: Annotated[
        RequisiteScope,
        setting(
            "Requisites of any host, of the site (registrable domain) of the page, or of its host."
        ),
    ] = RequisiteScope.ANY
    requisites_depth: Annotated[
        int,
        setting(
            "Maximum number of links from a page to a requisite; what its style sheets import is"
            " at 2. Redirects count.",
            ge=1,
            le=20,
        ),
    ] = 10
    follow_nofollow: Annotated[
        bool, setting("Follow links marked rel=nofollow, ugc or sponsored.")
    ] = True
    max_hops: Annotated[int, setting("Maximum number of redirects in a row.", ge=0, le=20)] = 5
    accept: Annotated[
        tuple[str, ...],
        setting(
            "Media types besides pages that are fetched, as image, video, pdf, image/png: their"
            " links are followed, and the body of any other type is left; empty is any type that a"
            " link leads to (--accept)."
        ),
    ] = ()
    languages: Annotated[
        tuple[str, ...],
        setting(
            "Languages (ISO 639-1: en, de) of the pages whose links are followed, as the text was"
            " identified; pages in other languages are stored, and their links are not followed. A"
            " text too short to identify counts as wanted."
        ),
    ] = ()


class TrapSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Defences against endless URL spaces."""

    max_url_length: Annotated[
        int, setting("Maximum number of characters of a URL.", ge=100, le=65536)
    ] = 2000
    max_path_depth: Annotated[int, setting("Maximum number of segments of a path.", ge=1)] = 15
    max_repeats: Annotated[
        int, setting("How often a path segment, or a sequence of them, may repeat.", ge=1)
    ] = 3
    max_parameters: Annotated[int, setting("Maximum number of query parameters.", ge=0)] = 40
    calendar_years: Annotated[
        int, setting("Years from today that a date in a URL may be away.", ge=0)
    ] = 10
    refuse_session_ids: Annotated[
        bool, setting("Refuse URLs that still carry a session id after canonicalisation.")
    ] = True


class BudgetSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Maximum that one host or site may take. 0 is no limit. A URL over a budget is parked, not
    dropped."""

    host_pages: Annotated[int, setting("Maximum number of captures of one host.", ge=0)] = 0
    site_pages: Annotated[int, setting("Maximum number of captures of one site.", ge=0)] = 0
    host_bytes: Annotated[int, setting("Maximum number of body bytes of one host.", ge=0)] = 0
    site_bytes: Annotated[int, setting("Maximum number of body bytes of one site.", ge=0)] = 0
    host_time_s: Annotated[float, setting("Maximum time spent fetching from one host.", ge=0)] = 0.0
    discovery_per_page: Annotated[
        int,
        setting(
            "New URLs of a host for each of its captures, in addition to the "
            "first 10,000; the others are parked.",
            ge=0,
        ),
    ] = 1000
    park_s: Annotated[
        float,
        setting(
            "First wait of a parked host; it doubles each time. A run does not wait for a host that"
            " is parked for longer than frontier.finish_wait_s.",
            ge=1,
        ),
    ] = 1200.0
    pages_per_linking_site: Annotated[
        int,
        setting(
            "Captures of a site in addition to site_pages, for each distinct other "
            "site that links to it; 0 adds none.",
            ge=0,
        ),
    ] = 0
    site_pages_max: Annotated[
        int,
        setting("Maximum of the captures of one site, with those that linking sites add.", ge=0),
    ] = 0
    site_hosts: Annotated[
        int, setting("Maximum number of hosts (subdomains) of one site that are visited.", ge=0)
    ] = 0
    speculative_share: Annotated[
        float,
        setting(
            "Maximum share of a host's requests for URLs that only a text looks like"
            " (parse.links all); the others are parked.",
            ge=0,
            le=1,
        ),
    ] = 0.05
    page_requisites: Annotated[
        int, setting("Maximum number of requisites of one page or style sheet, the first.", ge=0)
    ] = 2000
    host_requisites: Annotated[
        int,
        setting(
            "Maximum number of requisites on other hosts that the pages of one host bring; the"
            " budgets of those hosts hold as well.",
            ge=0,
        ),
    ] = 0


class CopiesSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How far URLs are set back when pages like them were near copies of others."""

    probe_turns: Annotated[
        int,
        setting(
            "One of so many turns of a host goes to its URLs that are set back; 1 sets none back.",
            ge=1,
            le=1000,
        ),
    ] = 20
    probe_turns_alone: Annotated[
        int, setting("The same while no other host has URLs to fetch.", ge=1, le=1000)
    ] = 2
    exempt: Annotated[
        tuple[str, ...], setting("Hosts and domains of which no URL is set back.")
    ] = ()


class SitemapSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which sitemaps are read, and how much of them."""

    follow: Annotated[
        bool, setting("Fetch the sitemaps that robots.txt names, and what they list.")
    ] = True
    guess: Annotated[
        bool, setting("Also ask for /sitemap.xml where robots.txt names no sitemap.")
    ] = False
    max_nesting: Annotated[
        int,
        setting("Levels of sitemaps below the one in robots.txt; the protocol allows one.", ge=0),
    ] = 2
    max_files: Annotated[int, setting("Maximum number of sitemaps of one host.", ge=1)] = 10_000
    max_urls: Annotated[
        int, setting("Maximum number of URLs that the sitemaps of one host list together.", ge=1)
    ] = 10_000_000
    min_s: Annotated[float, setting("Shortest time between two fetches of a sitemap.", ge=60)] = (
        3600.0
    )
    news_min_s: Annotated[
        float,
        setting("Shortest time between two fetches of a feed, or of a sitemap of news.", ge=60),
    ] = 600.0
    max_s: Annotated[
        float,
        setting(
            "Longest time between two fetches of a sitemap or feed, unless the host has too many"
            " for `share`.",
            ge=60,
        ),
    ] = 604_800.0
    share: Annotated[
        float,
        setting(
            "Share of a host's turns that its sitemaps and feeds may take once they were read.",
            gt=0,
            le=1,
        ),
    ] = 0.1


class IndexNowSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Notices of sites that their pages have changed, by the protocol IndexNow."""

    accept: Annotated[
        bool,
        setting(
            "Accept notices at /indexnow of the HTTP interface, from any client without a token."
        ),
    ] = False
    notices_per_hour: Annotated[
        float, setting("Notices that one client address may send in an hour.", ge=1)
    ] = 120.0
    key_pause_s: Annotated[
        float, setting("Shortest time between two requests for key files of a host.", ge=3600)
    ] = 3600.0
    key_days: Annotated[
        float, setting("Days for which a key that was found in its file stays valid.", gt=0)
    ] = 30.0
