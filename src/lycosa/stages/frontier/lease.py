"""The lease of a URL."""

from __future__ import annotations

from lycosa.base.model.discovered import REDIRECT_KINDS
from lycosa.base.urls.identity import join_url
from lycosa.stages.frontier.back_queue import QueueEntry
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.table_records import UrlRecord


class Lease:
    """One URL of a host in process.

    It exists only in the owner's memory: after a crash the URL is still queued.
    """

    __slots__ = ("entry", "host", "record")

    def __init__(self, host: VisitState, entry: QueueEntry, record: UrlRecord) -> None:
        self.host = host
        self.entry = entry
        self.record = record

    @property
    def url(self) -> str:
        return join_url(
            "https" if self.record.secure else "http", self.host.name, self.record.target
        )

    @property
    def number(self) -> int:
        """The fetch number: how often the URL was fetched before, plus one."""
        return (self.record.history.fetches if self.record.history else 0) + 1

    @property
    def via(self) -> str:
        """The URL of the page that had the link."""
        via, scheme = self.record.via, "https" if self.record.secure else "http"
        return f"{scheme}://{self.host.name}{via}" if via.startswith("/") else via

    @property
    def chain(self) -> tuple[str, ...]:
        """The URLs that redirected to this one, in order; empty without a redirect.

        A record of an older program, which did not store chains, has only the last of them.
        """
        is_redirect = self.record.kind in REDIRECT_KINDS and self.record.hops
        return (*self.record.chain, self.via) if is_redirect else ()
