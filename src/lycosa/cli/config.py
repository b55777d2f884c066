"""``lycosa config``: every setting with its value, the source of that value, and its meaning."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from lycosa.cli.output import emit, emit_json, emit_pairs, emit_table

_EPILOG = """
\b
Examples:
  lycosa config                                  every setting with value, source and meaning
  lycosa config politeness                       the settings of one section
  lycosa config politeness.delay_s fetch.slots   two settings in full, with type and bound
  lycosa config --toml > crawl.toml              a file to edit, for lycosa crawl --config FILE
  lycosa config --config crawl.toml --set politeness.delay_s=2s --json
  lycosa config --dir crawls/example.org         the settings of the last run of that crawl

Sources, of which a later one replaces an earlier one: defaults, the settings saved with the crawl,
the file, the environment (LYCOSA_POLITENESS__DELAY_S=2s), --set. Write durations as 90, 500ms,
1.5s, 10m, 2h, 1d; sizes as 512KiB, 100MB, 10GB; lists with commas.
"""


_PAGE = """
# Settings

`lycosa config --markdown` prints this page. Settings come from these sources; a later one replaces
an earlier one: defaults, the settings saved with the crawl, the file given with `--config` (TOML),
the environment (`LYCOSA_POLITENESS__DELAY_S=2s`), `--set politeness.delay_s=2s`, and options such
as `--delay 2s`.

Write durations as `90`, `500ms`, `1.5s`, `10m`, `2h`, `1d`; sizes as bytes or `512KiB`, `100MB`,
`10GB`; lists as TOML arrays or with commas. An unknown key or a bad value stops the start.
Obedience to robots.txt is not a setting.

