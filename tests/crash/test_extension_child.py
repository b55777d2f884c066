"""The process of user code: each thing that code can do to it really happens here.

Whatever a code does at its page, that page gets a failure, pages after it and other codes get their
answers, and nothing that the code started is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from lycosa.base.config.sections import CanonicalSection, ExtensionSection
from lycosa.base.model.known_code import CodeError, KnownCode
from lycosa.base.system.clock import SystemClock
from lycosa.stages.extract.called_code import MOST_OVERRUNS
from lycosa.stages.extract.code_check import described
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.extract.extension_child import ExtensionChild

SECTION = ExtensionSection(page_s=0.3, environment=("SHOP_KEY",))
CODE = """
import ctypes, os, re, subprocess, sys, threading
from time import sleep as wait
import lycosa

class Row(lycosa.Item, frozen=True):
    said: str

@lycosa.extract(Row, match="/p/")
def rows(page):
    name = page.url.rpartition("/")[2]
    found = globals().get("do_" + name)
    yield Row(str(found(page)) if found else name)

@lycosa.extract(Row, match="/p/")
def others(page):
    yield Row("other")

def do_raise(page): raise RuntimeError("a word of the page")
def do_loop(page):
    while True: pass
def do_catch(page):
    while True:
        try: wait(0.01); [None] * 1000
        except BaseException: pass
def do_regex(page): return re.match("(a+)+$", "a" * 60 + "b")
def do_memory(page): return len(b"x" * (10 << 30))
def do_exit(page): os._exit(3)
def do_sysexit(page): sys.exit(0)
def do_segfault(page): ctypes.string_at(0)
def do_fork(page):
    if os.fork() == 0:
        wait(600)
    return "forked"
def do_forkback(page): return os.fork() and "original"
def do_orphan(page):
    subprocess.Popen(["sh", "-c", "setsid sleep 600 & exit"]).wait()
    return "orphan"
def do_thread(page):
    threading.Thread(target=wait, args=(600,), daemon=True).start()
    return "thread"
def do_joined(page):
    each = threading.Thread(target=lambda: None); each.start(); each.join()
    return "joined"
def do_print(page):
    for _ in range(1024): print("x" * (1 << 20))
    return "printed"
def do_stdout(page):
    for _ in range(64): os.write(1, b"x" * (1 << 20))
    return "written"
def do_socket(page):
    for number in range(3, 4096):
        try: os.write(number, b"\\xff" * 4096)
        except OSError: pass
    return "spoiled"
def do_close(page):
    os.closerange(3, 4096)
    return "closed"
def do_modules(page):
    import lycosa.stages.extract.code_run as run, lycosa.base.model.item_schema as schema
    run.MAX_ITEM_BYTES = 1 << 40
    schema.ItemSchema.misfit = lambda *_: ""
    lycosa.stages.extract.user_item.ItemWriter.row = lambda *_: [object.__name__, 1, {}]
    return "changed"
def do_timer(page):
    import signal
    signal.setitimer(signal.ITIMER_PROF, 0)
    while True: pass
def do_environment(page): return ",".join(sorted(os.environ))
def do_files(page): return ",".join(sorted(os.listdir("/proc/self/fd")))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("code") / "shop.py"
    file.write_text(CODE)
    return file


@pytest.fixture(scope="module")
def codes(shop: Path) -> tuple[KnownCode, ...]:
    names = [KnownCode(f"{shop}:{each}") for each in ("rows", "others")]
    return described(names, SECTION)


def page(name: str) -> GivenDocument:
    return GivenDocument(f"https://shop.example/p/{name}", body=b"<p>text")


@asynccontextmanager
async def running(
    codes: Sequence[KnownCode], section: ExtensionSection = SECTION
) -> AsyncIterator[ExtensionChild]:
    child = ExtensionChild(codes, section, CanonicalSection(), SystemClock())
    try:
        yield child
    finally:
        await child.close()


def answers(
    codes: Sequence[KnownCode], *names: str, section: ExtensionSection = SECTION
) -> list[ExtensionAnswer]:
    """The answers for pages that are given at once."""

    async def ask() -> list[ExtensionAnswer]:
        async with running(codes, section) as child:
            return await asyncio.gather(*(child.answer(page(name)) for name in names))

    return asyncio.run(ask())


