"""How many distinct other sites link to a site, or to a host.

Hosts are cheap to create; links from many sites are not (IRLbot's STAR budget).

**Record.** Up to 64 sites are stored as hashes of eight bytes each, so the count is exact. Beyond
that the record becomes 512 HyperLogLog registers of one byte each, and the count is an estimate
with a standard error of 1.04 / sqrt(512) = 4.6 %; the size is then fixed. A host's own record is
smaller, because it is written with each of its pages (``HOST_SIZE``): 8 hashes, then 64 registers
and 13 %.

The estimator is Ertl's (2017, "New cardinality estimation algorithms for HyperLogLog sketches",
algorithm 6). It has no thresholds and never decreases when a register increases, so a budget never
shrinks again.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import NamedTuple

EXACT = 64
_SKETCH = b"\x01"  # precedes the registers, so that the length is not a multiple of eight
_ALPHA = 0.5 / log(2)


class RecordSize(NamedTuple):
    """The number of sites up to which a record is exact, and that of its registers beyond (a power
    of two)."""

    exact: int
    registers: int


SITE_SIZE = RecordSize(EXACT, 512)
HOST_SIZE = RecordSize(8, 64)


def with_site(record: bytes, site8: bytes, size: RecordSize = SITE_SIZE) -> bytes:
    """The record after one more site; the same object when that changes nothing.

    ``site8`` is the first eight bytes of the SHA-256 of the site's name. The first record of a site
    is empty.
    """
    if not is_exact(record):
        return _raised(record, site8)
    known = sites_of(record)
    if site8 in known:
        return record
    if len(known) < size.exact:
        return record + site8
    sketch = _SKETCH + bytes(size.registers)
    for each in (*known, site8):
        sketch = _raised(sketch, each)
    return sketch


def linking_sites(record: bytes) -> int:
    """The number of sites added: exact while they are stored, an estimate beyond."""
    if len(record) % 8 == 0:
        return len(record) // 8
    size = HOST_SIZE if len(record) == 1 + HOST_SIZE.registers else SITE_SIZE
    return max(round(_estimate(record[1:])), size.exact + 1)


def is_exact(record: bytes) -> bool:
    """Whether the count is exact and not an estimate."""
    return len(record) % 8 == 0


def sites_of(record: bytes) -> list[bytes]:
    """The hashes in an exact record."""
    return [record[start : start + 8] for start in range(0, len(record), 8)]


def _raised(sketch: bytes, site8: bytes) -> bytes:
    number = int.from_bytes(site8, "big")
    rest = 65 - (len(sketch) - 1).bit_length()  # bits of the hash behind those of the register
    register = 1 + (number >> rest)
    run = rest + 1 - (number & ((1 << rest) - 1)).bit_length()
    if sketch[register] >= run:
        return sketch
    return sketch[:register] + bytes([run]) + sketch[register + 1 :]


def _estimate(registers: bytes) -> float:
    number = len(registers)
    longest = 66 - number.bit_length()
    z = number * _tau(1 - registers.count(longest) / number)
    for run in range(longest - 1, 0, -1):
        z = 0.5 * (z + registers.count(run))
    z += number * _sigma(registers.count(0) / number)
    return _ALPHA * number * number / z


def _sigma(x: float) -> float:
    if x == 1.0:
        return inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z += x * y
        y += y
    return z


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x, before = sqrt(x), z
        y *= 0.5
        z -= (1.0 - x) ** 2 * y
    return z / 3.0
