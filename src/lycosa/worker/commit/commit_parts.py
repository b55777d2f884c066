"""Builds the parts of a worker that make its changes permanent, and that parse stored bodies."""

from __future__ import annotations

from functools import partial

import msgspec

from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.stages.frontier.alike_pages import find_alike
from lycosa.state.attempts.shipping import AttemptShipper
from lycosa.state.folder.names import attempts_folder
from lycosa.state.objects.folder import FolderStore
from lycosa.worker.commit.cold_writer import ColdPlace, ColdWriter
from lycosa.worker.commit.committer import BATCH_BYTES, Committer, WorkerFiles
from lycosa.worker.commit.reparser import Reparser
from lycosa.worker.intake.intake_parts import IntakeParts
from lycosa.worker.owned_shard import OwnedShard
from lycosa.worker.ranks_in_force import RanksInForce
from lycosa.worker.run_signals import RunSignals
from lycosa.worker.visit.visit_parts import VisitParts
from lycosa.worker.worker_ports import Ports


class CommitParts(msgspec.Struct, frozen=True):
    """What a worker writes, and what writes it."""

    files: WorkerFiles
    committer: Committer
    reparser: Reparser
    archiver: ColdWriter


def build_commit(
    owned: OwnedShard,
    ports: Ports,
    intake: IntakeParts,
    visit: VisitParts,
    signals: RunSignals,
    ranks: RanksInForce,
) -> CommitParts:
    """The parts over an open shard, the intake and the visits. Blocks."""
    files = _files(owned, ports, visit, ranks)
    committer = Committer(
        owned.job.store,
        files,
        visit.stages,
        intake.outgoing,
        intake.topic,
        signals,
        ports,
    )
    return CommitParts(
        files,
        committer,
        Reparser(
            owned.opened.storage.segments,
            owned.partitions,
            intake.intake,
            ports.parser,
            ports.offload,
            owned.clock,
        ),
        ColdWriter(
            _cold_place(owned),
            owned.partitions,
            committer,
            visit.stages.slices,
            ports.offload,
            owned.clock,
            ports.reach,
        ),
    )


def _cold_place(owned: OwnedShard) -> ColdPlace:
    job, storage = owned.job, owned.opened.storage
    return ColdPlace(
        storage.cold or FolderStore(str(job.folder), job.folder),
        job.cluster.owner_folder if job.cluster is not None else job.folder,
        owned.opened.term,
        # A crawl in memory has no place for files.
        may_write=job.formats >= LATE_FIELDS and storage.cold is not None,
        is_shared=job.cluster is not None,
    )


def _files(owned: OwnedShard, ports: Ports, visit: VisitParts, ranks: RanksInForce) -> WorkerFiles:
    job, shard = owned.job, owned.opened
    return WorkerFiles(
        job.manifest.crawl,
        shard,
        visit.stages.store,
        owned.attempts,
        owned.crashes,
        ports.free_bytes,
        lease=ports.lease,
        held_until=job.held_until,
        batch_bytes=job.plan.batch if job.plan is not None else BATCH_BYTES,
        find_similar=partial(find_alike, shard.tables[job.owned[0]].get)
        if ports.has_topic
        else None,
        shipper=AttemptShipper(ports.objects, attempts_folder(job.folder), job.number)
        if ports.objects is not None
        else None,
        price=lambda: owned.prices.committed,
        ranks=lambda: ranks.digest,
    )
