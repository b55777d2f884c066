"""User code as bytes: names, digests, stored copies, and what a node of a cluster allows."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

import lycosa
from lycosa.base.config.sections import ExtensionSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.code_version import CodeVersion, changed_code, code_name, code_refusal
from lycosa.base.system.code_file import CodeFile, UnreadableCode, read_code, read_named
from lycosa.processes.cluster.node_code import NodeCode
from lycosa.processes.folder_code import FolderCode
from lycosa.stages.extract.code_source import CodeError, load_code
from lycosa.state.objects.object_errors import StoreUnreachable
from lycosa.state.objects.stored_code import (
    CODE_NAME,
    CodeRecord,
    DamagedCode,
    code_records,
    find_code,
    keep_code,
    note_code,
    present_code,
)
from lycosa.worker.code_in_use import CodeInUse, RunningCode
from lycosa.worker.job import RunCode
from memory_objects import MemoryStore

CODE = CodeFile(b"products = 1\n")
OTHER = CodeFile(b"products = 2\n")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package whose files would tell if they ran."""
    folder = tmp_path / "store"
    (folder / "inner" / "__pycache__").mkdir(parents=True)
    (folder / "__init__.py").write_text("from store.inner import names\n")
    (folder / "inner" / "__init__.py").write_text("names = ['lamp']\n")
    (folder / "inner" / "__pycache__" / "x.py").write_text("")
    (folder / "notes.txt").write_text("not code")
    return folder


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("./shop.py:products", "shop:products"),
        ("/home/me/my-shop.py:products", "my-shop:products"),
        ("code/store/:products", "store:products"),
        ("package.module:products", "package.module:products"),
    ],
)
def test_a_name_is_without_the_folder(given: str, name: str) -> None:
    assert code_name(given) == name


@pytest.mark.parametrize(
    "given", ["shop.py", "shop.py:", ":x", "a b.py:x", "shop.py:x y", "é:x", "x" * 300 + ":a"]
)
def test_what_is_no_name_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"write FILE\.py:NAME"):
        code_name(given)


def test_the_digest_of_a_file_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_bytes(CODE.content)
    assert read_named(f"{tmp_path}/shop.py:products") == CODE
    assert hashlib.sha256(CODE.content).hexdigest() == CODE.digest


def test_the_digest_of_a_package_is_that_of_its_modules_on_each_machine(package: Path) -> None:
    code = read_code(package)
    # a release of Python that made another archive would make other digests on some machines
    assert code.digest == "d116ce57b7efc87c7b3290ff62bff71e84b1c9c855f74c48985f4ea9600c3d33"
    (package / "notes.txt").write_text("changed")
    for path in package.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    assert read_code(package) == code
    (package / "inner" / "__init__.py").write_text("names = ['chair']\n")
    assert read_code(package).digest != code.digest


def test_a_stored_package_can_be_imported(package: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.zip"
    copy.write_bytes(read_code(package).content)
    assert sorted(zipfile.ZipFile(copy).namelist()) == [
        "store/__init__.py",
        "store/inner/__init__.py",
    ]
    script = f"import sys; sys.path.insert(0, {str(copy)!r}); import store; print(store.names)"
    said = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert said.stdout == "['lamp']\n", said.stderr


def test_a_module_of_a_package_is_found_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_package").mkdir()
    (tmp_path / "planted_package" / "__init__.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "planted_package" / "inner.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert read_named("planted_package.inner:x").content == b"raise SystemExit('it ran')\n"
    assert read_named("planted_package:x").suffix == ".zip"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("./nowhere.py:x", "No such file"),
        ("no_such_module:x", "no module no_such_module"),
        ("json.no_such_module:x", "no module json.no_such_module"),
        ("sys:x", "no module sys with a source file"),
    ],
)
def test_code_that_is_not_there_is_refused(given: str, why: str) -> None:
    with pytest.raises(UnreadableCode, match=why):
        read_named(given)


def test_a_folder_that_is_no_package_and_too_much_code_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCode, match="not a package"):
        read_code(tmp_path)
    (tmp_path / "large.py").write_bytes(b"#" * 4_000_001)
    with pytest.raises(UnreadableCode, match="bytes of code"):
        read_code(tmp_path / "large.py")


# -- beside the settings


def test_code_is_stored_by_its_digest_with_what_each_name_stood_for() -> None:
    store = MemoryStore()
    for code in (CODE, OTHER, CODE):
        keep_code(store, code)
    assert note_code(store, [CodeRecord("shop:x", CODE.digest, "./shop.py:x", 0)])
    assert not note_code(store, [CodeRecord("shop:x", CODE.digest, "./shop.py:x", 3)])
    assert note_code(store, [CodeRecord("shop:x", OTHER.digest, "./shop.py:x", 4)])
    assert present_code(code_records(store)) == {"shop:x": CodeVersion(OTHER.digest, 4)}
    assert note_code(store, [CodeRecord("shop:x", "", since=5)])
    assert present_code(code_records(store)) == {} and len(code_records(store)) == 3
    assert find_code(store, CODE.digest) == CODE
    assert sorted(store.objects) == sorted(
        [f"code/{CODE.digest}.py", f"code/{OTHER.digest}.py", CODE_NAME]
    )


