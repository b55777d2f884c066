"""What every object store must do; each test runs on memory, on a local folder and on a real S3
server.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.object_errors import (
    ObjectExists,
    ObjectMissing,
    StoreFailed,
    StoreUnusable,
)
from lycosa.state.objects.objects_port import ObjectStore, StoredObject
from lycosa.state.objects.sameness import PART_BYTES, create_or_read, file_content, holds
from lycosa.state.objects.store_opening import CreateOnlyIgnored, check_create_only, open_store
from memory_objects import MemoryStore
from s3_server import BUCKET, CREDENTIALS, FaultyProxy, S3Server, needs_s3

LARGE = 2 * PART_BYTES + 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture(
    params=["memory", "folder", pytest.param("s3", marks=[needs_s3, pytest.mark.service])]
)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ObjectStore:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "folder":
        return FolderStore(tmp_path.as_uri(), tmp_path)
    found: S3Server = request.getfixturevalue("server")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return open_store(f"s3://{BUCKET}/{tmp_path.name}", (f"endpoint={found.endpoint}",))


def test_what_was_put_is_there(store: ObjectStore) -> None:
    store.put("warc/a.warc.gz", b"first")
    assert store.get("warc/a.warc.gz") == b"first"
    store.put("warc/a.warc.gz", b"second one")
    assert store.get("warc/a.warc.gz") == b"second one"
    found = store.find("warc/a.warc.gz")
    assert found is not None and (found.key, found.size) == ("warc/a.warc.gz", 10)


def test_what_is_not_there_is_missing(store: ObjectStore) -> None:
    assert store.find("warc/a") is None
    with pytest.raises(ObjectMissing, match="warc/a"):
        store.get("warc/a")
    with pytest.raises(ObjectMissing):
        store.get("warc/a", 0, 10)


def test_only_one_creates_an_object(store: ObjectStore) -> None:
    store.create("crawl.json", b"one")
    with pytest.raises(ObjectExists):
        store.create("crawl.json", b"two")
    assert store.get("crawl.json") == b"one"


def test_of_many_who_create_one_object_at_once_one_does(store: ObjectStore) -> None:
    created: list[int] = []

    def create(number: int) -> None:
        try:
            store.create("claim", b"%d" % number)
        except ObjectExists:
            return
        created.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [b"%d" % number for number in created] == [store.get("claim")]


@pytest.mark.parametrize(
    ("start", "length", "found"),
    [
        (0, 3, b"012"),
        (4, 3, b"456"),
        (8, 5, b"89"),
        (10, 5, b""),
        (50, 5, b""),
        (3, 0, b""),
        (7, None, b"789"),
        (10, None, b""),
    ],
)
def test_a_part_of_an_object_is_read(
    store: ObjectStore, start: int, length: int | None, found: bytes
) -> None:
    store.put("a/b", b"0123456789")
    assert store.get("a/b", start, length) == found


def test_a_listing_has_the_objects_below_a_prefix(store: ObjectStore) -> None:
    for key in ("warc/a", "warc/b", "warcs/c", "pages/a", "top"):
        store.put(key, key.encode())

    def listed(prefix: str) -> list[tuple[str, int]]:
        return sorted((each.key, each.size) for each in store.list(prefix))

    assert listed("warc/") == [("warc/a", 6), ("warc/b", 6)]
    assert [key for key, _ in listed("")] == ["pages/a", "top", "warc/a", "warc/b", "warcs/c"]
    assert listed("links/") == []


def test_a_listing_of_many_objects_has_each_once(store: ObjectStore) -> None:
    for number in range(1100):
        store.put(f"parts/{number:04d}", b"")
    assert sorted(each.key for each in store.list("parts/")) == [
        f"parts/{number:04d}" for number in range(1100)
    ]


def test_deleting_may_be_repeated(store: ObjectStore) -> None:
    store.put("a/b", b"")
    store.delete(["a/b", "a/none"])
    store.delete(["a/b"])
    assert list(store.list()) == []


def test_a_large_file_arrives_whole_and_is_known_to_be_the_same(
    store: ObjectStore, tmp_path: Path
) -> None:
    path = tmp_path.with_name(f"{tmp_path.name}.large")
    path.write_bytes(os.urandom(LARGE))
    store.put("warc/large", path)
    assert store.get("warc/large") == path.read_bytes()
    content = file_content(path)
    assert holds(store, "warc/large", content)
    store.put("warc/large", path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    assert not holds(store, "warc/large", content)
    store.put("warc/large", path.read_bytes()[:-1])
    assert not holds(store, "warc/large", content)
    assert not holds(store, "warc/none", content)


def test_create_only_is_kept(store: ObjectStore) -> None:
    store.create("crawl.json", b"mine")
    check_create_only(store, "crawl.json", "s3://here")
    assert store.get("crawl.json") == b"mine"


def test_an_object_has_the_date_at_which_it_was_stored_last(store: ObjectStore) -> None:
    began = time.time()
    store.create("a", b"1")
    store.put("b", b"2")
    (first, second) = sorted(store.list(), key=lambda each: each.key)
    assert began - 2 < first.modified <= second.modified < time.time() + 2
    store.put("a", b"3")
    found = store.find("a")
    assert found is not None and first.modified <= found.modified < time.time() + 2


def test_the_content_after_a_create_is_the_first_one(store: ObjectStore) -> None:
    assert create_or_read(store, "a", b"one") == b"one"
    assert create_or_read(store, "a", b"two") == b"one" == store.get("a")


class Lying(MemoryStore):
    """Says that there is an object, where there is none, as often as it was told to."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def create(self, key: str, data: bytes) -> None:
        if self.times:
            self.times -= 1
            raise ObjectExists(f"there is an object already: {key}")
        super().create(key, data)


