"""Why seeds could not be fetched, one line each, with what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from lycosa.cli.crawl_seeds import shortened
from lycosa.inspect.reader import CrawlReader, UrlEntry, read_folder
from lycosa.model.completed import UrlState
from lycosa.model.discovered import LinkKind
from lycosa.reasons import Reason

_MOST = 10
_LOOK = 1000
_ADVICE: Mapping[Reason, str] = {
    Reason.DNS_NO_SUCH_NAME: "check the spelling, or give its address with --resolve NAME=ADDRESS",
    Reason.DNS_FAILED: "check the network and its name servers",
    Reason.DNS_TIMEOUT: "check the network and its name servers",
    Reason.ADDRESS_FORBIDDEN: "if that is intended, allow the address with --allow-address",
    Reason.CONNECT_REFUSED: "no server listens there: check the port",
    Reason.CONNECT_TIMEOUT: "check the address and the network",
    Reason.NETWORK_UNREACHABLE: "check the network",
    Reason.TLS_FAILED: (
        "check the certificate; --set fetch.ca_file=FILE trusts your own authority"
    ),
    Reason.ROBOTS_DISALLOWED: "only the owner of the site can change that",
    Reason.ROBOTS_UNREACHABLE: "try again later",
}


_FINE = frozenset({UrlState.FETCHED, UrlState.REDIRECTED})


def failure_lines(folder: Path) -> list[str]:
    """Seeds, and URLs that they redirected to, that an ended crawl did not fetch.

    Only the first URLs are searched; for a large crawl there is ``lycosa status``. Raises what
    ``FolderView`` raises.
    """
    reader = read_folder(folder)
    lines = []
    for entry in islice(reader.urls(), _LOOK):
        if (
            entry.record.kind in (LinkKind.SEED, LinkKind.REDIRECT)
            and entry.record.state not in _FINE
        ):
            lines.append(_line(reader, entry))
            if len(lines) == _MOST:
                break
    return lines


def _line(reader: CrawlReader, entry: UrlEntry) -> str:
    with reader.partition_view(entry.partition) as view:
        host = view.host_record(entry.host8)
    reason, detail = entry.record.reason, entry.record.detail
    if reason is Reason.NONE and host is not None:
        reason = host.last_error if host.last_error is not Reason.NONE else host.reason
        detail = host.detail
    what = (
        detail
        if reason.meaning in detail
        else f"{reason.meaning} ({detail})"
        if detail
        else reason.meaning
    )
    advice = _ADVICE.get(
        reason,
        f"`lycosa explain {shlex.quote(str(reader.name))} {shlex.quote(entry.url)}` shows details",
    )
    return f"lycosa: {shortened(entry.url)}: {what}; {advice}"
