"""Reads what an outside fetcher returned, with bounds as for an answer of a server.

The result is a ``Fetched``, as after a request of ours, or a text that says what is wrong with it.
A WARC record is read strictly: one ``response`` record of WARC 1.0 or 1.1 about the leased URL,
with ``Content-Length``, as it is or as a gzip member.
"""

from __future__ import annotations

import re
import zlib
from http import HTTPStatus

import msgspec

from lycosa.base.calls import OutsideResult
from lycosa.base.model.fetched import Fetched, Limits
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.outside_leases import LeaseRow

_NOT_THEIRS = frozenset({Reason.CRASHED_WORKER, Reason.INTERNAL, Reason.LEASE_EXPIRED})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_STATUS = re.compile(rb"HTTP/(\d(?:\.\d)?) ([1-9]\d{2})(?: [^\r\n]*)?\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_DETAIL = 500  # characters
_GZIP = b"\x1f\x8b"
_WARC_BYTES = 65_536  # header lines of a WARC record


class UnreadableResult(ValueError):
    """What is wrong with a result, for the outside fetcher."""


def read_result(result: OutsideResult, row: LeaseRow, limits: Limits, wall: float) -> Fetched:
    """The answer that the result reports; ``wall`` is the time now.

    Raises ``UnreadableResult``.
    """
    given = [bool(result.error), bool(result.warc), bool(result.status)]
    if sum(given) != 1:
        raise UnreadableResult("give exactly one of: error, warc, status (with headers and body)")
    if result.error:
        fetched = Fetched(row.url, *_reason_of(result.error))
    elif result.warc:
        fetched = _from_record(result.warc, row.url, limits)
    else:
        fetched = _from_parts(result, row.url, limits)
    # The clock of the fetcher is not ours: a start cannot be in the future, nor long before.
    began = min(max(result.began or wall, wall - 86_400.0), wall)
    took = min(max(result.ended - began, 0.0), wall - began) if result.ended else 0.0
    return msgspec.structs.replace(
        fetched, address=row.address, started=began, duration_s=took, fetcher=row.holder
    )


def _reason_of(error: str) -> tuple[Reason, str]:
    """The reason with that name, or else a lost connection with the text as its detail."""
    name, _, detail = error.partition(":")
    reason = Reason.__members__.get(name.strip().upper())
    if reason is None or not reason.is_failure or reason in _NOT_THEIRS:
        return Reason.CONNECTION_LOST, error[:_DETAIL]
    return reason, detail.strip()[:_DETAIL]


def _from_parts(result: OutsideResult, url: str, limits: Limits) -> Fetched:
    if not 100 <= result.status <= 999:  # some servers answer with 999
        raise UnreadableResult(f"{result.status} is not a status of HTTP")
    try:
        phrase = HTTPStatus(result.status).phrase
    except ValueError:
        # A status without a registered name: the reason phrase may be empty (RFC 9112, section 4).
        phrase = ""
    lines = [f"HTTP/1.1 {result.status} {phrase}"]
    for name, value in result.headers:
        if not _TOKEN.fullmatch(name) or any(each in value for each in "\r\n\0"):
            raise UnreadableResult(f"{name[:80]!r} is not a header field")
        lines.append(f"{name}: {value}")
    try:
        block = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    except UnicodeEncodeError as error:
        raise UnreadableResult(f"a header value is not Latin-1: {error.reason}") from error
    answer = _answer(url, block, result.body, "http/1.1", limits)
    if result.body or not result.missing_bytes:
        return answer
    detail = f"the fetcher did not give the body, of {result.missing_bytes} bytes"
    return msgspec.structs.replace(
        answer, reason=Reason.BODY_TRUNCATED, detail=detail, truncated="unspecified"
    )


def _from_record(record: bytes, url: str, limits: Limits) -> Fetched:
    if record.startswith(_GZIP):
        record = _unpacked(record, limits)
    head, block = _split(record, "WARC record")
    lines = head.decode("utf-8", "replace").splitlines()
    if len(head) > _WARC_BYTES or not lines or lines[0] not in ("WARC/1.0", "WARC/1.1"):
        raise UnreadableResult("not a WARC record of version 1.0 or 1.1")
    fields = {
        name.strip().lower(): value.strip()
        for line in lines[1:]
        for name, _, value in (line.partition(":"),)
    }
    if fields.get("warc-type") != "response":
        raise UnreadableResult(f"a record of type {fields.get('warc-type', '')!r}: give a response")
    if fields.get("warc-target-uri", "").strip("<>") != url:
        raise UnreadableResult(f"the record is about another URL than {url}")
    length = fields.get("content-length", "")
    if not re.fullmatch(r"[0-9]{1,18}", length) or int(length) > len(block):
        raise UnreadableResult("Content-Length of the record is missing, or beyond its end")
    head, body = _split(block[: int(length)], "HTTP response")
    if re.search(rb"(?im)^transfer-encoding:[^\r\n]*chunked", head):
        body = _unchunked(body)
    return _answer(url, head + b"\r\n\r\n", body, "http/1.1", limits)


def _answer(url: str, block: bytes, body: bytes, protocol: str, limits: Limits) -> Fetched:
    line = _STATUS.match(block)
    if line is None:
        raise UnreadableResult("no status line of HTTP")
    if len(block) > limits.header_bytes or block.count(b"\n") > limits.header_count + 2:
        raise UnreadableResult("header lines beyond the limits of the crawl")
    is_cut = len(body) > limits.body_bytes
    return Fetched(
        url,
        Reason.BODY_TRUNCATED if is_cut else Reason.NONE,
        status=int(line[2]),
        header_block=block,
        body=body[: limits.body_bytes] if is_cut else body,
        body_bytes=min(len(body), limits.body_bytes),
        truncated="length" if is_cut else "",
        protocol=protocol,
    )


def _split(data: bytes, what: str) -> tuple[bytes, bytes]:
    end = _HEAD_END.search(data)
    if end is None:
        raise UnreadableResult(f"no end of the header lines of the {what}")
    return data[: end.start()], data[end.end() :]


def _unpacked(record: bytes, limits: Limits) -> bytes:
    most = _WARC_BYTES + limits.header_bytes + 2 * limits.body_bytes
    unpacker = zlib.decompressobj(31)
    try:
        data = unpacker.decompress(record, most)
    except zlib.error as error:
        raise UnreadableResult(f"not a gzip member: {error}") from error
    if unpacker.unconsumed_tail:
        raise UnreadableResult(f"the record has more than {most} bytes")
    return data


def _unchunked(body: bytes) -> bytes:
    """The content of a chunked body (RFC 9112 section 7.1)."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        size = body[at:end].partition(b";")[0].strip() if end >= 0 else b""
        if not re.fullmatch(rb"[0-9a-fA-F]{1,15}", size):
            raise UnreadableResult("the chunks of the body cannot be read")
        length, at = int(size, 16), end + 2
        if length == 0:
            return b"".join(parts)
        if at + length + 2 > len(body):
            raise UnreadableResult("the last chunk of the body is incomplete")
        parts.append(body[at : at + length])
        at += length + 2
