"""A store behind ``obstore``: S3 and what speaks its protocol, Google Cloud Storage, Azure.

The client retries broken requests and temporary errors of the server with back-off, for some
seconds. After that it raises an ``ObjectError``, and the caller decides whether to retry.
Credentials come only from the environment, where ``obstore`` looks for them.

A large file is sent in parts of ``PART_BYTES``. A process that is killed while it sends one leaves
parts that no listing shows; stores delete them by a rule of the bucket (docs/operations.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import obstore
import obstore.store
from obstore.exceptions import BaseError

from lycosa.state.objects.object_errors import ObjectMissing, RangeBeyondEnd, store_error, unusable
from lycosa.state.objects.objects_port import StoredObject
from lycosa.state.objects.sameness import PART_BYTES

_PARTS_AT_ONCE = 4  # 32 MB in memory
_LISTED = 1000
_DEFAULTS = {"connect_timeout": "10s", "timeout": "120s"}
_CLIENT = frozenset({"allow_http", "connect_timeout", "proxy_url", "timeout"})


class RemoteStore:
    """The objects below ``url`` as an ``ObjectStore``; ``options`` are those of ``obstore`` for
    this kind of store, or of its HTTP client. ``patience_s`` is how long one request is repeated.
    """

    def __init__(self, url: str, options: dict[str, str], patience_s: float = 10.0) -> None:
        self._url = url
        from_url: Any = obstore.store.from_url  # its overloads take one kind of store each
        client: dict[str, Any] = _DEFAULTS | {
            name: value for name, value in options.items() if name in _CLIENT
        }
        if "allow_http" in client:
            client["allow_http"] = client["allow_http"] == "true"
        config = {name: value for name, value in options.items() if name not in _CLIENT}
        retry: Any = {
            "max_retries": 4,
            "retry_timeout": timedelta(seconds=patience_s),
            "backoff": {
                "init_backoff": timedelta(milliseconds=200),
                "max_backoff": timedelta(seconds=5),
            },
        }
        try:
            self._store: Any = from_url(
                url, config=config or None, client_options=client, retry_config=retry
            )
        except (BaseError, ValueError) as error:
            raise unusable(url, str(error)) from None

    def create(self, key: str, data: bytes) -> None:
        self._called(f"creating {key}", lambda: obstore.put(self._store, key, data, mode="create"))

    def put(self, key: str, content: bytes | Path) -> None:
        self._called(
            f"writing {key}",
            lambda: obstore.put(
                self._store,
                key,
                content,
                chunk_size=PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            ),
        )

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        if length is not None and length <= 0:
            return b""
        if start == 0 and length is None:
            return bytes(
                self._called(f"reading {key}", lambda: obstore.get(self._store, key).bytes())
            )
        if length is None:
            found = self.find(key)
            length = found.size - start if found else 1
            if length <= 0:
                return b""
        try:
            return bytes(
                self._called(
                    f"reading {key}",
                    lambda: obstore.get_range(self._store, key, start=start, length=length),
                )
            )
        except RangeBeyondEnd:
            return b""

    def find(self, key: str) -> StoredObject | None:
        try:
            found = self._called(f"looking at {key}", lambda: obstore.head(self._store, key))
        except ObjectMissing:
            return None
        return _described(key, found)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        what = f"listing {prefix or 'objects'}"
        pages = self._called(
            what,
            lambda: iter(obstore.list(self._store, prefix or None, chunk_size=_LISTED)),
        )
        while (page := self._called(what, lambda: next(pages, None))) is not None:
            for each in page:
                yield _described(each["path"], each)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                self._called(f"deleting {key}", partial(obstore.delete, self._store, key))
            except ObjectMissing:
                continue

    def _called(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (BaseError, FileNotFoundError, PermissionError, TimeoutError) as error:
            raise store_error(self._url, what, type(error).__name__, str(error)) from None

    def __repr__(self) -> str:
        return f"RemoteStore({self._url!r})"


def _described(key: str, found: Any) -> StoredObject:
    return StoredObject(
        key, found["size"], found["e_tag"] or "", found["last_modified"].timestamp()
    )
