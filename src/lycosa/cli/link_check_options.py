"""The options of ``lycosa check links``: its folder, the settings of its crawls, what counts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from lycosa.base.config.sections import Config
    from lycosa.inspect.linked.link_findings import Severity
    from lycosa.processes.link_checks.check_folder import CheckFolder
    from lycosa.processes.link_checks.site_check import SiteCheckOptions

_KEPT = ("agent", "canonical", "dns", "fetch", "scope")
"""Sections of the settings of a crawl that hold for a check of it."""
# A check asks once more and no later: it ends, and says what did not answer. Images are not read,
# so their beginning is enough; nothing is fetched a second time, and no page waits because others
# like it were near copies. Redirects are followed as far as they are judged.
_DEFAULTS: Mapping[str, object] = {
    "scope.requisites": True,
    "scope.requisites_from": "host",
    "scope.max_hops": 10,
    "fetch.media_bytes": 65_536,
    "sitemaps.guess": True,
    "retry.tries": 2,
    "retry.first_s": 5.0,
    "retry.dns_tries": 1,
    "retry.host_failures": 2,
    "retry.away_s": 0.0,
    "frontier.finish_wait_s": 60.0,
    "refetch.rule": "off",
    "copies.probe_turns": 1,
    "copies.probe_turns_alone": 1,
    "store.text": False,
}


class CheckRefused(Exception):
    """Options that do not go together; the message says what to do."""


def _severities(given: Sequence[str]) -> dict[str, Severity]:
    from lycosa.inspect.linked.link_findings import RULES, Severity

    found = {}
    for text in given:
        rule, _, word = text.partition("=")
        if rule not in RULES:
            raise click.UsageError(f"--severity: no rule {rule!r}; there are {', '.join(RULES)}")
        words = [each.value for each in Severity]
        if word not in words:
            raise click.UsageError(f"--severity {text}: write {rule}={'|'.join(words)}")
        found[rule] = Severity(word)
    return found


def _statuses(given: Sequence[str]) -> tuple[int, ...]:
    found = [word.strip() for text in given for word in text.split(",") if word.strip()]
    if wrong := next((word for word in found if not word.isdecimal() or len(word) != 3), ""):
        raise click.UsageError(f"--allow-status: {wrong!r} is no status; write 403,999")
    return tuple(map(int, found))


def options_of_check(options: dict[str, Any]) -> SiteCheckOptions:
    from lycosa.base.config.units import read_seconds
    from lycosa.inspect.linked.report_files import SUFFIXES
    from lycosa.processes.link_checks.site_check import SiteCheckOptions

    for file in options["outputs"]:
        if options["form"] is None and file.suffix.lower() not in SUFFIXES:
            raise CheckRefused(
                f"--output {file}: end the name with {', '.join(SUFFIXES)}, or --format"
            )
        if not file.absolute().parent.is_dir():
            raise CheckRefused(f"--output {file}: there is no folder {file.parent}")
        if sum(file.resolve() == other.resolve() for other in options["outputs"]) > 1:
            raise CheckRefused(f"--output {file} is given twice; each report needs its own file")
    try:
        reuse_s = read_seconds(options["reuse"])
    except ValueError as error:
        raise CheckRefused(f"--reuse: {error}") from error
    return SiteCheckOptions(
        checks_others=not options["no_external"],
        checks_places=not options["no_fragments"],
        ignored=options["ignored"],
        allowed=_statuses(options["allowed"]),
        severities=_severities(options["severities"]),
        reuse_s=reuse_s,
        may_fetch=not options["no_fetch"],
    )


def place_of_check(given: tuple[str, ...], folder: Path | None) -> tuple[CheckFolder, list[str]]:
    """The folder of the check, and the URLs to begin with: none for a crawl that exists."""
    from lycosa.cli.crawl_seeds import default_folder
    from lycosa.cli.seed_reading import with_scheme
    from lycosa.processes.link_checks.check_folder import CheckFolder, is_check
    from lycosa.state.folder.manifest import has_manifest

    only = Path(given[0])
    if len(given) > 1 and (folders := [name for name in given if Path(name).is_dir()]):
        raise CheckRefused(f"{folders[0]} is a folder: give one folder alone, or URLs")
    if only.is_dir():
        if folder is not None:
            raise CheckRefused("--dir is for URLs; the folder of a crawl has the check inside")
        if has_manifest(only):
            return CheckFolder.of_crawl(only), []
        if is_check(only):
            return CheckFolder.of_site(only), []
        raise CheckRefused(f"{only} is neither a crawl nor the folder of a link check")
    root = folder or Path("link-checks") / default_folder(given).name
    if has_manifest(root):
        raise CheckRefused(
            f"{root} is a crawl: give it as DIR to check its links, or another --dir"
        )
    return CheckFolder.of_site(root), [with_scheme(each.strip()) for each in given]


def config_of_check(place: CheckFolder, options: dict[str, Any], is_site: bool) -> Config:
    """The settings: those of a link check or of the crawl in DIR, and what the user gave.

    The delay of --delay or of the crawl is that of the site; other sites keep the default.
    """
    import msgspec

    from lycosa.base.config.sections import ScopeRule
    from lycosa.base.config.sources import DEFAULT, load_settings, settings
    from lycosa.cli.run_settings import check_end, settings_of_options
    from lycosa.inspect.committed_state import read_folder
    from lycosa.inspect.saved_settings import load_saved_settings

    defaults = dict(_DEFAULTS)
    if options["scope"] == ScopeRule.SITE.value:
        defaults["scope.requisites_from"] = "site"
    base = settings(defaults)
    if place.is_given:
        saved = load_saved_settings(read_folder(place.pages)).config
        base = msgspec.structs.replace(
            base,
            **{name: getattr(saved, name) for name in _KEPT},
            politeness=saved.politeness if is_site else base.politeness,
        )
    shown = {**options, "exclude": options["ignored"]}
    if not is_site:
        del shown["delay"]
    flags = settings_of_options(shown)
    found = load_settings(options["config_file"], os.environ, options["pairs"], flags, base)
    check_end(found)
    politeness = found.config.politeness
    if is_site and options["delay"] and found.origin("politeness.address_delay_s") == DEFAULT:
        # Who may shorten the delay of the site may shorten that of its address.
        shorter = min(politeness.address_delay_s, politeness.delay_s)
        politeness = msgspec.structs.replace(politeness, address_delay_s=shorter)
    return msgspec.structs.replace(found.config, politeness=politeness)


def check_start(place: CheckFolder, seeds: Sequence[str], config: Config, fetches: bool) -> None:
    """Raises ``CheckRefused`` if there is nothing to begin with."""
    from lycosa.processes.seed_check import SeedCheck
    from lycosa.state.folder.manifest import has_manifest

    judge = SeedCheck(config, time.time())
    for seed in seeds:
        if reason := judge.refusal(seed):
            raise CheckRefused(f"{seed!r}: {reason}")
    if not fetches and not has_manifest(place.pages):
        raise CheckRefused(
            f"{place.root} has no check yet that --no-fetch could report; leave it out once"
        )


def names_crawler(config: Config) -> bool:
    """Whether requests say who crawls."""
    return bool(config.agent.contact or config.agent.page)
