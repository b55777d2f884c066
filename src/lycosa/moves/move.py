"""Moves a stopped crawl into the shards of a new generation: import, and division into more shards.

    gather (nothing changes where the crawl is) -> take all parcels -> divide, save, begin logs
    -> make sure that the crawl did not continue, complete its segments
    -> put the new generation in force

Up to the last step the crawl is what it was, and the move may be abandoned or repeated.

A rescue is not a move of this kind. It writes the shards where they were, one by one, and continues
after a kill with those that are missing; and it has no commits that say what the state should be.
With a move it shares how a shard begins (``new_shards``).
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import msgspec

from lycosa.base.config.fields import value_of
from lycosa.base.config.sections import Config
from lycosa.base.system.software import SOFTWARE
from lycosa.cluster.shards.stored_crawl import MACHINE_SETTINGS
from lycosa.moves.drain_run import drain_parcels
from lycosa.moves.gathered import GatheredState
from lycosa.moves.new_generation import (
    ClusterPlaces,
    NewGeneration,
    delete_others,
    new_generation_name,
)
from lycosa.state.folder.manifest import GENERATION_FORMAT, Manifest

_NOT_ORDERLY = (
    "not all shards were ended in order, so their last requests may have been lost with their"
    " machines: every host waits a while when the crawl continues"
)


class MoveReport(msgspec.Struct, frozen=True):
    """What a move did. ``is_new`` is false when it had been done before.

    ``notes`` are lines for the operator.
    """

    manifest: Manifest
    is_new: bool
    urls: int = 0
    captures: int = 0
    segments: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class MoveSource(Protocol):
    """A stopped crawl, where it is now. ``number`` is that of the generation that is made of it.

    Calls raise the errors of the services and of files, and ``ManifestError``.
    """

    @property
    def number(self) -> int: ...

    def find_moved(self) -> Manifest | None:
        """The manifest in force if the crawl was moved before.

        Raises ``PlaceTaken`` or ``CrawlFrozen`` if it cannot be moved to where it shall be.
        """
        ...

    def gather(self, generation: str) -> GatheredState:
        """The state in a local folder; ``generation`` is the name of the one to be made.

        Changes nothing where the crawl is.
        """
        ...

    def complete_segments(self, state: GatheredState) -> int:
        """Refuse further commits to the crawl, and store all its segments in final form.

        The new shards are safe by then. Returns the number of segments. Raises ``LogWentOn`` if the
        crawl continued since it was gathered, ``NotStored`` or ``StoreDamaged``.
        """
        ...


def move_crawl(source: MoveSource, places: ClusterPlaces, shards: int) -> MoveReport:
    """Write the crawl of ``source`` as a new generation with ``shards`` shards; put it in force.

    Blocks. Raises the errors of ``MoveSource`` and ``NewGeneration``.
    """
    began = time.monotonic()
    if (there := source.find_moved()) is not None:
        return MoveReport(there, is_new=False)
    generation = new_generation_name(source.number)
    state = source.gather(generation)
    config, notes = state.config, list[str]()
    if state.was_on_machine:
        config, notes = _settings_of_cluster(config)
    frontier = msgspec.structs.replace(config.frontier, partitions=shards)
    config = msgspec.structs.replace(config, frontier=frontier)
    made = NewGeneration(places, _next_manifest(state, generation, shards), config)
    places.on_step("taking parcels", 0, 0)
    held = asyncio.run(drain_parcels(state))
    # After all reading, so that a damaged state leaves no topics behind.
    made.make_topics()
    counters = made.write_shards(state, held)
    # After the new shards are written: from here on the old division accepts no commit.
    segments = source.complete_segments(state)
    made.put_in_force(source.number, state.records)
    if not state.is_orderly:
        notes.append(_NOT_ORDERLY)
    return MoveReport(
        made.manifest,
        is_new=True,
        urls=sum(each.discovered for each in counters),
        captures=sum(each.captures for each in counters),
        segments=segments,
        seconds=time.monotonic() - began,
        notes=tuple(notes),
    )


def delete_other_generations(report: MoveReport, places: ClusterPlaces) -> MoveReport:
    """Delete what a move left of other generations, also of moves that were killed; the report gets
    a note if that fails.
    """
    note = delete_others(places, report.manifest)
    return msgspec.structs.replace(report, notes=(*report.notes, note)) if note else report


def _next_manifest(state: GatheredState, generation: str, shards: int) -> Manifest:
    """The manifest of the crawl in its new generation."""
    return msgspec.structs.replace(
        state.manifest,
        format=GENERATION_FORMAT,
        software=SOFTWARE,
        term=0,
        workers=0,
        identity=msgspec.structs.replace(state.manifest.identity, partitions=shards),
        generation=generation,
        earlier=state.earlier,
    )


def _settings_of_cluster(config: Config) -> tuple[Config, list[str]]:
    """The settings of a machine without those that a cluster cannot have; a line for each."""
    plain = Config()
    notes = [
        f"{key} is left out: {why}"
        for key, why in MACHINE_SETTINGS.items()
        if value_of(config, key) != value_of(plain, key)
    ]
    limits = msgspec.structs.replace(config.limits, max_time_s=plain.limits.max_time_s)
    return (
        msgspec.structs.replace(config, workers=plain.workers, limits=limits, upload=plain.upload),
        notes,
    )
