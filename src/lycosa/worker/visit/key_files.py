"""Notices of sites about their changed pages (IndexNow), and the files that prove their keys.

Anybody may send a notice, so it changes nothing before the key in it was found in a file of the
host (https://www.indexnow.org/documentation). The file is requested as an errand: in a turn of the
host, after its delay, if robots.txt allows it, and without following a redirect. One such request
is sent an hour and host at most, whatever keys are given, and none unless a URL of the notice is a
page of the crawl that is fetched again. A key speaks for what is below the folder of its file.

    notice -> a page that is known? -> key known? -> signals
                                       otherwise: row, errand -> key in the file? -> signals

What waits is in a row of the host (``i``), of bounded size, in the same commit as the errand, so a
crash loses neither. No URL becomes known by a notice.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from lycosa.base.calls import GivenVerdicts, SiteNotice
from lycosa.base.config.sections import IndexNowSection
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.model.parcel_items import MAX_URL_CHARS, Asker, Errand
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of, robots_url, target_of
from lycosa.stages.admit.sitemap_scope import folder_of
from lycosa.stages.frontier.errand_queue import KEY_ASKER, ROBOTS_ASKER, find_errand
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.table_records import encode_record, indexnow_key
from lycosa.worker.request_slots import Slot
from lycosa.worker.visit.host_robots import Robots, origin_capture
from lycosa.worker.visit.pacing import HostRest
from lycosa.worker.visit.robots_reader import whole_body
from lycosa.worker.visit.worker_stages import Stages

MOST_WAITING = 1000
"""URLs of a host whose signals wait for its key; further ones are dropped."""

_MOST_KEYS = 4
_MOST_BYTES = 10_000  # of a key file
_DAY_S = 86_400.0


class ProvedKey(msgspec.Struct, frozen=True, array_like=True):
    """A key that was found in the file ``url``; it is valid until a wall time."""

    key: str
    url: str
    until: float


class WaitingNotice(msgspec.Struct, frozen=True, array_like=True):
    """URLs (``url8``) that changed at ``at``, if their key is in the file ``url``.

    ``asked_robots``: robots.txt was requested for it.
    """

    key: str
    url: str
    urls: list[bytes]
    at: int
    asked_robots: bool = False


class KeyRow(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of the keys of one host. ``asked_at`` is the last request, in wall time."""

    proved: tuple[ProvedKey, ...] = ()
    asked_at: float = 0.0
    waiting: WaitingNotice | None = None


_decode = msgspec.msgpack.Decoder(KeyRow).decode


