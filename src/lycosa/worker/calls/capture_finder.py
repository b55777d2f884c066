"""Finds stored captures of a partition for pages that are rendered.

The record of a URL names its newest capture and the record with the body, so a capture is one
lookup and two reads on another thread: of the body, and of the facts behind it. What they show
besides the body is kept for the last ten thousand records: a script that every page of a site loads
is read once, as long as the renderer has its body, and a later round gets the capture that an
earlier round had, although the URL was fetched again meanwhile. The round names the record and its
place, for the case that the worker was started again: what is read there counts only if it is that
record.
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from lycosa.base.calls import (
    MOST_ANSWER_BYTES,
    MOST_CAPTURES,
    AskedCapture,
    FoundCapture,
    place_text,
    read_place,
)
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import Offload
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import decode_content
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.demands import WAITING
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState
from lycosa.state.store.segments_port import Segments
from lycosa.state.store.stored_bodies import reference_of
from lycosa.state.store.stored_data import RecordError, metadata_behind
from lycosa.state.store.warc import bracketed

_KEPT = 10_000  # records whose status and headers are kept, about 1 kB each
_MAX_RATIO = 1000  # of decoded to stored bytes
_SET_ASIDE = frozenset({HostState.PARKED, HostState.RETIRED})
_FIRST_OF_STATE = 40  # reasons below are those of pure rules, which may admit a want


class _Place(msgspec.Struct, frozen=True):
    """Where a capture is. Of a record that was read before, status and headers are known."""

    record: str
    segment: str
    offset: int
    digest: str
    is_other: bool = False
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    is_named: bool = False  # by the renderer, so that it has to be compared with what is there
    is_private: bool = False


class CaptureFinder:
    """One per worker. ``next_commit`` returns when what was done so far is on disk."""

    def __init__(
        self,
        segments: Segments,
        offload: Offload,
        next_commit: Callable[[], Awaitable[None]],
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> None:
        self._most_bytes = most_bytes
        self._segments, self._offload, self._next_commit = segments, offload, next_commit
        self._read_before: dict[str, _Place] = {}

    def __repr__(self) -> str:
        return f"<CaptureFinder kept={len(self._read_before)}>"

    async def find_captures(
        self, partition: Partition, asked: Sequence[AskedCapture]
    ) -> list[FoundCapture]:
        """What is stored of URLs of a partition, in their order, at most 200 of them.

        The bodies have at most ``most_bytes`` together; a capture beyond is cut.
        """
        asked = asked[:MOST_CAPTURES]
        places = [self._find(partition, each) for each in asked]
        found = await self._offload.run(lambda: self._read_all(asked, places))
        if None in found:
            # A capture of the open commit is not on disk yet; any other that fails is damaged.
            await self._next_commit()
            for number, place in enumerate(places):
                if isinstance(place, _Place) and place.is_named and found[number] is None:
                    places[number] = self._look_up(partition, asked[number].url)
            found = await self._offload.run(lambda: self._read_all(asked, places))
        self._keep(places, found)
        return [each or FoundCapture(reason=Reason.INTERNAL) for each in found]

    def _find(self, partition: Partition, asked: AskedCapture) -> _Place | FoundCapture:
        if (known := self._read_before.get(asked.record)) is not None:
            return known
        if asked.record and (named := read_place(asked.place)) is not None:
            return _Place(asked.record, *named, "", is_named=True)
        found = self._look_up(partition, asked.url)
        if isinstance(found, FoundCapture) and asked.also:
            other = self._look_up(partition, asked.also)
            if isinstance(other, _Place):
                return msgspec.structs.replace(other, is_other=True)
        return found

    def _look_up(self, partition: Partition, url: str) -> _Place | FoundCapture:
        """The newest capture of a URL, or why there is none."""
        host8, url8 = hash8(host_of(url)), hash8(url)
        record = partition.find_record(host8, url8)
        if record is None:
            cold = partition.cold.find(host8 + url8)
            is_over = cold is not None and cold.state in (UrlState.FAILED, UrlState.REFUSED)
            return _none(Reason(cold.reason) if cold is not None and is_over else Reason.NONE)
        history = record.history
        if history is not None and history.record_id:
            before = self._read_before.get(history.record_id)
            digest = "sha1:" + b32encode(history.digest).decode()
            return before or _Place(history.record_id, *history.body_place, digest)
        if record.state not in WAITING:
            return _none(record.reason)
        host = partition.visits.find_host(host8)
        is_set_aside = host is not None and host.record.state in _SET_ASIDE
        return _none(host.record.reason if host is not None and is_set_aside else Reason.NONE)

    def _read_all(
        self, asked: Sequence[AskedCapture], places: Sequence[_Place | FoundCapture]
    ) -> list[FoundCapture | None]:
        found: list[FoundCapture | None] = []
        room = self._most_bytes
        for each, place in zip(asked, places, strict=True):
            if isinstance(place, FoundCapture):
                found.append(place)
                continue
            capture = self._read(place, bool(each.digest) and each.digest == place.digest, room)
            room -= len(capture.body) if capture is not None else 0
            found.append(capture)
        return found

    def _read(self, place: _Place, has_body: bool, room: int) -> FoundCapture | None:
        """A capture with its body, without it, or cut; ``None`` if it cannot be read."""
        where = place_text(place.segment, place.offset)
        answer = FoundCapture(
            place.record,
            place.status,
            place.headers,
            place.digest,
            is_other=place.is_other,
            place=where,
            is_private=place.is_private,
        )
        if has_body and place.status:
            return answer
        if room <= 0:
            return msgspec.structs.replace(answer, is_cut=True)
        try:
            record = self._segments.read_record(place.segment, place.offset)
            about = metadata_behind(self._segments, place.segment, place.offset, record)
        except (RecordError, OSError):
            return None
        if place.is_named:
            if record.fields.get("WARC-Record-ID") != bracketed(place.record):
                return None
            digest = record.fields.get("WARC-Payload-Digest", "")
            answer = msgspec.structs.replace(answer, digest=digest)
        if reference_of(record) is not None:
            return _none(Reason.INTERNAL)  # a program before formats 2 stored no place of the body
        fetched = Fetched("", Reason.NONE, header_block=record.header_block)
        answer = msgspec.structs.replace(
            answer,
            status=_status_of(record.header_block),
            headers=tuple(fetched.headers()),
            is_private=about.get("privacy") == "private",
        )
        if has_body:
            return answer
        encodings = [value for name, value in answer.headers if name == "content-encoding"]
        decoded = decode_content(record.body, encodings, self._most_bytes + 1, _MAX_RATIO)
        if len(decoded.body) > self._most_bytes:
            return _none(Reason.DECODE_LIMIT)
        if len(decoded.body) > room:
            return msgspec.structs.replace(answer, is_cut=True)
        return msgspec.structs.replace(answer, body=decoded.body)

    def _keep(
        self, places: Sequence[_Place | FoundCapture], found: Sequence[FoundCapture | None]
    ) -> None:
        for place, capture in zip(places, found, strict=True):
            if isinstance(place, _Place) and capture is not None and capture.status:
                # At the end, so that what was not asked for lately is forgotten first.
                self._read_before.pop(place.record, None)
                self._read_before[place.record] = msgspec.structs.replace(
                    place,
                    is_other=False,
                    is_named=False,
                    digest=capture.digest,
                    status=capture.status,
                    headers=capture.headers,
                    is_private=capture.is_private,
                )
        while len(self._read_before) > _KEPT:
            del self._read_before[next(iter(self._read_before))]


def _none(reason: Reason) -> FoundCapture:
    return FoundCapture(reason=Reason.NONE if reason < _FIRST_OF_STATE else reason)


def _status_of(block: bytes) -> int:
    words = block.split(None, 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
