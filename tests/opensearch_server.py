"""OpenSearch for tests: a real server, or on loopback the part of its interface that is used.

The latter implements external versions, sequence numbers, operation types and the partial failures
of bulk requests as the reference describes them ("Document APIs", "Optimistic concurrency
control"), and may fail on purpose.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

_SERVICES = Path(__file__).parents[1] / "script" / "services"
Answer = tuple[int, Any]


def lacking() -> str:
    """What is missing here to start one; empty when nothing is."""
    run = subprocess.run(
        [_SERVICES, "lacks", "opensearch"], stdout=subprocess.PIPE, text=True, check=True
    )
    return run.stdout.strip()


@contextmanager
def started() -> Iterator[str]:
    """The URL of a real server of its own; skips the test when none can be started here."""
    if lacks := lacking():
        pytest.skip(f"OpenSearch cannot be started, missing: {lacks} (script/services)")
    with TemporaryDirectory(prefix="lycosa-opensearch-") as folder:
        run = subprocess.run(
            [_SERVICES, "start", "opensearch", folder],
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        try:
            yield dict(line.split("=", 1) for line in run.stdout.split())["OPENSEARCH"]
        finally:
            subprocess.run([_SERVICES, "stop", "opensearch", folder], check=True)


def call(method: str, url: str, body: Any = None) -> Answer:
    """The status and the JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"{}")


def documents(url: str, index: str) -> list[dict[str, Any]]:
    """All documents of an index, at most 10,000."""
    call("POST", f"{url}/{index}/_refresh")
    _, found = call("POST", f"{url}/{index}/_search", {"size": 10_000})
    return [each["_source"] for each in found["hits"]["hits"]]


class SearchIndexes:
    """The indexes of a server in memory.

    ``fails`` is asked before each request and each action of a bulk request; it gives a status of
    500 or more, or 429, or 0.
    """

    def __init__(self, fails: Callable[[], int] = lambda: 0) -> None:
        self.documents: dict[str, dict[str, dict[str, Any]]] = {}
        self.writes = 0
        self.fails, self._lock, self._sequence = fails, threading.Lock(), 0

    def answer(self, method: str, path: str, query: str, body: bytes) -> Answer:
        with self._lock:
            if status := self.fails():
                return status, {"error": {"reason": "planned failure"}}
            return self._answer(method, path, dict(re.findall(r"(\w+)=(\w+)", query)), body)

    def _answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> Answer:
        index, _, rest = path.strip("/").partition("/")
        if not rest:
            return self._index(method, index, body)
        here = self.documents.setdefault(index, {})
        if rest == "_bulk":
            return 200, self._bulk(here, body)
        if rest == "_refresh":
            return 200, {}
        if rest == "_search":
            return 200, {"hits": {"hits": list(self._found(here, json.loads(body or b"{}")))}}
        key = rest.removeprefix("_doc/")
        if method == "GET":
            found = here.get(key)
            return (404, {"found": False}) if found is None else (200, {"_id": key, **found})
        return self._put(here, key, json.loads(body), query)

    def _index(self, method: str, index: str, body: bytes) -> Answer:
        if method == "GET":
            return (200, {}) if index in self.documents else (404, {})
        if index in self.documents:
            return 400, {"error": {"type": "resource_already_exists_exception"}}
        for name in json.loads(body)["mappings"]["properties"]:
            if name in ("_id", "_index", "_source", "_version"):
                return 400, {"error": {"reason": f"Field [{name}] is a metadata field"}}
        self.documents[index] = {}
        return 200, {"acknowledged": True}

    def _put(self, here: dict[str, Any], key: str, source: Any, query: dict[str, str]) -> Answer:
        found = here.get(key)
        if query.get("op_type") == "create" and found is not None:
            return 409, {"error": {"type": "version_conflict_engine_exception"}}
        if "if_seq_no" in query and (
            found is None
            or (str(found["_seq_no"]), "1") != (query["if_seq_no"], query["if_primary_term"])
        ):
            return 409, {"error": {"type": "version_conflict_engine_exception"}}
        self._store(here, key, source, 1)
        return 201, {}

    def _store(self, here: dict[str, Any], key: str, source: Any, version: int) -> None:
        self._sequence += 1
        here[key] = {
            "_source": source,
            "_seq_no": self._sequence,
            "_primary_term": 1,
            "_version": version,
        }

    def _bulk(self, here: dict[str, Any], body: bytes) -> Any:
        lines = iter(body.splitlines())
        items = []
        for line in lines:
            ((kind, action),) = json.loads(line).items()
            source = json.loads(next(lines)) if kind == "index" else None
            items.append({kind: self._act(here, kind, action, source)})
        failed = any(next(iter(each.values()))["status"] >= 300 for each in items)
        return {"errors": failed, "items": items}

    def _act(self, here: dict[str, Any], kind: str, action: Any, source: Any) -> Any:
        key, version = action["_id"], action["version"]
        assert action["version_type"] == "external"
        if status := self.fails():
            return {"_id": key, "status": status, "error": {"reason": "planned failure"}}
        found = here.get(key)
        if found is not None and version <= found["_version"]:
            return {"_id": key, "status": 409, "error": {"reason": "version conflict"}}
        if kind == "delete":
            return {"_id": key, "status": 404 if here.pop(key, None) is None else 200}
        self._store(here, key, source, version)
        self.writes += 1
        return {"_id": key, "status": 201}

    def _found(self, here: dict[str, Any], query: Any) -> Iterator[dict[str, Any]]:
        clauses = query.get("query", {}).get("bool", {}).get("should")
        for key, each in here.items():
            if clauses is None or any(_matches(each["_source"], clause) for clause in clauses):
                yield {"_id": key, "_source": each["_source"]}


def _matches(source: dict[str, Any], clause: Any) -> bool:
    terms, range_ = (each for each in clause["bool"]["filter"])
    ((name, values),) = terms["terms"].items()
    ((number, bound),) = range_["range"].items()
    return source[name.removesuffix(".keyword")] in values and source[number] < bound["lt"]


@contextmanager
def loopback(indexes: SearchIndexes | None = None) -> Iterator[str]:
    """The URL of a server in this process."""
    served = indexes or SearchIndexes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            path, _, query = self.path.partition("?")
            status, value = served.answer(self.command, path, query, self.rfile.read(length))
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def failing_sometimes(seed: int, share: float) -> Callable[[], int]:
    """Failures of servers under load, by a seed."""
    chance = random.Random(seed)
    return lambda: chance.choice((429, 503)) if chance.random() < share else 0
