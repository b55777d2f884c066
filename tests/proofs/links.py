"""Links of every page of Debian's documentation are what lexbor finds, and html5lib in every
seventh; so are those of random tag soup.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from html_pages import soup
from html_trees import differences, is_beyond_turbohtml
from lycosa.stages.parse.charset import decode_whatwg
from lycosa.stages.parse.html import read_html

FOLDERS = (
    *(
        "openjdk-17-jre-headless/api",
        "openjdk-17-doc",
        "python3.11/html",
        "postgresql-doc-15/html",
        "sqlite3",
        "nodejs",
        "libxslt1-dev",
    ),
    *("valgrind", "libffi-dev", "libtasn1-doc"),
)
_MAX_BYTES = 3_000_000  # what a crawl reads of a page; html5lib needs seconds for more


def pages_of_debian() -> list[Path]:
    """The HTML pages of the documentation packages that are installed, in order, none twice."""
    root = Path("/usr/share/doc")
    found = {
        path.resolve()
        for name in FOLDERS
        for path in (root / name).rglob("*.htm*")
        if path.is_file()
    }
    return sorted(found)


def prove(work: Path, short: bool, pages: int = 0, seeds: int = 0) -> list[str]:
    """Compares ``pages`` pages (0 = all) and ``seeds`` soups."""
    paths = pages_of_debian()
    assert paths, "no documentation is installed"
    paths = paths[:: max(1, len(paths) // (pages or (200 if short else len(paths))))]
    links, differing = 0, dict[str, str]()
    for number, path in enumerate(paths):
        body = path.read_bytes()[:_MAX_BYTES]
        page = read_html(body)
        links += len(page.links)
        told = differences(
            page, decode_whatwg(body, page.charset).lstrip("\ufeff"), html5lib_too=number % 7 == 0
        )
        differing.update({f"{path} ({parser})": what for parser, what in told.items()})
    lines = [f"{len(paths)} pages, {links} links: {len(differing)} differ"]
    soups = _differing_soups(seeds or (500 if short else 50_000))
    lines.append(f"{seeds or (500 if short else 50_000)} soups: {len(soups)} differ")
    assert not differing and not soups, "\n".join(
        [*lines, *(f"{name}: {what}" for name, what in (differing | soups).items())]
    )
    return lines


def _differing_soups(seeds: int) -> dict[str, str]:
    found = dict[str, str]()
    for seed in range(seeds):
        random = Random(seed)
        html = soup(random, random.randrange(2, 60))
        if is_beyond_turbohtml(html):
            continue
        for parser, what in differences(read_html(html), html, html5lib_too=False).items():
            found[f"soup {seed} ({parser})"] = what
    return found
