"""Renderers, workers and whole crawls that are killed while pages are rendered: in the end each
page is rendered as it would have been, and no process is left.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import duckdb
import msgspec
import pytest

from browser_sandbox import has_browser, sandbox_options
from clusters import Program, await_death
from crawling import page
from killing import child_of_module, children_of, group_of
from lycosa.synthetic import Response
from rendering import script, shell
from scripted_build import ENVIRONMENT
from serving import served

needs_browser = pytest.mark.skipif(not has_browser(), reason="needs Chromium")
_LONGEST_S = 60.0
_PAGES = 3


class Apps:
    """A site whose pages are empty without their scripts; each script needs data."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self.asked: Counter[str] = Counter()
        self.answers = {"/robots.txt": Response(404, [], b"")}
        names = [f"p{number}" for number in range(_PAGES)]
        self.answers["/"] = shell("/all.js")
        self.answers["/all.js"] = script(*(f"link /{name}" for name in names))
        for name in names:
            self.answers[f"/{name}"] = shell(f"/{name}.js")
            self.answers[f"/{name}.js"] = script(f"load /{name}.json", f"text end of {name}")
            data = f"data of {name}".encode()
            self.answers[f"/{name}.json"] = Response(200, [("Content-Type", "text/plain")], data)

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = "/" + url.split("/", 3)[3]
        with self._news:
            self.asked[path] += 1
            self._news.notify_all()
        return self.answers.get(path) or page(text="nothing")

    def await_that(self, is_so: Callable[[], object], what: object) -> None:
        """Wait until something holds that requests or the moments between them change."""
        deadline = time.monotonic() + _LONGEST_S
        with self._news:
            while not is_so():
                assert time.monotonic() < deadline, str(what)
                self._news.wait(0.05)


@contextmanager
def crawl_of(
    folder: Path, url: str, environment: Mapping[str, str], *options: str
) -> Iterator[Program]:
    program = Program(
        folder,
        *("crawl", url, "--dir", "c", "--resolve", "app.test=127.0.0.1"),
        *("--allow-address", "127.0.0.0/8", "--delay", "0.05s", "--contact", "a@b.example"),
        *("--set", "render.mode=always", "--set", "politeness.address_delay_s=0"),
        # A host whose request was cut off waits for the longest delay that there is.
        *("--set", "politeness.max_adaptive_delay_s=0.5", *options),
        *sandbox_options(),
        environment=environment,
    )
    try:
        yield program
    finally:
        program.end()


def renders_of(folder: Path) -> dict[str, tuple[str, str]]:
    """End and text of each render, by path; each page has one."""
    files = str(folder / "c" / "renders" / "*.parquet")
    rows = duckdb.sql(f"SELECT url, \"end\", text FROM '{files}'").fetchall()
    found = {"/" + url.split("/", 3)[3]: (end, text or "") for url, end, text in rows}
    assert len(found) == len(rows)
    return found


def test_renders_are_the_same_when_renderers_and_a_worker_are_killed(tmp_path: Path) -> None:
    site, killed = Apps(), []
    with (
        served(site) as port,
        crawl_of(tmp_path, f"http://app.test:{port}/", ENVIRONMENT) as program,
    ):

        def kill(module: str) -> None:
            site.await_that(
                lambda: child_of_module(program.process.pid, module),
                f"a process of {module}: {program}",
            )
            pid = child_of_module(program.process.pid, module)
            killed.extend(group_of(pid) if "renderer" in module else [pid])
            os.kill(pid, signal.SIGKILL)

        site.await_that(lambda: site.asked["/all.js"], f"the first render: {program}")
        kill("renderer_process")
        site.await_that(lambda: site.asked["/p0.json"] + site.asked["/p1.json"], str(program))
        kill("worker_process")
        site.await_that(
            lambda: sum(site.asked[f"/p{n}.json"] for n in range(_PAGES)) > 2, str(program)
        )
        kill("renderer_process")
        assert program.wait(_LONGEST_S) == 0, str(program)
    await_death(killed)
    rendered = renders_of(tmp_path)
    assert rendered.keys() == {"/", *(f"/p{number}" for number in range(_PAGES))}
    for number in range(_PAGES):
        end, text = rendered[f"/p{number}"]
        assert end == "quiet" and f"data of p{number}" in text and f"end of p{number}" in text
    assert "died by signal 9" in str(program)


APP = """
import('/late.js').then(each => each.run(document.getElementById('root')));
"""
LATE = """
export async function run(root) {
  const data = await (await fetch('/data.json')).json();
  for (const link of data) root.innerHTML += `<a href="${link}">${link}</a> `;
}
"""
RESTLESS = "setInterval(() => document.body.append('x'), 20)"


def scripted_by_javascript() -> Apps:
    """A page whose links come by a module and a request of it, and one that is never quiet."""
    site = Apps()
    kinds = {"/a.js": (APP, "text/javascript"), "/late.js": (LATE, "text/javascript")}
    kinds["/data.json"] = ('["/found", "/restless"]', "application/json")
    kinds["/restless.js"] = (RESTLESS, "text/javascript")
    site.answers |= {
        path: Response(200, [("Content-Type", kind)], text.encode())
        for path, (text, kind) in kinds.items()
    }
    site.answers |= {"/": shell("/a.js"), "/found": page(text="found by a script")}
    site.answers["/restless"] = shell("/restless.js")
    return site


def browsers_of(program: Program) -> list[int]:
    """The browsers that the renderer of a crawl has started, and what stands before them."""
    renderer = child_of_module(program.process.pid, "renderer_process")
    return children_of(renderer) if renderer else []


