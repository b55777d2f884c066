"""Everything that talks to the network: DNS lookups, address checks, HTTP requests."""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.fetch.client import CurlFetcher, FetcherSnapshot
    from lycosa.fetch.cookies import CookieJars
    from lycosa.fetch.dns import CachingResolver, Query, ResolverSnapshot
    from lycosa.fetch.dns_query import AiodnsQuery
    from lycosa.fetch.guard import Guard
    from lycosa.fetch.headers import build_user_agent
else:
    __getattr__ = late_names(
        __name__,
        {
            "client": "CurlFetcher FetcherSnapshot",
            "cookies": "CookieJars",
            "dns": "CachingResolver Query ResolverSnapshot",
            "dns_query": "AiodnsQuery",
            "guard": "Guard",
            "headers": "build_user_agent",
        },
    )

__all__ = [
    "AiodnsQuery",
    "CachingResolver",
    "CookieJars",
    "CurlFetcher",
    "FetcherSnapshot",
    "Guard",
    "Query",
    "ResolverSnapshot",
    "build_user_agent",
]
