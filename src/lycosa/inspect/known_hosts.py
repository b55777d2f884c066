"""Checks that a crawl knows the host that an operator names."""

from __future__ import annotations

from itertools import islice

from lycosa.base.urls.identity import hash8
from lycosa.base.urls.near_hosts import HostUnknown, near_names
from lycosa.inspect.committed_state import CrawlReader, HostEntry

_MAX_COMPARED = 200_000  # names, some seconds


def check_known(reader: CrawlReader, host: str) -> None:
    """Raise ``HostUnknown`` when the crawl has no host with this canonical name."""
    if reader.partition_of(f"http://{host}/") in reader.here:
        known_host(reader, host)


def known_host(reader: CrawlReader, host: str) -> HostEntry:
    """The host with this canonical name, whose partition is here. Raises ``HostUnknown``."""
    number, host8 = reader.partition_of(f"http://{host}/"), hash8(host)
    with reader.partition_view(number) as view:
        record = view.host_record(host8)
        if record is not None:
            return HostEntry(number, host8, record)
    names = (entry.record.host for entry in islice(reader.hosts(), _MAX_COMPARED))
    raise HostUnknown(host, near_names(host, names))
