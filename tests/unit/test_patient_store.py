"""A store that waits: what it repeats, what it says, and how its patience ends."""

from __future__ import annotations

import threading

import pytest

from lycosa.state.objects.object_errors import (
    ObjectExists,
    ObjectMissing,
    StoreFailed,
    StoreUnreachable,
)
from lycosa.state.objects.objects_port import StoredObject
from lycosa.state.objects.patient import PatientStore
from memory_objects import MemoryStore


class Failing(MemoryStore):
    """Fails as often as it was told to, before each call."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        if self.failures:
            self.failures -= 1
            raise StoreFailed("the store failed (503)")
        return super().get(key, start, length)

    def find(self, key: str) -> StoredObject | None:
        raise StoreUnreachable("the store cannot be reached")


def test_a_call_is_repeated_until_the_store_answers_and_the_wait_is_told() -> None:
    inner, told = Failing(1), list[str]()
    inner.put("a", b"content")
    assert PatientStore(inner, told.append).get("a") == b"content"
    assert told == ["the store failed (503)", ""]


def test_what_the_store_answers_is_not_waited_for() -> None:
    store, told = PatientStore(MemoryStore(), print), list[str]()
    with pytest.raises(ObjectMissing):
        store.get("a")
    store.create("a", b"1")
    with pytest.raises(ObjectExists):
        store.create("a", b"2")
    assert [each.key for each in store.list()] == ["a"] and told == []


def test_a_call_that_waits_ends_with_the_patience_of_its_caller() -> None:
    said = threading.Event()
    store = PatientStore(Failing(0), lambda text: said.set())
    raised: list[type[BaseException]] = []

    def ask() -> None:
        with pytest.raises(StoreUnreachable) as error:
            store.find("a")
        raised.append(error.type)

    asking = threading.Thread(target=ask)
    asking.start()
    assert said.wait(60) and store.is_patient
    store.end_patience()
    asking.join(60)
    assert raised == [StoreUnreachable]
    with pytest.raises(StoreUnreachable):
        store.find("a")
