"""The operator's own hosts: requesting the files that prove them, and which are proved now.

The file of a host that the settings name is requested as an errand, after a page of the host: in
its turn, after its delay, if robots.txt allows it, and without following a redirect. Its response
is stored. Proofs are in memory only, so after a restart or a takeover a host has its ordinary delay
until its file was requested again. A proof counts from the commit of its response on: after a crash
the audit finds the file of every attempt that is marked.
"""

from __future__ import annotations

import msgspec

from lycosa.base.config.sections import RequestsSection
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.host_memory import OwnFile, OwnFinding
from lycosa.base.model.parcel_items import Asker, Errand
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import origin_of, target_of
from lycosa.stages.fetch.secret_values import read_own_secrets
from lycosa.stages.frontier.errand_queue import OWN_ASKER, find_errand
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.own_proofs import (
    MOST_OWN_BYTES,
    OWN_PATH,
    OwnHosts,
    finding_of,
    token_of,
)
from lycosa.worker.request_slots import Slot
from lycosa.worker.visit.host_robots import Robots, origin_capture, robots_words
from lycosa.worker.visit.pacing import HostRest
from lycosa.worker.visit.robots_reader import whole_body
from lycosa.worker.visit.worker_stages import Stages


def own_hosts(section: RequestsSection) -> OwnHosts | None:
    """The own hosts of the settings, if there are any. Raises ``SecretError``."""
    if not section.own_hosts:
        return None
    secret = read_own_secrets(section.own_secret)[0]
    return OwnHosts({host: token_of(secret, host) for host in section.own_hosts})


class OwnFiles:
    """Requests the files. One per worker."""

    def __init__(self, stages: Stages, robots: Robots, own: OwnHosts) -> None:
        self._stages, self._robots, self._own = stages, robots, own
        # By one decision a delay is lifted and its line in the attempt log marked.
        stages.sender.is_own = own.is_proved
        self._frontier, self._clock = stages.frontier, stages.clock

    def ask_if_due(self, partition: Partition, host: VisitState, page: str) -> None:
        """Queue the request for the file of a host, at the origin of a page."""
        url = origin_of(page) + OWN_PATH
        if not self._own.is_due(host.name, self._clock.wall()):
            return
        if find_errand(host.record.errands, url) is not None:
            return
        asker = Asker(partition.number, OWN_ASKER, url.startswith("https:"), 0)
        host.record.errands = (*host.record.errands, Errand(url, (asker,)))
        partition.visits.mark_changed(host)
        self._frontier.recall_host(host)

    async def next_step(self, host: VisitState, errand: Errand) -> Errand | None:
        """The errand, if its file may be requested now; otherwise it is dropped."""
        partition, secure = self._frontier.partitions[host.partition], _is_secure(errand)
        state = await self._robots.ready_state(partition, host, secure, self._clock.time())
        if state.is_needed or state.wait_until:
            return None  # the next page asks for the file again
        if host.name not in self._own.tokens:
            return None
        decision = state.decide(target_of(errand.url))
        if decision.allowed:
            return errand
        self._end_proof(host, OwnFinding.DISALLOWED, robots_words(decision))
        return None

    async def fetch(self, host: VisitState, errand: Errand, slot: Slot, rest: HostRest) -> bool:
        """Request the file and store the response; false when the request was not sent."""
        partition, sender = self._frontier.partitions[host.partition], self._stages.sender
        secure, time = _is_secure(errand), self._clock.time()
        state = await self._robots.ready_state(partition, host, secure, time)
        decision = state.decide(target_of(errand.url))
        request = sender.file_request(
            errand.url, slot.address, FetchKind.KEY_FILE, MOST_OWN_BYTES + 1
        )
        fetched = await sender.send_request(request, rest, slot)
        if fetched.reason is Reason.LEASE_EXPIRED:
            return False
        if not fetched.status:
            self._end_proof(host, OwnFinding.UNANSWERED, fetched.reason.meaning)
            return True
        # No await from here on, so that the response and what it means are in one commit.
        capture = msgspec.structs.replace(
            origin_capture(fetched, FetchKind.KEY_FILE),
            site=self._stages.intake.site_of(host.name),
            robots=decision,
        )
        self._stages.store.append_capture(capture)
        host.note_reached()
        token, at = self._own.tokens[host.name], fetched.started
        finding = finding_of(fetched.status, whole_body(fetched), token)
        detail = f"status {fetched.status}" if fetched.status != 200 else ""
        self._note(host, OwnFile(at, finding, detail))
        return True

    def _end_proof(self, host: VisitState, finding: OwnFinding, detail: str) -> None:
        self._note(host, OwnFile(self._clock.wall(), finding, detail))

    def _note(self, host: VisitState, file: OwnFile) -> None:
        self._own.note_asked(host.name, file.at)
        self._own.note_file(host.name, file.at, file.finding is OwnFinding.RIGHT)
        host.record.own_file = file
        self._frontier.partitions[host.partition].visits.mark_changed(host)


def _is_secure(errand: Errand) -> bool:
    return errand.url.startswith("https:")
