"""The language model's tables as memory-mapped files.

py3langid ships its model compressed. Unpacking takes 0.4 s of CPU time and 80 MB of memory in every
process that needs it, a third of the total cost of a small crawl. So the first process writes the
unpacked tables into the user's cache folder (70 MB), and later ones map them: nothing is read
before it is used, and parse children share one copy. If no such folder can be written, each
process unpacks the model itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

LANGUAGE_TABLES_FORMAT = 1
_CODES = "codes.json"


class Tables(msgspec.Struct, frozen=True):
    """The tables of py3langid's model.

    ``codes`` and ``priors`` are by class. ``logarithms`` (feature x class) are the bits of IEEE 754
    half precision. The automaton has its ``next`` states by row and byte, the ``row`` of each state
    (x 256), and the ``feature`` that each state ends, or -1.
    """

    codes: list[str]
    priors: NDArray[np.float32]
    logarithms: NDArray[np.uint16]
    next: NDArray[Any]
    row: NDArray[np.int64]
    feature: NDArray[np.int32]


_ARRAYS = ("priors", "logarithms", "next", "row", "feature")


def cache_folder() -> Path | None:
    """The user's folder for data that can be recreated (XDG Base Directory Specification).

    ``None`` when there is none.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named and Path(named).is_absolute():
        return Path(named) / "lycosa"
    with suppress(RuntimeError):  # the home folder is unknown
        return Path.home() / ".cache" / "lycosa"
    return None


def load_tables(cache: Path | None) -> Tables:
    """The tables, mapped from the cache folder.

    If they are not there, they are unpacked and written there for the next process.
    """
    # Imported here, because importing the library costs more than mapping the files.
    from importlib.metadata import version

    folder = (
        cache / f"language-{version('py3langid')}-{LANGUAGE_TABLES_FORMAT}"
        if cache is not None
        else None
    )
    if folder is not None:
        with suppress(OSError, ValueError, msgspec.DecodeError):  # absent, truncated or foreign
            return _mapped(folder)
    tables = _unpacked()
    if folder is not None:
        with suppress(OSError):  # a read-only home, a full disk: the next process unpacks again
            _write(tables, folder)
    return tables


def _mapped(folder: Path) -> Tables:
    codes = msgspec.json.decode((folder / _CODES).read_bytes(), type=list[str])
    mapped = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS]
    # Plain arrays: each selection from an np.memmap makes another one, which costs microseconds.
    return Tables(codes, *(table.view(np.ndarray) for table in mapped))


def _unpacked() -> Tables:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model: Any = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return Tables(
        codes=list(model.nb_classes),
        priors=model.nb_pc,
        logarithms=model.nb_ptc.view(np.uint16),
        next=np.frombuffer(model.tk_nextmove, dtype=f"u{model.tk_nextmove.itemsize}"),
        row=np.asarray(model.tk_row, dtype=np.int64) << 8,
        feature=np.asarray(model.tk_output, dtype=np.int32),
    )


def _write(tables: Tables, folder: Path) -> None:
    """Write the folder atomically: under another name first, then renamed.

    Several processes may do it at once; the first to finish wins.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="language-", dir=folder.parent))
    try:
        (made / _CODES).write_bytes(msgspec.json.encode(tables.codes))
        for name in _ARRAYS:
            np.save(made / f"{name}.npy", getattr(tables, name), allow_pickle=False)
        if folder.exists():  # the one that could not be read
            shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
