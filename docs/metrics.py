"""Writes metrics.md next to this file: ``python docs/metrics.py`` lists every metric.

The table is made of ``lycosa.base.system.metric_catalogue``. A test compares the page with what
this script would write.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from lycosa.base.system.metric_catalogue import METRICS, Merge, Metric, MetricKind

PAGE = Path(__file__).with_suffix(".md")
_MOST_VALUES = 12
_HEAD = """# Metrics

`/metrics` of the HTTP interface answers in the text form of Prometheus. `lycosa crawl --api`,
`lycosa serve FOLDER` and `lycosa serve --cluster FILE --api ADDRESS` have it. An interface with
tokens asks for one with the scope `read` (`authorization` in Prometheus). Without an HTTP
interface, `lycosa status DIR --metrics` prints the same numbers of a running crawl, for example for
the textfile collector of a node exporter. No metric tells anything about a single host.

`deploy/prometheus` has a configuration and alert rules, `deploy/grafana/lycosa.json` a dashboard.
[Operations](operations.md#alerts) says what to do about each alert.

* **One source.** The live table of `lycosa crawl`, `lycosa status`, the HTTP interface and
  `/metrics` read the same snapshot of the meter. The workers' snapshots are added.
* **Bounded labels.** A metric has at most one label, with the values that this page lists. No label
  has the name of a host: `lycosa status --hosts` and the operator's page are for single hosts.
* **Counters do not fall.** Counters marked *stored* are part of the crawl. They are those of the
  last commits, so they continue after a restart and after any crash. The others begin with the run;
  when a worker process is replaced, its counts stay in the sum. After a start of a cluster's
  coordinator, counters and histograms of workers are missing until every shard has reported,
  because a partial sum would look like a reset.
* **One place on a cluster.** The coordinator has the metrics of the whole crawl, and nodes have
  none. Let Prometheus scrape a name that leads to the coordinator's machine. If it scrapes each
  machine where a coordinator may run, one of them answers, so nothing is counted twice; but the
  alert `LycosaDoesNotAnswer` then fires for the others.
* **Missing is not zero.** A metric that was not measured is left out, for example uploads in a
  crawl that uploads nothing.

| metric | kind | label and its values | meaning |
|---|---|---|---|
"""
_TAIL = """Buckets of times, in seconds: {seconds}. Buckets of ages, in seconds: {ages}.

"Over several workers" is the sum unless the meaning says otherwise: the greatest for {greatest};
the smallest for {smallest}.
"""


def page() -> str:
    """The whole page."""
    rows = "".join(f"{_row(metric)}\n" for metric in METRICS.values())
    bounds = [metric.bounds for metric in METRICS.values() if metric.bounds]
    seconds, ages = min(bounds), max(bounds)
    tail = _TAIL.format(
        seconds=", ".join(f"{each:g}" for each in seconds),
        ages=", ".join(f"{each:.0f}" for each in ages),
        greatest=_names(Merge.GREATEST),
        smallest=_names(Merge.SMALLEST),
    )
    wrapped = (
        "\n".join(textwrap.wrap(" ".join(each.split()), 100, break_on_hyphens=False))
        for each in tail.split("\n\n")
    )
    return _HEAD + rows + "\n" + "\n\n".join(wrapped) + "\n"


def _row(metric: Metric) -> str:
    kind = metric.kind.value + (", stored" if metric.is_stored else "")
    return f"| `{metric.name}` | {kind} | {_label(metric)} | {metric.meaning} |"


def _label(metric: Metric) -> str:
    if not metric.label:
        return ""
    if not metric.values:
        return (
            f"`{metric.label}`: `supervisor` or `coordinator`, `node` with its name, `worker`,"
            " `parser` and `text parser` (of stored pages) with their number, `api`"
        )
    if len(metric.values) <= _MOST_VALUES:
        return f"`{metric.label}`: " + ", ".join(f"`{each}`" for each in metric.values)
    if metric.label == "reason":
        return f"`{metric.label}`: the reasons of `lycosa explain`"
    return f"`{metric.label}`: `{metric.values[0]}`, `{metric.values[1]}`, and so on"


def _names(merge: Merge) -> str:
    return ", ".join(f"`{each.name}`" for each in METRICS.values() if each.merge is merge)


if __name__ == "__main__":
    assert all(each.bounds for each in METRICS.values() if each.kind is MetricKind.HISTOGRAM)
    PAGE.write_text(page(), "utf-8")
