"""Blind mutation, for the short runs, which must be the same everywhere and each time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fuzz.judging import MAX_BYTES

_ODD = (
    b"\x00",
    b"\xff",
    b"\r",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"%",
    b"\\",
    b"\xc3",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
    b"9" * 30,
    b"-1",
)


def mutated(samples: Sequence[bytes], words: Sequence[bytes], chance: Random) -> bytes:
    """A sample with one to six changes."""
    data = bytearray(chance.choice(samples))
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(data))
        end = min(len(data), at + chance.choice((1, 1, 2, 4, 16, 200)))
        match chance.randrange(7):
            case 0:
                del data[at:end]
            case 1 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 2:
                data[at:at] = chance.choice(_ODD)
            case 3 if words:
                data[at:at] = chance.choice(words)
            case 4:
                data[at:at] = data[at:end] * chance.choice((1, 2, 50))
            case 5:
                other = chance.choice(samples)
                start = chance.randint(0, len(other))
                data[at:end] = other[start : start + chance.choice((1, 8, 64, 1000))]
            case _:
                data[at:end] = chance.randbytes(end - at)
    return bytes(data[:MAX_BYTES])
