"""Opens a store by its URL, and checks that the store supports what a crawl needs.

``s3://BUCKET/PREFIX``, ``gs://BUCKET/PREFIX``, ``az://CONTAINER/PREFIX`` and ``file:///FOLDER``.
Credentials come from the environment alone, so that no URL and no setting has one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lycosa.base.config.extras import install_command
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.object_errors import ObjectExists, StoreUnusable
from lycosa.state.objects.objects_port import ObjectStore

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class CreateOnlyIgnored(StoreUnusable):
    """The store replaced an object that was only to be created."""


def open_store(
    url: str, options: Sequence[str] = (), env: Mapping[str, str] = os.environ
) -> ObjectStore:
    """The store of a URL; ``options`` are ``name=value``. Both were checked by
    ``config.checks``. Nothing is asked of the store yet. Raises ``StoreUnusable``.
    """
    if (folder := store_folder(url)) is not None:
        return FolderStore(url, folder)
    try:
        # an optional dependency, and 30 MB of code that few crawls need
        from lycosa.state.objects.remote import RemoteStore
    except ImportError as error:
        raise StoreUnusable(
            f"{url}: this needs the package obstore: {install_command('objects')}"
        ) from error
    given = dict(option.split("=", 1) for option in options)
    endpoint = given.get("endpoint") or next((env[name] for name in _ENDPOINTS if name in env), "")
    # one who writes http:// means it; the client would refuse it
    if endpoint.startswith("http://"):
        given.setdefault("allow_http", "true")
    return RemoteStore(url, given)


def store_folder(url: str) -> Path | None:
    """The folder of a ``file:`` URL; ``None`` for other stores."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def check_create_only(store: ObjectStore, key: str, url: str) -> None:
    """Whether ``create`` refuses a key that exists; ``key`` must be one that does. Raises
    ``CreateOnlyIgnored``, or another ``ObjectError``.

    Some servers ignore ``If-None-Match``: then two crawls could each believe to be the first. The
    object keeps its content either way.
    """
    try:
        store.create(key, store.get(key))
    except ObjectExists:
        return
    raise CreateOnlyIgnored(
        f"{url}: the store does not keep create-only writes (If-None-Match: *); use another store,"
        " or a newer version of its server"
    )
