"""Whether hosts behind one address leave room for others: ``python -m bench.shared_address
[--shared 5000] [--own 200]``.

Many hosts on one address stand beside a few on addresses of their own, in virtual time, through
``lycosa.simulate``: the real frontier, workbench, address table and delays, a sampled answer for
each request. All hosts are known from the start, those of the shared address first, and none runs
out of pages. For each size of the workbench it prints the requests a second of the few, alone and
beside the many, and those of the shared address beside what its delay permits. Ends with 1 when the
few keep less than 95 % of their rate, or the address gets less than 95 % of what it permits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config, FrontierSection
from lycosa.simulate.drive import Drive
from lycosa.simulate.resources import Meters, Resources
from lycosa.simulate.sample import Host, Sample
from lycosa.simulate.simulated_table import SimulatedTable
from lycosa.simulate.visits import Visits
from lycosa.simulate.web_model import Web

SHARED = "198.18.0.1"
_OWN_PAGES, _SHARED_PAGES = 2000, 60
_LATENCY_S = 0.1
_MIN = 0.95


class Count:
    """Counts requests that begin, by whether their host is on the shared address."""

    def __init__(self) -> None:
        self.begun: Counter[bool] = Counter()
        self.hosts: set[str] = set()

    def begins(self, host: Host, now: float) -> None:
        self.begun[host.address == SHARED] += 1
        self.hosts.add(host.name)

    def ends(self, host: Host, now: float) -> None: ...


class Rates(msgspec.Struct, frozen=True):
    """Requests a second of both kinds of hosts, and how many hosts were asked at all."""

    own: float
    shared: float
    hosts: int


def hosts(shared: int, own: int) -> list[Host]:
    many = [_host(f"shop{n}.example", SHARED, _SHARED_PAGES) for n in range(shared)]
    return many + [
        _host(f"own{n}.example", f"198.19.{n >> 8}.{n & 255}", _OWN_PAGES) for n in range(own)
    ]


def _host(name: str, address: str, pages: int) -> Host:
    return Host(name, pages, _LATENCY_S, -1.0, 20_000, address, is_dead=False, has_validators=False)


def rates(shared: int, own: int, workbench: int, seconds: float) -> Rates:
    """One crawl. The first tenth of the time is not counted: the hosts come to the workbench,
    and their robots.txt is fetched.
    """
    config = Config(frontier=FrontierSection(partitions=1, workbench=workbench))
    web, sample, count = Web(errors=0.0), Sample(1.0, hosts(shared, own)), Count()
    meters = Meters(
        Resources(cores=64, page_ms=0.01, request_ms=0.01),
        1,
        config.fetch.slots,
        1.0,
        sample.typical,
    )
    with tempfile.TemporaryDirectory() as folder:
        table = SimulatedTable(Path(folder), config)
        visits = Visits(sample, web, config, table, meters, count)
        visits.seed()
        drive = Drive(sample, visits, table)
        drive.run(seconds / 10, [], lambda _: None)
        count.begun.clear()
        drive.run(seconds, [], lambda _: None)
        visits.close()
        table.close()
    return Rates(
        count.begun[False] / (0.9 * seconds), count.begun[True] / (0.9 * seconds), len(count.hosts)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared", type=int, default=5000, help="hosts on one address")
    parser.add_argument("--own", type=int, default=200, help="hosts on addresses of their own")
    parser.add_argument("--seconds", type=float, default=900.0, help="virtual")
    parser.add_argument("--workbench", type=int, nargs="+", default=[20_000, 2000, 500])
    options = parser.parse_args()
    permitted, is_fair = 1 / Config().politeness.address_delay_s, True
    for workbench in options.workbench:
        began = time.process_time()
        alone = rates(0, options.own, workbench, options.seconds)
        beside = rates(options.shared, options.own, workbench, options.seconds)
        print(
            f"workbench {workbench:,}: {options.own} hosts {alone.own:.1f} requests/s alone,"
            f" {beside.own:.1f} beside {options.shared:,} ({beside.own / alone.own:.1%}); shared"
            f" address {beside.shared:.2f} of {permitted:.2f} requests/s"
            f" ({beside.shared / permitted:.1%}), {beside.hosts:,} hosts asked"
            f" ({time.process_time() - began:.0f} s of CPU)",
            flush=True,
        )
        is_fair = is_fair and beside.own >= _MIN * alone.own and beside.shared >= _MIN * permitted
    sys.exit(0 if is_fair else 1)


if __name__ == "__main__":
    main()
