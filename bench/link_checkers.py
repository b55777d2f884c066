"""Link checkers on one site: what each finds, what it costs, and how it treats the servers.

``python -m bench.link_checkers [--pages 1000] [--only NAME;...] [--linkchecker FILE] [--lychee FILE]``

The site is generated: ten links a page, two of them to 200 other hosts. It is served on addresses
of loopback, so each host is one, and which links are broken is known. Lycosa (``lycosa check
links``), LinkChecker and lychee check it one after the other, each with its default politeness and
with another one; a program that is not installed is named and left out. lychee follows no links, so
it gets the URLs of all pages.

A link counts as found if the program reports its URL as an error. Links that answer 429 are not
broken; they are counted apart. From the log of the server come the most requests at once to one
host, and the shortest time from the end of an answer of a host to its next request. The site and
the other hosts are apart, because options may treat them differently.

With ``--folder DIR`` the site is that folder instead, as a test set of another checker: each of its
HTML pages is a start, only links to the same host are checked, and each URL that some program
reports is printed, without a text fragment and with the answer of the server.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from mimetypes import guess_type
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from bench.measure import Cost, measure

_HOSTS = 200
_BUSY = 199  # the number of the host that answers 429
_OWN_LINKS, _OTHER_LINKS = 8, 2
_LATENCY_S = 0.02  # of each answer, or no two requests would be seen at once
_SITE = "127.0.0.1"


class Request(NamedTuple):
    """A request in the server's log: when its head was there, and when its answer was sent."""

    host: str
    path: str
    began: float
    ended: float


Answer = tuple[int, str, bytes]
"""Status, content type (or the target of a redirect), body."""