@needs_browser
@pytest.mark.long  # a browser that starts on a busy machine takes longer than anything else here
def test_real_pages_are_rendered_although_browser_and_crawl_are_killed(tmp_path: Path) -> None:
    site = scripted_by_javascript()
    with served(site) as port:
        url = f"http://app.test:{port}/"
        with crawl_of(tmp_path, url, {}) as program:
            site.await_that(lambda: site.asked["/late.js"], f"the first render: {program}")
            site.await_that(lambda: browsers_of(program), f"a browser: {program}")
            for pid in browsers_of(program):
                os.kill(pid, signal.SIGKILL)
            site.await_that(lambda: site.asked["/restless.js"], f"a second page: {program}")
            site.await_that(lambda: browsers_of(program), f"a second browser: {program}")
            group = group_of(child_of_module(program.process.pid, "renderer_process"))
            assert len(group) > 2
            program.process.kill()
            program.wait()
        await_death(group)
        with crawl_of(tmp_path, url, {}, "--set", "render.page_s=2") as program:
            assert program.wait(_LONGEST_S) == 0, str(program)
    rendered = renders_of(tmp_path)
    assert rendered["/"] == ("quiet", "/found /restless")
    assert rendered["/found"] == ("quiet", "found by a script")
    assert rendered["/restless"][0] == "busy"


@pytest.mark.long
def test_a_renderer_begins_and_ends_with_the_setting(tmp_path: Path) -> None:
    """In a crawl that was started without one, whose settings change while it runs."""
    site = Apps()
    with free_port() as (api, taken), served(site) as port:
        taken.close()
        options = ("--set", "render.mode=never", "--continuous", "--api", f"127.0.0.1:{api}")
        with crawl_of(tmp_path, f"http://app.test:{port}/", ENVIRONMENT, *options) as program:
            site.await_that(lambda: site.asked["/"], str(program))
            assert not child_of_module(program.process.pid, "renderer_process")
            change(api, "settings", {"values": {"render.mode": "always"}}, "PATCH")
            site.await_that(
                lambda: child_of_module(program.process.pid, "renderer_process"), str(program)
            )
            url = f"http://app.test:{port}/"

            def is_ordered() -> bool:
                """As soon as the page is stored, which its parser may take seconds to begin with."""
                (row,) = change(api, "frontier/renders", {"urls": [url]}, "POST")["results"]
                return row["verdict"] in ("accepted", "waiting")

            site.await_that(is_ordered, str(program))
            site.await_that(lambda: site.asked["/p2.json"], str(program))
            change(api, "settings", {"values": {"render.mode": "never"}}, "PATCH")
            site.await_that(
                lambda: not child_of_module(program.process.pid, "renderer_process"), str(program)
            )
            with pytest.raises(HTTPError, match="409"):
                change(api, "frontier/renders", {"urls": [url]}, "POST")


def change(port: int, path: str, body: object, method: str) -> Any:
    request = Request(
        f"http://127.0.0.1:{port}/api/v1/{path}",
        msgspec.json.encode(body),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urlopen(request, timeout=_LONGEST_S) as answer:
        return msgspec.json.decode(answer.read())


@contextmanager
def free_port() -> Iterator[tuple[int, socket.socket]]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1], taken


_KILLS, _APPS = 9, 8


@needs_browser
@pytest.mark.long
def test_real_pages_are_the_same_whatever_is_killed_again_and_again(tmp_path: Path) -> None:
    """A browser, the renderer and the worker, in turns, each when something was requested again."""
    site = scripted_by_javascript()
    names = [f"/app{number}" for number in range(_APPS)]
    links = str(names).replace("'", '"').encode()
    kind = [("Content-Type", "application/json")]
    site.answers["/data.json"] = Response(200, kind, links)
    for name in names:
        run = LATE.replace("/data.json", f"{name}.json")
        site.answers |= {
            name: shell(f"{name}.js"),
            f"{name}.json": Response(200, kind, b'["/end"]'),
        }
        for path, text in (
            (f"{name}.js", APP.replace("/late", f"{name}-late")),
            (f"{name}-late.js", run),
        ):
            site.answers[path] = Response(200, [("Content-Type", "text/javascript")], text.encode())
    dead, done = list[int](), Counter[str]()
    with (
        served(site) as port,
        crawl_of(tmp_path, f"http://app.test:{port}/", {}) as program,
    ):
        for number in range(_KILLS):
            before = site.asked.total()
            site.await_that(
                lambda before=before: (
                    site.asked.total() > before or program.process.poll() is not None
                ),
                f"a request after {number} kills: {program}",
            )
            module = ("browser", "renderer_process", "worker_process")[number % 3]
            if module == "browser":
                site.await_that(
                    lambda: browsers_of(program) or program.process.poll() is not None, program
                )
                pids = browsers_of(program)[:1]
            else:
                pids = [child_of_module(program.process.pid, module)]
                dead += group_of(pids[0]) if module == "renderer_process" and pids[0] else pids
            for pid in filter(None, pids):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    done[module] += 1
        assert program.wait(10 * _LONGEST_S) == 0, str(program)
    print(done)
    assert done.total() >= _KILLS // 2
    await_death([pid for pid in dead if pid])
    rendered = renders_of(tmp_path)
    assert {path: rendered[path] for path in ["/", *names]} == {
        "/": ("quiet", " ".join(names)),
        **dict.fromkeys(names, ("quiet", "/end")),
    }