class KeyFiles:
    """One per worker."""

    def __init__(self, stages: Stages, robots: Robots, section: IndexNowSection) -> None:
        self._stages, self._robots, self._section = stages, robots, section
        self._frontier, self._clock = stages.frontier, stages.clock

    # -- notices

    async def take_notice(self, partition: Partition, notice: SiteNotice) -> GivenVerdicts:
        """Take in a notice for a host of the partition; the answer says nothing of it."""
        host = partition.visits.find_host(hash8(notice.host)) if self._section.accept else None
        if host is not None and host.name == notice.host and _is_key_url(notice):
            self._take(partition, host, notice)
        return GivenVerdicts([])

    def _take(self, partition: Partition, host: VisitState, notice: SiteNotice) -> None:
        urls = list(self._known(partition, host, notice))
        if not urls:
            return
        row, now = _row(partition, host), self._clock.wall()
        at = int(min(notice.at, now))
        if any(
            (each.key, each.url) == (notice.key, notice.key_url) and now < each.until
            for each in row.proved
        ):
            self._announce(partition, host, urls, at)
            return
        waiting = row.waiting
        if waiting is not None and (waiting.key, waiting.url) == (notice.key, notice.key_url):
            kept = list(dict.fromkeys([*waiting.urls, *urls]))[:MOST_WAITING]
            _put(partition, host, row, waiting=msgspec.structs.replace(waiting, urls=kept, at=at))
            if find_errand(host.record.errands, waiting.url) is not None:
                return
        # Also after a clock was set back.
        if 0 <= now - row.asked_at < self._section.key_pause_s:
            return
        if find_errand(host.record.errands, notice.key_url) is not None:
            return  # another host's robots.txt redirects there
        waiting = WaitingNotice(notice.key, notice.key_url, urls[:MOST_WAITING], at)
        _put(partition, host, row, waiting=waiting, asked_at=now)
        asker = Asker(partition.number, KEY_ASKER, notice.key_url.startswith("https:"), 0)
        host.record.errands = (*host.record.errands, Errand(notice.key_url, (asker,)))
        partition.visits.mark_changed(host)
        self._frontier.recall_host(host)

    def _known(self, partition: Partition, host: VisitState, notice: SiteNotice) -> Iterable[bytes]:
        """The hashes of pages of the notice that are fetched again, in the folder of its key."""
        folder = folder_of(notice.key_url)
        for given in notice.urls[:MOST_WAITING]:
            try:
                url = self._stages.intake.canonical(given)
            except InvalidUrl:
                continue  # what is no URL is no page of the crawl
            if host_of(url) != host.name or not target_of(url).startswith(folder):
                continue
            record = partition.find_record(host.host8, hash8(url))
            if record is not None and record.history is not None and record.due_at:
                yield hash8(url)

    def _announce(
        self, partition: Partition, host: VisitState, urls: Iterable[bytes], at: int
    ) -> None:
        now = self._clock.wall()
        for url8 in urls:
            partition.announce_change(host.host8 + url8, SignalSource.INDEXNOW, at, now)

    # -- the file, in a turn of its host

    async def next_step(self, host: VisitState, errand: Errand) -> Errand | None:
        """What to request now for a key errand: its file, or robots.txt before it.

        ``None`` when it may not be requested; then the notice is forgotten.
        """
        partition = self._frontier.partitions[host.partition]
        secure = errand.url.startswith("https:")
        state = await self._robots.ready_state(partition, host, secure, self._clock.time())
        row = _row(partition, host)
        waiting = row.waiting
        if waiting is None or waiting.url != errand.url:
            return None
        if state.is_needed and not waiting.asked_robots:
            asked = msgspec.structs.replace(waiting, asked_robots=True)
            _put(partition, host, row, waiting=asked)
            asker = Asker(partition.number, ROBOTS_ASKER, secure, 0)
            file = Errand(robots_url(host.name, secure), (asker,))
            others = [each for each in host.record.errands if each.url != file.url]
            host.record.errands = (file, *others)
            partition.visits.mark_changed(host)
            return file
        is_known = not state.is_needed and not state.wait_until
        if is_known and state.decide(target_of(errand.url)).allowed:
            return errand
        self.forget(partition, host)
        return None

    def forget(self, partition: Partition, host: VisitState) -> None:
        """Forget the notice that waits at a host."""
        _put(partition, host, _row(partition, host), waiting=None)

    async def fetch(self, host: VisitState, errand: Errand, slot: Slot, rest: HostRest) -> bool:
        """Request the file, store the response, and take in the notice if the key is in it.

        Returns false when the request was not sent; the errand then stays queued.
        """
        partition, sender = self._frontier.partitions[host.partition], self._stages.sender
        secure, time = errand.url.startswith("https:"), self._clock.time()
        state = await self._robots.ready_state(partition, host, secure, time)
        decision = state.decide(target_of(errand.url))
        request = sender.file_request(errand.url, slot.address, FetchKind.KEY_FILE, _MOST_BYTES)
        fetched = await sender.send_request(request, rest, slot)
        if fetched.reason is Reason.LEASE_EXPIRED:
            # The next owner of the shard sends the request; the errand is in its table.
            return False
        if fetched.status:
            # No await from here on, so that the response and what it means are in one commit.
            capture = msgspec.structs.replace(
                origin_capture(fetched, FetchKind.KEY_FILE),
                site=self._stages.intake.site_of(host.name),
                robots=decision,
            )
            self._stages.store.append_capture(capture)
            host.note_reached()
            self._settle(partition, host, errand, fetched)
        return True

    def _settle(
        self, partition: Partition, host: VisitState, errand: Errand, fetched: Fetched
    ) -> None:
        row, now = _row(partition, host), self._clock.wall()
        waiting = row.waiting
        if waiting is None or waiting.url != errand.url:
            return
        if not _has_key(fetched, waiting.key):
            self.forget(partition, host)
            return
        until = now + self._section.key_days * _DAY_S
        others = [each for each in row.proved if now < each.until and each.url != waiting.url]
        proved = (ProvedKey(waiting.key, waiting.url, until), *others)[:_MOST_KEYS]
        _put(partition, host, row, waiting=None, proved=proved)
        self._announce(partition, host, waiting.urls, waiting.at)


def _is_key_url(notice: SiteNotice) -> bool:
    url = notice.key_url
    if len(url) > MAX_URL_CHARS or host_of(url) != notice.host:
        return False
    return target_of(url) != "/robots.txt"


def _has_key(fetched: Fetched, key: str) -> bool:
    """Whether the file has the key as one of its lines."""
    if fetched.status != 200 or fetched.body_bytes > _MOST_BYTES:
        return False
    lines = whole_body(fetched).decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
    return key in map(str.strip, lines)


def _row(partition: Partition, host: VisitState) -> KeyRow:
    value = partition.table.get(indexnow_key(host.host8))
    return _decode(value) if value is not None else KeyRow()


def _put(partition: Partition, host: VisitState, row: KeyRow, **changes: object) -> None:
    after = msgspec.structs.replace(row, **changes)
    partition.table.put(indexnow_key(host.host8), encode_record(after))
