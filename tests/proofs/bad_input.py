"""Bad input, bad folders, bad networks: one clear line on standard error, the documented exit code,
no traceback, nothing stored lost.

Every case runs the real command line in a process of its own. Cases that need root (a small disk, a
machine without network) or a program that is not there are reported as left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import trustme

from nginx_site import NginxSite, write_tree
from proofs.crawls import FAST, LYCOSA, Done, RunningCrawl, Whom, crawl, environment, lycosa
from proofs.outputs import Outputs

FINISHED, INTERNAL, USAGE, LIMIT, INTERRUPTED, NOTHING = range(6)
_HASTE = [
    "--set",
    "retry.first_s=0.1",
    "--set",
    "retry.tries=2",
    "--set",
    "dns.timeout_s=1",
    "--set",
    "dns.tries=1",
]


class Expected(NamedTuple):
    """What a case must end like: exit code, and a pattern that exactly one line of standard
    error matches.
    """

    code: int
    line: str


class Case(NamedTuple):
    """``run`` is given an empty folder and the site."""

    name: str
    run: Callable[[Path, NginxSite], Done]
    expected: Expected


def judge(done: Done, expected: Expected) -> str:
    """What is wrong with how a case ended; empty when nothing is."""
    matching = [line for line in done.err.splitlines() if re.search(expected.line, line)]
    faults = [
        f"exit {done.code} and not {expected.code}" if done.code != expected.code else "",
        (
            f"{len(matching)} lines on standard error match {expected.line!r}"
            if len(matching) != 1
            else ""
        ),
        "a traceback" if "Traceback" in done.err + done.out else "",
        "internal error" if "internal error" in done.err else "",
    ]
    found = "; ".join(fault for fault in faults if fault)
    return (
        f"{found}\n    out: {done.out.strip()[:600]!r}\n    err: {done.err.strip()[:1200]!r}"
        if found
        else ""
    )


# -- words


def _with_arguments(*arguments: str) -> Callable[[Path, NginxSite], Done]:
    return lambda folder, site: crawl(
        folder / "c",
        *(argument.replace("SITE", site.base) for argument in arguments),
        *_HASTE,
        timeout=30,
    )


def _with_settings(text: str) -> Callable[[Path, NginxSite], Done]:
    def run(folder: Path, site: NginxSite) -> Done:
        (folder / "settings.toml").write_text(text)
        return crawl(folder / "c", site.base, "--config", str(folder / "settings.toml"), timeout=30)

    return run


WORDS = [
    Case(
        "an unparsable seed",
        _with_arguments("http://exa mple/"),
        Expected(USAGE, r"http://exa mple/.*not a URL"),
    ),
    Case(
        "another scheme",
        _with_arguments("ftp://a.test/"),
        Expected(USAGE, r"ftp://a\.test/.*'ftp' is not crawled"),
    ),
    Case("no seed", lambda folder, _: crawl(folder / "c", timeout=30), Expected(USAGE, r"no seed")),
    Case(
        "a seed outside the scope",
        _with_arguments("SITE", "--exclude", ".*"),
        Expected(USAGE, r"seed refused.*exclude"),
    ),
    Case(
        "a seed that the guard refuses",
        lambda folder, site: lycosa(
            "crawl", site.base, "--dir", str(folder / "c"), *_HASTE, timeout=30
        ),
        Expected(NOTHING, r"127\.0\.0\.1.*--allow-address"),
    ),
    Case(
        "an unknown setting",
        _with_arguments("SITE", "--set", "fetch.slot=3"),
        Expected(USAGE, r"fetch\.slot.*did you mean fetch\.slots"),
    ),
    Case(
        "a bad value",
        _with_arguments("SITE", "--set", "fetch.slots=many"),
        Expected(USAGE, r"fetch\.slots.*many.*whole number"),
    ),
    Case(
        "a value out of bounds",
        _with_arguments("SITE", "--max-pages", "-3"),
        Expected(USAGE, r"max_pages.*-3.*at least 0"),
    ),
    Case(
        "a bad pattern",
        _with_arguments("SITE", "--include", "("),
        Expected(USAGE, r"include.*regular expression"),
    ),
    Case(
        "a bad range",
        _with_arguments("SITE", "--allow-address", "x"),
        Expected(USAGE, r"allow.address.*'x'"),
    ),
    Case(
        "a bad pin",
        _with_arguments("SITE", "--resolve", "x"),
        Expected(USAGE, r"resolve.*NAME=ADDRESS"),
    ),
    Case(
        "an unknown option",
        _with_arguments("SITE", "--max-page", "3"),
        Expected(USAGE, r"No such option.*--max-page"),
    ),
    Case(
        "an unknown command",
        lambda *_: lycosa("crawll"),
        Expected(USAGE, r"crawll.*did you mean crawl"),
    ),
    Case(
        "a type error in a file",
        _with_settings('[fetch]\n\nslots = "many"\n'),
        Expected(USAGE, r"settings\.toml:3: fetch\.slots.*many"),
    ),
    Case(
        "an unknown key in a file",
        _with_settings("[fetch]\nslotss = 3\n"),
        Expected(USAGE, r"settings\.toml:2.*fetch\.slotss.*fetch\.slots"),
    ),
    Case(
        "a file that is not TOML",
        _with_settings("[fetch\n"),
        Expected(USAGE, r"settings\.toml:1.*TOML"),
    ),
    Case(
        "a settings file that is not there",
        _with_arguments("SITE", "--config", "no.toml"),
        Expected(USAGE, r"no\.toml"),
    ),
    Case(
        "a seed file that is not there",
        _with_arguments("--seeds", "no.txt"),
        Expected(USAGE, r"no\.txt.*no such file"),
    ),
]


# -- folders


def _not_a_crawl(folder: Path, site: NginxSite) -> Done:
    (folder / "c").mkdir()
    (folder / "c" / "thesis.txt").write_text("mine")
    done = crawl(folder / "c", site.base, timeout=30)
    assert [path.name for path in (folder / "c").iterdir()] == ["thesis.txt"]
    return done


def _newer(folder: Path, site: NginxSite) -> Done:
    assert crawl(folder / "c", site.base, *FAST, "--max-pages", "3").code == LIMIT
    manifest = folder / "c" / "crawl.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    before = _tree(folder / "c")
    done = crawl(folder / "c", site.base, timeout=30)
    assert _tree(folder / "c") == before, "a newer crawl was touched"
    return done


def _in_use(folder: Path, site: NginxSite) -> Done:
    running = RunningCrawl(folder / "c", [site.base, "--delay", "1s"], folder / "out")
    try:
        assert running.runs_until((folder / "c" / "status.json").exists)
        return crawl(folder / "c", site.base, timeout=30)
    finally:
        running.kill(Whom.ALL)


def _changed_identity(folder: Path, site: NginxSite) -> Done:
    assert crawl(folder / "c", site.base, *FAST, "--max-pages", "3").code == LIMIT
    return crawl(folder / "c", site.base, "--set", "frontier.partitions=32", timeout=30)


FOLDERS = [
    Case(
        "a folder that is not a crawl", _not_a_crawl, Expected(USAGE, r"not empty and not a crawl")
    ),
    Case("a crawl of a newer version", _newer, Expected(USAGE, r"99.*newer|newer.*99")),
    Case("a crawl that is in use", _in_use, Expected(USAGE, r"in use.*\d+")),
    Case(
        "another partition count",
        _changed_identity,
        Expected(USAGE, r"partitions.*16.*32|partitions.*32.*16"),
    ),
    Case(
        "status of what is no crawl",
        lambda folder, _: lycosa("status", str(folder)),
        Expected(USAGE, r"not a crawl"),
    ),
    Case(
        "a folder below a file",
        lambda *_: lycosa("crawl", "http://a.test/", "--dir", "/dev/null/c"),
        Expected(USAGE, r"/dev/null/c"),
    ),
    Case(
        "a folder that cannot be made",
        lambda *_: lycosa("crawl", "http://a.test/", "--dir", "/proc/c"),
        Expected(USAGE, r"/proc/c.*cannot"),
    ),
]


# -- disks (root only)


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _full_disk(folder: Path, site: NginxSite) -> Done:
    """Runs full, is given room, and goes on to the end with nothing lost."""
    with small_disk(folder / "disk", "size=8m") as disk:
        arguments = [site.base, *FAST, "--set", "store.min_free_bytes=0"]
        done = crawl(disk / "c", *arguments, timeout=30)
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        again = crawl(disk / "c", *arguments, timeout=30)
        assert again.code == FINISHED, again
        outputs = Outputs(disk / "c")
        assert not outputs.disagreements(), outputs.disagreements()[:10]
        assert not outputs.captured_twice(), outputs.captured_twice()[:10]
        assert len(outputs.pages()) == _PAGES, len(outputs.pages())
    return done


def _read_only_disk(folder: Path, site: NginxSite) -> Done:
    with small_disk(folder / "disk", "size=8m,ro") as disk:
        return crawl(disk / "c", site.base, timeout=30)


DISKS = [
    Case("a full disk", _full_disk, Expected(INTERRUPTED, r"no room left")),
    Case("a disk that cannot be written to", _read_only_disk, Expected(USAGE, r"Read-only")),
]


# -- networks


def _no_network(folder: Path, site: NginxSite) -> Done:
    command = [
        "unshare",
        "--net",
        *LYCOSA,
        "crawl",
        "http://example.org/",
        "--dir",
        str(folder / "c"),
        *_HASTE,
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env=environment(),
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _tls(folder: Path, _: NginxSite) -> Done:
    with _tls_server() as port:
        return crawl(
            folder / "c",
            f"https://a.test:{port}/",
            "--resolve",
            "a.test=127.0.0.1",
            *_HASTE,
            timeout=30,
        )


@contextmanager
def _tls_server() -> Iterator[int]:
    """A server whose certificate nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("a.test").configure_cert(context)
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return  # closed
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()  # the client does not trust us: that is the case

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(server.getsockname()[1])
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


