"""What a user says of a model: keys, files, hosts of a past crawl; and what is told when it is
wrong.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lycosa.base.config.sources import SettingsError
from lycosa.simulate.hosts_file import error_share_of, host_row, read_hosts
from lycosa.simulate.model_settings import model_fields, read_count, read_model
from lycosa.simulate.past_crawl import past_means
from lycosa.simulate.resources import Resources
from lycosa.simulate.sample import HostRow
from lycosa.simulate.web_model import Sizes, Web
from lycosa.state.folder.run_cost import RunCost, append_cost, read_costs


def test_every_key_has_a_meaning_and_its_default_is_within_its_bound() -> None:
    assert {key.partition(".")[0] for key in model_fields()} == {
        "web",
        "means",
        "prices",
        "cluster",
    }
    for key, field in model_fields().items():
        assert field.meaning.endswith("."), key
        assert field.read(field.show(field.default)) == field.default, key


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("250", 250),
        ("250_000", 250_000),
        ("1,000", 1000),
        ("45M", 45_000_000),
        ("1.5k", 1500),
        ("1G", 10**9),
    ],
)
def test_counts_are_written_as_people_do(text: str, number: int) -> None:
    assert read_count(text) == number


@pytest.mark.parametrize("text", ["", "many", "1.5", "-3", "1.2.3k", "5T"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a (count|whole number)"):
        read_count(text)


def test_later_sources_win_and_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "model.toml"
    file.write_text(
        '[web]\nhosts = 1000\nlatency_s = "2s"\nsizes = "fixed"\n[prices]\ncore_hour = 1\n'
    )
    given = read_model(
        file,
        ["web.latency_s=500ms", "web.page_bytes=40kB"],
        {"web.hosts": ("--hosts", "3k"), "means.cores": ("--cores", None)},
    )
    assert given.web == Web(
        hosts=3000, pages=66_667, latency_s=0.5, sizes=Sizes.FIXED, page_bytes=40_000
    )
    assert (given.prices.core_hour, given.means) == (1.0, Resources())
    assert given.origins["web.hosts"] == "--hosts"
    assert given.origins["prices.core_hour"] == f"{file}:6"


def test_a_web_is_as_dense_as_the_usual_one_when_only_one_number_is_given() -> None:
    density = Web().pages / Web().hosts
    assert read_model(pairs=["web.pages=44M"]).web.hosts == pytest.approx(44e6 / density, abs=1)


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("web.hosts", "write KEY=VALUE"),
        ("web.host=3", "did you mean web.hosts"),
        ("cores=3", "did you mean means.cores"),
        ("colour=blue", "--keys"),
        ("web.latency_s=soon", "not a duration"),
        ("web.errors=1.5", "0 to 1"),
        ("web.sizes=zip", "did you mean zipf"),
        ("means.cores=0", "more than 0"),
        ("means.cores=nan", "not a number"),
        ("web.pages=3", "each host needs at least one page"),
    ],
)
def test_everything_that_is_wrong_is_told_in_a_line(pair: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as error:
        read_model(pairs=[pair, "web.hosts=1000"])
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[web", "not TOML"),
        ("hosts = 3\n", "did you mean web.hosts"),
        ("[web]\nhosts = []\n", "web.hosts: "),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "model.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=told) as error:
        read_model(file)
    assert str(error.value).startswith(str(file))
    with pytest.raises(SettingsError, match="cannot be read"):
        read_model(tmp_path / "nowhere.toml")


# -- hosts of a past crawl

_UNKNOWN = {
    "captures": 0,
    "bytes": 0,
    "time_s": 0.0,
    "crawl_delay_s": None,
    "address": None,
    "errors": 0,
}
_ROWS: list[dict[str, object]] = [
    {"host": "a.example", "discovered": 120, "state": "ready", "reason": None, "captures": 100, "bytes": 2_000_000, "time_s": 30.0,
     "crawl_delay_s": 5.0, "address": "192.0.2.1", "errors": 25},
    {"host": "b.example", "discovered": 7, "state": "retired", "reason": "dns_no_such_name", **_UNKNOWN},
    {"host": "c.example", "discovered": 0, "state": "exhausted", "reason": None, **_UNKNOWN},
]  # fmt: skip
_HOSTS = [
    HostRow(
        pages=120,
        latency_s=0.3 - 20_000 / 2_500_000,
        crawl_delay_s=5.0,
        body_bytes=20_000.0,
        address="192.0.2.1",
        is_dead=False,
    ),
    HostRow(pages=7, is_dead=True),
]


def test_hosts_are_read_from_every_form_of_export(tmp_path: Path) -> None:
    lines, table, parquet = (
        tmp_path / "hosts.jsonl",
        tmp_path / "hosts.csv",
        tmp_path / "hosts.parquet",
    )
    lines.write_text("".join(json.dumps(row) + "\n" for row in _ROWS))
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(_ROWS[0]))
        writer.writeheader()
        writer.writerows(_ROWS)
    pq.write_table(pa.Table.from_pylist(_ROWS), parquet)
    for path in (lines, table, parquet):
        assert read_hosts(path, 2_500_000) == _HOSTS, path.name
    assert error_share_of(_ROWS) == 0.2
    assert host_row({"pages": 3}, 1.0) == HostRow(pages=3)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "hosts.csv",
            "host,urls\na,3\n",
            ":2: there is neither a column discovered nor a column pages",
        ),
        ("hosts.csv", "pages\nmany\n", ":2: pages is 'many', not a number"),
        ("hosts.csv", "pages,bytes\n3,-1\n", ":2: bytes is"),
        ("hosts.csv", "", "no host with a known URL"),
        ("hosts.jsonl", '{"pages": 0}\n', "no host with a known URL"),
        ("hosts.jsonl", '{"pages": 3}\n{"pages"\n', ":2: not JSON"),
        ("hosts.jsonl", '{"pages": 3}\n[]\n', ":2: not a JSON object"),
        ("hosts.parquet", "pages\n3\n", "not Parquet"),
        ("hosts.jsonl", "\udcff\udcfe", "not UTF-8"),
    ],
)
def test_a_list_of_hosts_that_is_wrong_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError) as error:
        read_hosts(path, 1.0)
    assert told in str(error.value) and str(error.value).startswith(str(path))


# -- what a past crawl cost


def _run(captures: int, captured: int, cpu_s: float, start_s: float = 2.0) -> RunCost:
    return RunCost(
        began=1.75e9,
        seconds=60.0,
        workers=1,
        cores=4,
        cpu_s=cpu_s,
        start_cpu_s=start_s,
        worker_cpu_s=cpu_s / 2,
        start_captured=0,
        captured=captured,
        captures=captures,
        pages=captures,
        requests=captures,
        hosts=0,
        body_bytes=captures * 10_000,
    )


def test_the_cost_of_a_page_comes_from_runs_that_left_a_line(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "warc").mkdir()
    (tmp_path / "warc" / "a.warc.gz").write_bytes(bytes(7_500_000))
    append_cost(tmp_path, _run(1000, 1000, 4.0))
    append_cost(tmp_path, _run(3000, 500, 9.0))  # before it somebody was killed with 1,500 captures
    append_cost(tmp_path, _run(5000, 2000, 6.0))
    with (tmp_path / "log" / "runs.jsonl").open("ab") as file:
        file.write(b'{"began": 17')  # cut off
    assert len(read_costs(tmp_path)) == 3
    found = past_means(tmp_path)
    assert found["means.page_ms"] == pytest.approx(1000 * (2.0 + 4.0) / 3000)
    assert found["means.start_cpu_s"] == pytest.approx(2.0)
    assert found["means.loop_share"] == pytest.approx(0.5)
    assert found["means.cores"] == 4.0
    assert found["means.disk_factor"] == pytest.approx(0.15)
    assert read_model(base=found).means.page_ms == pytest.approx(2.0)


def test_the_pages_of_the_start_are_not_counted_twice(tmp_path: Path) -> None:
    """Of a run with 100 captures before the first report, and 10 ms each: what was spent until
    then is 1 s for them, and the start.
    """
    (tmp_path / "log").mkdir()
    append_cost(
        tmp_path, msgspec.structs.replace(_run(1100, 1100, 13.0, start_s=3.0), start_captured=100)
    )
    found = past_means(tmp_path)
    assert found["means.page_ms"] == pytest.approx(10.0)
    assert found["means.start_cpu_s"] == pytest.approx(2.0)


def test_a_crawl_that_cannot_tell_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not show the cost of a page: it has 0 pages"):
        past_means(tmp_path)
    (tmp_path / "log").mkdir()
    append_cost(tmp_path, _run(100, 100, 4.0))
    with pytest.raises(SettingsError, match="100 pages"):
        past_means(tmp_path)
