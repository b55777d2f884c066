"""Runs a command of this program within bounds of time and output.

A tool of an agent is a command in a separate process, so that a question that takes too long, or
too much memory, ends with it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress

_OUTPUT_BYTES = 200_000
_ERROR_BYTES = 4_000


class CommandFailed(RuntimeError):
    """The command failed or reached a bound; the message is for the caller."""


async def run_command(arguments: Sequence[str], within_s: float) -> str:
    """Run ``lycosa`` with these arguments; return its standard output.

    Raises ``CommandFailed``, with what the command said on standard error.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lycosa", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )

    async def output_read() -> bytes:
        output = await _read(process.stdout, _OUTPUT_BYTES)
        if len(output) > _OUTPUT_BYTES:
            _kill(process)  # it would wait until the rest is read
        return output

    try:
        async with asyncio.timeout(within_s):
            output, errors = await asyncio.gather(
                output_read(), _read(process.stderr, _ERROR_BYTES)
            )
            code = await process.wait()
    except TimeoutError:
        raise CommandFailed(
            f"no answer within {within_s:.0f} s; ask for less, for instance with a narrower WHERE"
        ) from None
    finally:
        if process.returncode is None:
            _kill(process)
            await process.wait()
    if len(output) > _OUTPUT_BYTES:
        raise CommandFailed(
            f"the answer has more than {_OUTPUT_BYTES:,} bytes; ask for less: fewer columns, LIMIT"
        )
    if code:
        raise CommandFailed(errors.decode("utf-8", "replace").strip() or f"exit code {code}")
    return output.decode("utf-8", "replace")


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        process.kill()


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes:
    """What a stream has, at most one byte more than ``most``."""
    assert stream is not None
    parts, length = list[bytes](), 0
    while length <= most and (part := await stream.read(min(65_536, most + 1 - length))):
        parts.append(part)
        length += len(part)
    return b"".join(parts)