def _refused(folder: Path, _: NginxSite) -> Done:
    return crawl(folder / "c", f"http://127.0.0.1:{_closed_port()}/", *_HASTE, timeout=30)


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _robots(folder: Path, site: NginxSite) -> Done:
    (site.root / "robots.txt").write_text("User-agent: *\nDisallow: /\n")
    try:
        return crawl(folder / "c", site.base, *_HASTE, timeout=30)
    finally:
        (site.root / "robots.txt").unlink()


NETWORKS = [
    Case(
        "a host that does not resolve",
        _with_arguments("http://no-such-host.invalid/"),
        Expected(NOTHING, r"no-such-host\.invalid.*name"),
    ),
    Case("nobody listens", _refused, Expected(NOTHING, r"127\.0\.0\.1.*refused")),
    Case("a certificate that is not trusted", _tls, Expected(NOTHING, r"a\.test.*certificate")),
    Case("robots.txt refuses every seed", _robots, Expected(NOTHING, r"robots\.txt.*line 2")),
]
ISOLATED = [Case("no network", _no_network, Expected(NOTHING, r"example\.org.*name|network"))]
_PAGES = 2500


def _tree(folder: Path) -> dict[str, tuple[int, int]]:
    """All files with size and time of change; the lock's notes are not part of a crawl."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


def may_mount(work: Path) -> bool:
    """Whether we may make file systems."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    (work / "probe").mkdir(exist_ok=True)
    tried = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(work / "probe")],
        capture_output=True,
        check=False,
    )
    if tried.returncode == 0:
        subprocess.run(["umount", str(work / "probe")], check=True)
    return tried.returncode == 0


