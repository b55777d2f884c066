"""What user code does wrong on the pages whose URL ends in 7: the same for every crawler."""

from __future__ import annotations

import os


def misbehave(fault: str, url: str) -> None:
    """Do it, if this is such a page."""
    if not url.endswith("7"):
        return
    if fault == "exception":
        raise RuntimeError(url)
    if fault == "loop":
        while True:
            pass
    elif fault == "memory":
        hoard = [bytearray(1 << 30) for _ in range(10)]
        for each in hoard:
            each[::4096] = bytes(len(each[::4096]))
    elif fault == "exit":
        os._exit(3)
