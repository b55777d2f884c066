"""A snapshot of the meter as the text that Prometheus scrapes (its text format, version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.base.system.meter import Distribution, MeterSnapshot, Number
from lycosa.base.system.metric_catalogue import METRICS, Metric, MetricKind

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(snapshot: MeterSnapshot) -> str:
    """The text of a snapshot, in the order of ``METRICS``.

    Metrics that the snapshot does not have are left out: Prometheus shows a gap for them, and not a
    zero that was never measured. Names that are not in ``METRICS``, for example those of a worker
    of a later version, are left out too.
    """
    return "".join(f"{line}\n" for line in _lines(snapshot))


def _lines(snapshot: MeterSnapshot) -> Iterator[str]:
    for metric in METRICS.values():
        if metric.kind is MetricKind.HISTOGRAM:
            samples = [
                line
                for value, each in sorted(snapshot.distributions.get(metric.name, {}).items())
                for line in _histogram(metric, value, each)
            ]
        else:
            samples = [
                f"{metric.name}{_labels(metric, value)} {_shown(number)}"
                for value, number in snapshot.numbers.get(metric.name, {}).items()
            ]
        if samples:
            yield f"# HELP {metric.name} {_escaped(metric.meaning)}"
            yield f"# TYPE {metric.name} {metric.kind.value}"
            yield from samples


def _histogram(metric: Metric, value: str, found: Distribution) -> Iterator[str]:
    total = 0
    for bound, count in zip((*map(_shown, metric.bounds), "+Inf"), found.counts, strict=True):
        total += count
        yield f"{metric.name}_bucket{_labels(metric, value, bound)} {total}"
    yield f"{metric.name}_sum{_labels(metric, value)} {_shown(found.sum)}"
    yield f"{metric.name}_count{_labels(metric, value)} {total}"


def _labels(metric: Metric, value: str, bound: str = "") -> str:
    pairs = [(metric.label, value)] if metric.label else []
    pairs += [("le", bound)] if bound else []
    inside = ",".join(f'{name}="{_escaped_value(text)}"' for name, text in pairs)
    return f"{{{inside}}}" if inside else ""


def _shown(number: Number) -> str:
    """A number as Go writes it: ``1``, ``0.25``; whole floats without a fraction."""
    return str(int(number)) if number == int(number) else repr(float(number))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped_value(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
