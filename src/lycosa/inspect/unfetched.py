"""Why URLs of a crawl that has ended were not fetched: by host, and for seeds one by one.

The summary of ``lycosa crawl`` and ``Report.reasons`` of the Python API have these lines.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.system.durations import long_duration
from lycosa.inspect.committed_state import CrawlReader, UrlEntry, read_folder
from lycosa.inspect.explain.facts import why_host
from lycosa.inspect.printable import shortened
from lycosa.inspect.wall_time import visit_in_wall_time
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.folder.folder_notes import saved_settings

_LONGEST_S = 5.0  # for looking through all hosts
_MAX_GROUPS, _MOST_HOSTS, _MAX_SEEDS = 6, 3, 10
_LOOK = 1000
_FINE = frozenset({UrlState.FETCHED, UrlState.REDIRECTED})
_AWAY = frozenset(
    {
        Reason.CONNECT_REFUSED,
        Reason.CONNECT_TIMEOUT,
        Reason.TLS_FAILED,
        Reason.NETWORK_UNREACHABLE,
        Reason.DNS_FAILED,
        Reason.DNS_TIMEOUT,
    }
)
LASTING = frozenset(
    {
        Reason.ROBOTS_DISALLOWED,
        Reason.DNS_NO_SUCH_NAME,
        Reason.ADDRESS_FORBIDDEN,
        Reason.HTTP_CLIENT_ERROR,
        Reason.PAYMENT_REQUIRED,
        Reason.MALFORMED_RESPONSE,
        Reason.HEADERS_TOO_LARGE,
        Reason.BAD_REDIRECT,
        Reason.TOO_MANY_REDIRECTS,
        Reason.RETIRED_BY_OPERATOR,
    }
)
"""Reasons that remain until an operator or a site owner changes something."""

_ADVICE: Mapping[Reason, str] = {
    Reason.DNS_NO_SUCH_NAME: "check the spelling, or give its address with --resolve NAME=ADDRESS",
    Reason.DNS_FAILED: "check the network and its name servers",
    Reason.DNS_TIMEOUT: "check the network and its name servers",
    Reason.CONNECT_REFUSED: "no server listens there: check the port",
    Reason.CONNECT_TIMEOUT: "check the address and the network",
    Reason.NETWORK_UNREACHABLE: "check the network",
    Reason.TLS_FAILED: (
        "check the certificate; --set fetch.ca_file=FILE trusts your own authority"
    ),
    Reason.ROBOTS_DISALLOWED: "only the owner of the site can change that",
    Reason.ROBOTS_UNREACHABLE: "try again later",
}
_PLAIN_HTTP = "wrong version number"
"""OpenSSL's words when the bytes of the other side are not TLS."""


class HeldHost(msgspec.Struct, frozen=True):
    """A host whose URLs were not fetched: their number, why, and when it is tried again.

    ``due`` is a wall time, 0 for a host that is not tried again by itself.
    """

    host: str
    urls: int
    why: str
    due: float = 0.0


class HeldGroup(msgspec.Struct):
    """The hosts that are in one state for one reason: those with most URLs, and the totals."""

    state: HostState
    reason: Reason
    hosts: int = 0
    urls: int = 0
    due: float = 0.0
    first: list[HeldHost] = []

    def add(self, host: HeldHost) -> None:
        """Count a host."""
        self.hosts += 1
        self.urls += host.urls
        self.due = min(self.due or host.due, host.due)
        self.first = sorted([*self.first, host], key=lambda each: -each.urls)[:_MOST_HOSTS]

    def line(self, crawl: str, now: float) -> str:
        """The group as text; ``crawl`` is its folder."""
        first, whole = self.first[0], _counted(self.urls, "URL")
        if self.hosts == 1:
            what = f"{whole} at {first.host}: {first.why}"
        else:
            named = ", ".join(f"{each.host} ({each.urls:,})" for each in self.first)
            rest = self.hosts - len(self.first)
            more = f" and {rest:,} more" if rest else ""
            meaning = f"{self.reason.meaning}: " if self.reason else ""
            what = f"{whole} at {self.hosts:,} hosts: {meaning}{named}{more}"
        resume = f"lycosa host resume {shlex.quote(crawl)} {shlex.quote(first.host)}"
        if self.state is HostState.PAUSED:
            return f"paused by an operator: {what}; to continue: {resume}"
        if self.state is HostState.RETIRED:
            may_help = self.reason not in (Reason.DNS_NO_SUCH_NAME, Reason.ADDRESS_FORBIDDEN)
            return f"retired: {what}" + (f"; to try again: {resume}" if may_help else "")
        if not self.due:
            return f"waiting: {what}"
        left = long_duration(max(self.due - now, 0.0))
        return f"waiting: {what}; the next try is due in {left}"


