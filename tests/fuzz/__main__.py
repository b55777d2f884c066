"""``python -m fuzz TARGET [--minutes 10]``: fuzzes one target, or all one after the other, and
prints what was shown.

Each target has a folder of its own, ``build/fuzz/TARGET``, with the inputs that reach different
branches (the next run begins with them) and those that broke a promise. A find ends the run of its
target.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import NamedTuple

from fuzz.judging import MAX_BYTES, TARGETS, judge, load, memory_folder
from fuzz.mutation import mutated
from fuzz.stretching import slow

FOLDER = Path(__file__).parents[2] / "build" / "fuzz"
# one input, on the clock; what it may cost in processor time is much less, but the machine may be
# busy
_HANG_S = 20
_MEMORY_MB = 2048


class Shown(NamedTuple):
    """What one run came to."""

    executions: int
    minutes: float
    finds: list[Path]

    def __str__(self) -> str:
        found = f"{len(self.finds)} finds" if self.finds else "no find"
        return f"{self.executions:,} inputs in {self.minutes:.1f} minutes, {found}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="script/fuzz",
        description="Gives parsers mutated inputs, and checks their results.",
        epilog="\n".join(f"  {name:12}{what}" for name, what in TARGETS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", choices=[*TARGETS, "all"], metavar="TARGET", help="one from the list below, or all"
    )
    parser.add_argument(
        "--minutes", type=float, default=10, metavar="N", help="running time of each target (10)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the run (0: from the clock)",
    )
    parser.add_argument(
        "--blind",
        action="store_true",
        help="without coverage: more but less suitable inputs; the default where atheris is missing",
    )
    parser.add_argument(
        "--stretch",
        type=int,
        default=0,
        metavar="BYTES",
        help="instead check the cost of the corpus at this size",
    )
    parser.add_argument("--input", type=Path, metavar="FILE", help="check only this input")
    asked = parser.parse_args()
    names = list(TARGETS) if asked.name == "all" else [asked.name]
    if asked.input is not None:
        for name in names:
            judge(load(name).check, asked.input.read_bytes())
        return 0
    is_blind = asked.blind or find_spec("atheris") is None
    seed = asked.seed or time.time_ns() % 2**31
    failures = 0
    for name in names:
        print(f"== {name}: {TARGETS[name]}{' (blind)' if is_blind else ''}", flush=True)
        if asked.stretch:
            shown = _stretched(name, asked.minutes, asked.stretch)
        else:
            shown = (_blind if is_blind else _guided)(name, asked.minutes, seed)
        print(f"== {name}: {shown}", flush=True)
        for path in shown.finds:
            print(f"   {path}: {path.read_bytes()[:300]!r}\n   script/fuzz {name} --input {path}")
        failures += bool(shown.finds)
    return 1 if failures else 0


def _guided(name: str, minutes: float, seed: int) -> Shown:
    """libFuzzer's run, from the samples and from what earlier runs kept."""
    corpus, finds = FOLDER / name / "corpus", FOLDER / name / "finds"
    corpus.mkdir(parents=True, exist_ok=True)
    finds.mkdir(exist_ok=True)
    target = load(name)
    for data in target.samples():
        (corpus / sha1(data).hexdigest()).write_bytes(data)
    dictionary = FOLDER / name / "words"
    dictionary.write_text("".join(f'"{_escaped(word.encode())}"\n' for word in target.words))
    before = set(finds.iterdir())
    options = [
        *(
            f"-max_total_time={round(minutes * 60)}",
            f"-seed={seed}",
            f"-max_len={MAX_BYTES}",
            f"-timeout={_HANG_S}",
        ),
        *(
            f"-rss_limit_mb={_MEMORY_MB}",
            f"-dict={dictionary}",
            f"-artifact_prefix={finds}/",
            "-print_final_stats=1",
            "-verbosity=0",
        ),
    ]
    began = time.monotonic()
    command = [sys.executable, "-m", "fuzz.guided", name, str(corpus), *options]
    with tempfile.TemporaryDirectory(
        dir=memory_folder()
    ) as folder:  # libFuzzer does not let a process clean up
        env = os.environ | {"TMPDIR": folder}
        ended = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=env,
        )
    new = sorted(set(finds.iterdir()) - before)
    if ended.returncode or new:
        print(ended.stdout[-10_000:])
    if ended.returncode and not new:
        raise SystemExit(f"the run ended with {ended.returncode} and left no input")
    counted = re.search(r"stat::number_of_executed_units:\s*(\d+)", ended.stdout)
    return Shown(int(counted[1]) if counted else 0, (time.monotonic() - began) / 60, new)


def _escaped(word: bytes) -> str:
    """A word as libFuzzer's dictionaries have it."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word
    )


def _stretched(name: str, minutes: float, size: int) -> Shown:
    """What the samples and the corpus cost when they are longer, in any order."""
    target = load(name)
    inputs = list(
        {
            *target.samples(),
            *(path.read_bytes() for path in sorted((FOLDER / name / "corpus").glob("*"))),
        }
    )
    Random(size).shuffle(inputs)
    began = time.monotonic()
    tried, found = slow(target.check, inputs, size, minutes)
    finds = []
    for spent, data in sorted(found, reverse=True)[:5]:
        path = FOLDER / name / "finds" / f"slow-{sha1(data).hexdigest()}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"{spent:.1f} s of processor time for {len(data)} bytes")
        finds.append(path)
    return Shown(tried, (time.monotonic() - began) / 60, finds)


def _blind(name: str, minutes: float, seed: int) -> Shown:
    """The loop of the short form, by the clock."""
    target = load(name)
    samples: Sequence[bytes] = sorted(set(target.samples()))
    words, chance = [word.encode() for word in target.words], Random(seed)
    began = time.monotonic()
    executions = 0
    while time.monotonic() - began < minutes * 60:
        data = mutated(samples, words, chance)
        executions += 1
        try:
            judge(target.check, data)
        except Exception as error:
            path = FOLDER / name / "finds" / f"blind-{sha1(data).hexdigest()}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            print(f"{type(error).__name__}: {error}")
            return Shown(executions, (time.monotonic() - began) / 60, [path])
    return Shown(executions, (time.monotonic() - began) / 60, [])


if __name__ == "__main__":
    sys.exit(main())