Settings marked "Live" may change while the crawl runs: on the operator's page, by the HTTP
interface (`PATCH /api/v1/settings`), or with `lycosa cluster set`. A change is saved with the
crawl, and a restart with the same options keeps it ([service](service.md#pause-stop-resume)).
"""


@click.command(
    "config", epilog=_EPILOG, short_help="Every setting with its value, source and meaning."
)
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Settings file in TOML.")
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="One setting; may be repeated."
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Start from the settings of this crawl's last run.",
)
@click.option("--json", "form", flag_value="json", help="Print one JSON document.")
@click.option(
    "--toml",
    "form",
    flag_value="toml",
    help="Print a settings file with comments, to save and edit.",
)
@click.option(
    "--markdown",
    "form",
    flag_value="markdown",
    help="Print the page of the documentation (defaults only).",
)
def command(
    keys: tuple[str, ...],
    file: Path | None,
    pairs: tuple[str, ...],
    folder: Path | None,
    form: str | None,
) -> None:
    """Show settings: all of them, or those that KEY names. KEY is a setting or a section."""
    run(keys, file, pairs, folder, form)


def run(
    keys: Sequence[str],
    file: Path | None,
    pairs: Sequence[str],
    folder: Path | None,
    form: str | None,
) -> None:
    """Print the settings in the requested form."""
    from lycosa.base.config.fields import value_of
    from lycosa.base.config.sources import load_settings

    base = _saved(folder) if folder is not None else None
    settings = load_settings(file, os.environ, pairs, base=base)
    chosen = _chosen(keys)
    if form == "json":
        values = {key: value_of(settings.config, key) for key in chosen}
        emit_json([{**_entry(settings, key), "value": values[key]} for key in chosen])
    elif form == "toml":
        emit("\n".join(toml_lines(settings, chosen)))
    elif form == "markdown":
        emit(markdown())
    elif len(chosen) <= 3 and keys:
        for number, key in enumerate(chosen):
            if number:
                emit("")
            entry = _entry(settings, key)
            emit_pairs(
                (name, entry[name])
                for name in ("key", "value", "origin", "default", "type", "bound", "meaning")
            )
    else:
        rows = (
            (entry["key"], entry["value"], entry["origin"], entry["meaning"])
            for entry in (_entry(settings, key) for key in chosen)
        )
        emit_table(("setting", "value", "origin", "meaning"), rows)


def _saved(folder: Path) -> Any:
    """Settings that the crawl's last run had."""
    import json

    from lycosa.base.config.sources import SettingsError, from_dict
    from lycosa.state.folder import manifest

    manifest.load_manifest(folder)
    path = folder / "settings.json"
    try:
        return from_dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SettingsError([f"{path} is not JSON: {error}"]) from error


def _chosen(keys: Sequence[str]) -> list[str]:
    """The requested settings, in the order of the tree; ``SettingsError`` for an unknown one."""
    from lycosa.base.config.fields import fields, sections
    from lycosa.base.config.sources import SettingsError, meant

    if not keys:
        return list(fields())
    chosen: set[str] = set()
    for key in keys:
        if key in sections():
            chosen.update(name for name in fields() if name.startswith(f"{key}."))
        elif key in fields():
            chosen.add(key)
        else:
            near = meant(key)
            raise SettingsError(
                [
                    f"there is no setting or section {key!r}"
                    + (f"; did you mean {near}?" if near else "; `lycosa config` lists all")
                ]
            )
    return [name for name in fields() if name in chosen]


def _entry(settings: Any, key: str) -> dict[str, str]:
    from lycosa.base.config.fields import fields, value_of

    field = fields()[key]
    return {
        "key": key,
        "value": field.show(value_of(settings.config, key)),
        "origin": settings.origin(key),
        "type": field.type_text,
        "default": field.show(field.default),
        "bound": field.bound_text,
        "meaning": field.meaning,
    }


def toml_lines(settings: Any, chosen: Sequence[str]) -> Iterator[str]:
    """A TOML file with comments.

    Settings at their defaults are commented out, so that a later release can change the default.
    """
    from lycosa.base.config.fields import fields, sections, value_of

    yield "# Settings of a crawl: lycosa crawl --config THIS-FILE SEED..."
    yield (
        "# Lines with # in front show defaults. Durations: 90, 500ms, 2h, 1d. Sizes: 512KiB, 100MB,"
        " 10GB."
    )
    # Settings of no section come first, because after a section's header they would belong to it.
    for section in ("", *sections()):
        keys = [key for key in chosen if key.rpartition(".")[0] == section]
        if keys and section:
            yield f"\n# {sections()[section]}\n[{section}]"
        for key in keys:
            field, value = fields()[key], value_of(settings.config, key)
            facts = ", ".join(filter(None, (field.type_text, field.bound_text)))
            mark = "# " if settings.origin(key) == "default" else ""
            yield f"\n# {field.meaning} ({facts})"
            yield f"{mark}{key.rpartition('.')[2]} = {_toml(field, value)}"


def _toml(field: Any, value: Any) -> str:
    """A value as TOML. Strings are JSON strings, which mean the same in TOML."""
    import json

    from lycosa.base.config.fields import Kind

    if field.kind is Kind.LIST:
        return json.dumps(list(value), ensure_ascii=False)
    if field.kind in (Kind.WHOLE, Kind.NUMBER, Kind.FLAG) and field.show(value) not in field.words:
        return str(field.show(value))
    return json.dumps(field.show(value), ensure_ascii=False)


def markdown() -> str:
    """The documentation page of all settings."""
    from lycosa.base.config.fields import fields, sections
    from lycosa.base.config.live_settings import LIVE

    lines = [_PAGE.strip()]
    for section in ("", *sections()):
        keys = [key for key in fields() if key.rpartition(".")[0] == section]
        lines += ["", f"## {section or 'Top level'}", ""]
        lines += [*textwrap.wrap(sections()[section], 100), ""] if section else []
        lines += ["| setting | type | default | bound | meaning |", "|---|---|---|---|---|"]
        for field in (fields()[key] for key in keys):
            default = f"`{field.show(field.default)}`" if field.show(field.default) else ""
            meaning = f"{field.meaning} Live." if field.key in LIVE else field.meaning
            cells = (f"`{field.key}`", field.type_text, default, field.bound_text, meaning)
            lines.append("| " + " | ".join(map(_markdown_cell, cells)) + " |")
    return "\n".join(lines)


def _markdown_cell(text: str) -> str:
    """A cell of a table, with the bar escaped.

    Every other part between backticks is code. There a backslash would be shown, and only the bar
    needs one.
    """
    parts = text.replace("|", "\\|").split("`")
    return "`".join(
        part if number % 2 else part.replace("*", "\\*") for number, part in enumerate(parts)
    )