class Unfetched(msgspec.Struct, frozen=True):
    """The hosts whose URLs were not fetched, in groups, those with most URLs first.

    ``is_partial`` says that there were too many hosts to look through all of them.
    """

    groups: list[HeldGroup] = []
    is_partial: bool = False

    @property
    def has_lost(self) -> bool:
        """Whether URLs were retired although their hosts may answer again one day."""
        return any(
            group.state is HostState.RETIRED and group.reason in _AWAY for group in self.groups
        )

    @property
    def may_pass(self) -> bool:
        """Whether waiting may help any of them."""
        return any(group.reason not in LASTING for group in self.groups)

    def lines(self, crawl: str, now: float) -> list[str]:
        """One line for each group; ``crawl`` is its folder, ``now`` the wall time."""
        lines = [group.line(crawl, now) for group in self.groups[:_MAX_GROUPS]]
        if len(self.groups) > _MAX_GROUPS or self.is_partial:
            lines.append(
                f"and more hosts: lycosa status {shlex.quote(crawl)} --hosts 50 --order errors"
            )
        return lines


def unfetched_of(folder: Path, now: float) -> Unfetched:
    """Look through the hosts of a crawl that does not run, for a few seconds at most.

    Raises what ``FolderView`` raises.
    """
    reader, groups = read_folder(folder), dict[tuple[HostState, Reason], HeldGroup]()
    ahead_s, deadline, is_partial = reader.ahead_s(now), time.monotonic() + _LONGEST_S, False
    for number, entry in enumerate(reader.hosts()):
        if number % 1000 == 999 and time.monotonic() > deadline:
            is_partial = True
            break
        record = entry.record
        held = record.waiting + record.retrying
        key = _key_of(record) if held else None
        if key is None:
            continue
        due = 0.0
        if key[0] is HostState.SNOOZED:
            due = visit_in_wall_time(record, ahead_s).next_at
        group = groups.setdefault(key, HeldGroup(*key))
        group.add(HeldHost(record.host, held, _why(record, key[0]), due))
    found = sorted(groups.values(), key=lambda group: -group.urls)
    return Unfetched(found, is_partial)


def _key_of(record: VisitRecord) -> tuple[HostState, Reason] | None:
    """The group of a host with URLs; ``None`` when only its turn has not come."""
    state = record.shown_state
    if state is HostState.PAUSED:
        return state, Reason.NONE
    if state in (HostState.RETIRED, HostState.SNOOZED):
        return state, record.reason
    if record.retrying and not record.waiting:
        return HostState.EXHAUSTED, record.last_error
    return None


def _why(record: VisitRecord, state: HostState) -> str:
    if state is HostState.PAUSED and record.pause is not None:
        return record.pause.why or f"by {record.pause.by}"
    if state is HostState.EXHAUSTED:
        error = f" after {record.last_error.label}" if record.last_error else ""
        return f"a retry{error} is not due yet"
    if record.reason is Reason.ADDRESS_FORBIDDEN:
        return record.reason.meaning  # the line about the seed has the option that allows it
    return record.detail if record.reason.meaning in record.detail else why_host(record)


def failed_seeds(folder: Path) -> list[str]:
    """Seeds, and URLs that they redirected to, that an ended crawl did not fetch: a line for each.

    A line says why, and what to do about it. Only the first URLs are searched; for a large crawl
    there is ``lycosa status``. Raises what ``FolderView`` raises.
    """
    reader = read_folder(folder)
    return list(islice(_failures(reader, islice(reader.urls(), _LOOK)), _MAX_SEEDS))


def _failures(reader: CrawlReader, entries: Iterable[UrlEntry]) -> Iterator[str]:
    for entry in entries:
        is_seed = entry.record.kind in (LinkKind.SEED, LinkKind.REDIRECT)
        if is_seed and entry.record.state not in _FINE:
            yield _line(reader, entry)


def _line(reader: CrawlReader, entry: UrlEntry) -> str:
    with reader.partition_view(entry.partition) as view:
        host = view.host_record(entry.host8)
    reason, detail = entry.record.reason, entry.record.detail
    # A URL that was never requested has no reason itself: its host did not let it.
    if reason is Reason.NONE and host is not None:
        reason = host.last_error if host.last_error is not Reason.NONE else host.reason
        detail = host.detail
    url, folder = shortened(entry.url), str(reader.name)
    if reason is Reason.ADDRESS_FORBIDDEN and host is not None and host.address:
        allow = " ".join(f"--allow-address {each}" for each in (*_allowed(folder), host.address))
        return (
            f"{url}: the address {host.address} is private or special; if that is intended:"
            f" lycosa crawl --dir {shlex.quote(folder)} {allow}"
        )
    what = (
        detail
        if reason.meaning in detail
        else f"{reason.meaning} ({detail})"
        if detail
        else reason.meaning
    )
    explain = f"`lycosa explain {shlex.quote(folder)} {shlex.quote(entry.url)}` shows details"
    if _PLAIN_HTTP in what:
        advice = "the server there answers without TLS: give the URL with http://"
    else:
        advice = _ADVICE.get(reason, explain)
    return f"{url}: {what}; {advice}"


def _allowed(folder: str) -> tuple[str, ...]:
    """The ranges that the crawl allows already; an option replaces them."""
    saved = saved_settings(Path(folder))
    return saved.fetch.allow_addresses if saved is not None else ()


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
