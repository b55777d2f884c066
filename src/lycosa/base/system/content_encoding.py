"""Undoes content encodings of untrusted bodies with bounds on output, memory and time.

A body may be a compression bomb, truncated, labelled wrongly or encoded several times, and a page
that a browser would show must not be lost for it. So the decoded part is kept together with the
reason why it ends, a body that was never encoded passes unchanged, and each decoder is asked for no
more bytes than are still wanted.

The module is pure and does not import the HTTP library, because the parse child and the robots.txt
reader use it too. The fast gzip decoder discards the output of a call that fails. A broken stream
is therefore read a second time by zlib, in ever smaller pieces.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, cast

import brotli
from isal import isal_zlib
from isal.igzip_lib import IsalError

from lycosa.base.reasons import Reason

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_LAYERS = 4  # encodings stacked on one body; more is an attack or a mistake
# The ratio is limited only beyond the first megabyte, because small pages compress very well.
RATIO_FREE_BYTES = 1 << 20
# gzip members or zstd frames of one body; block-wise compressed files have a few hundred
MAX_MEMBERS = 4096
_STEP = 65_536
_SMALL_STEP = 64  # for decoders that lose the output of a call that fails
_CUT = "ends before the end of the stream"
_ZSTD_WINDOW_LOG = 23  # 8 MB: RFC 9659, the maximum for a content encoding
_FastError = cast("type[Exception]", IsalError)  # its stub calls it an instance
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Values seen in real headers that name no encoding: charsets and MIME transfer encodings.
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
    """``body`` is the part that could be decoded; ``detail`` explains the reason.

    ``reason`` is ``NONE``, ``DECODE_FAILED`` or ``DECODE_LIMIT``. ``more`` are further reasons with
    their details, of encodings that were undone later.
    """

    body: bytes
    reason: Reason = Reason.NONE
    detail: str = ""
    more: tuple[tuple[Reason, str], ...] = ()


class _BrokenError(Exception):
    """A stream that cannot be decoded further; the output before the error is kept."""


def decode_content(
    body: bytes, encodings: Sequence[str] | str, max_bytes: int, max_ratio: int
) -> Decoded:
    """Undo ``encodings``, with at most ``max_bytes`` of output.

    ``encodings`` is one Content-Encoding value or several, in the order in which they were applied
    (RFC 9110 section 8.4). Beyond the first megabyte the output is at most ``max_ratio`` bytes for
    each byte of ``body``.
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
    # Of the body as received, not of each layer: stacked layers would multiply the ratio.
    limit = min(max_bytes, max(RATIO_FREE_BYTES, len(body) * max_ratio))
    outcome = Decoded(body)
    for name in reversed(names):
        layer = _undo(name, outcome.body, limit)
        outcome = _together(outcome, layer)
        # Otherwise the remaining layers still decode the part: a truncated page has links too.
        if layer.reason is not Reason.NONE and name not in _LAYERS:
            break
    return outcome


def _together(before: Decoded, layer: Decoded) -> Decoded:
    """The body after one more layer, with the reasons of all."""
    if layer.reason is Reason.NONE:
        detail = before.detail or layer.detail
        return Decoded(layer.body, before.reason, detail, before.more)
    if before.reason is Reason.NONE:
        return layer
    more = (*before.more, (layer.reason, layer.detail))
    return Decoded(layer.body, before.reason, before.detail, more)


def _names(encodings: Sequence[str] | str) -> list[str]:
    values = [encodings] if isinstance(encodings, str) else encodings
    # Some servers quote a name or add a parameter, which no encoding has.
    names = (
        name.partition(";")[0].strip(' \t"').lower().removeprefix("x-")
        for value in values
        for name in value.split(",")
    )
    return [name for name in names if name not in _NO_ENCODING]


def _undo(name: str, body: bytes, limit: int) -> Decoded:
    layer = _LAYERS.get(name)
    if layer is None:  # a browser shows such a body as it is if it is text
        reason = Reason.NONE if _looks_like_text(body) else Reason.DECODE_FAILED
        return Decoded(body, reason, f"unknown content encoding {name[:40]!r}")
    if not body:
        return Decoded(body)
    is_encoded, fast, careful = layer
    if not is_encoded(body):
        reason = Reason.NONE if _looks_like_text(body) else Reason.DECODE_FAILED
        return Decoded(body, reason, f"labelled {name}, but not in that encoding")
    decoded = _gather(fast(body, limit), limit)
    # Rare: the fast decoder knows one form only. The careful one keeps what comes before a fault.
    if decoded.reason is Reason.DECODE_FAILED:
        decoded = _gather(careful(body, limit), limit)
    if decoded.reason is Reason.DECODE_FAILED and not decoded.body and _looks_like_text(body):
        return Decoded(body, Reason.NONE, f"labelled {name}, but not in that encoding")
    return decoded


def _gather(pieces: Iterator[bytes], limit: int) -> Decoded:
    """Join ``pieces`` up to ``limit`` bytes. One byte beyond it proves that there is more."""
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
    # 27 (escape) starts the shift sequences of ISO-2022-JP
    if any(byte < 9 or (13 < byte < 32 and byte != 27) for byte in head):
        return False
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"<", b"{", b"["):
        return True
    return not any(byte > 126 for byte in head)


def _deflate_bits(body: bytes) -> int:
    """The ``wbits`` for zlib: 15 for a zlib header (RFC 1950 section 2.2), otherwise -15.

    Some servers send raw deflate instead (RFC 9110 section 8.4.1.2).
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
    """Decode one whole member in one call, which is the form of nearly every body.

    Raises ``_BrokenError`` for every other form, which the careful decoder then handles.
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
    yield piece  # data after the last member is ignored, as gzip and browsers do


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
    """Decode one stream from ``position`` and return where it ends.

    Loses at most the output of the byte with the error. Reads in steps, because a decompressor
    copies all input after the end of its stream: a body of many empty members would cost the square
    of its length.
    """
    inflater = zlib.decompressobj(bits)
    for start in range(position, len(body), _STEP):
        step = body[start : start + _STEP]
        before = inflater.copy()
        try:
            yield inflater.decompress(step, limit + 1)
        except zlib.error as error:
            # zlib raises and drops what it had decoded of this step. Browsers show a broken page up
            # to the fault, so it is decoded again byte by byte.
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
        return  # the caller raises the error


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
    """Decode one frame from ``position`` and return where it ends."""
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
    # or the magic number of a skippable frame (RFC 8878 section 3.1.2)
    return body[:4] == _ZSTD_MAGIC or (body[1:4] == b"\x2a\x4d\x18" and body[0] & 0xF0 == 0x50)


def _maybe(body: bytes) -> bool:
    return True


_Pieces = Callable[[bytes, int], Iterator[bytes]]
# Encoding name to three functions: does the body look encoded, the fast decoder, and the careful
# decoder that saves most of a broken stream.
_LAYERS: dict[str, tuple[Callable[[bytes], bool], _Pieces, _Pieces]] = {
    "gzip": (_has_gzip_magic, _gzip_fast, _gzip_careful),
    "deflate": (_maybe, _deflate_fast, _deflate_careful),
    "br": (_maybe, _brotli, _brotli_careful),
    "zstd": (_has_zstd_magic, _zstd_fast, _zstd_careful),
}
