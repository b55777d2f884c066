"""Results of renders as they travel: MessagePack, compressed by Zstandard.

A result comes from a process that runs scripts of the web, so its size is bounded before and after
it is decompressed, and what cannot be read is a separate error.
"""

from __future__ import annotations

import sys

import msgspec

from lycosa.base.model.rendered_page import Rendered, RenderEnd

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_PACKED_BYTES = 24_000_000
"""Size of a packed result. Several calls share a message, which has at most 64 MB."""
MOST_PLAIN_BYTES = 100_000_000
"""Size of a result in memory."""
_LEVEL = 3
_UNREADABLE = (zstd.ZstdError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, EOFError)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Rendered).decode


class UnreadableRender(ValueError):
    """The bytes are no result, or too many; the text says why."""


def pack_rendered(rendered: Rendered) -> bytes:
    """The result as it travels. One that is too large loses its picture, or else its document.

    Then its end is ``TOO_LARGE``.
    """
    plain = _encode(rendered)
    packed = zstd.compress(plain, _LEVEL)
    if len(packed) <= MOST_PACKED_BYTES and len(plain) <= MOST_PLAIN_BYTES:
        return packed
    if rendered.screenshot:
        return pack_rendered(msgspec.structs.replace(rendered, screenshot=b""))
    detail = f"a result of {len(plain):,} bytes, {len(packed):,} compressed"
    end = Rendered(RenderEnd.TOO_LARGE, detail, rendered.url, browser=rendered.browser)
    return zstd.compress(_encode(end), _LEVEL)


def unpack_rendered(packed: bytes) -> Rendered:
    """The result. Raises ``UnreadableRender``."""
    if len(packed) > MOST_PACKED_BYTES:
        raise UnreadableRender(f"a result of {len(packed):,} bytes, compressed")
    try:
        reader = zstd.ZstdDecompressor()
        plain = reader.decompress(packed, MOST_PLAIN_BYTES)
        if not reader.eof:
            raise UnreadableRender(f"a result that is cut, or has more than {MOST_PLAIN_BYTES:,} B")
        return _decode(plain)
    except _UNREADABLE as error:
        raise UnreadableRender(f"not a result: {error}"[:500]) from error