def test_a_copy_with_another_content_is_none() -> None:
    store = MemoryStore({f"code/{CODE.digest}.py": b"import os; os.system('x')"})
    assert find_code(store, CODE.digest) is None
    assert find_code(store, "../settings") is None
    store = MemoryStore({CODE_NAME: b"{"})
    with pytest.raises(DamagedCode, match=r"code.json cannot be read"):
        code_records(store)


def test_a_change_keeps_since_when_code_is_in_force() -> None:
    table = changed_code({}, {"a:x": CODE.digest}, 2)
    assert changed_code(table, {"a:x": CODE.digest}, 5) == {"a:x": CodeVersion(CODE.digest, 2)}
    assert changed_code(table, {"a:x": OTHER.digest}, 5) == {"a:x": CodeVersion(OTHER.digest, 5)}
    assert changed_code(table, {"a:x": ""}, 5) == {}
    assert code_refusal(table, [CODE.digest]) == "" and "a:x" in code_refusal(table, [])


# -- a node of a cluster


class ClusterToml:
    """A node's own file."""

    def __init__(self, folder: Path) -> None:
        self.path, self._changes = folder / "cluster.toml", 0
        self.allow()

    def allow(self, *digests: str) -> None:
        text = 'name = "news"\n[kafka]\naddresses = ["10.0.0.1:9092"]\n'
        self.path.write_text(f"{text}[extensions]\nallow = {list(digests)}\n")
        self._changes += 1
        os.utime(self.path, (self._changes, self._changes))


def test_a_node_takes_from_the_bucket_what_its_own_file_allows(tmp_path: Path) -> None:
    store, file, told = MemoryStore(), ClusterToml(tmp_path), list[str]()
    keep_code(store, CODE)
    keep_code(store, OTHER)
    note_code(store, [CodeRecord("shop:x", OTHER.digest)])  # the bucket names it
    code = NodeCode(tmp_path, file.path, (), told.append)
    assert code.refresh(lambda: store) == () and not code.folder.exists()
    file.allow(CODE.digest)
    assert code.refresh(lambda: store) == (CODE.digest,)
    assert (code.folder / f"{CODE.digest}.py").read_bytes() == CODE.content
    assert told == [f"this node allows extensions by SHA-256: {CODE.digest[:12]}"]
    file.path.write_text("no TOML [")
    assert code.refresh(lambda: store) == (CODE.digest,) and "the same extensions stay" in told[-1]
    file.allow(OTHER.digest)
    assert code.refresh(lambda: store) == (OTHER.digest,)
    assert [path.stem for path in code.folder.iterdir()] == [OTHER.digest]


def test_a_node_reports_only_what_it_has(tmp_path: Path) -> None:
    store, file, told = MemoryStore(), ClusterToml(tmp_path), list[str]()
    file.allow(CODE.digest, OTHER.digest)
    # someone who can write the bucket stores something else under a digest that is allowed
    store.put(f"code/{OTHER.digest}.py", b"import os")
    code = NodeCode(tmp_path, file.path, (), told.append)
    assert code.refresh(lambda: store) == ()

    def away(call: str, key: str) -> None:
        raise StoreUnreachable("away")

    assert code.refresh(lambda: MemoryStore(fail=away)) == () and "for now: away" in told[-1]
    keep_code(store, CODE)
    assert code.refresh(lambda: store) == (CODE.digest,)


def test_code_of_the_command_line_needs_no_bucket(tmp_path: Path, package: Path) -> None:
    (tmp_path / "shop.py").write_bytes(CODE.content)
    given = [str(tmp_path / "shop.py"), str(package), OTHER.digest.upper()]
    code = NodeCode(tmp_path, ClusterToml(tmp_path).path, given)
    assert code.refresh(MemoryStore) == tuple(sorted((CODE.digest, read_code(package).digest)))
    # a copy that was changed on this machine is made again at the next start
    (code.folder / f"{CODE.digest}.py").write_bytes(b"x")
    again = NodeCode(tmp_path, ClusterToml(tmp_path).path, given)
    assert CODE.digest in again.refresh(MemoryStore)
    assert (code.folder / f"{CODE.digest}.py").read_bytes() == CODE.content
    with pytest.raises(SettingsError, match=r"--allow nowhere\.py: neither a SHA-256"):
        NodeCode(tmp_path, ClusterToml(tmp_path).path, ["nowhere.py"])


# -- a run in a folder


def section(folder: Path, **given: tuple[str, ...]) -> ExtensionSection:
    return ExtensionSection(
        code=given.get("code", (f"{folder}/shop.py:x",)), allow=given.get("allow", ())
    )


