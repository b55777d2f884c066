"""The Spark job of ``examples`` gives the ranks of ``lycosa rank``. Needs pyspark and Java."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_rank_command import WEB, A, B

from crawling import Pages, crawl_folder
from lycosa.cli.main import main
from lycosa.state.objects.folder import FolderStore
from lycosa.state.ranks.rank_results import RankResults
from lycosa.state.ranks.rank_text import RankedName, read_ranks

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark") is None or shutil.which("java") is None,
        reason="needs pyspark and Java: pip install pyspark",
    ),
]
JOB = Path(__file__).parents[2] / "examples" / "spark_ranks.py"
SUBMIT = (
    "--master local[1] --driver-memory 1g --conf spark.ui.enabled=false"
    " --conf spark.sql.shuffle.partitions=1 --conf spark.default.parallelism=1"
    " --conf spark.sql.adaptive.enabled=false"
    " --conf spark.driver.host=127.0.0.1 pyspark-shell"
)


def submit(crawl: Path, output: Path, *words: str) -> None:
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": SUBMIT, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, str(JOB), str(crawl), str(output), *words],
        env=environment | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def spark_rows(folder: Path) -> dict[str, RankedName]:
    pieces = [path.read_bytes() for path in sorted(folder.glob("part-*.gz"))]
    return {row.name: row for row in read_ranks(pieces)}


def assert_alike(crawl: Path, output: Path, levels: list[str]) -> None:
    results = RankResults(FolderStore(str(crawl), crawl))
    for level in levels:
        ours = {row.name: row for row in results.rows(results.numbers()[-1], level)}
        theirs = spark_rows(output / level / "ranks")
        assert theirs.keys() == ours.keys()
        for name, row in ours.items():
            assert theirs[name].pagerank == pytest.approx(row.pagerank, rel=1e-6), name
            assert theirs[name].harmonic == pytest.approx(row.harmonic, rel=1e-6), name
            assert theirs[name].hosts == row.hosts


def test_the_spark_job_gives_the_same_ranks(tmp_path: Path) -> None:
    """With a damping factor that needs few steps, because Spark takes a second for each."""
    crawl = tmp_path / "crawl"
    crawl_folder(crawl, Pages(WEB), [f"{A}/", f"{B}/"])
    few = ["--damping", "0.5", "--levels", "domain,page"]
    assert main(["rank", str(crawl), *few]) == 0
    suffixes = str(crawl / "public_suffix_list.dat")
    exact = ["--exact", "--tolerance", "1e-8", "--suffixes", suffixes]
    submit(crawl, tmp_path / "out", *few, *exact)
    assert_alike(crawl, tmp_path / "out", ["domain", "page"])
