"""Licences (RSL 1.0) that captures name: each is a URL of the crawl like any other.

A licence is named in robots.txt, in markup or in a header (``base.preferences``). If the settings
ask for licences, its URL is given to its owner, which knows it already after the first find. So it
is requested once in the whole crawl, in a turn of its host, if robots.txt allows it, and its answer
is a capture. A million hosts may name one victim, so each host has a maximum number of licences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.preferences.preference_model import Preferences, PreferenceSource
from lycosa.base.urls.identity import hash8, host_of, robots_url
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.worker.intake.sitemaps import put_counts, read_counts

MAX_HOST_LICENSES = 100
"""Maximum number of licences that are fetched from one host.

A publisher has a handful. A host of a collective may have one for each of its members.
"""
_BY_PAGE = frozenset({PreferenceSource.LICENSE_HEADER, PreferenceSource.LICENSE_MARKUP})


def found_license(url: str, lease: Lease) -> Discovered:
    """The find of a licence that a capture names.

    It has no importance, so the site that names it cannot make its host more important.
    """
    return Discovered(
        url, hash8(host_of(url)), hash8(url), LinkKind.LICENSE, lease.record.depth, lease.url
    )


def license_base(preferences: Preferences, lease: Lease) -> str:
    """The URL to which the address of a licence is relative: the file or page that names it.

    RSL asks for absolute addresses in robots.txt. Relative to its pages, one of another kind would
    be a different licence in each of their folders.
    """
    of_page = any(
        each.source in _BY_PAGE and each.text == preferences.license
        for each in preferences.statements
    )
    return lease.url if of_page else robots_url(lease.host.name, lease.record.secure)


def take_in_licenses(
    partition: Partition,
    group: Sequence[Discovered],
    discover: Callable[[Sequence[Discovered]], list[bool]],
) -> int:
    """Discover licences of one host up to its maximum; return how many were left out.

    ``discover`` returns which of its URLs are new. Only new ones count.
    """
    host8, left = group[0].host8, list(group)
    while left:
        counts = read_counts(partition, host8)
        room = MAX_HOST_LICENSES - counts.licenses
        if room <= 0:
            break
        part, left = left[:room], left[room:]
        if new := sum(discover(part)):
            put_counts(
                partition, host8, msgspec.structs.replace(counts, licenses=counts.licenses + new)
            )
    return len(left)
