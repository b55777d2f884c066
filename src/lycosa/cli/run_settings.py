"""The settings of a run of ``lycosa crawl`` or ``lycosa serve`` in a folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.cli.output import clean

if TYPE_CHECKING:
    from lycosa.base.config.render_section import RenderSection
    from lycosa.base.config.sources import Settings

_SETTING_OF_FLAG = {
    "scope": "scope.rule",
    "surts": "scope.surts",
    "one_hop_out": "scope.one_hop_out",
    "include": "scope.include",
    "exclude": "scope.exclude",
    "max_pages": "limits.max_pages",
    "max_depth": "scope.max_depth",
    "max_time": "limits.max_time_s",
    "until": "limits.until",
    "max_disk": "limits.max_disk_bytes",
    "max_rate": "fetch.request_rate",
    "max_bandwidth": "fetch.bytes_per_s",
    "hours": "fetch.hours",
    "languages": "scope.languages",
    "continuous": "limits.continuous",
    "max_bytes": "limits.max_bytes",
    "delay": "politeness.delay_s",
    "extension": "extensions.code",
    "workers": "workers",
    "memory": "memory_bytes",
    "contact": "agent.contact",
    "resolve": "dns.pins",
    "allow_address": "fetch.allow_addresses",
    "requisites": "scope.requisites",
    "links": "parse.links",
    "render": "render.mode",
    "accept": "scope.accept",
    "cookies": "fetch.cookies",
    "rules": "requests.rules",
    "upload": "upload.url",
    "upload_remove": "upload.remove",
    "earlier": "earlier.archives",
}
_INTERVALS = ("refetch.first_s", "refetch.min_s", "refetch.max_s")
"""Where these are equal, that is the interval of all pages by each rule: ``--refetch``."""


def crawl_settings(folder: Path, options: dict[str, Any], tell: Callable[[str], None]) -> Settings:
    """Settings of this run: from the last run, the file, the environment, --set and options.

    ``tell`` gets lines about settings that operators changed while the crawl ran.
    """
    import os

    import msgspec

    from lycosa.base.config.sections import LimitSection
    from lycosa.base.config.sources import SettingsError, load_settings
    from lycosa.state.folder.folder_notes import saved_settings, without_code
    from lycosa.state.folder.live_changes import saved_changes, settle
    from lycosa.state.folder.manifest import has_manifest, prepare_folder

    if folder.is_dir() and not has_manifest(folder):
        prepare_folder(folder)  # a folder with other files in it is the first error to report

    from lycosa.cli.crawl_scope import surt_lines

    options = {**options, "surts": surt_lines(options.get("surts", ()))}
    flags = settings_of_options(options)
    saved, code = saved_settings(folder), tuple[str, ...]()
    if saved is not None:
        code, saved = saved.extensions.code, without_code(saved)
        # A limit applies to one run: a crawl that reached it resumes when it is started without the
        # limit.
        saved = msgspec.structs.replace(saved, limits=LimitSection())
    settings = load_settings(
        options["config_file"], os.environ, options["pairs"], flags, base=saved
    )
    _check_code(settings, code)
    if (file := settings.config.fetch.ca_file) and not Path(file).is_file():
        raise SettingsError(
            [f"{settings.origin('fetch.ca_file')}: fetch.ca_file: there is no file {file}"]
        )
    check_end(settings)
    config, lines = settle(settings.config, settings.origins, saved_changes(folder))
    if config.render.is_on:
        _check_browser(settings, config.render)
    for line in lines:
        tell(clean(line))
    return msgspec.structs.replace(settings, config=config)


def _check_code(settings: Settings, code: Sequence[str]) -> None:
    """Raises ``SettingsError`` if the crawl has user code that the command does not name."""
    from lycosa.base.config.sources import DEFAULT, SettingsError

    if code and settings.origin("extensions.code") == DEFAULT:
        names = " ".join(f"--extension {shlex.quote(each)}" for each in code)
        raise SettingsError(
            [
                f"extensions.code: the crawl has extensions, and code runs only when the command"
                f" names it again: add {clean(names)}, or --set extensions.code= to continue"
                " without"
            ]
        )


def check_end(settings: Settings) -> None:
    """Raises ``SettingsError`` if the run would end at once because its end date is past."""
    from lycosa.base.config.sources import SettingsError
    from lycosa.processes.run_limits import seconds_left

    limits = settings.config.limits
    if limits.until and not seconds_left(limits):
        raise SettingsError(
            [f"{settings.origin('limits.until')}: limits.until: {limits.until} is in the past"]
        )


def settings_of_options(options: dict[str, Any]) -> dict[str, Any]:
    """The settings of the options that were given."""
    flags = {
        _SETTING_OF_FLAG[name]: value
        for name, value in options.items()
        if name in _SETTING_OF_FLAG and value not in (None, ())
    }
    if interval := options.get("refetch"):
        flags.update(dict.fromkeys(_INTERVALS, interval))
    return flags


def _check_browser(settings: Settings, section: RenderSection) -> None:
    """Raises ``SettingsError``, which says how to get a browser, where there is none."""
    from lycosa.base.config.sources import DEFAULT, SettingsError
    from lycosa.stages.render.browser_process import NoBrowser, find_browser

    try:
        find_browser(section.browser)
    except NoBrowser as error:
        asked = ("render.browser", "render.mode", "render.policies")
        given = (each for each in asked if settings.origin(each) != DEFAULT)
        key = next(given, "render.mode")  # changed while the crawl ran
        raise SettingsError([f"{settings.origin(key)}: {key}: {error}"]) from error
