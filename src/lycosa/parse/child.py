"""The parse child: documents come in on a socket, what they say goes out, one answer for each
question and in the same order.

It has no state to lose: its parent kills it when a document takes too long, and a document that
kills it costs nobody else anything. So it reads blocking and parses one document at a time. Its
address space is limited before any document is seen. It ends when the socket closes, and where the
system can it is killed when its parent dies.

Started as ``python -m lycosa.parse.child FD PARENT``; the first frame is a ``ParserConfig``, the
first answer, empty, says that it is ready. With ``LYCOSA_TEST_HOOKS=1`` in its environment a
document whose URL contains ``/hook-segfault``, ``/hook-hang`` or ``/hook-memory`` makes it
misbehave in that way, so that tests can see crawls survive it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import resource
import signal
import socket
import sys
import time

import msgspec

from lycosa.model.parsed import Document
from lycosa.parse.inline import build_parser
from lycosa.parse.parser_config import ParserConfig
from lycosa.parse.parts import in_parts
from lycosa.system.wire import FrameError, FrameSocket

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_HOOKS_VARIABLE = "LYCOSA_TEST_HOOKS"


def serve(sock: socket.socket) -> None:
    """Answers documents until the peer closes. Raises ``OSError`` when the socket breaks."""
    frames = FrameSocket(sock)
    first = frames.receive()
    if first is None:
        return
    config = msgspec.msgpack.decode(first, type=ParserConfig)
    parser = build_parser(config)
    _limit_memory(config.section.memory_bytes)
    frames.send(b"")
    has_hooks = os.environ.get(_HOOKS_VARIABLE) == "1"
    decoder, encoder = msgspec.msgpack.Decoder(Document), msgspec.msgpack.Encoder()
    while (frame := frames.receive()) is not None:
        document = decoder.decode(frame)
        # A last resort for when the parent died too: the signal's default action ends us even
        # inside of a C parser.
        signal.setitimer(signal.ITIMER_REAL, 2 * config.section.deadline_s + 5)
        if has_hooks:
            _misbehave(document.url)
        answer = encoder.encode(in_parts(parser.parse(document)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        frames.send(answer)


def _limit_memory(limit: int) -> None:
    """Address space, as a bomb should fail here and not on its host. Some 250 MB are the
    interpreter's, its libraries' and the model's.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit or hard, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses limits below what it has mapped
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _misbehave(url: str) -> None:
    if "/hook-segfault" in url:
        os.kill(os.getpid(), signal.SIGSEGV)
    elif "/hook-hang" in url:
        while True:
            time.process_time()
    elif "/hook-memory" in url:
        hoard = []
        with contextlib.suppress(OSError):
            while True:
                hoard.append(mmap.mmap(-1, 64 * 1024 * 1024))
        os.kill(os.getpid(), signal.SIGKILL)  # as the system's memory killer would


def _die_with_parent(parent: int) -> None:
    """Asks Linux for a kill when the parent dies; elsewhere the closing socket is enough, but
    for a document that hangs.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(0)


def main(arguments: list[str]) -> int:
    """Entry of the process: file descriptor of the socket and the parent's process id."""
    fd, parent = int(arguments[0]), int(arguments[1])
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # when to stop is the parent's decision
    # What is imported lives until the end, and documents leave few cycles: looking for them less
    # often saves 3 % of the time.
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    with socket.socket(fileno=fd) as sock:
        try:
            serve(sock)
        except (FrameError, ConnectionError):
            return 1  # the parent went away in the middle of a frame
    return 0


if __name__ == "__main__":
    # Nothing is left to write, and taking the interpreter and its libraries down costs as much as
    # ten pages.
    os._exit(main(sys.argv[1:]))
