"""Uploading closed segments: what goes where and when, what is removed, and what a store that fails
or loses something leads to.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.sections import UploadSection
from lycosa.state.folder.upload import (
    LocalFile,
    OwnFolder,
    PlaceTaken,
    Upload,
    refuse_own_folder,
    reserve,
)
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.object_errors import StoreFailed, StoreUnreachable
from lycosa.state.store import layout
from lycosa.state.store.closing import lacking_files
from lycosa.state.store.damage import StoreDamaged
from lycosa.state.store.removed_files import (
    ElsewhereError,
    RemovedFile,
    note_removed,
    removed_files,
)
from lycosa.state.store.segment_recovery import recover
from lycosa.state.store.stored_data import read_record_at
from memory_objects import MemoryStore
from store_samples import close_all, commit, crawl_rows, numbered, open_store

URL = "s3://crawl/test"
KINDS = ("warc", "cdxj", "pages", "links", "text")
CRAWL = "2f0cf3d2-0000-4000-8000-000000000000"


def closed(folder: Path, *numbers: int) -> str:
    """A closed segment with these captures; gives its name."""
    store = open_store(folder)
    for number in numbers:
        store.append_capture(numbered(number))
    (found,) = close_all(store)
    return found.name


def upload_to(folder: Path, store: MemoryStore, **section: object) -> Upload:
    return Upload(folder, UploadSection(url=URL, **section), store)  # type: ignore[arg-type]


def run(upload: Upload, is_final: bool = False) -> list[str]:
    """One pass; gives what was uploaded."""
    waiting = upload.waiting(is_final)
    for file in waiting:
        upload.put(file)
    for segment in upload.removable(is_final):
        upload.remove(segment)
    return [file.name for file in waiting]


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for kind in KINDS
        for path in (folder / kind).glob("*")
    }


def failing_at(number: int, error: Exception) -> Callable[[str, str], None]:
    """Fails at the call of this number, and never again."""
    calls: list[str] = []

    def fail(call: str, key: str) -> None:
        calls.append(key)
        if len(calls) == number:
            raise error

    return fail


def test_a_closed_segment_is_uploaded_under_the_names_that_it_has_in_the_folder(
    tmp_path: Path,
) -> None:
    closed(tmp_path, 1, 2)
    store = MemoryStore()
    run(upload_to(tmp_path, store))
    assert store.objects == files(tmp_path)
    assert len(store.objects) == 5


def test_the_warc_goes_first_and_the_index_last(tmp_path: Path) -> None:
    name = closed(tmp_path, 1)
    uploaded = run(upload_to(tmp_path, MemoryStore()))
    assert uploaded[0] == f"warc/{name}.warc.gz"
    assert uploaded[-1] == f"cdxj/{name}.cdxj"


def test_what_is_uploaded_is_not_uploaded_again_by_a_later_run_either(tmp_path: Path) -> None:
    closed(tmp_path, 1)
    store = MemoryStore()
    assert len(run(upload_to(tmp_path, store))) == 5
    assert run(upload_to(tmp_path, store)) == []
    closed(tmp_path, 2)
    assert len(run(upload_to(tmp_path, store))) == 5
    assert store.objects == files(tmp_path)


def test_only_the_kinds_asked_for_are_uploaded(tmp_path: Path) -> None:
    name = closed(tmp_path, 1)
    store = MemoryStore()
    run(upload_to(tmp_path, store, kinds=("pages", "journal")))
    assert sorted(store.objects) == [f"journal/{name}.jsonl.zst", f"pages/{name}.parquet"]


def test_closed_attempt_logs_are_uploaded_on_request_and_never_removed(tmp_path: Path) -> None:
    closed(tmp_path, 1)
    for name in ("attempts-w000-000001.log.zst", "attempts-w000-000002.log"):
        (tmp_path / "log" / name).write_bytes(b"x")
    store = MemoryStore()
    run(upload_to(tmp_path, store, kinds=(*KINDS, "attempts"), remove=True))
    assert [key for key in store.objects if key.startswith("log/")] == [
        "log/attempts-w000-000001.log.zst"
    ]
    assert (tmp_path / "log" / "attempts-w000-000001.log.zst").exists()


def test_open_segments_stay_here(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    commit(store)
    assert run(upload_to(tmp_path, MemoryStore())) == []


def test_a_segment_waits_for_its_derived_files_unless_no_process_builds_them(
    tmp_path: Path,
) -> None:
    name = closed(tmp_path, 1)
    (tmp_path / "pages" / f"{name}.parquet").unlink()
    upload = upload_to(tmp_path, MemoryStore())
    assert run(upload) == []
    assert len(run(upload, is_final=True)) == 4


def test_after_any_failure_the_next_pass_goes_on(tmp_path: Path) -> None:
    closed(tmp_path, 1)
    wanted = files(tmp_path)
    calls = 0
    for number in range(1, 40):
        folder = tmp_path / f"copy{number}"
        for name, data in wanted.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        store = MemoryStore(fail=failing_at(number, StoreUnreachable("away")))
        try:
            run(upload_to(folder, store, remove=True))
        except StoreUnreachable:
            calls += 1
            # nothing that is removed here is missing there
            assert {**store.objects, **files(folder)} == wanted
        store.fail = lambda call, key: None
        run(upload_to(folder, store, remove=True))
        assert (store.objects, files(folder)) == (wanted, {})
    assert calls > 10


def test_two_uploads_at_once_come_to_the_same(tmp_path: Path) -> None:
    for number in range(4):
        closed(tmp_path, number)
    wanted, store = files(tmp_path), MemoryStore()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            run(upload_to(tmp_path, store, remove=True))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(upload_to(tmp_path, store, remove=True))
    assert (errors, store.objects, files(tmp_path)) == ([], wanted, {})


def test_an_object_of_another_size_is_replaced(tmp_path: Path) -> None:
    name = closed(tmp_path, 1)
    store = MemoryStore({f"warc/{name}.warc.gz": b"cut"})
    run(upload_to(tmp_path, store))
    assert store.objects == files(tmp_path)


# -- removal


def test_without_being_asked_nothing_is_removed(tmp_path: Path) -> None:
    closed(tmp_path, 1)
    before = files(tmp_path)
    run(upload_to(tmp_path, MemoryStore()))
    assert files(tmp_path) == before
    assert removed_files(tmp_path) == {}


def test_removed_files_are_written_down_and_the_journal_stays(tmp_path: Path) -> None:
    name = closed(tmp_path, 1)
    before = files(tmp_path)
    run(upload_to(tmp_path, MemoryStore(), remove=True, options=("endpoint=http://x",)))
    assert files(tmp_path) == {}
    found = removed_files(tmp_path)
    assert {name: each.bytes for name, each in found.items()} == {
        name: len(data) for name, data in before.items()
    }
    assert found[f"warc/{name}.warc.gz"].url == URL
    assert (tmp_path / "journal" / f"{name}.jsonl.zst").exists()


def test_a_file_whose_object_has_another_content_is_uploaded_again_before_it_is_removed(
    tmp_path: Path,
) -> None:
    name = closed(tmp_path, 1)
    before = files(tmp_path)
    key = f"warc/{name}.warc.gz"
    store = MemoryStore({key: bytes(len(before[key]))})
    run(upload_to(tmp_path, store, remove=True))
    assert (store.objects, files(tmp_path)) == (before, {})


class Garbling(MemoryStore):
    """Keeps the size and not the content."""

    def put(self, key: str, content: bytes | Path) -> None:
        super().put(key, content)
        self.objects[key] = bytes(len(self.objects[key]))


def test_nothing_is_removed_when_the_store_garbles_what_it_is_sent(tmp_path: Path) -> None:
    closed(tmp_path, 1)
    before = files(tmp_path)
    with pytest.raises(StoreFailed, match="nothing is removed here"):
        run(upload_to(tmp_path, Garbling(), remove=True))
    assert files(tmp_path) == before
    assert removed_files(tmp_path) == {}


class Forgetting(MemoryStore):
    """Accepts everything and keeps nothing."""

    def put(self, key: str, content: bytes | Path) -> None:
        """Nothing."""


def test_a_store_that_does_not_keep_what_it_accepted_is_named(tmp_path: Path) -> None:
    closed(tmp_path, 1)
    with pytest.raises(StoreFailed, match=r"accepted warc/.* and has nothing"):
        run(upload_to(tmp_path, Forgetting(), remove=True))


def test_what_a_kill_left_between_the_note_and_the_removal_is_removed_by_the_next_pass(
    tmp_path: Path,
) -> None:
    closed(tmp_path, 1)
    store = MemoryStore()
    run(upload_to(tmp_path, store))
    before = files(tmp_path)
    note_removed(
        tmp_path, [RemovedFile(name, len(data), "?", URL) for name, data in before.items()]
    )
    (tmp_path / next(iter(before))).unlink()
    run(upload_to(tmp_path, store, remove=True))
    assert files(tmp_path) == {}


def test_a_line_that_a_crash_cut_says_nothing(tmp_path: Path) -> None:
    note_removed(tmp_path, [RemovedFile("warc/a", 1, "?", URL)])
    path = tmp_path / "log" / "removed"
    path.write_bytes(path.read_bytes() + b'{"file": "warc/b", "by')
    note_removed(tmp_path, [RemovedFile("warc/c", 1, "?", URL)])
    assert sorted(removed_files(tmp_path)) == ["warc/a", "warc/c"]


def test_a_start_misses_nothing_that_was_removed_after_its_upload(tmp_path: Path) -> None:
    name = closed(tmp_path, 1)
    lengths = {
        f"{kind}/{name}{suffix}.open": (tmp_path / kind / f"{name}{suffix}").stat().st_size
        for kind, suffix in (("warc", ".warc.gz"), ("journal", ".jsonl.zst"))
    }
    run(upload_to(tmp_path, MemoryStore(), remove=True, kinds=(*KINDS, "journal")))
    # the commit that says that the segment is closed never came
    assert recover(tmp_path, lengths).is_clean
    assert lacking_files(tmp_path) == []
    lengths[f"warc/{name}.warc.gz.open"] += 1
    with pytest.raises(StoreDamaged):
        recover(tmp_path, lengths)


@pytest.mark.parametrize("kinds", [KINDS, ("pages", "text"), ("warc",), (*KINDS, "journal")])
def test_no_start_builds_again_what_was_removed(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    closed(tmp_path, 1)
    run(upload_to(tmp_path, MemoryStore(), remove=True, kinds=kinds))
    left = files(tmp_path)
    assert recover(tmp_path, {}).is_clean
    assert lacking_files(tmp_path) == []
    assert files(tmp_path) == left


def test_the_number_of_a_removed_segment_is_not_given_again(tmp_path: Path) -> None:
    first = closed(tmp_path, 1)
    run(upload_to(tmp_path, MemoryStore(), remove=True, kinds=(*KINDS, "journal")))
    second = closed(tmp_path, 2)
    assert layout.segment_number(second) == layout.segment_number(first) + 1


def test_removed_segments_are_read_from_their_store(tmp_path: Path) -> None:
    folder, there = tmp_path / "crawl", tmp_path / "there"
    there.mkdir()
    folder.mkdir()
    name = closed(folder, 1, 2)
    rows = list(crawl_rows(folder))
    section = UploadSection(url=there.as_uri(), remove=True, kinds=(*KINDS, "journal"))
    from lycosa.state.objects.store_opening import open_store as store_at

    upload = Upload(folder, section, store_at(section.url))
    run(upload)
    assert list(crawl_rows(folder)) == rows
    record = read_record_at(folder, layout.warc_name(name), rows[0].offset)
    assert record.fields["WARC-Target-URI"] == rows[0].url
    (there / "warc" / f"{name}.warc.gz").unlink()
    with pytest.raises(ElsewhereError, match="was removed here after its upload to file://"):
        read_record_at(folder, layout.warc_name(name), rows[0].offset)


# -- which copy is the right one


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [flipped, lambda data: data[: len(data) // 2]])
def test_a_good_object_is_not_replaced_by_a_damaged_file(
    tmp_path: Path, kind: str, damage: Callable[[bytes], bytes]
) -> None:
    name = closed(tmp_path, 1, 2)
    store = MemoryStore()
    run(upload_to(tmp_path, store))
    good = dict(store.objects)
    closed(tmp_path, 3)
    path = tmp_path / layout.file_name(kind, name)
    path.write_bytes(damage(path.read_bytes()))
    before = files(tmp_path)
    upload = upload_to(tmp_path, store, remove=True)
    run(upload)
    assert store.objects.items() >= good.items()
    # the segment with the damaged file stays here as it is, and the other one is removed
    assert files(tmp_path) == {key: data for key, data in before.items() if key in good}
    state = upload.state([])
    assert (state.doubtful_files, upload.not_held(True)) == (1, [])
    (told,) = state.doubtful
    assert told.startswith(f"{kind}/{path.name}: the file here is ")
    assert f"{URL} has another content of it, which is right" in told
    assert "replace the file here by that object" in told
    run(upload)
    assert store.objects.items() >= good.items()


def test_nothing_is_decided_when_both_copies_are_damaged(tmp_path: Path) -> None:
    name = closed(tmp_path, 1)
    key = f"warc/{name}.warc.gz"
    path = tmp_path / key
    there = path.read_bytes()[:-1] + b"?"
    path.write_bytes(flipped(path.read_bytes()))
    before, store = files(tmp_path), MemoryStore({key: there})
    upload = upload_to(tmp_path, store, remove=True)
    run(upload)
    assert (store.objects[key], files(tmp_path)) == (there, before)
    assert "the file here is damaged" in upload.doubtful[key]
    assert "which is damaged" in upload.doubtful[key]
    assert "restore it from elsewhere" in upload.doubtful[key]


def test_a_file_that_was_removed_before_is_judged_by_its_recorded_digest(tmp_path: Path) -> None:
    name = closed(tmp_path, 1)
    key, store = f"cdxj/{name}.cdxj", MemoryStore()
    content = (tmp_path / key).read_bytes()
    run(upload_to(tmp_path, store, remove=True))
    (tmp_path / key).write_bytes(flipped(content))  # copied back, and damaged since
    upload = upload_to(tmp_path, store, remove=True)
    run(upload)
    assert store.objects[key] == content
    assert "the file here is damaged" in upload.doubtful[key]
    (tmp_path / key).write_bytes(content)
    store.objects[key] = flipped(content)
    run(upload_to(tmp_path, store, remove=True))
    assert (store.objects[key], files(tmp_path)) == (content, {})


def own_folders(folder: Path) -> dict[str, Path]:
    """Places that are no second place for the files of the crawl in ``folder``, by their names."""
    outside = folder.parent.parent
    (outside / "link").symlink_to(folder)
    (outside / "store").mkdir()
    (outside / "store" / "warc").symlink_to(folder / "warc")
    (folder / "inside").mkdir()
    return {
        "itself": folder,
        "a link": outside / "link",
        "a store with a link": outside / "store",
        "inside": folder / "inside",
        "a part": folder / "warc",
        "inside, by the link": outside / "link" / "inside",
        "around": folder.parent,
    }


def test_the_crawl_folder_is_no_store_of_its_own_crawl(tmp_path: Path) -> None:
    folder = tmp_path / "crawls" / "one"
    folder.mkdir(parents=True)
    closed(folder, 1)
    for what, place in own_folders(folder).items():
        with pytest.raises(OwnFolder, match=r"this is the crawl folder .*; give a folder outside"):
            refuse_own_folder(place.as_uri(), folder)
            pytest.fail(what)
    (tmp_path / "other").mkdir()
    for accepted in (tmp_path / "other", tmp_path / "missing"):
        refuse_own_folder(accepted.as_uri(), folder)
    refuse_own_folder(URL, folder)
    refuse_own_folder((tmp_path / "other").as_uri(), tmp_path / "new")
    with pytest.raises(OwnFolder):
        refuse_own_folder((tmp_path / "other").as_uri(), tmp_path / "other" / "new")


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_that_is_its_own_object_is_kept(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    folder, there = tmp_path / "crawl", tmp_path / "there"
    folder.mkdir()
    key = f"warc/{closed(folder, 1)}.warc.gz"
    (there / "warc").mkdir(parents=True)
    link(folder / key, there / key)
    before, section = files(folder), UploadSection(url=there.as_uri(), remove=True)
    upload = Upload(folder, section, FolderStore(section.url, there))
    run(upload)
    assert files(folder) == before
    assert "is the same file as the one here" in upload.doubtful[key]


class Served(FolderStore):
    """A server whose objects are the files of a folder; its URL does not say so."""


def test_a_server_that_gives_access_to_the_crawl_folder_is_no_store_of_it(tmp_path: Path) -> None:
    name = closed(tmp_path, 1)
    before = files(tmp_path)
    upload = Upload(tmp_path, UploadSection(url=URL, remove=True), Served(URL, tmp_path))
    run(upload)
    assert files(tmp_path) == before
    assert "so there is only one copy" in upload.doubtful[f"warc/{name}.warc.gz"]


# -- whose a place is


def crawl_at(folder: Path, crawl: str) -> Path:
    folder.mkdir()
    (folder / "crawl.json").write_bytes(msgspec.json.encode({"crawl": crawl, "format": 1}))
    return folder


def test_a_place_belongs_to_the_crawl_that_was_there_first(tmp_path: Path) -> None:
    store = MemoryStore()
    reserve(store, URL, crawl_at(tmp_path / "a", CRAWL), CRAWL)
    reserve(store, URL, tmp_path / "a", CRAWL)
    other = crawl_at(tmp_path / "b", "99999999-other")
    with pytest.raises(PlaceTaken, match="crawl 2f0cf3d2 was uploaded there, and this is crawl 99"):
        reserve(store, URL, other, "99999999-other")


def test_of_two_crawls_that_reserve_a_place_at_once_one_gets_it(tmp_path: Path) -> None:
    folders = [crawl_at(tmp_path / f"c{number}", f"{number}" * 8) for number in range(6)]
    store, taken = MemoryStore(), []

    def work(number: int) -> None:
        try:
            reserve(store, URL, folders[number], f"{number}" * 8)
        except PlaceTaken:
            taken.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 5


def test_a_place_with_another_manifest_is_refused(tmp_path: Path) -> None:
    store = MemoryStore({"crawl.json": b"not ours"})
    with pytest.raises(PlaceTaken, match="not that of a crawl"):
        reserve(store, URL, crawl_at(tmp_path / "a", CRAWL), CRAWL)


def test_counts_are_of_files_here_and_there(tmp_path: Path) -> None:
    closed(tmp_path, 1)
    store = MemoryStore()
    upload = upload_to(tmp_path, store, remove=True)
    waiting = upload.waiting()
    size = sum(len(data) for data in files(tmp_path).values())
    state = upload.state(waiting)
    assert (state.files, state.waiting_files, state.waiting_bytes) == (0, 5, size)
    run(upload)
    state = upload.state(upload.waiting())
    assert (state.files, state.bytes, state.waiting_files) == (5, size, 0)
    assert (state.removed_files, state.removed_bytes) == (5, size)


def test_a_file_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    closed(tmp_path, 1)
    upload = upload_to(tmp_path, MemoryStore())
    upload.waiting()
    upload.put(LocalFile("warc/none.warc.gz", 5))