def may_isolate() -> bool:
    """Whether we may make a network without anything in it."""
    return (
        shutil.which("unshare") is not None
        and subprocess.run(
            ["unshare", "--net", "true"], capture_output=True, check=False
        ).returncode
        == 0
    )


def prove(work: Path, short: bool) -> list[str]:
    """Runs all cases; gives the lines of its report. Raises ``AssertionError`` with all
    failures.
    """
    cases = [*WORDS, *FOLDERS, *NETWORKS]
    left_out = []
    if short:
        cases = [case for case in cases if case.name in _SHORT]
    else:
        cases += DISKS if may_mount(work) else []
        cases += ISOLATED if may_isolate() else []
        left_out = [] if may_mount(work) else [case.name for case in DISKS]
        left_out += [] if may_isolate() else [case.name for case in ISOLATED]
    write_tree(work / "site", 100 if short else _PAGES, seed=6)
    report, failed = [], []
    with NginxSite(work / "nginx", work / "site") as site:
        for number, case in enumerate(cases):
            folder = work / f"case-{number}"
            folder.mkdir()
            done = case.run(folder, site)
            fault = judge(done, case.expected)
            line = next(
                (line for line in done.err.splitlines() if re.search(case.expected.line, line)), ""
            )
            report.append(
                f"{case.name}: exit {done.code}: {line}"
                if not fault
                else f"{case.name}: FAILED: {fault}"
            )
            failed += [case.name] if fault else []
    report += [f"left out (needs root): {name}" for name in left_out]
    assert not failed, "\n".join(report)
    return report


_SHORT = {
    "a seed that the guard refuses",
    "an unknown setting",
    "a type error in a file",
    "a folder that is not a crawl",
    "a crawl that is in use",
    "nobody listens",
    "a certificate that is not trusted",
    "robots.txt refuses every seed",
}
assert {case.name for case in [*WORDS, *FOLDERS, *NETWORKS]} >= _SHORT
