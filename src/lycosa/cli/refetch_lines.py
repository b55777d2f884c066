"""What ``lycosa status`` says of refetching, each in one line; empty where there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lycosa.base.model.host_memory import VALIDATOR_LABELS
from lycosa.cli.output import counted, human_count, human_duration
from lycosa.cli.policy import promise_line

if TYPE_CHECKING:
    from lycosa.inspect.crawl_status import CrawlStatus

_ADDRESSES = 3  # in a line


def set_back_line(status: CrawlStatus) -> str:
    """URLs that wait behind all others of their host."""
    if not status.set_back:
        return ""
    return f"{counted(status.set_back, 'URL')}, because pages like them were near copies"


def refetches_line(status: CrawlStatus) -> str:
    """What the price of a refetch costs."""
    if (cost := status.refetches) is None:
        return ""
    here, half, double = (
        human_count(round(each)) if each >= 10 else f"{each:g}"
        for each in (cost.a_day, cost.at_half, cost.at_double)
    )
    origin = f", which was found for refetch.budget = {cost.budget}" if cost.budget else ""
    name = f"the price {cost.price:.3g}" if cost.budget else f"refetch.price = {cost.price:.3g}"
    return (
        f"about {here} a day of {counted(cost.pages, 'page')}, when a fetch is worth {name}{origin}"
        f" (half of the price: {half}, twice: {double})"
        + (f", and {human_count(round(cost.promised))} a day promised" if cost.promised else "")
        + (f"; {counted(cost.probes, 'page')} never worth it, as probes" if cost.probes else "")
    )


def addresses_line(status: CrawlStatus) -> str:
    """The addresses whose hosts wait longest, and those that ask for more than their turns."""
    shown = [
        f"{each.address}: "
        + ", ".join(
            [f"{counted(each.hosts, 'host')} wait up to {human_duration(each.wait_s)}"]
            * bool(each.hosts)
            + [f"refetch price {each.price:.3g}"] * bool(each.price)
        )
        for each in status.addresses[:_ADDRESSES]
    ]
    more = len(status.addresses) - len(shown)
    return "; ".join(shown) + (f"; and {more} more (--json)" if more > 0 else "")


def policies_line(status: CrawlStatus) -> str:
    """Records to which a change of policies is not applied, and the worst promise."""
    if (found := status.policies) is None:
        return ""
    left = f"not applied yet to {counted(found.left, 'record')}" if found.left else ""
    more = f", and {len(found.promises) - 1} more hosts" if len(found.promises) > 1 else ""
    promise = f"{promise_line(found.promises[0])}{more}" if found.promises else ""
    return "; ".join(filter(None, (left, promise)))


def validators_line(status: CrawlStatus) -> str:
    """What answers to refetches showed about validators."""
    if not (found := status.validators):
        return ""
    said = ", ".join(
        f"{label.replace('_', ' ')} {human_count(found[label])}"
        for label in VALIDATOR_LABELS
        if found.get(label)
    )
    if not status.hosts_distrusted:
        return said
    return f"{said}; not believed at {counted(status.hosts_distrusted, 'host')}"
