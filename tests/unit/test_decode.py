"""Content decoding: what is kept of good, broken, mislabelled and hostile bodies."""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from collections.abc import Callable

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costs import run_below
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import (
    MAX_MEMBERS,
    RATIO_FREE_BYTES,
    Decoded,
    decode_content,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX, RATIO = 10_000_000, 1000
PAGE = b"<!DOCTYPE html><title>x</title>" + b"".join(
    b"<p>%d %d</p>" % (n, n * n % 7919) for n in range(4000)
)


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("name", ENCODERS)
def test_each_encoding_is_undone(name: str) -> None:
    assert decode_content(ENCODERS[name](PAGE), name, MAX, RATIO) == Decoded(PAGE, Reason.NONE, "")


def test_deflate_without_a_zlib_header_is_undone() -> None:
    assert decode_content(raw_deflate(PAGE), "deflate", MAX, RATIO).body == PAGE


@pytest.mark.parametrize("value", ["", "identity", " Identity ", "none", "utf-8", [], [""]])
def test_a_body_that_is_not_encoded_passes(value: str | list[str]) -> None:
    assert decode_content(PAGE, value, MAX, RATIO) == Decoded(PAGE, Reason.NONE, "")


@pytest.mark.parametrize(
    "value", ["x-gzip", "GZIP", " gzip ", ["gzip"], "identity, gzip", ["", "gzip"]]
)
def test_names_are_read_as_servers_write_them(value: str | list[str]) -> None:
    assert decode_content(gzip.compress(PAGE), value, MAX, RATIO).body == PAGE


def test_stacked_encodings_are_undone_last_first() -> None:
    body = zstd.compress(brotli.compress(gzip.compress(PAGE)))
    assert decode_content(body, "gzip, br, zstd", MAX, RATIO).body == PAGE
    assert decode_content(body, ["gzip", "br, zstd"], MAX, RATIO).body == PAGE


def test_more_layers_than_allowed_are_left_alone() -> None:
    decoded = decode_content(PAGE, ["gzip"] * 5, MAX, RATIO)
    assert decoded.body == PAGE
    assert decoded.reason is Reason.DECODE_FAILED


def test_text_of_an_unknown_encoding_is_taken_as_it_is() -> None:
    assert decode_content(b"<p>x", "aws-chunked", MAX, RATIO)[:2] == (b"<p>x", Reason.NONE)
    assert "aws-chunked" in decode_content(b"<p>x", "aws-chunked", MAX, RATIO).detail


def test_an_unknown_encoding_leaves_the_body() -> None:
    decoded = decode_content(b"\x00\x01", "sdch", MAX, RATIO)
    assert decoded.body == b"\x00\x01"
    assert decoded.reason is Reason.DECODE_FAILED
    assert "sdch" in decoded.detail


@pytest.mark.parametrize("name", ENCODERS)
def test_a_plain_body_with_a_wrong_label_passes_as_it_is(name: str) -> None:
    decoded = decode_content(PAGE, name, MAX, RATIO)
    assert decoded.body == PAGE
    assert decoded.reason is Reason.NONE
    assert name in decoded.detail


@pytest.mark.parametrize("name", ENCODERS)
def test_an_empty_body_is_whole(name: str) -> None:
    assert decode_content(b"", name, MAX, RATIO) == Decoded(b"", Reason.NONE, "")


@pytest.mark.parametrize("name", ENCODERS)
def test_a_cut_body_keeps_what_decodes(name: str) -> None:
    encoded = ENCODERS[name](PAGE)
    decoded = decode_content(encoded[: len(encoded) * 3 // 4], name, MAX, RATIO)
    assert decoded.reason is Reason.DECODE_FAILED
    assert PAGE.startswith(decoded.body)
    # a zstd frame this small may be a single block
    assert len(decoded.body) > len(PAGE) // 4 or name == "zstd"


@pytest.mark.parametrize("name", ["gzip", "deflate"])  # the others have no checksum here
def test_a_corrupt_body_keeps_what_comes_before_the_damage(name: str) -> None:
    noise = random.Random(4).randbytes(300_000).hex().encode()
    encoded = bytearray(ENCODERS[name](noise))
    middle = len(encoded) // 2
    encoded[middle : middle + 2000] = bytes(2000)
    decoded = decode_content(bytes(encoded), name, MAX, RATIO)
    assert decoded.reason is Reason.DECODE_FAILED
    assert decoded.body[: len(noise) // 4] == noise[: len(noise) // 4]


def test_a_wrong_checksum_keeps_the_whole_body() -> None:
    encoded = bytearray(gzip.compress(PAGE))
    encoded[-6] ^= 0xFF
    decoded = decode_content(bytes(encoded), "gzip", MAX, RATIO)
    assert decoded.body == PAGE
    assert decoded.reason is Reason.DECODE_FAILED


def test_all_members_and_frames_are_read() -> None:
    halves = PAGE[:5000], PAGE[5000:]
    assert decode_content(b"".join(map(gzip.compress, halves)), "gzip", MAX, RATIO) == Decoded(
        PAGE,
        Reason.NONE,
        "",
    )
    assert decode_content(b"".join(map(zstd.compress, halves)), "zstd", MAX, RATIO) == Decoded(
        PAGE,
        Reason.NONE,
        "",
    )


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\n", b"<!-- served by x -->"])
def test_what_follows_the_last_gzip_member_is_ignored(tail: bytes) -> None:
    assert decode_content(gzip.compress(PAGE) + tail, "gzip", MAX, RATIO) == Decoded(
        PAGE, Reason.NONE, ""
    )


@pytest.mark.parametrize("name", ENCODERS)
def test_a_bomb_stops_at_the_limit(name: str) -> None:
    bomb = ENCODERS[name](b"boom" * 10_000_000)
    decoded = run_below(2000, lambda: decode_content(bomb, name, MAX, 1_000_000))
    assert decoded.reason is Reason.DECODE_LIMIT
    assert decoded.body == b"boom" * (MAX // 4)


def test_a_bomb_in_a_bomb_stops_at_the_limit() -> None:
    bomb = gzip.compress(gzip.compress(bytes(60_000_000)))
    decoded = decode_content(bomb, "gzip, gzip", MAX, RATIO)
    assert decoded.reason is Reason.DECODE_LIMIT
    assert len(decoded.body) <= MAX


def test_the_ratio_counts_beyond_the_first_megabyte() -> None:
    small = gzip.compress(bytes(RATIO_FREE_BYTES))
    assert decode_content(small, "gzip", MAX, 10).reason is Reason.NONE
    decoded = decode_content(gzip.compress(bytes(3_000_000)), "gzip", MAX, 10)
    assert decoded.reason is Reason.DECODE_LIMIT
    assert len(decoded.body) == RATIO_FREE_BYTES


@pytest.mark.parametrize(
    ("name", "piece"),
    [("gzip", gzip.compress(b"", mtime=0)), ("zstd", zstd.compress(b""))],
    ids=["gzip", "zstd"],
)
def test_endless_empty_members_cost_a_bounded_time(name: str, piece: bytes) -> None:
    body = piece * (3_000_000 // len(piece))
    decoded = run_below(3000, lambda: decode_content(body, name, MAX, RATIO))
    assert decoded.reason is Reason.DECODE_FAILED
    assert str(MAX_MEMBERS) in decoded.detail


def test_a_zstd_window_beyond_eight_megabytes_is_refused() -> None:
    options = {
        zstd.CompressionParameter.window_log: 26,
        zstd.CompressionParameter.content_size_flag: 0,
    }
    compressor = zstd.ZstdCompressor(options=options)
    body = compressor.compress(PAGE) + compressor.flush()
    decoded = decode_content(body, "zstd", MAX, RATIO)
    assert decoded.reason is Reason.DECODE_FAILED
    assert decoded.body == b""


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=2000), st.lists(st.sampled_from(sorted(ENCODERS)), max_size=3))
def test_decoding_undoes_encoding(body: bytes, names: list[str]) -> None:
    encoded = body
    for name in names:
        encoded = ENCODERS[name](encoded)
    if encoded or not names:
        assert decode_content(encoded, names, MAX, RATIO) == Decoded(body, Reason.NONE, "")


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=500), st.sampled_from(sorted(ENCODERS)), st.booleans())
def test_rubbish_is_never_an_exception(body: bytes, name: str, has_magic: bool) -> None:
    magic = (
        {"gzip": b"\x1f\x8b\x08", "zstd": b"\x28\xb5\x2f\xfd"}.get(name, b"") if has_magic else b""
    )
    decoded = decode_content(magic + body, name, 10_000, RATIO)
    assert len(decoded.body) <= 10_000


@pytest.mark.parametrize("name", ["gzip;q=1", '"gzip"', ' "x-gzip" ; a=b', "GZIP"])
def test_a_name_may_be_quoted_or_have_a_parameter(name: str) -> None:
    assert decode_content(gzip.compress(b"hello"), name, 1000, 1000)[:2] == (b"hello", Reason.NONE)


@pytest.mark.parametrize(
    "body", [b"\x8b\x02\x80hello\x03", b"[\x01\x02{", b"\x00" * 20, bytes(range(256))]
)
def test_what_is_neither_encoded_nor_a_text_is_an_error(body: bytes) -> None:
    """A body of another encoding than its label's, for instance; a text that was only labelled
    is read.
    """
    assert decode_content(body, "gzip", 1000, 1000)[:2] == (body, Reason.DECODE_FAILED)
    assert decode_content(b"<p>caf\xe9", "gzip", 1000, 1000)[:2] == (b"<p>caf\xe9", Reason.NONE)


def test_every_layer_that_fails_is_named() -> None:
    cut = gzip.compress(PAGE)[:-20]
    decoded = decode_content(gzip.compress(cut)[:-1], ["sdch, gzip, gzip"], MAX, RATIO)
    assert PAGE.startswith(decoded.body[:50]) and decoded.reason is Reason.DECODE_FAILED
    assert "ends before" in decoded.detail
    assert [reason for reason, _ in decoded.more] == [Reason.DECODE_FAILED]
