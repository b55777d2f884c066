"""``lycosa simulate``: what it prints, what it draws, and what it says when something is wrong."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from lycosa.cli.main import main
from lycosa.cli.simulate import SimulationProgress
from lycosa.simulate.model_settings import model_fields
from lycosa.simulate.picture import short_count
from lycosa.simulate.resources import LIMITS

SMALL = [
    "simulate",
    "--hosts",
    "50",
    "--pages",
    "500",
    "--days",
    "2",
    "--let",
    "web.robots_delay=0",
]
SVG = "{http://www.w3.org/2000/svg}"


def run(capsys: pytest.CaptureFixture[str], *more: object) -> str:
    assert main([*SMALL, *map(str, more)]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *more: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, "--json", *more))
    return found


def test_it_answers_every_question_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys).splitlines()
    assert lines[0] == "500 pages on 50 hosts, 2 days, 1 worker"
    names = [line[: line.index("  ")] for line in lines[4:14]]
    assert names == [
        "pages a day",
        "first round",
        "freshness",
        "queue",
        "bandwidth",
        "received",
        "disk",
        "processors",
        "cost",
        "binds",
    ]
    table = lines[next(number for number, line in enumerate(lines) if line.startswith("day ")) :]
    assert len(table) > 10
    assert table[-1].startswith("2 ")


def test_a_web_that_cannot_be_fetched_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "first round  0 pages: nothing could be fetched" in run(capsys, "--let", "web.dead=1")
    assert "binds        nothing" in run(capsys, "--let", "web.errors=1")


def test_json_has_the_model_the_answers_and_all_points(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(
        capsys,
        "--let",
        "means.page_ms=3",
        "--let",
        "prices.gb_received=2",
        "--workers",
        "auto",
        "--cores",
        "3",
    )
    assert (found["web"]["hosts"], found["means"]["page_ms"], found["workers"]) == (50, 3.0, 3)
    assert found["sample"]["hosts"] == 50
    assert found["rows"][-1]["day"] == found["days"] == 2.0
    # a twentieth of the hosts is dead
    assert found["stored"] == found["rows"][-1]["stored"] == pytest.approx(475, abs=15)
    assert found["binds"] in LIMITS
    assert sum(found["limits"].values()) == pytest.approx(1.0)
    assert sum(found["limits_of_pages"].values()) == pytest.approx(1.0)
    assert found["cost"]["cores"] == pytest.approx(3 * 48 * 0.04)
    assert found["cost"]["received"] == pytest.approx(2 * found["received_bytes"] / 1e9)
    assert found["cost"]["total"] == pytest.approx(
        sum(found["cost"][name] for name in ("cores", "received", "kept"))
    )


def test_settings_of_the_crawl_are_those_of_crawl(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "crawl.toml").write_text('[politeness]\ndelay_s = "20s"\n')
    slow = document(capsys, "--config", tmp_path / "crawl.toml")
    quick = document(
        capsys,
        "--config",
        tmp_path / "crawl.toml",
        "--delay",
        "100ms",
        "--set",
        "politeness.adaptive_factor=0",
    )
    assert slow["most_day"] > 5 * quick["most_day"]


def test_the_curves_are_drawn_as_svg(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "crawl.svg"
    run(capsys, "--picture", picture)
    root = ET.fromstring(picture.read_text())
    assert root.tag == f"{SVG}svg"
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 7  # six charts, one of them with two curves
    for line in lines:
        places = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
        assert places == sorted(places, key=lambda place: place[0])
        assert all(0 <= x <= 960 and 0 <= y <= 760 for x, y in places)
    texts = [text.text for text in root.findall(f"{SVG}text")]
    assert "pages a day" in texts and "500 pages on 50 hosts, 2 days, 1 worker" in texts


def test_the_keys_of_the_model_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--keys"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(
        model_fields()
    )
    assert main(["simulate", "--keys", "--json"]) == 0
    assert [each["key"] for each in json.loads(capsys.readouterr().out)] == list(model_fields())


def test_listed_hosts_stand_for_more(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("pages,captures,bytes,time_s\n" + "30,30,60000,3\n" * 10)
    arguments = ["simulate", "--json", "--days", "1", "--hosts-of", str(hosts)]
    assert main(arguments) == 0
    few = json.loads(capsys.readouterr().out)
    assert main([*arguments, "--hosts", "1M"]) == 0
    many = json.loads(capsys.readouterr().out)
    assert (few["web"]["hosts"], few["web"]["pages"], few["listed_hosts"]) == (10, 300, 10)
    assert (many["web"]["hosts"], many["web"]["pages"], many["sample"]["hosts"]) == (
        1_000_000,
        30_000_000,
        10,
    )
    assert few["received_bytes"] == pytest.approx(300 * 3000, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--hosts", "many"], "--hosts: web.hosts: 'many' is not a count"),
        (["--hosts", "0"], "web.hosts: 0 is out of bounds"),
        (["--hosts", "100", "--pages", "10"], "each host needs at least one page"),
        (["--let", "web.colour=3"], "there is no key 'web.colour'"),
        (["--let", "latency"], "write KEY=VALUE"),
        (["--days", "0"], "--days"),
        (["--cores", "-1"], "means.cores"),
        (["--delay", "soon"], "not a duration"),
        (["--set", "politeness.delay=1s"], "did you mean politeness.delay_s"),
        (["--model", "nowhere.toml"], "cannot be read"),
        (["--hosts-of", "nowhere.csv"], "nowhere.csv: No such file"),
        (["--hosts-of", "."], "is not a crawl"),
        (["--means-of", "."], "is not a crawl"),
        (
            ["--picture", "crawl.png"],
            "must end with .svg; browsers show such a file, and rsvg-convert",
        ),
        (
            ["--picture", "nowhere/crawl.svg", "--hosts", "5", "--days", "0.01"],
            "nowhere: No such file",
        ),
        (["--hosts", "100k", "--pages", "100M", "--sample", "100k"], "smaller --sample"),
        (["--sample", "some"], "--sample: 'some' is not a count"),
        (["--jobs", "0"], "--jobs"),
        (["45M"], "unexpected extra argument"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    arguments: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert told in shown.err and "Traceback" not in shown.err
    assert len(shown.err.splitlines()) == 1


def test_listed_hosts_say_how_many_pages_there_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "hosts.csv").write_text("pages\n3\n")
    assert main(["simulate", "--hosts-of", str(tmp_path / "hosts.csv"), "--pages", "5"]) == 2
    assert "leave web.pages out" in capsys.readouterr().err


def test_long_work_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    progress = SimulationProgress(lambda: now[0])
    for seconds, share in ((1.0, 0.1), (10.5, 0.25), (12.0, 0.3), (21.0, 0.5)):
        now[0] = seconds
        progress.show_share(share)
    progress.clear_line()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "lycosa: simulated 25 % of the time, about 32s left",
        "lycosa: simulated 50 % of the time, about 21s left",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (950, "950"), (12_000, "12k"), (3_400_000, "3.4M"), (1.2e9, "1.2G"), (8e12, "8T")],
)
def test_numbers_on_axes_are_short(number: float, text: str) -> None:
    assert short_count(number) == text


def test_help_says_what_binds_and_where_more_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in LIMITS)
    assert "lycosa docs simulation" in " ".join(said.split())