def test_a_run_has_what_is_named_and_the_folder_remembers_it(tmp_path: Path) -> None:
    crawl = tmp_path / "crawl"
    crawl.mkdir()
    (tmp_path / "shop.py").write_bytes(CODE.content)
    first = FolderCode(crawl, section(tmp_path)).keep(0, 1, 5.0)
    assert first == RunCode({"shop:x": CodeVersion(CODE.digest)}, crawl / "code", (CODE.digest,))
    again = FolderCode(crawl, section(tmp_path)).keep(3, 2, 6.0)
    assert again.code == first.code, "since when it runs"
    (tmp_path / "shop.py").write_bytes(OTHER.content)
    assert FolderCode(crawl, section(tmp_path)).keep(4, 3, 7.0).code["shop:x"].since == 4
    assert FolderCode(crawl, section(tmp_path, code=())).keep(5, 4, 8.0).code == {}
    kept = [
        (each.digest, each.term)
        for each in code_records(MemoryStore({CODE_NAME: (crawl / CODE_NAME).read_bytes()}))
    ]
    assert kept == [(CODE.digest, 1), (OTHER.digest, 3), ("", 4)]


def test_a_copy_of_the_folder_runs_only_if_the_start_allows_its_digest(tmp_path: Path) -> None:
    crawl = tmp_path / "crawl"
    crawl.mkdir()
    (tmp_path / "shop.py").write_bytes(CODE.content)
    FolderCode(crawl, section(tmp_path)).keep(0, 1, 5.0)
    (tmp_path / "shop.py").unlink()
    with pytest.raises(SettingsError, match=r"shop.py cannot be read: No such file"):
        FolderCode(crawl, section(tmp_path))
    allowed = FolderCode(crawl, section(tmp_path, allow=(CODE.digest,))).keep(1, 2, 6.0)
    assert allowed.code["shop:x"].digest == CODE.digest
    with pytest.raises(SettingsError, match=r"extensions\.allow: 'abc' is not a SHA-256"):
        FolderCode(crawl, section(tmp_path, allow=("abc",)))


def test_two_pieces_of_code_need_two_names(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for folder in (tmp_path, tmp_path / "a"):
        (folder / "shop.py").write_bytes(CODE.content)
    both = (f"{tmp_path}/shop.py:x", f"{tmp_path}/a/shop.py:x")
    with pytest.raises(SettingsError, match="rename one"):
        FolderCode(tmp_path, section(tmp_path, code=both))


# -- a worker


class Runner:
    """Notes what it is told to run."""

    def __init__(self) -> None:
        self.told: list[list[str]] = []

    def use_code(self, codes: tuple[RunningCode, ...]) -> None:
        self.told.append([each.digest for each in codes])


def test_a_worker_runs_only_what_its_machine_allows(tmp_path: Path) -> None:
    for code in (CODE, OTHER):
        (tmp_path / f"{code.digest}.py").write_bytes(code.content)
    in_force = {"shop:x": CodeVersion(CODE.digest)}
    runner = Runner()
    assert CodeInUse(RunCode(in_force, tmp_path)).codes == ()
    run = RunCode(in_force, tmp_path, (CODE.digest,))
    use = CodeInUse(run, runner)
    assert [each.digest for each in use.codes] == [CODE.digest] and not use.lacking
    use.follow({"shop:x": CodeVersion(OTHER.digest, 2)})
    assert [each.digest for each in use.codes] == [CODE.digest], "what ran before continues"
    assert use.lacking == ["shop:x"] and runner.told == []
    use.allow((CODE.digest, OTHER.digest))
    assert runner.told == [[OTHER.digest]] and not use.lacking
    use.allow((CODE.digest, OTHER.digest))
    use.follow({"shop:x": CodeVersion(OTHER.digest, 2)})
    assert len(runner.told) == 1, "it is told once"
    use.follow({})
    assert runner.told[-1] == []
    missing = msgspec.structs.replace(run, allowed=("f" * 64,), code={"a:b": CodeVersion("f" * 64)})
    assert CodeInUse(missing).lacking == ["a:b"]


def test_a_package_is_loaded_from_its_folder_and_from_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    folder = tmp_path / "two_files"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import lycosa\nfrom two_files.tools import title_of\n\n"
        "class Page(lycosa.Item, frozen=True):\n    title: str\n\n"
        "@lycosa.extract(Page)\ndef products(page):\n    yield Page(title_of(page))\n"
    )
    (folder / "tools.py").write_text("def title_of(page):\n    return page.url\n")
    code = read_code(folder)
    copy = tmp_path / f"{code.digest}.zip"
    copy.write_bytes(code.content)
    page = lycosa.document(b"<p>", url="https://a.example/")
    for name, path in ((f"{folder}:products", ""), ("two_files:products", str(copy))):
        sys.modules.pop("two_files", None)
        sys.modules.pop("two_files.tools", None)
        found = load_code(name, path, code.digest)
        assert [item.title for item in found.objects[0](page)] == ["https://a.example/"]
    copy.write_bytes(read_code(folder / "tools.py").content)
    with pytest.raises(CodeError, match="has changed"):
        load_code("two_files:products", copy, code.digest)