def test_an_object_that_only_seems_to_exist_is_created() -> None:
    store = Lying(1)
    assert create_or_read(store, "a", b"one") == b"one" == store.get("a")
    with pytest.raises(StoreFailed, match="and has none"):
        create_or_read(Lying(9), "a", b"one")


@needs_s3
@pytest.mark.service
def test_a_conflict_is_not_taken_for_an_object(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with FaultyProxy(server, lambda number, method, path: 409 if number == 1 else 0) as proxy:
        url, options = f"s3://{BUCKET}/{tmp_path.name}", (f"endpoint={proxy.endpoint}",)
        store = open_store(url, options)
        with pytest.raises(StoreFailed, match="409 ConditionalRequestConflict"):
            store.create("a", b"one")
        assert store.find("a") is None
        store.create("a", b"two")
        with pytest.raises(ObjectExists):
            store.create("a", b"three")


class Overwriting(MemoryStore):
    """As some servers do that know no ``If-None-Match``."""

    def create(self, key: str, data: bytes) -> None:
        self.put(key, data)


def test_a_store_that_does_not_keep_create_only_is_found_out() -> None:
    store = Overwriting({"crawl.json": b"mine"})
    with pytest.raises(CreateOnlyIgnored, match="If-None-Match"):
        check_create_only(store, "crawl.json", "s3://here")
    assert store.get("crawl.json") == b"mine"


class WithoutCheckcontent(MemoryStore):
    """ETags that are no MD5, as with encryption by keys of one's own."""

    def find(self, key: str) -> StoredObject | None:
        found = super().find(key)
        return found and StoredObject(found.key, found.size, '"0x8DC"')


def test_where_an_etag_says_nothing_the_object_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1000)
    content, store = file_content(tmp_path / "a"), WithoutCheckcontent({"a": b"x" * 1000})
    assert holds(store, "a", content)
    store.put("a", b"y" * 1000)
    assert not holds(store, "a", content)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get("crawl.json"),
        lambda store: store.find("crawl.json"),
        lambda store: list(store.list()),
        lambda store: store.put("crawl.json", b"{}"),
        lambda store: store.create("crawl.json", b"{}"),
        lambda store: store.delete(["crawl.json"]),
    ],
    ids=["get", "find", "list", "put", "create", "delete"],
)
def test_on_a_disk_that_is_not_mounted_no_object_counts_as_missing(
    call: Callable[[ObjectStore], object], tmp_path: Path
) -> None:
    away = tmp_path / "disk"
    with pytest.raises(StoreUnusable, match="mount the disk"):
        call(FolderStore(away.as_uri(), away))
    assert not away.exists()
