"""Everything that talks to web servers: DNS lookups, address checks, HTTP requests."""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.stages.fetch.cookies import CookieJars
    from lycosa.stages.fetch.dns import CachingResolver, Query, ResolverSnapshot
    from lycosa.stages.fetch.dns_query import AiodnsQuery
    from lycosa.stages.fetch.guard import Guard
    from lycosa.stages.fetch.headers import build_user_agent
    from lycosa.stages.fetch.http_client import CurlFetcher, FetcherSnapshot, RequestHooks
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "http_client": "CurlFetcher FetcherSnapshot RequestHooks",
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
    "RequestHooks",
    "ResolverSnapshot",
    "build_user_agent",
]