GOOD = [["good"]]
BAD = {
    "raise": "RuntimeError (shop.py:",
    "sysexit": "SystemExit (shop.py:",
    "loop": "Ended",
    "regex": "Ended",
    "memory": "MemoryError (shop.py:",
    "exit": "Ended",
    "segfault": "Ended",
    "fork": "Ended",
    "orphan": "Ended",
    "thread": "Ended",
    "close": "Ended",
    "socket": "Ended",
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_code_does_at_its_page_costs_only_its_rows_there(
    codes: tuple[KnownCode, ...], name: str
) -> None:
    before, bad, *after = answers(codes, "good", name, "good", "good")
    assert bad.items == {"others": [["other"]]}
    assert [each.error[: len(BAD[name])] for each in bad.failures] == [BAD[name]]
    for each in (before, *after):
        assert each.items == {"rows": GOOD, "others": [["other"]]} and not each.failures


@pytest.mark.parametrize("name", ["catch", "timer"])
def test_code_that_stops_the_clock_of_its_process_is_ended_by_wall_time(
    codes: tuple[KnownCode, ...], name: str
) -> None:
    section = ExtensionSection(page_s=0.1)
    bad, good = answers(codes[:1], name, "good", section=section)
    assert good.items == {"rows": GOOD} and bad.items == {}
    assert bad.failures[0].message.startswith(("it did not return within 1 s", "it used more than"))


def test_a_copy_of_the_process_answers_nothing(codes: tuple[KnownCode, ...]) -> None:
    found, good = answers(codes, "forkback", "good")
    # the copy may still be ending when the original looks for processes that are left
    assert found.items.get("rows", [["original"]]) == [["original"]]
    assert good.items["rows"] == GOOD


def test_threads_that_ended_are_nothing_that_was_left(codes: tuple[KnownCode, ...]) -> None:
    (found,) = answers(codes, "joined")
    assert found.items["rows"] == [["joined"]] and not found.failures


def test_output_is_bounded(codes: tuple[KnownCode, ...]) -> None:
    told: list[str] = []

    async def ask() -> list[ExtensionAnswer]:
        section = ExtensionSection(page_s=5.0)
        child = ExtensionChild(
            codes[:1], section, CanonicalSection(), SystemClock(), tell_output=told.append
        )
        try:
            return [await child.answer(page(name)) for name in ("print", "stdout")]
        finally:
            await child.close()

    assert [each.items["rows"] for each in asyncio.run(ask())] == [[["printed"]], [["written"]]]
    assert told == ["x" * 2000]


def test_changed_modules_change_nothing_outside_of_the_process(
    codes: tuple[KnownCode, ...],
) -> None:
    changed, good = answers(codes[:1], "modules", "good")
    for each in (changed, good):
        assert each.items == {}
        assert "fields" in each.failures[0].message  # the row does not fit, says the parent


def test_the_process_has_one_descriptor_and_no_secrets(
    codes: tuple[KnownCode, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("SHOP_KEY", "named")
    environment, files = answers(codes[:1], "environment", "files")
    names = environment.items["rows"][0][0].split(",")
    assert "SHOP_KEY" in names and "AWS_SECRET_ACCESS_KEY" not in names and "HOME" not in names
    # standard input, output and errors lead nowhere; the last one is the listing's own
    assert len(files.items["rows"][0][0].split(",")) == 5


@pytest.mark.long
def test_a_code_is_suspended_and_others_are_not(codes: tuple[KnownCode, ...]) -> None:
    async def ask() -> tuple[list[ExtensionAnswer], ExtensionChild]:
        async with running(codes) as child:
            # what left a thread behind ends the process, and needs no time
            found = [await child.answer(page("thread")) for _ in range(MOST_OVERRUNS)]
            return [*found, await child.answer(page("good"))], child

    found, child = asyncio.run(ask())
    assert child.suspended == [codes[0].name] and child.counts.overruns == MOST_OVERRUNS
    assert [each.error for each in found[-1].failures] == ["Suspended"]
    assert found[-1].items == {"others": [["other"]]}


def test_a_child_that_was_killed_by_others_costs_no_rows(codes: tuple[KnownCode, ...]) -> None:
    async def ask() -> list[ExtensionAnswer]:
        async with running(codes) as child:
            await child.answer(page("good"))
            waiting = [asyncio.create_task(child.answer(page("good"))) for _ in range(8)]
            await asyncio.sleep(0)
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            return await asyncio.gather(*waiting)

    for each in asyncio.run(ask()):
        assert each.items == {"rows": GOOD, "others": [["other"]]} and not each.failures


def test_nothing_that_the_code_started_is_left(codes: tuple[KnownCode, ...]) -> None:
    async def ask() -> int:
        async with running(codes[:1]) as child:
            await child.answer(page("good"))
            group = child.pid
            assert group is not None
            await child.answer(page("fork"))
            return group

    group = asyncio.run(ask())
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(ProcessLookupError):
            os.killpg(group, 0)
            continue
        break
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_other_code_answers_pages_that_wait(codes: tuple[KnownCode, ...], tmp_path: Path) -> None:
    file = tmp_path / "newer.py"
    file.write_text(CODE.replace('"other"', '"newer"'))
    (newer,) = described([KnownCode(f"{file}:others")], SECTION)

    async def ask() -> list[ExtensionAnswer]:
        async with running(codes) as child:
            waiting = [asyncio.create_task(child.answer(page("good"))) for _ in range(8)]
            await asyncio.sleep(0)
            child.use_code([newer])
            return await asyncio.gather(*waiting)

    assert [each.items for each in asyncio.run(ask())] == [{"others": [["newer"]]}] * 8


def test_source_that_changed_since_the_start_is_not_run(
    codes: tuple[KnownCode, ...], tmp_path: Path
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(CODE)
    known = described([KnownCode(f"{file}:rows")], SECTION)
    file.write_text(CODE + "\n# changed")
    (found,) = answers(known, "good")
    assert found.items == {} and "has changed" in found.failures[0].message


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("while True: pass", "its imports took too long"),
        ("import os; os._exit(0)", "gave no answer"),
        ("import missing_module_of_shop", "ModuleNotFoundError"),
        ("import lycosa\nclass Row(lycosa.Item):\n    a: bytes\n"
         "@lycosa.extract(Row)\ndef rows(page): ...", "Row.a has the type Bytes"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_loaded_is_said_at_the_start(
    tmp_path: Path, code: str, said: str
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(code)
    with pytest.raises(CodeError) as refused:
        described([KnownCode(f"{file}:rows")], ExtensionSection(page_s=0.05))
    assert said in str(refused.value)


def test_two_extractors_of_one_name_are_refused(shop: Path) -> None:
    names = [KnownCode(f"{shop}:rows"), KnownCode(f"{shop}:rows")]
    with pytest.raises(CodeError, match="has the name of one of"):
        described(names, SECTION)


def test_a_missing_file_is_named_with_its_place() -> None:
    with pytest.raises(CodeError, match=r"there is no file /.*no_such\.py"):
        described([KnownCode("./no_such.py:rows")], SECTION)
