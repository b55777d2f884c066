"""Politeness of a crawl on many machines, by the attempt logs that its workers sent.

Requests of a host come from the owners of its shard, one after the other, so each shard is judged
by itself, its owners in the order of their terms. Between requests of one machine the monotonic
clock decides. Between two machines wall clocks do: a node is refused when its clock differs by more
than some seconds from the coordinator's, so two of them may differ by twice as much. Each node has
a separate table of addresses, so addresses are judged for each of them. Requests that got their
slots from Redis are judged over all nodes as well, by the clock of Redis, which each of them names.

Before an import, requests of a host came from another shard, or from a worker of one machine. These
owners are judged first, so the pause across the import is judged too.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.inspect.audit.audit_report import OnAuditProgress
from lycosa.inspect.audit.politeness_check import PolitenessChecks
from lycosa.stages.politeness.address_pool import divided
from lycosa.state.attempts import Attempt
from lycosa.state.attempts.coverage import (
    LoggedFile,
    UnprovenTime,
    read_logged_file,
    unproven_times,
)
from lycosa.state.attempts.read import read_attempt_files
from lycosa.state.attempts.shipping import parse_shipped_key
from lycosa.state.folder.manifest import EarlierOwners

NODE_CLOCKS_S = 2 * ClusterRules().clock_off_s
"""By how much the clocks of two nodes may differ."""


class EarlierFiles(msgspec.Struct, frozen=True):
    """The attempt logs of the owners before an import, and the last files of dead ones, by owner.

    ``first_term`` is the term of the first of these owners.
    """

    owners: EarlierOwners
    files: Mapping[int, Sequence[Path]]
    lasts: Mapping[int, Container[tuple[int, int]]]
    first_term: int


class ClusterPoliteness:
    """Reads the attempt logs of all shards.

    ``files`` are the files of each shard under their keys, by term and number; ``terms`` the newest
    term of each shard.
    """

    def __init__(
        self,
        section: PolitenessSection,
        nodes: int,
        want_hosts: bool,
        progress: OnAuditProgress,
    ) -> None:
        self._whole = section
        self.checks = PolitenessChecks(divided(section, nodes), want_hosts, progress)
        self.checks.shared = section
        self.checks.clock_tolerance_s = NODE_CLOCKS_S
        self.unproven: list[UnprovenTime] = []

    def run_earlier(self, earlier: EarlierFiles) -> None:
        """Check the owners before an import; the oldest first, and all before ``run``."""
        if earlier.owners.is_machine:
            attempts = read_attempt_files(earlier.files, self.checks.note_damage)
            self.checks.check_attempts(attempts, self._whole)
            return
        self.checks.check_attempts(self._attempts(earlier.files))
        for shard, paths in sorted(earlier.files.items()):
            logged = self._logged(paths, earlier.lasts[shard])
            self.unproven += unproven_times(shard, logged, 0, earlier.first_term)

    def run(
        self,
        files: Mapping[int, Sequence[Path]],
        terms: Mapping[int, int],
        lasts: Mapping[int, Container[tuple[int, int]]],
        first_term: int = 1,
    ) -> None:
        """Check all shards of ``terms``; ``lasts`` as in ``read_logged_file``, by shard.

        ``first_term`` is the term of their first owners.
        """
        self.checks.check_attempts(self._attempts(files))
        for shard, term in sorted(terms.items()):
            logged = self._logged(files.get(shard, ()), lasts[shard])
            self.unproven += unproven_times(shard, logged, term, first_term)
        self.checks.finish_checks()
        self.checks.hosts.add_note(
            f"between requests of two machines the clocks may differ by {NODE_CLOCKS_S:g} s"
        )

    @staticmethod
    def _logged(paths: Sequence[Path], lasts: Container[tuple[int, int]]) -> list[LoggedFile]:
        found = (read_logged_file(path, _number(path), lasts) for path in paths)
        return [each for each in found if each is not None]

    def _attempts(self, files: Mapping[int, Sequence[Path]]) -> Iterator[Attempt]:
        for shard, paths in sorted(files.items()):
            yield from read_attempt_files({shard: paths}, self.checks.note_damage)


def _number(path: Path) -> int:
    found = parse_shipped_key("/".join(path.parts[-3:]))
    return found.number if found else 0
