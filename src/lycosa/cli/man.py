"""``lycosa man``: manual pages of all commands, in the form of ``man(7)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from lycosa.cli.output import ExitCode, emit

_EPILOG = """
\b
Examples:
  lycosa man crawl | man -l -
  lycosa man --install ~/.local/share/man/man1       then: man lycosa-crawl
"""


@click.command("man", epilog=_EPILOG, short_help="Manual pages.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option(
    "--install",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the pages of all commands into DIR, which is created.",
)
def command(words: tuple[str, ...], folder: Path | None) -> ExitCode:
    """Print the manual page of COMMAND, or of lycosa itself."""
    context = click.get_current_context().find_root()
    pages = dict(_contexts(context))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, each in pages.items():
            (folder / f"{name}.1").write_text(manual_page(name, each), "utf-8")
        emit(f"{len(pages)} pages are in {folder}")
        return ExitCode.FINISHED
    name = "-".join(("lycosa", *words))
    if name not in pages:
        raise click.UsageError(f"there is no command {' '.join(words)!r}; see lycosa --help")
    emit(manual_page(name, pages[name]))
    return ExitCode.FINISHED


def manual_page(name: str, context: click.Context) -> str:
    """One page in section 1, from the same texts as ``--help``."""
    shown = context.command
    title = _escaped(f"{name} - {shown.get_short_help_str(200).rstrip('.')}")
    lines = [
        f'.TH "{name.upper()}" "1" "" "Lycosa {version("lycosa")}" "Lycosa"',
        ".SH NAME",
        title,
    ]
    usage = " ".join(shown.collect_usage_pieces(context))
    lines += [".SH SYNOPSIS", f".B {_escaped(context.command_path)}", _escaped(usage)]
    lines += [".SH DESCRIPTION", *_paragraphs(shown.help or "")]
    options = [
        record
        for each in shown.get_params(context)
        if isinstance(each, click.Option) and (record := each.get_help_record(context)) is not None
    ]
    if options:
        lines.append(".SH OPTIONS")
        for option, meaning in options:
            lines += [".TP", f".B {_escaped(option)}", _escaped(meaning)]
    if isinstance(shown, click.Group):
        lines.append(".SH COMMANDS")
        for each in shown.list_commands(context):
            found = shown.get_command(context, each)
            assert found is not None
            lines += [".TP", f".B {_escaped(each)}", _escaped(found.get_short_help_str(200))]
    if shown.epilog:
        lines += [".SH NOTES", *_paragraphs(shown.epilog)]
    return "\n".join(lines) + "\n"


def _contexts(context: click.Context) -> Iterator[tuple[str, click.Context]]:
    """All commands with the names of their pages."""
    yield context.command_path.replace(" ", "-"), context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            found = context.command.get_command(context, name)
            assert found is not None
            yield from _contexts(click.Context(found, info_name=name, parent=context))


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs; those that begin with ``\\b`` keep their lines, as click shows them."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        lines = [line.rstrip() for line in paragraph.splitlines()]
        if lines and lines[0].strip() == "\b":
            yield ".nf"
            yield from map(_escaped, lines[1:])
            yield ".fi"
        else:
            yield _escaped(" ".join(line.strip() for line in lines))


def _escaped(text: str) -> str:
    """Text without signs that have a meaning for ``troff``."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
