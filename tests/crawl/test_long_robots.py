"""Crawls of hosts with a robots.txt of hundreds of kilobytes: judged exactly, or refused with
the bound that was reached.
"""

from __future__ import annotations

import time
from itertools import islice, permutations
from pathlib import Path

from judging import quick_config
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from scripted import page, robots, scripted_crawl

A = "http://a.test/"


def test_each_of_20000_wildcard_rules_decides_where_it_matches(tmp_path: Path) -> None:
    rules = "User-agent: *\n" + "".join(f"Disallow: /*a*b{number:05}\n" for number in range(20_000))
    seeds = [f"{A}{number}/a/b{number:05}" for number in range(0, 24_000, 400)]
    crawl, web = scripted_crawl(
        tmp_path / "c",
        {f"{A}robots.txt": robots(rules), **{seed: page() for seed in seeds}},
        quick_config(),
    )
    crawl.run(seeds)
    assert {seed for seed in seeds if web.asked[seed]} == set(seeds[50:])
    reader = read_folder(tmp_path / "c")
    answer = explain(reader, load_saved_settings(reader), seeds[3], time.time()).to_json()
    assert (
        answer["facts"]["robots_rule"] == "Disallow: /*a*b01200"
        and answer["facts"]["robots_line"] == 1202
    )


def test_a_url_that_costs_too_much_to_judge_is_not_fetched_and_says_why(tmp_path: Path) -> None:
    patterns = islice((f"/*{'*'.join(each)}*z" for each in permutations("abcdefgh")), 17_000)
    rules = "User-agent: *\n" + "".join(f"Disallow: {pattern}\n" for pattern in patterns)
    costly, plain = f"{A}{'hgfedcba' * 9}", f"{A}plain"
    crawl, web = scripted_crawl(
        tmp_path / "c",
        {f"{A}robots.txt": robots(rules), costly: page(), plain: page()},
        quick_config(),
    )
    crawl.run([costly, plain])
    assert (web.asked[costly], web.asked[plain]) == (0, 1)
    reader = read_folder(tmp_path / "c")
    answer = explain(reader, load_saved_settings(reader), costly, time.time()).to_json()
    assert answer["verdict"] == "refused_by_robots"
    assert (
        "judging this URL by all wildcard rules needs more than 10,000,000 comparisons"
        in answer["headline"]
    )
    assert answer["facts"]["robots_bound"].startswith("judging this URL")
    again = explain(
        reader, load_saved_settings(reader), f"{A}{'hgfedcba' * 8}x", time.time()
    ).to_json()
    assert again["verdict"] == "refused_by_robots" and "10,000,000 comparisons" in again["headline"]
