"""The model of ``lycosa simulate``, from options, files, the environment and past crawls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.config.sources import SettingsError, load_settings
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.state_rows import STATE_COLUMNS, state_rows
from lycosa.simulate.hosts_file import error_share_of, host_row, read_hosts
from lycosa.simulate.model_settings import read_count, read_model
from lycosa.simulate.past_crawl import past_means
from lycosa.simulate.sample import HostRow
from lycosa.simulate.shards import SHARDS_DAYS
from lycosa.simulate.simulation_run import Model
from lycosa.simulate.web_model import Web
from lycosa.state.folder import manifest


def model_of(options: Mapping[str, Any]) -> Model:
    """The model from all sources; a later one wins, from the past crawl to the options.

    Raises ``SettingsError``.
    """
    flags = {"workers": options["workers"], "politeness.delay_s": options["delay"]}
    config = load_settings(options["config_file"], os.environ, options["settings"], flags).config
    asked = {
        key: (f"--{name}", options[name])
        for key, name in (("web.hosts", "hosts"), ("web.pages", "pages"), ("means.cores", "cores"))
    }
    given = read_model(
        options["model_file"], options["pairs"], asked, _past_means(options["means_of"])
    )
    web, rows = given.web, list[HostRow]()
    if options["hosts_of"] is not None:
        web, rows = _listed_web(options["hosts_of"], given.web, given.origins)
    return Model(
        web=web,
        means=given.means,
        prices=given.prices,
        cluster=given.cluster,
        config=config,
        rows=tuple(rows),
        days=options["days"] or (SHARDS_DAYS if options["shards"] else 30.0),
        sample=min(_sample(options["sample"]), web.hosts),
    )


def _sample(text: str | None) -> int:
    try:
        return read_count(text) if text else 0
    except ValueError as error:
        raise SettingsError([f"--sample: {error}"]) from error


def _past_means(folder: Path | None) -> dict[str, object]:
    """The costs that a past crawl's folder shows, by key."""
    if folder is None:
        return {}
    manifest.load_manifest(folder)
    return past_means(folder)


def _listed_web(path: Path, web: Web, origins: Mapping[str, str]) -> tuple[Web, list[HostRow]]:
    """The web of listed hosts, whose rows have the numbers of pages; and the hosts."""
    if "web.pages" in origins:
        raise SettingsError(
            [
                f"{origins['web.pages']}: the hosts of --hosts-of have their numbers of pages;"
                " leave web.pages out"
            ]
        )
    changes: dict[str, Any] = {}
    if path.is_dir():
        table = list(_hosts_of_folder(path))
        rows = [
            host for row in table if (host := host_row(row, web.server_bytes_per_s)) is not None
        ]
        if not rows:
            raise SettingsError(
                [f"{path}: the crawl has no URL yet; use a crawl that has fetched pages"]
            )
        if "web.errors" not in origins:
            changes["errors"] = error_share_of(table)
    else:
        rows = read_hosts(path, web.server_bytes_per_s)
    hosts = web.hosts if "web.hosts" in origins else len(rows)
    pages = round(sum(row.pages for row in rows) * hosts / len(rows))
    return (
        msgspec.structs.replace(web, hosts=hosts, pages=max(pages, hosts), largest=0, **changes),
        rows,
    )


def _hosts_of_folder(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of the table ``hosts`` of a crawl folder, as `lycosa export` would write them."""
    names = [column[0] for column in STATE_COLUMNS["hosts"]]
    for values in state_rows(read_folder(folder), "hosts"):
        yield dict(zip(names, values, strict=True))
