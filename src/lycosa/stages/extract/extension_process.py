"""The extension child: runs user code over pages that it receives on a socket, and answers each.

It is started as ``python -m lycosa.stages.extract.extension_process FD PARENT``. The first frame
that it receives is ``ChildOrders``; its first answer is a ``ChildReport``. It is not a sandbox: the
code may do what the user of the crawl may do. It is built so that code with faults can spoil no
page but the one that it was given. The address space is limited, and so is the processor time of a
page, by a signal with its default action, which ends this process even inside of C code. What the
code prints is kept up to a limit. When a page is done and a thread or process of the code still
runs, the answer says so and is the last one.
"""

from __future__ import annotations

import _thread
import io
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

import msgspec

from lycosa.base.model.known_code import CodeError
from lycosa.base.system.child_start import (
    adopt_orphans,
    die_with_parent,
    limit_memory,
    limit_processor_time,
)
from lycosa.base.system.frames import FrameError, FrameSocket
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.extract.code_messages import (
    ChildAnswer,
    ChildOrders,
    ChildReport,
    ChildTask,
    ExtensionAnswer,
)
from lycosa.stages.extract.code_run import run_code
from lycosa.stages.extract.code_source import LoadedCode, known_of, load_code
from lycosa.stages.extract.stored_document import Document

_MAX_OUTPUT = 2000  # characters that are kept of what the code prints for a page
_LOADING = 20  # times the processor time of a page that all imports may take


class _Output(io.TextIOBase):
    """Takes what the code prints, and keeps the beginning."""

    def __init__(self) -> None:
        self._kept = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if len(self._kept) < _MAX_OUTPUT:
            self._kept += text[: _MAX_OUTPUT - len(self._kept)]
        return len(text)

    def taken(self) -> str:
        """What was printed since the last call."""
        kept, self._kept = self._kept, ""
        return kept


def serve_pages(frames: FrameSocket) -> None:
    """Load the code, and answer pages until the peer closes or something is left behind."""
    first = frames.receive()
    if first is None:
        return
    orders = msgspec.msgpack.decode(first, type=ChildOrders)
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(ChildTask)
    output = _Output()
    sys.stdout = sys.stderr = output
    limit_processor_time()
    limit_memory(orders.memory_bytes)
    signal.setitimer(signal.ITIMER_PROF, orders.page_s * _LOADING)
    sys.path += [each for each in orders.path if each not in sys.path]
    try:
        codes = [load_code(each.name, each.path, each.digest) for each in orders.codes]
    except CodeError as error:
        frames.send(encoder.encode(ChildReport(error=str(error))))
        return
    frames.send(encoder.encode(ChildReport(tuple(known_of(each) for each in codes))))
    canonicalizer = Canonicalizer(orders.canonical)
    # Our own names: the code may change those of the modules that it finds.
    own, answer_page, getpid, left = os.getpid(), _answer, os.getpid, left_behind
    while (frame := frames.receive()) is not None:
        task = decoder.decode(frame)
        signal.setitimer(signal.ITIMER_PROF, orders.page_s)
        began = time.process_time()
        chosen = [codes[number] for number in task.codes]
        answer = answer_page(chosen, task, canonicalizer, orders.max_links)
        if getpid() != own:
            os._exit(1)  # a copy that the code made with os.fork; only the original answers
        found = encoder.encode(
            ChildAnswer(answer, output.taken(), time.process_time() - began, left())
        )
        signal.setitimer(signal.ITIMER_PROF, 0)
        frames.send(found)


def _answer(
    chosen: list[LoadedCode], task: ChildTask, canonicalizer: Canonicalizer, max_links: int
) -> ExtensionAnswer:
    return run_code(chosen, Document(task.page, canonicalizer), canonicalizer, max_links)


def left_behind() -> str:
    """What user code left running; empty if nothing."""
    if threading.active_count() > 1 or _thread._count() > 0:
        return "a thread"
    with suppress(ChildProcessError):
        # Also processes that were orphaned: this process adopts them. Ended ones are reaped.
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return "a process"
    return ""


def main(arguments: list[str]) -> int:
    """Entry point: file descriptor of the socket, and the parent's process id."""
    fd, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    # the errors are those of a parent that went away
    with socket.socket(fileno=fd) as sock, suppress(FrameError, ConnectionError):
        serve_pages(FrameSocket(sock))
    return 0


if __name__ == "__main__":
    # A regular shutdown would wait for threads that the code left behind.
    os._exit(main(sys.argv[1:]))
