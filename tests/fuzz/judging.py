"""What a target is, and how one input is judged.

A target is a module of ``fuzz.targets`` with

* ``check(data)``: gives any bytes to a parser and asserts what must hold of the answer. Whatever it
  raises is a find;
* ``samples()``: inputs to begin with, the tests' own and, where they are beside the checkout, some
  of the published vectors;
* ``WORDS``: what a mutation may put in whole, because nobody finds ``Crawl-delay`` by changing
  single bytes;
* where a check keeps something open, ``close()``.

A check is pure but for files in a folder of its own, so that an input gives the same answer each
time.
"""

from __future__ import annotations

import atexit
import base64
import gzip
import importlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MAX_BYTES = 65_536
"""The longest input."""

CPU_S = 1.0
"""What an input of that length may cost, in seconds of processor time."""

TARGETS = {
    "robots": "robots.txt: rules, verdicts against a second matcher, bounds",
    "urls": "canonical form, its parts, spellings that must meet, SURT",
    "html": "a page: charset, tree, links, directives, text, fingerprint",
    "requisites": "style sheets, modules, manifests, drawings, and what else pages load",
    "values": (
        "header values and attributes: media type, Link, refresh, srcset, directives, dates,"
        " Retry-After"
    ),
    "preferences": "statements about use: header values, metas, robots.txt, tdmrep.json",
    "sitemaps": "sitemaps and feeds, XML and text",
    "bodies": "header lines as they come, content encodings and their bounds",
    "answers": "what a server says on a connection, through libcurl into a record",
    "warc": "WARC records of raw header blocks and bodies, read back by three readers",
    "archives": "WARC files of other programs, whole, and the captures in them",
    "records": "rows of the table, frames and messages between processes",
    "logs": "commit log, attempt log and row journal as damaged files",
    "files": "small files of a crawl folder and single records of WARC files, damaged",
    "config": "settings in a file, in the environment and on the command line",
}


class TooSlow(Exception):
    """An input cost more than ``CPU_S``."""


class Target(NamedTuple):
    """A target's parts."""

    check: Callable[[bytes], None]
    samples: Callable[[], Iterator[bytes]]
    words: tuple[str, ...]
    close: Callable[[], None]


def load(name: str) -> Target:
    """The target of a name in ``TARGETS``. What it tests is imported only now, so that the
    caller can see to how.
    """
    module = importlib.import_module(f"fuzz.targets.{name}")
    return Target(
        module.check, module.samples, module.WORDS, getattr(module, "close", lambda: None)
    )


def judge(
    check: Callable[[bytes], object], data: bytes, clock: Callable[[], float] = time.process_time
) -> None:
    """One input. Raises what the target raises, and ``TooSlow``. ``clock`` counts seconds of
    processor time.
    """
    began = clock()
    check(data)
    spent = clock() - began
    if spent > CPU_S:
        raise TooSlow(
            f"{len(data)} bytes cost {spent:.2f} s of processor time, {CPU_S} are allowed"
        )


def memory_folder() -> str | None:
    """Where temporary files are best: in memory, where a sync costs nothing; ``None`` is the
    system's choice, or that of ``TMPDIR``.
    """
    return "/dev/shm" if "TMPDIR" not in os.environ and Path("/dev/shm").is_dir() else None


def scratch() -> Path:
    """A folder of this process's own, which goes when it ends."""
    folder = tempfile.mkdtemp(prefix="lycosa-fuzz-", dir=memory_folder())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def shared(pattern: str) -> Iterator[Path]:
    """Files of the published vectors, in order; none where they are not beside the checkout."""
    yield from sorted((Path(__file__).parents[2].parent / "shared" / "data").glob(pattern))


def vectors(pattern: str, *keys: str, most: int = 120) -> Iterator[bytes]:
    """Different values of the fields ``keys`` (or ``KEY_b64``) in the published vectors, at most
    ``most``, none too long.
    """
    found: set[bytes] = set()
    for path in shared(pattern):
        text = (
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        ).decode("utf-8")
        cases = (
            json.loads(text)
            if ".jsonl" not in path.name
            else [json.loads(line) for line in text.splitlines()]
        )
        found.update(
            value
            for case in cases
            if isinstance(case, dict)
            for key in keys
            if (value := _field(case, key))
        )
    few = sorted(value for value in found if len(value) <= MAX_BYTES)
    yield from few[:: max(1, len(few) // most)]


def _field(case: dict[str, Any], key: str) -> bytes:
    if isinstance(packed := case.get(f"{key}_b64"), str):
        return base64.b64decode(packed)
    value = case.get(key)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b""
