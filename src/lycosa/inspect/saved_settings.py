"""Settings of the last run: effective values, canonical form, and pure rules to check URLs by.

``settings.json`` holds the effective settings of the last start, one object per section. Settings
that identity depends on come from the manifest instead, which froze them when the crawl was
created. The rules of a user's program are not in the folder, so they are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec

from lycosa.base.config.sections import CanonicalSection, Config
from lycosa.base.model.discovered import LinkKind
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.urls.identity import Canonicalizer
from lycosa.inspect.committed_state import CrawlReader
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps, year_of
from lycosa.state.folder.names import settings_path
from lycosa.state.kv.table_records import prefix_end


class SettingsUnreadable(Exception):
    """``settings.json`` cannot be read, or a pattern in it is of a version that accepted more.

    The message names the file or setting, and the error.
    """


class SavedSettings(msgspec.Struct, frozen=True):
    """Settings of the last start; the defaults when ``is_recorded`` is false."""

    config: Config
    is_recorded: bool
    canonicalizer: Canonicalizer


def load_saved_settings(reader: CrawlReader) -> SavedSettings:
    """Raises ``SettingsUnreadable``."""
    try:
        recorded = reader.origin.settings()
    except (OSError, *UNREADABLE) as error:
        folder = reader.origin.folder
        path = settings_path(folder) if folder else f"the settings of {reader.name}"
        # Defaults would judge URLs by other rules than the crawl did, without a word about it.
        raise SettingsUnreadable(
            f"{path}: {error}; restore it, or delete it to use the default settings"
        ) from error
    config, is_recorded = recorded or Config(), recorded is not None
    identity = reader.manifest.identity
    canonical = msgspec.convert(identity.canonical, CanonicalSection)
    # The manifest counts for what cannot change; the settings may have been edited since.
    frontier = msgspec.structs.replace(
        config.frontier, partitions=identity.partitions, bands=identity.bands
    )
    config = msgspec.structs.replace(config, canonical=canonical, frontier=frontier)
    return SavedSettings(config, is_recorded, Canonicalizer(canonical))


class ScopePlaces:
    """URLs whose place belongs to the scope, with the time when it joined.

    Where each partition has all of them, those of the partition ``near`` are read.
    """

    def __init__(self, reader: CrawlReader, near: int | None = None) -> None:
        self._reader = reader
        wanted = [near] if near is not None and reader.origin.is_cluster else reader.here
        self._places: dict[str, None] = {}
        for number in wanted:
            with reader.partition_view(number) as view:
                for key, _ in view.scan(b"J", prefix_end(b"J")):
                    self._places[key[1:].decode()] = None

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def all_places(self) -> Iterable[str]:
        return self._places.keys()

    @cached_property
    def _since(self) -> dict[str, int]:
        found = {url: self._reader.find_url(url) for url in self._places}
        return {url: each.record.found_at if each else 0 for url, each in found.items()}

    def places_at(self, wall: float) -> tuple[str, ...]:
        """Places that belonged to the scope before a time.

        Times are whole seconds, so a place of the same second is left out.
        """
        return tuple(url for url, since in self._since.items() if since < int(wall))


class PureRules:
    """Scope and traps by the saved settings. ``near`` as in ``ScopePlaces``.

    Raises ``SettingsUnreadable`` when a saved pattern is not supported.
    """

    def __init__(self, reader: CrawlReader, saved: SavedSettings, near: int | None = None) -> None:
        self._config = saved.config
        self._site_of = reader.sites.site_of
        self._places = ScopePlaces(reader, near)
        self._scopes: dict[tuple[str, ...], Scope] = {}
        self._traps: dict[int, Traps] = {}
        self._scope = self._scope_of(tuple(self._places.all_places()))

    def judge_url(
        self,
        url: str,
        kind: LinkKind,
        depth: int,
        wall: float,
        nofollow: bool = False,
        via: str = "",
    ) -> Refusal | None:
        """Why a URL found at a time is refused, or ``None``. The scope is that of all seeds."""
        found = self._scope.judge_url(url, kind, depth, nofollow, via)
        return found or self._traps_at(wall).judge_url(url)

    def is_part(self, kind: LinkKind) -> bool:
        """Whether what was found so is fetched as a part of the page with the link."""
        return self._scope.is_part(kind)

    def judge_url_then(
        self,
        url: str,
        kind: LinkKind,
        depth: int,
        wall: float,
        nofollow: bool = False,
        via: str = "",
    ) -> Refusal | None:
        """The same with only the seeds that were known at that time; slower."""
        return self._scope_of(self._places.places_at(wall)).judge_url(
            url, kind, depth, nofollow, via
        ) or self._traps_at(wall).judge_url(url)

    def _scope_of(self, places: tuple[str, ...]) -> Scope:
        scope = self._scopes.get(places)
        if scope is None:
            if len(self._scopes) >= 4:
                self._scopes.clear()
            try:
                scope = self._scopes[places] = Scope(self._config.scope, self._site_of)
            except ValueError as error:
                # A version before this one may have accepted the pattern.
                raise SettingsUnreadable(
                    f"saved with the crawl: {error}; resume the crawl with a pattern that is"
                    " supported, which replaces the saved one"
                ) from error
            for place in places:
                scope.add_seed(place)
        return scope

    def _traps_at(self, wall: float) -> Traps:
        year = year_of(wall)
        traps = self._traps.get(year)
        if traps is None:
            traps = self._traps[year] = Traps(self._config.traps, year)
        return traps
