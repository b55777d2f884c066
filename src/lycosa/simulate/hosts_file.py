"""Hosts of a real crawl, as ``lycosa export DIR hosts`` writes them: JSON lines, CSV or Parquet.

A row is a host. These columns are read and all others ignored; only the first is required:

* ``discovered`` (or ``pages``, in a list written by hand): known URLs of the host; a host without
  any is left out;
* ``captures``, ``bytes``, ``time_s``: number of captures, their total size and total duration;
* ``crawl_delay_s``: the delay in its robots.txt; ``address``; ``state`` with ``last_error``:
  whether its name resolves.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lycosa.base.config.sources import SettingsError
from lycosa.base.reasons import Reason
from lycosa.simulate.sample import HostRow

HOSTS_FILE_COLUMNS = (
    "discovered",
    "pages",
    "captures",
    "bytes",
    "time_s",
    "crawl_delay_s",
    "address",
    "state",
    "last_error",
    "reason",
)
_PARQUET = (".parquet", ".pq")
_NO_NAME = Reason.DNS_NO_SUCH_NAME.label


def read_hosts(path: Path, server_bytes_per_s: float) -> list[HostRow]:
    """The hosts of a file. Raises ``SettingsError`` with the wrong line, and ``OSError``."""
    if path.suffix.lower() in _PARQUET:
        numbered: Iterable[tuple[str, Mapping[str, Any]]] = (
            (str(path), row) for row in _parquet(path)
        )
    else:
        numbered = ((f"{path}:{number}", row) for number, row in _lines(path))
    found = []
    for place, row in numbered:
        try:
            host = host_row(row, server_bytes_per_s)
        except ValueError as error:
            raise SettingsError([f"{place}: {error}"]) from error
        if host is not None:
            found.append(host)
    if not found:
        raise SettingsError(
            [f"{path}: no host with a known URL; `lycosa export DIR hosts` writes such a file"]
        )
    return found


def host_row(row: Mapping[str, Any], server_bytes_per_s: float) -> HostRow | None:
    """One row of the table; ``None`` when no URL of the host is known. Raises ``ValueError``."""
    if "discovered" not in row and "pages" not in row:
        raise ValueError(
            "there is neither a column discovered nor a column pages; `lycosa export DIR hosts`"
            " writes such a file"
        )
    pages = _number(row, "discovered") or _number(row, "pages")
    if pages < 1:
        return None
    captures, size = _number(row, "captures"), _number(row, "bytes")
    body = size / captures if captures else 0.0
    latency = (
        max(_number(row, "time_s") / captures - body / server_bytes_per_s, 0.0)
        if captures and row.get("time_s")
        else -1.0
    )
    is_retired = row.get("state") == "retired"
    return HostRow(
        pages=int(pages),
        latency_s=latency,
        crawl_delay_s=_number(row, "crawl_delay_s", -1.0),
        body_bytes=body,
        address=str(row.get("address") or ""),
        is_dead=(is_retired and row.get("reason") == _NO_NAME) if "state" in row else None,
    )


def error_share_of(rows: Iterable[Mapping[str, Any]]) -> float:
    """The share of failed requests, over all hosts."""
    errors = requests = 0.0
    for row in rows:
        failed = _number(row, "errors")
        errors += failed
        requests += failed + _number(row, "captures")
    return errors / requests if requests else 0.0


def _number(row: Mapping[str, Any], name: str, missing: float = 0.0) -> float:
    value = row.get(name)
    if value is None or value == "":
        return missing
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}, not a number") from None
    if not 0 <= found < 1e15:
        raise ValueError(f"{name} is {found:g}, which is not possible")
    return found


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Rows of JSON lines or CSV, by the first character, with their line numbers."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            first = file.read(1)
            file.seek(0)
            if first != "{":
                reader = csv.DictReader(file)
                yield from ((reader.line_num, row) for row in reader)
                return
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _object(path, number, line)
    except UnicodeDecodeError as error:
        raise SettingsError([f"{path}: not UTF-8; a Parquet file ends with .parquet"]) from error
    except csv.Error as error:
        raise SettingsError([f"{path}: not CSV: {error}"]) from error


def _object(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise SettingsError([f"{path}:{number}: not JSON: {error}"]) from error
    if not isinstance(found, dict):
        raise SettingsError([f"{path}:{number}: not a JSON object"])
    return found


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SettingsError([f"{path}: not Parquet: {str(error).splitlines()[0]}"]) from error
    with file:
        names = [name for name in HOSTS_FILE_COLUMNS if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=names):
            yield from batch.to_pylist()
