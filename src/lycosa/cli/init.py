"""``lycosa init``: a folder to begin with: settings, an extractor, its test, a compose file."""

from __future__ import annotations

import json
import keyword
import shlex
import sys
from pathlib import Path

import click

from lycosa.cli.output import ExitCode, counted, emit, emit_json

_EPILOG = """
\b
Examples:
  lycosa init shop --seed https://shop.example/ --contact you@example.org
  cd shop && python test_shop.py && lycosa crawl --config crawl.toml https://shop.example/

Written are crawl.toml, an extractor with its test, and compose.yaml for a machine with Docker.
Existing files are never replaced.
"""
_SETTINGS = """\
# Settings of the crawl; `lycosa config` explains each one.

[agent]
contact = {contact} # for site owners: a URL or an e-mail address

[limits]
max_pages = 1000 # captures of all runs together; remove it for a crawl that runs every night

[extensions]
code = ["./{name}.py:{name}"]
"""
_CODE = '''\
"""What the crawl extracts: articles, with the text that is not navigation.

    lycosa crawl {seed} --config crawl.toml --dir data
    lycosa sql data "SELECT title, published, _url FROM {name}"
    lycosa extract data ./{name}.py:{name} --again          after a correction, without a request
    lycosa shell data {seed}                                try selectors on a stored page
"""

from collections.abc import Iterator

import lycosa


class Article(lycosa.Item, frozen=True):
    """The columns of the table `{name}`. A change of them needs a greater `version` below."""

    title: str
    published: str | None
    characters: int
    text: str


@lycosa.extract(Article, version=1)  # match=r"/articles/" leaves out all other URLs
def {name}(page: lycosa.Document) -> Iterator[Article]:
    """Called for each page; yields any number of items."""
    if page.media_type != "text/html":
        return
    main = page.main()
    heading = page.select_one("h1")
    title = heading.text if heading else main.title
    if title:
        yield Article(title, main.published or None, len(main.text), main.text[:20_000])
'''
_TEST = '''\
"""Needs no network: python test_{name}.py, or pytest."""

import lycosa
from {name} import {name}

PAGE = b"""<!DOCTYPE html><html lang="en"><head><title>Lamps - A shop</title></head><body>
<nav><a href="/">Home</a> <a href="/lamps">Lamps</a></nav>
<article><h1>How lamps work</h1>
<p>A lamp turns a current into light. The wire in it is so thin that it glows, and it does not burn
because there is no air around it, which took the inventors of lamps a long time to find out.</p>
<p>Later lamps have no wire. They use less of the current for warmth, and more of it for light.</p>
</article></body></html>"""


def test_an_article_has_its_heading_and_its_text():
    (item,) = {name}(lycosa.document(PAGE, url="https://shop.example/lamps"))
    assert item.title == "How lamps work"
    assert "A lamp turns" in item.text and "Home" not in item.text
    assert item.characters == len(item.text)


def test_a_page_without_a_heading_has_no_item():
    assert list({name}(lycosa.document(b"<p>Nothing.</p>", url="https://shop.example/"))) == []


if __name__ == "__main__":
    test_an_article_has_its_heading_and_its_text()
    test_a_page_without_a_heading_has_no_item()
    print("passed")
'''
_COMPOSE = """\
# docker compose run --rm crawl      (again: the crawl continues)
# The image is built from a checkout of Lycosa: docker build -f deploy/Dockerfile -t lycosa .
services:
  crawl:
    image: ${{LYCOSA_IMAGE:-lycosa}}
    command: [crawl, "{seed}", --config, crawl.toml, --dir, data]
    user: "${{UID:-1000}}:${{GID:-1000}}" # the files in data belong to you
    working_dir: /crawl
    volumes: [".:/crawl"]
    environment: {{HOME: /tmp}}
    tmpfs: [/tmp]
    init: true
    stop_grace_period: 3m
"""


@click.command(
    "init",
    epilog=_EPILOG,
    short_help="Begin a crawl with code of your own: settings, extractor, test.",
)
@click.argument("name")
@click.option("--seed", metavar="URL", default="https://example.org/", help="Where to begin.")
@click.option("--contact", metavar="URL|EMAIL", default="", help="The contact for site owners.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(name: str, seed: str, contact: str, as_json: bool) -> ExitCode:
    """Write a folder NAME with what a crawl with an extractor needs."""
    folder = Path(name)
    files = _files(_table_name(folder.name), _checked(seed), contact)
    there = [each for each in files if (folder / each).exists()]
    if there:
        raise click.UsageError(
            f"{folder / there[0]} exists, and is not replaced; give another name"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for each, text in files.items():
        with (folder / each).open("x", encoding="utf-8") as file:
            file.write(text)
    if as_json:
        emit_json({"folder": str(folder), "files": list(files)})
        return ExitCode.FINISHED
    emit(f"{counted(len(files), 'file')} in {folder}: {', '.join(files)}")
    if not contact:
        emit("write a contact for site owners into crawl.toml")
    # Of the interpreter that has lycosa, which need not be the first on the path.
    python = shlex.quote(sys.executable)
    emit(f"next: cd {shlex.quote(str(folder))} && {python} test_{_table_name(folder.name)}.py")
    emit(f"then: lycosa crawl {shlex.quote(seed)} --config crawl.toml --dir data")
    return ExitCode.FINISHED


def _table_name(name: str) -> str:
    """The name of the extractor, its module and its table. Raises ``click.UsageError``."""
    from lycosa.base.model.item_schema import BadSchema, check_item_name

    wanted = name.replace("-", "_").lower()
    try:
        check_item_name(wanted)
    except BadSchema as error:
        raise click.UsageError(f"{error}; give another name") from None
    if keyword.iskeyword(wanted) or wanted in ("lycosa", "test", "tests", "data"):
        raise click.UsageError(f"{wanted} cannot be the name of a module; give another name")
    return wanted


def _checked(seed: str) -> str:
    """The canonical form of the seed, which has no quotation marks. Raises ``InvalidUrl``."""
    from lycosa.base.config.sections import CanonicalSection
    from lycosa.base.urls.identity import Canonicalizer

    return Canonicalizer(CanonicalSection()).canonical(seed)


def _files(name: str, seed: str, contact: str) -> dict[str, str]:
    """The text of each file."""
    quoted = json.dumps(contact, ensure_ascii=False)  # also a string of TOML
    texts = {
        "crawl.toml": _SETTINGS,
        f"{name}.py": _CODE,
        f"test_{name}.py": _TEST,
        "compose.yaml": _COMPOSE,
    }
    return {file: text.format(name=name, seed=seed, contact=quoted) for file, text in texts.items()}
