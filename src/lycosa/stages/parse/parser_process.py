"""The parse child: receives documents on a socket and answers each of them in order.

It has no state to lose, and a document that kills it does no other harm. So it reads blocking and
parses one document at a time. Its address space is limited before it receives the first document.
The processor time of a document is limited by a timer of the system, ``ITIMER_PROF``. Its signal
has the default action, so it ends this process even inside a C parser, and its number tells the
parent why. Time in which other processes had the processor does not count. The child ends when the
socket closes; where the system supports it, it is killed when its parent dies.

It is started as ``python -m lycosa.stages.parse.parser_process FD PARENT``. The first frame that it
receives is a ``ParserConfig``; its first answer is empty and says that it is ready. With
``LYCOSA_TEST_HOOKS=1`` in its environment, a document whose URL contains ``/hook-segfault``,
``/hook-hang``, ``/hook-stall`` (it hangs without using the processor) or ``/hook-memory`` makes it
fail in that way, so that tests can check that crawls survive it.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import signal
import socket
import sys
import time
import traceback

import msgspec

from lycosa.base.logs.log_records import LogLevel
from lycosa.base.logs.log_writer import opened_log
from lycosa.base.model.parsed import ParseInput
from lycosa.base.system.child_start import die_with_parent, limit_memory, limit_processor_time
from lycosa.base.system.frames import FrameError, FrameSocket
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.answer_parts import in_parts
from lycosa.stages.parse.inline_parser import build_parser
from lycosa.stages.parse.link_places import PlaceParser
from lycosa.stages.parse.parser_config import ParserConfig

_HOOKS_VARIABLE = "LYCOSA_TEST_HOOKS"


def serve(sock: socket.socket) -> None:
    """Answer documents until the peer closes. Raises ``OSError`` when the socket breaks."""
    frames = FrameSocket(sock)
    first = frames.receive()
    if first is None:
        return
    config = msgspec.msgpack.decode(first, type=ParserConfig)
    parser = _build_places(config) if config.reads_places else build_parser(config)
    limit_memory(config.section.memory_bytes)
    frames.send(b"")
    limit_processor_time()
    has_hooks = os.environ.get(_HOOKS_VARIABLE) == "1"
    decoder, encoder = msgspec.msgpack.Decoder(ParseInput), msgspec.msgpack.Encoder()
    while (frame := frames.receive()) is not None:
        document = decoder.decode(frame)
        signal.setitimer(signal.ITIMER_PROF, config.section.deadline_s)
        if has_hooks:
            _misbehave(document.url)
        answer = encoder.encode(in_parts(parser.parse(document)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        frames.send(answer)


def _build_places(config: ParserConfig) -> PlaceParser:
    return PlaceParser(config.section, Canonicalizer(config.canonical))


def _misbehave(url: str) -> None:
    if "/hook-segfault" in url:
        os.kill(os.getpid(), signal.SIGSEGV)
    elif "/hook-hang" in url:
        while True:
            time.process_time()
    elif "/hook-stall" in url:
        while True:
            signal.pause()
    elif "/hook-memory" in url:
        hoard = []
        with contextlib.suppress(OSError):
            while True:
                hoard.append(mmap.mmap(-1, 64 * 1024 * 1024))
        os.kill(os.getpid(), signal.SIGKILL)  # as the system's memory killer would


def main(arguments: list[str]) -> int:
    """Entry point: file descriptor of the socket, and the parent's process id."""
    fd, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    # Imported objects live until the end, and documents leave few cycles: collecting less often
    # saves 3 % of the time.
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    with socket.socket(fileno=fd) as sock:
        log = opened_log("parser")
        log.note(LogLevel.DEBUG, "parser_started", values={"pid": os.getpid()})
        try:
            serve(sock)
        except (FrameError, ConnectionError):
            return 1  # the parent went away in the middle of a frame
        except Exception:
            log.note(LogLevel.ERROR, "parser_failed", traceback.format_exc())
            raise
        finally:
            log.close()
    return 0


if __name__ == "__main__":
    # There is nothing left to write, and a regular shutdown of the interpreter and its libraries
    # costs as much as ten pages.
    os._exit(main(sys.argv[1:]))
