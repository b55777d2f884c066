"""What sources say of a page that has changed, and how far they are believed at its host."""

from __future__ import annotations

from lycosa.base.config.policy_classes import listing_of
from lycosa.base.model.source_truth import SignalSource
from lycosa.inspect.committed_state import TableView, UrlEntry
from lycosa.inspect.explain.facts import Explanation, when
from lycosa.stages.frontier.change_signals import decode_announced
from lycosa.stages.frontier.pooled_truths import TRUTHS_KEY, decode_pools, pooled_truth
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.stages.schedule.signal_belief import precision_of
from lycosa.state.kv.table_records import announced_key


def signal_facts(answer: Explanation, view: TableView, entry: UrlEntry, host: VisitRecord) -> None:
    """Add the kind of sitemap or feed that it is, and the open signals about it."""
    history = entry.record.history
    if history is not None and (kind := listing_of(history.policy)):
        text = f"{kind.label}: read on its own schedule (sitemaps.*)"
        answer.add_fact("listing", kind.label, text)
    value = view.get(announced_key(entry.host8 + entry.url8)) if host.signals else None
    if value is None:
        return
    pools = decode_pools(view.get(TRUTHS_KEY))
    found = [
        (source, at, precision_of(pooled_truth(pools, host.software, source, host.signals)))
        for source in SignalSource
        if (at := decode_announced(value).open.get(source)) is not None
    ]
    if found:
        signals = [
            {"source": source.label, "at": at, "precision": round(precision, 3)}
            for source, at, precision in found
        ]
        texts = (
            f"changed at {when(at)}, says {source.label.replace('_', ' ')}"
            f" (right in {precision:.0%} at this host)"
            for source, at, precision in found
        )
        answer.add_fact("signals", signals, "; ".join(texts))
