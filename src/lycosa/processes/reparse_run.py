"""A run over a crawl folder that fetches nothing.

It parses stored documents that were never parsed, and their links join the crawl.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from lycosa.processes.idle_run import idle_worker
from lycosa.stages.frontier.unparsed_bodies import UnparsedBody
from lycosa.worker.commit.reparser import Reparsed
from lycosa.worker.worker import Worker

_WAIT_S = 0.1


class ReparseReport(msgspec.Struct, frozen=True):
    """The result.

    ``unparsed`` documents are still not parsed; ``new_urls`` joined the crawl.
    """

    done: Reparsed
    unparsed: int
    new_urls: int


async def reparse(
    folder: Path, with_killed: bool, on_progress: Callable[[Reparsed], None] = lambda _: None
) -> ReparseReport:
    """Parse the documents and commit the results.

    ``with_killed`` includes documents that killed the parser or exceeded its time. Raises the
    errors of ``Session``, and ``ManifestError`` when the folder is not a crawl.
    """
    async with idle_worker(folder) as assembled:
        worker, reparsing = assembled.worker, assembled.worker.reparsing
        before = _discovered(worker)

        async def may_go_on() -> bool:
            # The worker's loop does not run here, so commits are started in its place.
            worker.committer.raise_failure()
            worker.committer.start_when_due(assembled.clock.monotonic())
            while worker.committer.is_behind:
                await assembled.clock.sleep(_WAIT_S)
            on_progress(reparsing.done)
            return True

        def is_meant(body: UnparsedBody) -> bool:
            return with_killed or body.waits

        await reparsing.run(may_go_on, is_meant)
        await worker.committer.finish()
        left = sum(
            len(each.unparsed.find(is_meant)) for each in worker.frontier.partitions.values()
        )
        return ReparseReport(reparsing.done, left, _discovered(worker) - before)


def _discovered(worker: Worker) -> int:
    return sum(partition.counters.discovered for partition in worker.frontier.partitions.values())
