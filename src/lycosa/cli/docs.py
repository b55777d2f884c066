"""``lycosa docs``: the documents that help texts name, of this version.

The wheel has them in ``lycosa/docs``. In a checkout they are next to ``src``, where an editable
installation finds them.
"""

from __future__ import annotations

from pathlib import Path

import click

from lycosa.cli.output import ExitCode, emit, emit_json, emit_table, is_terminal

_PACKAGE = Path(__file__).resolve().parents[1]

_EPILOG = """
\b
Examples:
  lycosa docs                      the pages
  lycosa docs formats              one page, as Markdown
  lycosa docs decisions/memory
  lycosa docs politeness --path    where its file is, for an editor or browser
"""


def documents_folder() -> Path:
    """The documents of this installation or checkout. Raises ``click.ClickException``."""
    for folder in (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs"):
        if (folder / "index.md").is_file():
            return folder
    raise click.ClickException("this installation has no documents: a wheel of Lycosa has them")


@click.command("docs", epilog=_EPILOG, short_help="The documents of this version.")
@click.argument("page", required=False)
@click.option("--path", "as_path", is_flag=True, help="Print the path of the file, or the folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as one JSON document.")
def command(page: str | None, as_path: bool, as_json: bool) -> int:
    """Show the PAGE of the documents; without PAGE, list them."""
    folder = documents_folder()
    if page is not None:
        file = _file_of(folder, page)
        if as_path:
            emit(str(file))
        elif is_terminal():
            click.echo_via_pager(file.read_text("utf-8"))
        else:
            emit(file.read_text("utf-8").rstrip("\n"))
    elif as_path:
        emit(str(folder))
    else:
        rows = [(name, _title(folder / f"{name}.md")) for name in _names(folder)]
        if as_json:
            emit_json([{"page": name, "title": title} for name, title in rows])
        else:
            emit_table(("page", "title"), rows)
    return ExitCode.FINISHED


def _file_of(folder: Path, page: str) -> Path:
    """The file of a page, whose name may be given as in a link (``docs/formats.md``)."""
    name = page.removeprefix("docs/").removesuffix(".md")
    names = _names(folder)
    if name not in names:
        from lycosa.base.config.near_names import near_name

        near = near_name(name, names)
        told = f"; did you mean {near!r}?" if near else ""
        raise click.UsageError(
            f"there is no page {page!r}{told}", click.get_current_context(silent=True)
        )
    return folder / f"{name}.md"


def _names(folder: Path) -> list[str]:
    """The pages: those for users first, decisions and the like after them."""
    found = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")]
    return sorted(found, key=lambda name: ("/" in name, name))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines, "").lstrip("# ").strip()
