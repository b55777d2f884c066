"""How many distinct other sites link to a site.

Hosts are cheap to create; links from many sites are not (IRLbot's STAR budget).

**Record.** Up to 64 sites are stored as hashes of eight bytes each, so the count is exact. Beyond
that the record becomes 512 HyperLogLog registers of one byte each, and the count is an estimate
with a standard error of 1.04 / sqrt(512) = 4.6 %; the size is then fixed. The estimator is Ertl's
(2017, "New cardinality estimation algorithms for HyperLogLog sketches", algorithm 6). It has no
thresholds and never decreases when a register increases, so a budget never shrinks again.
"""

from __future__ import annotations

from math import inf, log, sqrt

EXACT = 64
_BITS = 9
_REGISTERS = 1 << _BITS
_LONGEST_RUN = 64 - _BITS + 1
_SKETCH = b"\x01"  # precedes the registers, so that the length is not a multiple of eight
_ALPHA = 0.5 / log(2)


def with_site(record: bytes, site8: bytes) -> bytes:
    """The record after one more site; the same object when that changes nothing.

    ``site8`` is the first eight bytes of the SHA-256 of the site's name. The first record of a site
    is empty.
    """
    if not is_exact(record):
        return _raised(record, site8)
    known = sites_of(record)
    if site8 in known:
        return record
    if len(known) < EXACT:
        return record + site8
    sketch = _SKETCH + bytes(_REGISTERS)
    for each in (*known, site8):
        sketch = _raised(sketch, each)
    return sketch


def linking_sites(record: bytes) -> int:
    """The number of sites added: exact up to 64, an estimate beyond."""
    if len(record) % 8 == 0:
        return len(record) // 8
    return max(round(_estimate(record[1:])), EXACT + 1)


def is_exact(record: bytes) -> bool:
    """Whether the count is exact and not an estimate."""
    return len(record) % 8 == 0


def sites_of(record: bytes) -> list[bytes]:
    """The hashes in an exact record."""
    return [record[start : start + 8] for start in range(0, len(record), 8)]


def _raised(sketch: bytes, site8: bytes) -> bytes:
    number = int.from_bytes(site8, "big")
    register = 1 + (number >> (64 - _BITS))
    run = _LONGEST_RUN - (number & ((1 << (64 - _BITS)) - 1)).bit_length()
    if sketch[register] >= run:
        return sketch
    return sketch[:register] + bytes([run]) + sketch[register + 1 :]


def _estimate(registers: bytes) -> float:
    z = _REGISTERS * _tau(1 - registers.count(_LONGEST_RUN) / _REGISTERS)
    for run in range(_LONGEST_RUN - 1, 0, -1):
        z = 0.5 * (z + registers.count(run))
    z += _REGISTERS * _sigma(registers.count(0) / _REGISTERS)
    return _ALPHA * _REGISTERS * _REGISTERS / z


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
