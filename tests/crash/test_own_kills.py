"""``kill -9`` of a crawl while its own host has several requests at once, judged by the server."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from clusters import WatchedLog
from killing import kill_machine
from lycosa.base.urls.identity import target_of
from lycosa.stages.politeness.own_proofs import OWN_PATH
from lycosa.state.attempts import Attempt, read_attempts
from lycosa.state.folder.names import attempts_folder
from own_site import MOST, PAGES, OwnHost, open_at, own_settings
from proofs.crawls import LOOPBACK, LYCOSA, crawl, environment, lycosa
from serving import served_with_log

DELAY_S = 1.0


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_killed_crawl_proves_its_host_again_before_it_sends_several(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    log = WatchedLog()
    with served_with_log(OwnHost(), pace=1.0, log=log) as (port, _):
        host = f"own.test:{port}"
        settings = {
            **own_settings(tmp_path, host),
            "politeness.delay_s": str(DELAY_S),
            "politeness.address_delay_s": "0",
            "politeness.max_crawl_delay_s": "0",
            "politeness.max_adaptive_delay_s": "0",
            "store.commit_s": "0.2",
        }
        given = [part for pair in settings.items() for part in ("--set", "=".join(pair))]
        start = [f"http://{host}/", "--resolve", "own.test=127.0.0.1", *given]
        process = subprocess.Popen(
            [*LYCOSA, "crawl", "--dir", str(folder), *LOOPBACK, *start],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(None),
        )
        try:
            log.await_that(lambda: len(log) >= 20)
        finally:
            kill_machine(process.pid)
            process.wait()
        killed = len(log.exchanges)
        broken = [each for each in attempts(folder) if not each.is_finished]
        assert len(broken) > 1 and {each.at_once for each in broken} == {MOST}
        assert lycosa("audit", str(folder)).code == 0
        done = crawl(folder, *start[1:])
        assert done.code == 0, done.err
        later = log.exchanges[killed:]
    asked = [each.path for each in later]
    assert {target_of(each.url) for each in broken} <= set(asked)
    assert set(PAGES) <= {each.path for each in log.exchanges}
    proof = asked.index(OWN_PATH)
    for before, after in pairwise(later[: proof + 2]):
        assert after.start - before.end >= DELAY_S - 0.01
    assert max(open_at(later, each.start) for each in later) == MOST
    audited = lycosa("audit", str(folder))
    assert audited.code == 0, audited.out


def attempts(folder: Path) -> list[Attempt]:
    return list(read_attempts(attempts_folder(folder)))
