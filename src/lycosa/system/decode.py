"""Undoes content encodings without trusting them: output, memory and time are bounded inside the
loop.

A body comes from a stranger. It may be a bomb, cut, labelled wrongly or encoded several times, and
a page that a browser shows should not be lost for it. So what could be decoded is kept together
with the reason why there is no more, a body that never was encoded passes as it is, and no decoder
is asked for more than the bytes that are still wanted.

Pure, and without the HTTP library, because the parse child and the robots.txt reader use it too.
The fast gzip decoder throws away the output of a call that fails; therefore a broken stream is read
a second time, in ever smaller pieces, by zlib.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, cast

import brotli
from isal import isal_zlib
from isal.igzip_lib import IsalError

from lycosa.reasons import Reason

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_LAYERS = 4  # encodings stacked on one body; more is an attack or a mistake
# the ratio counts beyond the first megabyte: small pages compress very well
RATIO_FREE_BYTES = 1 << 20
MAX_MEMBERS = (
    4096  # gzip members or zstd frames of one body; block-wise compressed files have some hundred
)
_STEP = 65_536
_SMALL_STEP = 64  # for decoders that lose the output of a call that fails
_CUT = "ends before the end of the stream"
_ZSTD_WINDOW_LOG = 23  # 8 MB: RFC 9659, the most that a content encoding may ask for
_FastError = cast("type[Exception]", IsalError)  # its stub calls it an instance
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Values seen in the wild that name no encoding: people put charsets and MIME transfer encodings
# here.
_NO_ENCODING = frozenset(
    {
        "",
        "identity",
        "none",
        "null",
        "utf-8",
        "utf8",
        "iso-8859-1",
        "binary",
        "7bit",
        "8bit",
        "text/html",
        "chunked",
    }
)


class Decoded(NamedTuple):
    """``body`` is what could be decoded; ``reason`` is ``NONE``, ``DECODE_FAILED`` or
    ``DECODE_LIMIT``; ``detail`` says more.
    """

    body: bytes
    reason: Reason = Reason.NONE
    detail: str = ""


class _BrokenError(Exception):
    """A stream that cannot be decoded further; what came before is kept."""


def decode(body: bytes, encodings: Sequence[str] | str, max_bytes: int, max_ratio: int) -> Decoded:
    """Undoes ``encodings`` (a Content-Encoding value or several, in the order they were applied:
    RFC 9110 section 8.4).

    Gives at most ``max_bytes``, and beyond the first megabyte at most ``max_ratio`` bytes for each
    byte of ``body``.
    """
    names = _names(encodings)
    if not names:
        return Decoded(body)
    if len(names) > MAX_LAYERS:
        return Decoded(
            body,
            Reason.DECODE_FAILED,
            f"{len(names)} encodings stacked, at most {MAX_LAYERS} are undone",
        )
    limit = min(max_bytes, max(RATIO_FREE_BYTES, len(body) * max_ratio))
    outcome = Decoded(body)
    for name in reversed(names):
        layer = _undo(name, outcome.body, limit)
        if layer.reason is Reason.NONE:
            outcome = Decoded(layer.body, outcome.reason, outcome.detail or layer.detail)
        elif name not in _LAYERS:
            return layer
        else:  # what is left is still decoded by the layers below: a cut page has links too
            outcome = Decoded(
                layer.body, *(outcome[1:] if outcome.reason is not Reason.NONE else layer[1:])
            )
    return outcome


def _names(encodings: Sequence[str] | str) -> list[str]:
    values = [encodings] if isinstance(encodings, str) else encodings
    # Some servers quote a name or give it a parameter, which no encoding has.
    names = (
        name.partition(";")[0].strip(' \t"').lower().removeprefix("x-")
        for value in values
        for name in value.split(",")
    )
    return [name for name in names if name not in _NO_ENCODING]


def _undo(name: str, body: bytes, limit: int) -> Decoded:
    layer = _LAYERS.get(name)
    if layer is None:  # a browser shows what is text all the same
        reason = Reason.NONE if _looks_like_text(body) else Reason.DECODE_FAILED
        return Decoded(body, reason, f"unknown content encoding {name[:40]!r}")
    if not body:
        return Decoded(body)
    is_encoded, fast, careful = layer
    if not is_encoded(body):
        reason = Reason.NONE if _looks_like_text(body) else Reason.DECODE_FAILED
        return Decoded(body, reason, f"labelled {name}, but is not")
    decoded = _gather(fast(body, limit), limit)
    if decoded.reason is Reason.DECODE_FAILED:
        decoded = _gather(careful(body, limit), limit)
    if decoded.reason is Reason.DECODE_FAILED and not decoded.body and _looks_like_text(body):
        return Decoded(body, Reason.NONE, f"labelled {name}, but is not")
    return decoded


def _gather(pieces: Iterator[bytes], limit: int) -> Decoded:
    """Joins ``pieces`` up to ``limit`` bytes; one more byte than that shows that there is more."""
    kept: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            kept.append(piece)
            size += len(piece)
            if size > limit:
                return Decoded(
                    b"".join(kept)[:limit],
                    Reason.DECODE_LIMIT,
                    f"more than {limit} bytes when decoded",
                )
    except _BrokenError as error:
        return Decoded(b"".join(kept), Reason.DECODE_FAILED, str(error))
    return Decoded(kept[0] if len(kept) == 1 else b"".join(kept))


def _looks_like_text(body: bytes) -> bool:
    head = body[:512]
    # 27 begins the shifts of ISO-2022-JP
    if any(byte < 9 or (13 < byte < 32 and byte != 27) for byte in head):
        return False
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"<", b"{", b"["):
        return True
    return not any(byte > 126 for byte in head)


def _deflate_bits(body: bytes) -> int:
    """15 for a zlib header (RFC 1950 section 2.2), -15 for the raw deflate that some servers
    send (RFC 9110 section 8.4.1.2).
    """
    return (
        15
        if len(body) > 1
        and body[0] & 0x0F == 8
        and body[0] >> 4 <= 7
        and (body[0] << 8 | body[1]) % 31 == 0
        else -15
    )


def _gzip_fast(body: bytes, limit: int) -> Iterator[bytes]:
    return _inflate_fast(body, 31, limit)


def _deflate_fast(body: bytes, limit: int) -> Iterator[bytes]:
    return _inflate_fast(body, _deflate_bits(body), limit)


def _inflate_fast(body: bytes, bits: int, limit: int) -> Iterator[bytes]:
    """One whole member in one call, which is nearly every body; whatever else gives up, and the
    careful way takes over.
    """
    inflater = isal_zlib.decompressobj(bits)
    try:
        piece = inflater.decompress(body, limit + 1)
    except _FastError as error:
        raise _BrokenError(str(error)) from None
    if not inflater.eof and len(piece) <= limit:
        raise _BrokenError(_CUT)
    if bits == 31 and inflater.unused_data[:2] == _GZIP_MAGIC:
        raise _BrokenError("several members")
    yield piece  # padding and rubbish behind the last member are ignored, as gzip and browsers do


def _gzip_careful(body: bytes, limit: int) -> Iterator[bytes]:
    position = 0
    for _ in range(MAX_MEMBERS):
        position = yield from _inflate_careful(body, position, 31, limit)
        if body[position : position + 2] != _GZIP_MAGIC:
            return
    raise _BrokenError(f"more than {MAX_MEMBERS} members")


def _deflate_careful(body: bytes, limit: int) -> Iterator[bytes]:
    bits = _deflate_bits(body)
    try:
        zlib.decompressobj(bits).decompress(body[:_STEP], 1)
    except zlib.error:
        bits = -bits  # two bytes may look like a zlib header by chance
    yield from _inflate_careful(body, 0, bits, limit)


def _inflate_careful(
    body: bytes, position: int, bits: int, limit: int
) -> Generator[bytes, None, int]:
    """One stream from ``position``; returns where it ends. Loses at most what the byte with the
    error would have given.

    Reads in steps, because a decompressor copies all that follows its stream: a body of empty
    members would cost n squared.
    """
    inflater = zlib.decompressobj(bits)
    for start in range(position, len(body), _STEP):
        step = body[start : start + _STEP]
        before = inflater.copy()
        try:
            yield inflater.decompress(step, limit + 1)
        except zlib.error as error:
            yield from _inflate_bytewise(before, step, limit)
            raise _BrokenError(str(error)) from None
        if inflater.eof:
            return start + len(step) - len(inflater.unused_data)
    raise _BrokenError(_CUT)


def _inflate_bytewise(inflater: zlib._Decompress, step: bytes, limit: int) -> Iterator[bytes]:
    try:
        for position in range(len(step)):
            yield inflater.decompress(step[position : position + 1], limit + 1)
    except zlib.error:
        return  # the caller tells


def _brotli(body: bytes, limit: int, step: int = _STEP) -> Iterator[bytes]:
    decompressor = brotli.Decompressor()
    try:
        for start in range(0, len(body), step):
            piece = decompressor.process(body[start : start + step], output_buffer_limit=_STEP)
            yield piece
            while not decompressor.is_finished() and (
                piece or not decompressor.can_accept_more_data()
            ):
                piece = decompressor.process(b"", output_buffer_limit=_STEP)
                yield piece
            if decompressor.is_finished():
                return
    except brotli.error as error:
        raise _BrokenError(str(error)) from None
    raise _BrokenError(_CUT)


def _brotli_careful(body: bytes, limit: int) -> Iterator[bytes]:
    return _brotli(body, limit, _SMALL_STEP)


def _zstd_decompressor() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(
        options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    )


def _zstd_fast(body: bytes, limit: int) -> Iterator[bytes]:
    decompressor = _zstd_decompressor()
    try:
        piece = decompressor.decompress(body, limit + 1)
    except zstd.ZstdError as error:
        raise _BrokenError(str(error)) from None
    if not decompressor.eof and len(piece) <= limit:
        raise _BrokenError(_CUT)
    if decompressor.unused_data:
        raise _BrokenError("several frames")
    yield piece


def _zstd_careful(body: bytes, limit: int) -> Iterator[bytes]:
    position = 0
    for _ in range(MAX_MEMBERS):
        position = yield from _zstd_frame(body, position, limit)
        if position >= len(body):
            return
    raise _BrokenError(f"more than {MAX_MEMBERS} frames")


def _zstd_frame(body: bytes, position: int, limit: int) -> Generator[bytes, None, int]:
    """One frame from ``position``; returns where it ends."""
    decompressor = _zstd_decompressor()
    for start in range(position, len(body), _SMALL_STEP):
        step = body[start : start + _SMALL_STEP]
        try:
            yield decompressor.decompress(step, limit + 1)
        except zstd.ZstdError as error:
            raise _BrokenError(str(error)) from None
        if decompressor.eof:
            return start + len(step) - len(decompressor.unused_data)
    raise _BrokenError(_CUT)


def _has_gzip_magic(body: bytes) -> bool:
    return body[:2] == _GZIP_MAGIC


def _has_zstd_magic(body: bytes) -> bool:
    # or a skippable frame
    return body[:4] == _ZSTD_MAGIC or (body[1:4] == b"\x2a\x4d\x18" and body[0] & 0xF0 == 0x50)


def _maybe(body: bytes) -> bool:
    return True


_Pieces = Callable[[bytes, int], Iterator[bytes]]
# Name to: does the body look like it, the quick way, and the way that saves most of a broken
# stream.
_LAYERS: dict[str, tuple[Callable[[bytes], bool], _Pieces, _Pieces]] = {
    "gzip": (_has_gzip_magic, _gzip_fast, _gzip_careful),
    "deflate": (_maybe, _deflate_fast, _deflate_careful),
    "br": (_maybe, _brotli, _brotli_careful),
    "zstd": (_has_zstd_magic, _zstd_fast, _zstd_careful),
}
