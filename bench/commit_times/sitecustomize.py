"""Writes down how long commits and requests to the object store take in a worker process.

It does so where this folder is on PYTHONPATH and COMMIT_TIMES names a folder. Each line of a file
there is ``commit SECONDS`` (records put, log appended, tables written) or ``put KEY BYTES SECONDS``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _timed(kind: type, name: str, line: Callable[..., str], path: Path) -> None:
    inner = getattr(kind, name)

    def call(self: Any, *given: Any) -> Any:
        began = time.monotonic()
        try:
            return inner(self, *given)
        finally:
            with path.open("a") as out:
                out.write(f"{line(*given)} {time.monotonic() - began:.6f}\n")

    setattr(kind, name, call)


def _size(content: bytes | Path) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _start(folder: str) -> None:
    from lycosa.state.objects.patient import PatientStore
    from lycosa.worker.commit.committer import Committer

    path = Path(folder) / str(os.getpid())
    _timed(Committer, "_write_once", lambda *given: "commit", path)
    for name in ("put", "create"):
        _timed(PatientStore, name, lambda key, content: f"put {key} {_size(content)}", path)


if "lycosa.processes.worker_process" in sys.orig_argv and os.environ.get("COMMIT_TIMES"):
    _start(os.environ["COMMIT_TIMES"])
