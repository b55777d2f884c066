"""Names, addresses and exchanges: everything that speaks to the network."""

from lycosa.fetch.client import CurlFetcher, FetcherSnapshot
from lycosa.fetch.cookies import CookieJars
from lycosa.fetch.dns import CachingResolver, Query, ResolverSnapshot
from lycosa.fetch.dns_query import AiodnsQuery
from lycosa.fetch.guard import Guard
from lycosa.fetch.headers import build_user_agent

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
