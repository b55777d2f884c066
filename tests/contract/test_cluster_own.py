"""An own host with several requests at once on a real cluster, whose node is killed: the next owner
proves it again before it sends several.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from clusters import SETTINGS, WatchedLog, await_death, real_cluster
from kafka_broker import Broker
from killing import kill_machine
from lycosa.cli.main import main
from lycosa.stages.politeness.own_proofs import OWN_PATH
from own_site import MOST, PAGES, OwnHost, open_at, own_settings
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
DELAY_S = 0.5


def test_the_next_owner_proves_the_host_again(
    tmp_path: Path, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WatchedLog()
    with served_with_log(OwnHost(), pace=1.0, log=log) as (port, _):
        settings = {
            **SETTINGS,
            **own_settings(tmp_path, f"own.test:{port}"),
            "politeness.delay_s": str(DELAY_S),
            "politeness.max_adaptive_delay_s": "0",
            "store.commit_s": "0.5",
        }
        with real_cluster(tmp_path, kafka, settings, shards=2) as cluster:
            cluster.serve()
            first = cluster.machine("a")
            crawl = cluster.crawl(f"http://own.test:{port}/")
            log.await_that(lambda: len(log) >= 20)
            await_death(kill_machine(first.process.pid))
            killed = len(log)
            second = cluster.machine("b")
            second.await_line("the crawl is over")
            assert crawl.wait() == 0, crawl
            second.end()
            later = log.exchanges[killed:]
            asked = [each.path for each in later]
            assert set(PAGES) <= {each.path for each in log.exchanges}
            proof = asked.index(OWN_PATH)
            for before, after in pairwise(later[: proof + 2]):
                assert after.start - before.end >= DELAY_S - 0.01
            assert max(open_at(later, each.start) for each in later) == MOST
            monkeypatch.chdir(tmp_path)
            assert main(["audit", "--cluster", "cluster.toml"]) == 0
