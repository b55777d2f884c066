"""What identifies a URL: canonical form, host, site, partition and SURT key.

All identity rests on this module, so a crawl's manifest freezes ``Canonicalizer.identity()`` and
``Sites.version``. The module only re-exports names. ``canonical`` makes the canonical form,
``url_parts`` slices it, ``session_parameters`` lists session parameters, ``sites`` reads the public
suffix list, and ``surt`` makes the key of CDXJ.
"""

from __future__ import annotations

from lycosa.base.urls.canonical import CANONICAL_VERSION, Canonicalizer, InvalidUrl, resolve
from lycosa.base.urls.session_parameters import find_session, may_have_session
from lycosa.base.urls.sites import BUNDLED_LIST, Sites
from lycosa.base.urls.surt import surt
from lycosa.base.urls.url_parts import (
    TDM_PATH,
    hash8,
    hash8_all,
    host_of,
    hosts_of,
    is_address,
    is_own_path,
    join_url,
    name_of,
    origin_of,
    partition_of,
    reversed_host,
    robots_url,
    scheme_of,
    target_of,
    tdm_url,
)

__all__ = [
    "BUNDLED_LIST",
    "CANONICAL_VERSION",
    "TDM_PATH",
    "Canonicalizer",
    "InvalidUrl",
    "Sites",
    "find_session",
    "hash8",
    "hash8_all",
    "host_of",
    "hosts_of",
    "is_address",
    "is_own_path",
    "join_url",
    "may_have_session",
    "name_of",
    "origin_of",
    "partition_of",
    "resolve",
    "reversed_host",
    "robots_url",
    "scheme_of",
    "surt",
    "target_of",
    "tdm_url",
]
