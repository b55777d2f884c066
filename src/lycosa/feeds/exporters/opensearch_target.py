"""Exports to OpenSearch or Elasticsearch, by their HTTP interface.

There are no transactions. So a row is a document whose id is made of its key and whose external
version is that of the row: writing it again changes nothing, however often and by which exporter.
The position is a document of the index ``lycosa-positions``, moved after the rows, and only from
the value and the sequence number with which it was read. A kill between the two costs the work of
one batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from lycosa.feeds.export_port import (
    Batch,
    ExportRow,
    ExportTable,
    Overtaken,
    TargetAway,
    TargetError,
)
from lycosa.feeds.exporters.cell_values import Convert, converter, moment_text, signed
from lycosa.feeds.exporters.http_sender import HttpAnswer, HttpSender

POSITION_INDEX = "lycosa-positions"
_CONFLICT, _BUSY = 409, (429, 502, 503, 504)
_SEARCHED = 5000  # documents of one search; a server allows 10,000
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_TEXT = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 1024}}}
_MAPPINGS: Mapping[str, Mapping[str, Any]] = {
    "text": _TEXT,
    "integer": {"type": "long"},
    "number": {"type": "double"},
    "boolean": {"type": "boolean"},
    "time": {"type": "date"},
    "date": {"type": "date"},
    "json": {"type": "object", "enabled": False},  # stored as it is, whatever it is
}
# lists and JSON are values of documents
_CONVERT: Mapping[str, Convert] = {
    "integer": signed,
    "time": moment_text,
    "json": lambda value: value,
}


class OpenSearchTarget:
    """An index as an ``Exporter``. Raises ``TargetError``.

    ``url`` is ``https://HOST:PORT/INDEX``. ``secrets`` may have ``password`` (with a user in the
    URL) or ``api_key``. With ``by_url`` there is one document a URL, its newest row.
    """

    batch = Batch(rows=2000, bytes=8_000_000)

    def __init__(
        self,
        url: str,
        table: ExportTable,
        crawl: str,
        by_url: bool = False,
        secrets: Mapping[str, str] = {},
    ) -> None:
        parts = urlsplit(url)
        index = parts.path.strip("/")
        if parts.scheme not in ("http", "https") or not parts.hostname or "/" in index:
            raise TargetError(f"{_shown(url)} is not of the form https://HOST:PORT/INDEX")
        if parts.password:
            raise TargetError(
                "write no password into the URL, because other users of the machine see it:"
                " set LYCOSA_OPENSEARCH_PASSWORD"
            )
        if by_url and table.capture:
            raise TargetError(
                f"?key=url is for feeds with one row a page, which {table.name} lacks"
            )
        self._table, self._crawl, self._by_url = table, crawl, by_url
        self._index = index or table.name.rpartition(".")[2]
        host = parts.netloc.rpartition("@")[2]
        self._base = urlunsplit((parts.scheme, host, "", "", ""))
        self._user = f"{parts.username}:{secrets.get('password', '')}" if parts.username else ""
        key = secrets.get("api_key", "")
        self._authorization = {"Authorization": f"ApiKey {key}"} if key else {}
        self._convert = [_converter(each.type) for each in table.columns]
        self._key = [table.index(each) for each in (("url8",) if by_url else table.key)]
        self._version = table.index(table.version) if table.version else -1
        self._sender: HttpSender | None = None
        self._sequence: dict[str, int] = {}

    @property
    def name(self) -> str:
        return f"{self._base}/{self._index}"

    def open(self) -> str:
        """See ``Exporter``."""
        self._sender = HttpSender(user=self._user)
        self._create(self._index, _mapping(self._table))
        keyword = {"type": "keyword"}
        names = ("crawl", "feed", "index", "position")
        self._create(POSITION_INDEX, {"properties": dict.fromkeys(names, keyword)})
        return self._stored()

    def _create(self, index: str, mappings: Mapping[str, Any]) -> None:
        if self._send("GET", f"/{quote(index)}", allowed=(404,)).status == 200:
            return
        body = _encode({"mappings": mappings})
        answer = self._send("PUT", f"/{quote(index)}", body, allowed=(400,))
        if answer.status == 400 and b"resource_already_exists_exception" not in answer.body:
            raise TargetError(f"{self._base}/{index} cannot be created: {_reason(answer)}")

    @property
    def _place(self) -> str:
        identity = "\n".join((self._crawl, self._table.name, self._index))
        return f"/{POSITION_INDEX}/_doc/{hashlib.sha256(identity.encode()).hexdigest()}"

    def _stored(self) -> str:
        """Read the position, and the sequence number from which alone it may be moved."""
        answer = self._send("GET", self._place, allowed=(404,))
        if answer.status == 404:
            self._sequence = {}
            return ""
        found = _decode(answer.body)
        self._sequence = {
            "if_seq_no": found["_seq_no"],
            "if_primary_term": found["_primary_term"],
        }
        return str(found["_source"]["position"])

    def write(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        """See ``Exporter``: the rows, which may be written again, and then the position."""
        if self._stored() != before:
            raise Overtaken
        self._bulk(self._actions(rows))
        self._replace_older(rows)
        value = {
            "crawl": self._crawl,
            "feed": self._table.name,
            "index": self._index,
            "position": after,
        }
        condition: Mapping[str, object] = self._sequence or {"op_type": "create"}
        query = "&".join(f"{name}={number}" for name, number in condition.items())
        answer = self._send("PUT", f"{self._place}?{query}", _encode(value), allowed=(_CONFLICT,))
        if answer.status == _CONFLICT:
            raise Overtaken

    def _actions(self, rows: Sequence[ExportRow]) -> Iterator[bytes]:
        names = [_field(each) for each in self._table.names]
        for row in rows:
            action = {
                "_id": self._id_of(row),
                "version": self._version_of(row),
                "version_type": "external",
            }
            values = {
                name: convert(value)
                for name, convert, value in zip(names, self._convert, row.values, strict=True)
                if value is not None
            }
            yield _encode({"index": action}) + b"\n" + _encode(values) + b"\n"

    def _id_of(self, row: ExportRow) -> str:
        return "/".join((self._table.name, *(str(row.values[at]) for at in self._key)))

    def _version_of(self, row: ExportRow) -> int:
        return max(int(row.values[self._version]), 1) if self._version >= 0 else 1

    def _replace_older(self, rows: Sequence[ExportRow]) -> None:
        """Delete documents of an earlier version of these captures, which may have had more."""
        if not self._table.capture or max(map(self._version_of, rows)) == 1:
            return
        at = self._table.index(self._table.capture)
        newest = {row.values[at]: self._version_of(row) for row in rows}
        while True:
            self._send("POST", f"/{quote(self._index)}/_refresh", b"")
            found = self._older(newest)
            if not found:
                return
            self._bulk(
                _encode({"delete": {"_id": each, "version": version, "version_type": "external"}})
                + b"\n"
                for each, version in found
            )

    def _older(self, newest: Mapping[str, int]) -> list[tuple[str, int]]:
        capture, version = self._table.capture, self._table.version
        by_version: dict[int, list[str]] = {}
        for each, n in newest.items():
            by_version.setdefault(n, []).append(each)
        older = [
            {
                "bool": {
                    "filter": [
                        {"terms": {f"{_field(capture)}.keyword": captures}},
                        {"range": {_field(version): {"lt": n}}},
                    ]
                }
            }
            for n, captures in by_version.items()
        ]
        body = {
            "size": _SEARCHED,
            "_source": [_field(capture)],
            "query": {"bool": {"should": older}},
        }
        answer = self._send("POST", f"/{quote(self._index)}/_search", _encode(body))
        hits = _decode(answer.body)["hits"]["hits"]
        return [(each["_id"], newest[each["_source"][_field(capture)]]) for each in hits]

    def _bulk(self, actions: Iterator[bytes]) -> None:
        answer = self._send("POST", f"/{quote(self._index)}/_bulk", b"".join(actions))
        found = _decode(answer.body)
        if not found["errors"]:
            return
        for result in (next(iter(each.values())) for each in found["items"]):
            status = result["status"]
            # A conflict: this version or a later one is there. Not found: it is deleted already.
            if status < 300 or status in (_CONFLICT, 404):
                continue
            text = f"{self.name}: {result['_id']}: {_cause(result.get('error'))}"
            raise (TargetAway if status in _BUSY or status >= 500 else TargetError)(text)

    def _send(
        self, method: str, path: str, body: bytes | None = None, allowed: Sequence[int] = ()
    ) -> HttpAnswer:
        assert self._sender is not None, "the target is not open"
        kind = "application/x-ndjson" if path.endswith("/_bulk") else "application/json"
        headers = {"Content-Type": kind, **self._authorization}
        try:
            answer = self._sender.send(method, self._base + path, body, headers)
        except TargetAway as error:
            raise TargetAway(f"{self._base} does not answer: {error}") from None
        if answer.status < 300 or answer.status in allowed:
            return answer
        text = f"{self._base} answered {answer.status}: {_reason(answer)}"
        raise (TargetAway if answer.status in _BUSY or answer.status >= 500 else TargetError)(text)

    def close(self) -> None:
        """See ``Exporter``."""
        if self._sender is not None:
            self._sender.close()
        self._sender = None


def _mapping(table: ExportTable) -> dict[str, Any]:
    """The mappings of an index; fields that are not in the table are stored, but not searched."""
    properties = {}
    for each in table.columns:
        kind = each.type.removeprefix("list[").removesuffix("]")
        properties[_field(each.name)] = _MAPPINGS[kind]
    return {"dynamic": False, "properties": properties}


def _field(name: str) -> str:
    """The name of a column in a document, where ``_version`` and others are the server's own."""
    return f"lycosa{name}" if name.startswith("_") else name


def _converter(kind: str) -> Convert:
    if kind.startswith("list["):
        inner = converter(kind[5:-1], _CONVERT)
        return lambda values: None if values is None else [inner(each) for each in values]
    return converter(kind, _CONVERT)


def _reason(answer: HttpAnswer) -> str:
    try:
        return _cause(_decode(answer.body)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return answer.body[:200].decode("utf-8", "replace") or "no reason given"


def _cause(error: Any) -> str:
    return str(error.get("reason", error)) if isinstance(error, dict) else str(error)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
