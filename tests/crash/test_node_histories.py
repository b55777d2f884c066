"""Short form of ``script/prove nodes``: a few seeds, and the planted bugs that a few seeds find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lycosa.base.calls import RenderVerdict
from nodes.archives import Archives
from nodes.changes import Changes
from nodes.clocks import Clocks
from nodes.codes import Codes
from nodes.doors import Doors
from nodes.extracting import Extracting
from nodes.history import LEAST_FAULTS, NodesHistory, live_and_judge
from nodes.outside import Outside
from nodes.own import Own
from nodes.plants import PLANTS
from nodes.plugin import Plugin
from nodes.policies import Policies
from nodes.pools import Pool
from nodes.prices import Prices
from nodes.refetches import Refetches
from nodes.renders import Renders
from nodes.shaky import Shaky
from nodes.statements import Statements
from nodes.stops import Stops
from nodes.unparsed import Unparsed
from planting import Breach


def seeds(few: int, many: int) -> list[Any]:
    """Seeds of which all but a few are long tests."""
    return [pytest.param(seed, marks=[pytest.mark.long] * (seed >= few)) for seed in range(many)]


@pytest.mark.long  # every run of the tests lives through the first one twice, below
@pytest.mark.parametrize("seed", range(5))
def test_a_history_of_many_nodes_breaks_no_promise(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path)
    assert lived.faults >= LEAST_FAULTS
    assert lived.takeovers > 0


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_no_place_that_joins_the_scope_is_lost(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Doors])
    assert lived.faults >= LEAST_FAULTS
    assert lived.takeovers > 0


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_own_hosts_have_several_requests_at_once_whoever_owns_them(
    seed: int, tmp_path: Path
) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Own])
    assert lived.faults >= LEAST_FAULTS
    assert lived.takeovers > 0


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_every_capture_has_what_its_site_states_elsewhere(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Statements])
    assert lived.faults >= LEAST_FAULTS
    assert lived.takeovers > 0


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))]
)
def test_pages_are_fetched_again_and_counted_whoever_owns_them(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Refetches], nodes=4)
    assert lived.requests > 1500, "pages were fetched again and again"
    assert lived.faults >= LEAST_FAULTS
    assert lived.takeovers > 0


@pytest.mark.long  # every run of the tests has them in one history, with others, below
@pytest.mark.parametrize("seed", range(3))
def test_changed_settings_reach_every_owner_and_are_never_forgotten(
    seed: int, tmp_path: Path
) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Changes])
    assert lived.takeovers > 0


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_changed_policies_reach_all_records_whoever_owns_them(seed: int, tmp_path: Path) -> None:
    history = NodesHistory(seed, tmp_path, [Policies])
    assert history.live().takeovers > 0
    (policies,) = history.plugins
    assert isinstance(policies, Policies) and policies.moved > 0


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_no_process_runs_code_that_its_machine_does_not_allow(seed: int, tmp_path: Path) -> None:
    history = NodesHistory(seed, tmp_path, [Codes])
    assert history.live().takeovers > 0
    assert {len(allowed) for _, _, _, allowed in history.world.code_starts} >= {1, 2}


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_every_page_has_its_rows_whoever_owns_it(seed: int, tmp_path: Path) -> None:
    history = NodesHistory(seed, tmp_path, [Extracting])
    assert history.live().takeovers > 0
    (extracting,) = history.plugins
    assert isinstance(extracting, Extracting) and extracting.extracted > 100


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_price_is_found_and_kept_whoever_coordinates(seed: int, tmp_path: Path) -> None:
    history = NodesHistory(seed, tmp_path, [Prices])
    assert history.live().takeovers > 0
    (prices,) = history.plugins
    assert isinstance(prices, Prices) and prices.coordinators


@pytest.mark.long  # every run of the tests has them in one history, with others, below
@pytest.mark.parametrize("seed", range(4))
def test_a_crawl_that_was_stopped_and_continued_lacks_nothing(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Stops])
    assert lived.takeovers > 0


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_every_body_is_parsed_in_the_end_although_machines_had_no_parser(
    seed: int, tmp_path: Path
) -> None:
    history = NodesHistory(seed, tmp_path, [Unparsed])
    assert history.live().takeovers > 0
    assert history.world.faults["unparsed"] > 5


@pytest.mark.long  # every run of the tests has them in one history, with others, below
@pytest.mark.parametrize("seed", range(3))
def test_a_coordinator_with_a_wrong_clock_costs_nothing(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Clocks])
    assert lived.takeovers > 0


@pytest.mark.long  # every run of the tests has them in one history, with others, below
@pytest.mark.parametrize("seed", range(4))
def test_shards_leave_machines_that_lack_something(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Shaky])
    assert lived.takeovers > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_leases_of_an_outside_fetcher_move_with_their_shard(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Outside])
    assert lived.takeovers > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_machines_that_share_addresses_overload_none(seed: int, tmp_path: Path) -> None:
    lived = live_and_judge(seed, tmp_path, plugins=[Pool])
    assert lived.takeovers > 0


@pytest.mark.parametrize(
    "plugins",
    [
        # these are among those of the third
        pytest.param([Outside, Unparsed, Pool], marks=pytest.mark.long),
        pytest.param([Changes, Stops, Unparsed, Shaky], marks=pytest.mark.long),
        [Outside, Pool, Changes, Clocks, Doors, Shaky, Stops, Unparsed],
    ],
)
def test_what_happens_at_the_same_time_breaks_no_promise(
    plugins: list[type[Plugin]], tmp_path: Path
) -> None:
    assert live_and_judge(0, tmp_path, plugins).takeovers > 0


def test_one_seed_gives_one_history(tmp_path: Path) -> None:
    lived = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        lived.append(live_and_judge(0, tmp_path / name))
    assert lived[0] == lived[1]
    assert lived[0].faults >= LEAST_FAULTS and lived[0].takeovers > 0


@pytest.mark.parametrize(
    "plant",
    [
        "no fence",
        pytest.param("no hold", marks=pytest.mark.long),  # also in `script/prove nodes`
        pytest.param("early acknowledgement", marks=pytest.mark.long),
        pytest.param("row n", marks=pytest.mark.long),
        pytest.param("stale snapshot", marks=pytest.mark.long),
        "early end",
        "mixed files",
        pytest.param("old coordinator", marks=pytest.mark.long),
        pytest.param("marker", marks=pytest.mark.long),
        pytest.param("free", marks=pytest.mark.long),
        pytest.param("eager", marks=pytest.mark.long),
    ],
)
def test_a_planted_bug_is_found(plant: str, tmp_path: Path) -> None:
    for seed in range(14):
        (tmp_path / str(seed)).mkdir()
        try:
            live_and_judge(seed, tmp_path / str(seed), plant=PLANTS[plant])
        except Breach as breach:
            print(breach)
            return
    pytest.fail("no history found it")


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_cold_records_are_where_the_last_commit_says(seed: int, tmp_path: Path) -> None:
    history = NodesHistory(seed, tmp_path, [Archives])
    assert history.live().takeovers > 0
    (archives,) = history.plugins
    assert isinstance(archives, Archives) and archives.cold > 0


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_every_page_is_rendered_from_what_was_stored_whoever_owns_it(
    seed: int, tmp_path: Path
) -> None:
    history = NodesHistory(seed, tmp_path, [Renders])
    assert history.live().takeovers > 0
    (renders,) = history.plugins
    assert isinstance(renders, Renders) and renders.verdicts[RenderVerdict.LATE] > 0