class Server:
    """Answers on many addresses of loopback, in a thread, and logs each request."""

    def __init__(self, addresses: Sequence[str], answer: Callable[[str, str], Answer]) -> None:
        self._addresses, self._answer = addresses, answer
        self.log: list[Request] = []
        self.port = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), loop).result()
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self._end(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _start(self) -> None:
        self._servers = [await asyncio.start_server(self._serve, self._addresses[0], 0)]
        self.port = self._servers[0].sockets[0].getsockname()[1]
        for address in self._addresses[1:]:
            self._servers.append(await asyncio.start_server(self._serve, address, self.port))

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, loop = writer.get_extra_info("sockname")[0], asyncio.get_running_loop()
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                began = loop.time()
                method, path, _ = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
                await asyncio.sleep(_LATENCY_S)
                status, kind, body = self._answer(host, path)
                field = "Location" if 300 <= status < 400 else "Content-Type"
                writer.write(
                    f"HTTP/1.1 {status} x\r\n{field}: {kind}\r\nContent-Length: {len(body)}\r\n"
                    "\r\n".encode()
                    + (b"" if method == "HEAD" else body)
                )
                await writer.drain()
                self.log.append(Request(host, path, began, loop.time()))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client is done
        finally:
            writer.close()


# The generated site


class MadeSite:
    """A site of ``pages`` pages; ``broken`` and ``busy`` are the URLs of links that are."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.addresses = [_SITE, *(f"127.1.0.{number}" for number in range(1, _HOSTS + 1))]
        self.server = Server(self.addresses, self.answer)
        self._random = random.Random(1)
        self._links = [self._links_of(number) for number in range(pages)]

    @property
    def start(self) -> str:
        return f"http://{_SITE}:{self.server.port}/page/0"

    @property
    def starts(self) -> list[str]:
        return [self._full((_SITE, f"/page/{number}")) for number in range(self.pages)]

    @property
    def links(self) -> list[str]:
        return [self._full(link) for links in self._links for link in links]

    @property
    def broken(self) -> set[str]:
        return {url for url in self.links if self._is(url, "missing", "fails", "moved", "closed")}

    @property
    def busy(self) -> set[str]:
        return {url for url in self.links if self._is(url, "busy")}

    def _links_of(self, page: int) -> list[tuple[str, str]]:
        """Host and path of each link: four pages below this one, others, and pages elsewhere."""
        below = [number for number in range(4 * page + 1, 4 * page + 5) if number < self.pages]
        others = self._random.choices(range(self.pages), k=_OWN_LINKS - len(below))
        own = [(_SITE, f"/page/{number}") for number in below + others]
        if page % 20 == 7:
            own[-1] = (_SITE, f"/missing/{page}")
        numbers = range(_OTHER_LINKS * page, _OTHER_LINKS * (page + 1))
        return own + [self._other_link(number) for number in numbers]

    def _other_link(self, number: int) -> tuple[str, str]:
        host = f"127.1.0.{number % _HOSTS + 1}"
        if number % _HOSTS == _BUSY:
            return host, f"/busy/{number}"
        kinds = {40: "missing", 53: "fails", 61: "moved", 97: "closed"}
        kind = next((kind for each, kind in kinds.items() if number % each == each - 1), "fine")
        return host, f"/{kind}/{number}"

    def _full(self, link: tuple[str, str]) -> str:
        host, path = link
        port = 1 if path.startswith("/closed/") else self.server.port
        return f"http://{host}:{port}{path}"

    @staticmethod
    def _is(url: str, *kinds: str) -> bool:
        return urlsplit(url).path.split("/")[1] in kinds

    def answer(self, host: str, path: str) -> Answer:
        """Of the server."""
        _, kind, number = (*path.split("/"), "")[:3]
        if kind == "page" and host == _SITE:
            lines = [
                f'<p><a href="{self._full(link)}">link</a></p>\n'
                for link in self._links[int(number)]
            ]
            return (
                200,
                "text/html",
                f"<!DOCTYPE html><title>{number}</title>{''.join(lines)}".encode(),
            )
        if kind == "moved":
            return 302, f"/missing/{number}", b""
        status = {"fine": 200, "fails": 500, "busy": 429}.get(kind, 404)
        return status, "text/html", b"<!DOCTYPE html><title>t</title>"


class FolderSite:
    """The files of a folder; each HTML page is a start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self.addresses = [_SITE]
        self.server = Server(self.addresses, self.answer)

    @property
    def start(self) -> str:
        return self.starts[0]

    @property
    def starts(self) -> list[str]:
        files = sorted(file for file in self._folder.rglob("*.htm*") if file.is_file())
        files = [file for file in files if file.suffix in (".html", ".htm")]
        names = [quote(str(file.relative_to(self._folder))) for file in files]
        return [f"http://{_SITE}:{self.server.port}/{name}" for name in names]

    def answer(self, host: str, path: str) -> Answer:
        file = (self._folder / unquote(urlsplit(path).path).lstrip("/")).resolve()
        if not file.is_relative_to(self._folder) or not file.is_file():
            return 404, "text/plain", b"not here"
        return 200, guess_type(file.name)[0] or "text/plain", file.read_bytes()


# The programs


class Run(NamedTuple):
    """A program with its options; ``command`` gets the site and a folder for its files.

    ``reported`` reads the URLs that it calls broken from there, and from its output.
    """

    name: str
    program: str
    command: Callable[[MadeSite | FolderSite, Path], list[str]]
    reported: Callable[[Path, str], set[str]]


def _lycosa(name: str, program: str, *options: str) -> Run:
    def command(site: MadeSite | FolderSite, folder: Path) -> list[str]:
        is_made = isinstance(site, MadeSite)
        starts = [site.start] if is_made else site.starts
        scope = ["--contact", "bench@example.org"] if is_made else ["--no-external"]
        return [
            *(program, "check", "links", *starts, "--dir", str(folder / "check")),
            *("--output", str(folder / "report.json"), "--allow-address", "127.0.0.0/8"),
            *("--severity", "not-in-sitemap=off", "--fail-on", "never", *scope, *options),
        ]

    def reported(folder: Path, output: str) -> set[str]:
        found = json.loads((folder / "report.json").read_bytes())["findings"]
        return {each["target"] for each in found if each["severity"] == "error"}

    return Run(name, program, command, reported)


def _linkchecker(name: str, program: str, per_second: int) -> Run:
    def command(site: MadeSite | FolderSite, folder: Path) -> list[str]:
        is_made = isinstance(site, MadeSite)
        settings = folder / "settings"
        settings.write_text(
            f"[checking]\nmaxrequestspersecond={per_second}\n"
            + ("" if is_made else "[AnchorCheck]\n")
        )
        return [
            *(program, "-f", str(settings), "--no-status", "-o", "none"),
            *("-F", f"csv/utf_8/{folder / 'report.csv'}"),
            *(["--check-extern", site.start] if is_made else site.starts),
        ]

    def reported(folder: Path, output: str) -> set[str]:
        lines = (folder / "report.csv").read_text("utf-8").splitlines()
        rows = csv.DictReader((line for line in lines if line[:1] != "#"), delimiter=";")
        return {
            _joined(row["parentname"], row["urlname"])
            for row in rows
            if row["valid"] == "False" or "anchor" in row["warningstring"].lower()
        }

    return Run(name, program, command, reported)


def _joined(page: str, reference: str) -> str:
    try:
        return reference if "://" in reference else urljoin(page, reference)
    except ValueError:
        return reference  # no URL, which is what was found


def _lychee(name: str, program: str, *options: str) -> Run:
    def command(site: MadeSite | FolderSite, folder: Path) -> list[str]:
        listed = folder / "pages"
        listed.write_text("".join(f"{url}\n" for url in site.starts))
        scope = (
            []
            if isinstance(site, MadeSite)
            else ["--include", f"http://{_SITE}", "--include-fragments"]
        )
        return [
            *(
                program,
                "--no-progress",
                "--format",
                "json",
                "--output",
                str(folder / "report.json"),
            ),
            *("--files-from", str(listed), *scope, *options),
        ]

    def reported(folder: Path, output: str) -> set[str]:
        report = json.loads((folder / "report.json").read_bytes())
        found = [*report["error_map"].values(), *report.get("timeout_map", {}).values()]
        return {error["url"] for errors in found for error in errors}

    return Run(name, program, command, reported)


def _runs(linkchecker: str, lychee: str) -> list[Run]:
    lycosa = str(Path(".venv/bin/lycosa").resolve())
    polite = ("--host-concurrency", "1", "--host-request-interval", "1s")
    return [
        _lycosa("lycosa", lycosa),
        _lycosa("lycosa --delay 0s", lycosa, "--delay", "0s"),
        _linkchecker("linkchecker", linkchecker, 10),
        _linkchecker("linkchecker, 1 request/s", linkchecker, 1),
        _lychee("lychee", lychee),
        _lychee("lychee, 1 at once, 1 s", lychee, *polite),
    ]


# What came of it


class Politeness(NamedTuple):
    """Of some hosts: their requests, the most at once to one, the shortest pause in seconds."""

    requests: int
    at_once: int
    pause_s: float


def politeness(log: Sequence[Request], is_wanted: Callable[[str], bool]) -> Politeness:
    """From the log, for the hosts that are wanted. The pause is infinite without a second request
    to a host, and 0 where requests overlap.
    """
    hosts: dict[str, list[Request]] = defaultdict(list)
    for request in log:
        if is_wanted(request.host):
            hosts[request.host].append(request)
    at_once, pause_s = 0, float("inf")
    for requests in hosts.values():
        ends: list[float] = []
        for request in sorted(requests, key=lambda each: each.began):
            if ends:
                pause_s = min(pause_s, max(request.began - max(ends), 0.0))
            ends.append(request.ended)
            at_once = max(at_once, sum(end > request.began for end in ends))
    return Politeness(sum(map(len, hosts.values())), at_once, pause_s)


_HEAD = (
    "| program | found | wrong | missed | 429 called broken | seconds | CPU s | MB | requests:"
    " site, others | at once: site, others | shortest pause: site, others |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def _row(run: Run, site: MadeSite, reported: set[str], cost: Cost) -> str:
    own = politeness(site.server.log, lambda host: host == _SITE)
    other = politeness(site.server.log, lambda host: host != _SITE)
    broken, busy = site.broken, site.busy
    cells = (
        run.name,
        f"{len(reported & broken)} of {len(broken)}",
        len(reported - broken - busy),
        len(broken - reported),
        f"{len(reported & busy)} of {len(busy)}",
        f"{cost.wall_s:.0f}",
        f"{cost.cpu_s:.1f}",
        f"{cost.memory_bytes / 1e6:.0f}",
        f"{own.requests:,}, {other.requests:,}",
        f"{own.at_once}, {other.at_once}",
        f"{own.pause_s:.3f} s, {other.pause_s:.3f} s",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _check(run: Run, site: MadeSite | FolderSite, kept: Path | None) -> tuple[set[str], Cost]:
    """One run. LinkChecker gives up the rights of root, so its folder is open to all."""
    site.server.log.clear()
    with TemporaryDirectory() as name:
        folder, log = Path(name), Path(name) / "output"
        folder.chmod(0o777)
        cost = measure(run.command(site, folder), log)
        output = log.read_text("utf-8", "replace")
        try:
            reported = run.reported(folder, output)
        except OSError:
            raise SystemExit(f"{run.name} wrote no report:\n{output[-2000:]}") from None
        if kept is not None:
            shutil.copytree(folder, kept / run.name.replace(" ", "_").replace("/", "_"))
    return reported, cost


def _check_made(runs: Sequence[Run], pages: int, kept: Path | None) -> None:
    site = MadeSite(pages)
    with site.server.running():
        known = len(set(site.links))
        print(f"{len(site.links):,} links to {known:,} URLs on {_HOSTS + 1} hosts\n\n{_HEAD}")
        for run in runs:
            print(_row(run, site, *_check(run, site, kept)), flush=True)


def _check_folder(runs: Sequence[Run], folder: Path, kept: Path | None) -> None:
    site = FolderSite(folder)
    found: dict[str, list[str]] = defaultdict(list)
    with site.server.running():
        for run in runs:
            reported = {unquote(url).partition("#:~:")[0] for url in _check(run, site, kept)[0]}
            for url in reported:
                found[url].append(run.name)
        print(f"{len(site.starts)} pages, {len(found)} URLs that some program calls broken")
        for run in runs:
            print(f"{run.name}: {sum(run.name in names for names in found.values())}")
        for url, names in sorted(found.items()):
            is_own = url.startswith(f"http://{_SITE}:{site.server.port}/")
            status = site.answer(_SITE, urlsplit(url).path)[0] if is_own else "-"
            print(f"{url}  answer {status}  called broken by: {', '.join(names)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=1000, help="pages of the site, of ten links")
    parser.add_argument("--only", default="", help="names of runs, separated by semicolons")
    parser.add_argument("--linkchecker", default="linkchecker", help="its program")
    parser.add_argument("--lychee", default="lychee", help="its program")
    parser.add_argument("--folder", type=Path, help="check the pages of this folder instead")
    parser.add_argument("--keep", type=Path, help="copy what each run wrote to this folder")
    given = parser.parse_args()
    only = [name.strip() for name in given.only.split(";") if name.strip()]
    runs = [run for run in _runs(given.linkchecker, given.lychee) if not only or run.name in only]
    for run in runs:
        if shutil.which(run.program) is None:
            print(f"{run.name}: {run.program} is not installed; left out")
    runs = [run for run in runs if shutil.which(run.program) is not None]
    if given.folder is not None:
        _check_folder(runs, given.folder, given.keep)
    else:
        _check_made(runs, given.pages, given.keep)


if __name__ == "__main__":
    main()
