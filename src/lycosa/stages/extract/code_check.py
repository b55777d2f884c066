"""Describes user code at the start of a crawl, in a process like that which will run it.

Importing code runs it. So the program that supervises a crawl never does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lycosa.base.config.sections import CanonicalSection, ExtensionSection
from lycosa.base.model.item_schema import BadSchema
from lycosa.base.model.known_code import CodeError, KnownCode, split_name
from lycosa.base.system.frames import UNREADABLE, FrameError, FrameSocket
from lycosa.stages.extract.code_messages import ChildOrders, ChildReport
from lycosa.stages.extract.code_process import START_S, start_code_process


def described(
    codes: Sequence[KnownCode], section: ExtensionSection, path: Sequence[str] = ()
) -> tuple[KnownCode, ...]:
    """The codes with their parts and digests.

    ``path`` are folders in which modules are found. Raises ``CodeError`` for code that cannot be
    loaded or does not fit together, and ``OSError`` when no process can be started.
    """
    if not codes:
        return ()
    for each in codes:
        place, _ = split_name(each.name)
        if place.endswith(".py") and not Path(each.path or place).is_file():
            raise CodeError(f"{each.name}: there is no file {Path(each.path or place).resolve()}")
    report = _report(codes, section, path)
    if report.error:
        raise CodeError(report.error)
    _check_together(report.codes)
    return report.codes


def _report(
    codes: Sequence[KnownCode], section: ExtensionSection, path: Sequence[str]
) -> ChildReport:
    orders = ChildOrders(
        tuple(codes), CanonicalSection(), section.page_s, section.memory_bytes, 0, tuple(path)
    )
    names = ", ".join(each.name for each in codes)
    process, sock = start_code_process(section.environment)
    try:
        with sock:
            sock.settimeout(START_S)
            frames = FrameSocket(sock)
            frames.send(msgspec.msgpack.encode(orders))
            answer = frames.receive()
            if answer is not None:
                return msgspec.msgpack.decode(answer, type=ChildReport)
    except TimeoutError:
        return ChildReport(error=f"{names}: not loaded within {START_S:g} s")
    except (FrameError, ConnectionError, *UNREADABLE):
        pass  # said below
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    why = "its imports took too long" if process.returncode == -signal.SIGPROF else "it ended"
    return ChildReport(error=f"{names}: the process that loaded it gave no answer: {why}")


def _check_together(codes: Sequence[KnownCode]) -> None:
    """Raises ``CodeError`` when two extractors have one name."""
    known: dict[str, str] = {}
    for code in codes:
        try:
            names = [each.name for each in code.schemas]
        except BadSchema as error:
            raise CodeError(f"{code.name}: {error}") from None
        for name in names:
            if name in known:
                raise CodeError(
                    f"the extractor {name} of {code.name} has the name of one of {known[name]}; a"
                    " table has one extractor"
                )
            known[name] = code.name
