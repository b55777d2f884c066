"""Checks that a crawl knows the host that an operator names."""

from __future__ import annotations

from itertools import islice

from lycosa.base.urls.identity import hash8
from lycosa.base.urls.near_hosts import HostUnknown, near_names
from lycosa.inspect.committed_state import CrawlReader

_MAX_COMPARED = 200_000  # names, some seconds


def check_known(reader: CrawlReader, host: str) -> None:
    """Raise ``HostUnknown`` when the crawl has no host with this canonical name."""
    number = reader.partition_of(f"http://{host}/")
    if number not in reader.here:
        return
    with reader.partition_view(number) as view:
        if view.host_record(hash8(host)) is not None:
            return
    names = (entry.record.host for entry in islice(reader.hosts(), _MAX_COMPARED))
    raise HostUnknown(host, near_names(host, names))
