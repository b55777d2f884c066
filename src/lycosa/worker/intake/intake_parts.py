"""Builds the parts of a worker that decide what enters the frontier, and those of parcels."""

from __future__ import annotations

import msgspec

from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps, year_of
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.seen.duplicates import Duplicates
from lycosa.state.seen.near_judge import NearJudge
from lycosa.state.seen.recent import RecentHashes
from lycosa.worker.extensions import Extensions
from lycosa.worker.intake.admission import Admission
from lycosa.worker.intake.inbox_topic import InboxTopic
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.near_duplicates import NearDuplicates
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.intake.owners import MOST_HOSTS, Addressing
from lycosa.worker.intake.render_queue import RenderQueue
from lycosa.worker.intake.wants import Wants
from lycosa.worker.owned_shard import OwnedShard
from lycosa.worker.run_signals import RunSignals
from lycosa.worker.worker_ports import Ports


class IntakeParts(msgspec.Struct, frozen=True):
    """What enters the frontier, content-seen, and the exchange of parcels with other workers."""

    intake: Intake
    outgoing: OutgoingParcels
    topic: InboxTopic
    duplicates: Duplicates
    near: NearDuplicates
    wants: Wants
    renders: RenderQueue | None


def build_intake(
    owned: OwnedShard, ports: Ports, signals: RunSignals, extensions: Extensions
) -> IntakeParts:
    """The parts over an open shard. Places that joined the scope earlier are in it."""
    config, tables = owned.job.config, owned.opened.tables
    count = config.frontier.partitions
    outgoing = OutgoingParcels(
        owned.partitions, tables, ports.exchange, owned.clock.sleep, signals.fail, count
    )
    last = owned.opened.last
    topic = InboxTopic(
        ports.exchange.inbound if ports.exchange is not None else None,
        last.inbox if last is not None else 0,
        signals.fail,
    )
    intake = _intake(owned, outgoing, extensions)
    # Content-seen and near-duplicates are looked up in what is not committed yet, too.
    pending = {number: partition.table for number, partition in owned.partitions.items()}
    distance = config.seen.max_distance if config.seen.near_duplicates else -1
    judge = NearJudge(count, pending, max(distance, 0))
    near = NearDuplicates(owned.partitions, judge, intake, outgoing)
    # Workers on one machine ask each other, because an answer takes milliseconds there. Shards that
    # read their parcels from a topic judge by events (docs/decisions/near-duplicates.md).
    later = near if ports.has_topic else None
    duplicates = Duplicates(count, pending, outgoing, distance, later)
    wants = Wants(owned.partitions, intake, outgoing, owned.clock, config.render.site_wants)
    renders = None
    # Formats 1 have no records of renders. Others may begin to render while the crawl runs.
    if owned.job.formats >= LATE_FIELDS:
        site_of = owned.sites.site_of
        renders = RenderQueue(
            owned.partitions,
            wants.post,
            site_of,
            owned.clock,
            config.render,
            ports.parser.judge_scripts,
        )
        wants.receive = renders.receive
    return IntakeParts(intake, outgoing, topic, duplicates, near, wants, renders)


def _intake(owned: OwnedShard, outgoing: OutgoingParcels, extensions: Extensions) -> Intake:
    config, clock, sites, plan = owned.job.config, owned.clock, owned.sites, owned.job.plan
    scope, traps = Scope(config.scope, sites.site_of), Traps(config.traps, year_of(clock.wall()))
    intake = Intake(
        owned.partitions,
        Addressing(
            Canonicalizer(config.canonical),
            sites,
            config.frontier.partitions,
            min(MOST_HOSTS, plan.note_hosts) if plan is not None else MOST_HOSTS,
        ),
        Admission(
            scope,
            traps,
            extensions.guarded_rules(),
            config.budgets,
            config.sitemaps,
            # An older owner of the shard could not read the find of a licence.
            config.agent.fetch_licenses and owned.job.formats >= LATE_FIELDS,
        ),
        RecentHashes(config.seen.recent),
        clock,
        outgoing,
    )
    intake.add_places(owned.job.places)
    for table in owned.opened.tables.values():
        intake.add_places(key[1:].decode() for key, _ in table.scan(b"J", prefix_end(b"J")))
    return intake
