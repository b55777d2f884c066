"""Copies the pages of the documentation site, builds it, and serves it: ``script/docs``.

The pages are plain Markdown, so that a repository browser shows them too. Three things differ in
the copy. Links that leave ``docs/`` lead to a copy of that file, because a site has no files above
its front page. A bar in the code of a table, which Markdown writes with a backslash, is a bar. A
name with a star in the navigation of ``zensical.toml`` becomes the files that there are.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs"
PAGES = SITE / "pages"
CONFIG = ROOT / "zensical.toml"
OTHERS = {
    "README.md": "index.md",  # the front page says the same
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "deploy/helm/lycosa/README.md": "kubernetes.md",
    "bench/README.md": "project/benchmarks.md",
    "bench/RESULTS.md": "project/results.md",
    "tests/data/README.md": "project/test-data.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
}
"""Pages outside of ``docs/``, and their places on the site."""
_LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def place_of(path: Path) -> str | None:
    """Where a file of the repository is on the site; ``None`` if it is not there."""
    name = path.relative_to(ROOT).as_posix()
    if name in OTHERS:
        return OTHERS[name]
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"files/{name}" if path.is_file() else None


def site_text(path: Path) -> tuple[str, list[Path]]:
    """A page as it is copied, and the files to which it links that are no pages."""
    place = place_of(path)
    assert place is not None
    files: list[Path] = []

    def relinked(found: re.Match[str]) -> str:
        begin, target, fragment, end = found[1], found[2], found[3] or "", found[4]
        file = Path(os.path.normpath(path.parent / target))
        there = place_of(file) if file.is_relative_to(ROOT) else None
        if there is None:
            return found[0]  # the build reports it
        if there.startswith("files/"):
            files.append(file)
        return f"{begin}{os.path.relpath(there, Path(place).parent)}{fragment}{end}"

    text = path.read_text("utf-8")
    parts: list[str] = []
    last = 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(relinked, text[last : code.start()]), _unescaped(text, code)]
        last = code.end()
    return "".join([*parts, _LINK.sub(relinked, text[last:])]), files


def _unescaped(text: str, code: re.Match[str]) -> str:
    """Code in a row of a table, where a bar is written with a backslash, as HTML; else as it is."""
    row = text[text.rfind("\n", 0, code.start()) + 1 : code.start()]
    if not row.startswith("|") or "\\|" not in code[0] or code[0].startswith("```"):
        return code[0]
    inner = code[0].strip("`").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<code>{inner.replace(chr(92) + '|', '&#124;')}</code>"


def sources() -> Iterator[Path]:
    """Every page of the site, in the repository."""
    yield from sorted(DOCS.rglob("*.md"))
    for name, place in OTHERS.items():
        if place != "index.md" and (ROOT / name).is_file():
            yield ROOT / name


def site_config() -> str:
    """``zensical.toml`` with the files that stars stand for."""

    def expanded(found: re.Match[str]) -> str:
        paths = sorted(DOCS.glob(found[1]), key=lambda path: path.stem)
        index = DOCS / found[1].replace("*", "index")
        if index.is_file():  # in the order of its list
            listed = index.read_text("utf-8")
            paths.sort(key=lambda path: path != index and listed.find(f"({path.name})"))
        return ", ".join(f'"{path.relative_to(DOCS).as_posix()}"' for path in paths)

    text = re.sub(r'"([\w/-]*\*\.md)"', expanded, CONFIG.read_text("utf-8"))
    return re.sub(r"^ *(\{ .* = (\[\])? \})?,\n", "", text, flags=re.MULTILINE)


def copy_pages() -> None:
    """Write what the site is built of; an equal file is left alone, so it is not built again."""
    PAGES.mkdir(parents=True, exist_ok=True)
    wanted: dict[str, bytes] = {}
    for path in sources():
        text, files = site_text(path)
        wanted[str(place_of(path))] = text.encode()
        wanted |= {str(place_of(each)): each.read_bytes() for each in files}
    for kind in ("*.png", "*.svg", "*.css", "*.json"):
        for path in DOCS.rglob(kind):
            wanted[path.relative_to(DOCS).as_posix()] = path.read_bytes()
    (SITE / "zensical.toml").write_text(site_config(), "utf-8")
    for name, content in wanted.items():
        target = PAGES / name
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for path in PAGES.rglob("*"):
        if path.is_file() and path.relative_to(PAGES).as_posix() not in wanted:
            path.unlink()


def build() -> int:
    """Build the site; a warning, such as a link to nothing, is an error."""
    shutil.rmtree(SITE, ignore_errors=True)
    copy_pages()
    # Colours are one escape sequence a character, which nobody reads in the log of a CI run.
    built = subprocess.run(
        [_program("zensical"), "build", "--clean", "--strict"],
        cwd=SITE,
        capture_output=True,
        text=True,
        check=False,
    )
    told = re.sub(r"\x1b\[[0-9;]*m", "", built.stdout + built.stderr)
    sys.stdout.write(told.partition("Traceback (most recent call last)")[0])
    if built.returncode == 0:
        print(f"the front page is {SITE / 'site' / 'index.html'}")
    return built.returncode


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Requests are not worth a line each."""


def check() -> int:
    """Check the links of the built site as a visitor meets them, by ``lycosa check links``."""
    handler = partial(_Quiet, directory=str(SITE / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, TemporaryDirectory() as folder:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        options = ["--no-external", "--allow-address", "127.0.0.1", "--delay", "0s"]
        told = subprocess.run(
            [_program("lycosa"), "check", "links", f"http://127.0.0.1:{port}/", *options],
            cwd=folder,  # the crawl of the check is made below it
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        server.shutdown()
    if told.returncode:
        sys.stderr.write(told.stderr)
    return told.returncode


def serve(address: str) -> int:
    """Serve the site, and copy pages that change, until Ctrl-C."""
    copy_pages()
    server = subprocess.Popen([_program("zensical"), "serve", "--dev-addr", address], cwd=SITE)
    try:
        while server.poll() is None:
            time.sleep(1)
            copy_pages()
    except KeyboardInterrupt:
        server.terminate()
    return server.wait()


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/docs", description="Build the documentation.")
    parser.add_argument(
        "--serve",
        nargs="?",
        const="127.0.0.1:8000",
        metavar="HOST:PORT",
        help="serve it at this address, and follow changes",
    )
    parser.add_argument(
        "--check", action="store_true", help="also check the links of the built site"
    )
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    if given.serve:
        sys.exit(serve(given.serve))
    sys.exit(build() or (check() if given.check else 0))
