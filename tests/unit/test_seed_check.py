"""Seeds judged before a crawl begins, and the Python API's word on them: nothing is written for
seeds that cannot be crawled.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import lycosa
from lycosa.processes.seed_check import SeedCheck


@pytest.mark.parametrize(
    ("seed", "said"),
    [
        ("http://example.org/", ""),
        ("mailto:a@example.org", "not a URL that can be crawled"),
        ("http://", "not a URL that can be crawled"),
        ("http://example.org/x.pdf", "excluded"),
        ("http://example.org/" + "a/" * 40, "path_too_deep"),
    ],
)
def test_a_seed_is_judged_as_the_crawl_will(seed: str, said: str) -> None:
    found = SeedCheck(
        lycosa.settings({"scope.exclude": [r"\.pdf$"], "scope.rule": "host"}), 1_790_000_000
    ).refusal(seed)
    assert (said in found) if said else (found == "")


@pytest.mark.parametrize("seeds", [[], ["nonsense"], ["mailto:a@example.org", "http://"]])
def test_a_crawl_of_no_usable_seed_is_an_error_and_leaves_no_folder(
    tmp_path: Path, seeds: list[str]
) -> None:
    crawl = lycosa.Crawl(seeds, tmp_path / "crawl")
    with pytest.raises(ValueError, match="seed"):
        crawl.run()
    assert not (tmp_path / "crawl").exists()


def test_wrong_settings_of_a_program_are_told_before_anything_is_written(tmp_path: Path) -> None:
    config = lycosa.Config(workers="many")  # type: ignore[arg-type]
    with pytest.raises(lycosa.SettingsError, match="workers: 'many' is not a whole number"):
        lycosa.Crawl(["http://example.org/"], tmp_path / "crawl", config)
    assert not (tmp_path / "crawl").exists()


def test_one_text_is_not_many_seeds(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a list of URLs"):
        lycosa.Crawl("http://example.org/", tmp_path)


def test_all_public_names_are_there() -> None:
    assert all(getattr(lycosa, name) for name in lycosa.__all__)
