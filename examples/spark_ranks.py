"""Ranks of more links than one machine can hold: ``lycosa rank`` as a Spark job.

    pip install "pyspark>=4"        # into the environment of Lycosa
    spark-submit examples/spark_ranks.py crawls/example.org out/
    spark-submit --packages org.apache.hadoop:hadoop-aws:3.4.2 examples/spark_ranks.py \\
        s3a://archive/news s3a://archive/news-ranks --levels host,domain --registers 8

Reads ``links/*.parquet`` and ``pages/*.parquet`` below the first path: a crawl folder, or the part
of a bucket that has a cluster's crawl. Writes ``LEVEL/vertices``, ``LEVEL/edges`` and
``LEVEL/ranks`` below the second, folders of gzipped text in the form of Common Crawl's web graphs.
Which links count, and what is computed of them, is in docs/ranks.md; the numbers are those of
``lycosa rank``. Segments that are still open are not read.

Executors need the package lycosa too, for the sites of hosts and the canonical form of redirects:
``--suffixes`` is the crawl's ``public_suffix_list.dat``, if it is not that of the package.

PageRank is one join and one sum over the edges in each step. Harmonic centrality has a row for each
register of each ball that is not empty (``--registers``), or with ``--exact`` for each vertex in
it, which only small graphs allow. Only rows that changed are joined in the next step.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

KINDS = (
    "feed", "a", "area", "frame", "iframe", "canonical", "alternate", "next", "prev", "refresh",
    "code",
)  # fmt: skip
MOVED = (301, 302, 303, 307, 308)
SAYS = "fetch_status BETWEEN 200 AND 299 OR fetch_status IN (301, 302, 303, 307, 308, 404, 410)"
_GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def _canonical(location: str, source: str) -> str | None:
    # Imported by the executor: functions of this file travel as bytes, and take no globals along
    # that cannot.
    from lycosa.base.config.sections import CanonicalSection
    from lycosa.base.urls.identity import Canonicalizer

    try:
        return Canonicalizer(CanonicalSection()).canonical(location, source)
    except ValueError:  # the crawl did not follow it either
        return None


def _named_hosts(level: str, suffixes: str) -> Callable[[Iterable[Row]], Iterator[tuple[str, str]]]:
    """For the rows of a partition (host), the hosts with their names in the graph of a level."""

    def named(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
        from lycosa.base.urls.identity import Sites, reversed_host

        sites = Sites(Path(suffixes) if suffixes else None)
        for (host,) in rows:
            yield host, reversed_host(sites.site_of(host) if level == "domain" else host)

    return named


def counted_links(spark: SparkSession, crawl: str, nofollow: bool) -> tuple[DataFrame, DataFrame]:
    """The links that count (source, target), and the URLs of pages (url)."""
    newest = Window.partitionBy("url").orderBy(F.desc("fetch_time"), F.desc("fetch_number"))
    pages = (
        spark.read.option("mergeSchema", "true").parquet(f"{crawl}/pages")
        .where(f"kind = 'page' AND ({SAYS})")
        .withColumn("place", F.row_number().over(newest))
        .where("place = 1")
        .withColumn("first_at", F.when(F.expr("duplicate_of = url"), F.col("duplicate_of_time")))
        .withColumnRenamed("nofollow", "page_nofollow")
    )  # fmt: skip
    fetched = pages.where(F.col("fetch_status").between(200, 299))
    links = spark.read.parquet(f"{crawl}/links").where(F.col("kind").isin(*KINDS))
    if not nofollow:
        links, fetched_from = links.where("NOT nofollow"), fetched.where("NOT page_nofollow")
    else:
        fetched_from = fetched
    followed = links.join(fetched_from, links.source_url == fetched_from.url).where(
        "source_time = fetch_time OR source_time = first_at"
    )
    target = F.udf(_canonical, "string")(F.col("fetch_redirect"), F.col("url"))
    redirects = pages.where(
        F.col("fetch_status").isin(*MOVED) & F.col("fetch_redirect").isNotNull()
    )
    return (
        followed.select(F.col("source_url").alias("source"), F.col("target_url").alias("target"))
        .unionByName(redirects.select(F.col("url").alias("source"), target.alias("target")))
        .where("target IS NOT NULL"),
        fetched.select("url"),
    )


def host_of(url: str) -> Column:
    return F.split(F.col(url), "/").getItem(2)


def named_links(
    level: str, links: DataFrame, pages: DataFrame, suffixes: str
) -> tuple[DataFrame, DataFrame]:
    """The edges of a level by name, and its vertices (name, hosts)."""
    if level == "page":
        ends = links.select(F.col("source").alias("name")).union(links.select("target"))
        return links, ends.union(pages).distinct().withColumn("hosts", F.lit(0))
    pairs = links.select(host_of("source").alias("source"), host_of("target").alias("target"))
    pairs = pairs.distinct()
    hosts = pairs.select(F.col("source").alias("host")).union(pairs.select("target"))
    hosts = hosts.union(pages.select(host_of("url"))).distinct()

    hosts = hosts.rdd.mapPartitions(_named_hosts(level, suffixes))
    hosts = hosts.toDF("host string, name string").cache()
    from_, to = hosts.alias("from"), hosts.alias("to")
    edges = pairs.join(from_, F.col("source") == F.col("from.host")).join(
        to, F.col("target") == F.col("to.host")
    )
    counted = F.count("*") if level == "domain" else F.lit(0)
    return (
        edges.select(F.col("from.name").alias("source"), F.col("to.name").alias("target")),
        hosts.groupBy("name").agg(counted.alias("hosts")),
    )


def numbered(names: DataFrame) -> DataFrame:
    """Vertices (id, name, hosts), numbered in the order of the bytes of their names."""
    rows = names.sort("name").rdd.zipWithIndex().map(lambda x: (x[1], x[0].name, x[0].hosts))
    return rows.toDF("id long, name string, hosts long")


def page_rank(edges: DataFrame, vertices: DataFrame, damping: float, tolerance: float) -> DataFrame:
    """(id, rank), by power iteration; see ``lycosa.inspect.ranks.page_rank``."""
    count = vertices.count()
    degrees = edges.groupBy(F.col("source").alias("id")).agg(F.count("*").alias("out"))
    base = vertices.select("id").join(degrees, "id", "left").cache()
    ranks = base.withColumn("rank", F.lit(1.0 / count))
    dangling = F.sum(F.when(F.col("out").isNull(), F.col("rank")))
    change, lost = 1.0, ranks.agg(dangling).first()[0] or 0.0
    while change > tolerance:
        share = ranks.where("out IS NOT NULL").select(
            F.col("id").alias("source"), (F.col("rank") / F.col("out")).alias("share")
        )
        sums = edges.join(share, "source").groupBy(F.col("target").alias("id"))
        sums = sums.agg(F.sum("share").alias("sum"))
        rank = (1 - damping + damping * lost) / count + damping * F.coalesce("sum", F.lit(0.0))
        following = (
            ranks.withColumnRenamed("rank", "before").join(sums, "id", "left")
            .select("id", "out", rank.alias("rank"), "before")
            .checkpoint()  # otherwise each step would repeat all steps before it
        )  # fmt: skip
        changes = F.sum(F.abs(F.col("rank") - F.col("before")))
        change, lost = following.agg(changes, F.coalesce(dangling, F.lit(0.0))).first()
        ranks = following.drop("before")
        print(f"PageRank: change {change:.1e}", flush=True)
    return ranks.select("id", "rank")


def harmonic(edges: DataFrame, vertices: DataFrame, registers: int) -> DataFrame:
    """(id, harmonic); see ``lycosa.inspect.ranks.harmonic_centrality``. 0 registers are exact.

    A ball has the rows (id, part, value): its members, or the values of its registers.
    """
    balls = vertices.select("id", *_first_cells(registers)).checkpoint()
    sizes = balls.groupBy("id").agg(_size(registers).alias("size"))
    found = sizes.select("id", "size", F.lit(0.0).alias("harmonic")).checkpoint()
    grown, distance = balls, 0
    while grown.take(1):
        distance += 1
        arriving = edges.join(grown.withColumnRenamed("id", "source"), "source")
        arriving = arriving.groupBy(F.col("target").alias("id"), "part")
        arriving = arriving.agg(F.max("value").alias("value"))
        known = balls.withColumnRenamed("value", "known")
        grown = arriving.join(known, ["id", "part"], "left").where("known IS NULL OR value > known")
        grown = grown.select("id", "part", "value").checkpoint()
        balls = balls.unionByName(grown).groupBy("id", "part").agg(F.max("value").alias("value"))
        balls = balls.checkpoint()
        touched = balls.join(grown.select("id").distinct(), "id", "left_semi")
        sizes = touched.groupBy("id").agg(_size(registers).alias("now"))
        now = F.greatest("size", F.coalesce("now", "size"))
        found = found.join(sizes, "id", "left").select(
            "id",
            now.alias("size"),
            (F.col("harmonic") + (now - F.col("size")) / distance).alias("harmonic"),
        )
        found = found.checkpoint()
        print(f"harmonic centrality: distance {distance}", flush=True)
    return found.select("id", "harmonic")


def _first_cells(registers: int) -> list[Column]:
    """The only cell of the ball of a vertex at distance 0."""
    if not registers:
        return [F.col("id").alias("part"), F.lit(1).alias("value")]
    mixed = F.col("id") + F.lit(_GOLDEN)  # SplitMix64, as in the program; overflow is intended
    mixed = mixed.bitwiseXOR(F.shiftrightunsigned(mixed, 30)) * F.lit(_FIRST)
    mixed = mixed.bitwiseXOR(F.shiftrightunsigned(mixed, 27)) * F.lit(_SECOND)
    mixed = mixed.bitwiseXOR(F.shiftrightunsigned(mixed, 31))
    rest = F.shiftleft(mixed, registers).bitwiseOR(F.lit((1 << registers) - 1))
    return [
        F.shiftrightunsigned(mixed, 64 - registers).alias("part"),
        (F.lit(65) - F.length(F.bin(rest))).alias("value"),
    ]


def _size(registers: int) -> Column:
    """The size of a ball by its cells."""
    if not registers:
        return F.count("*").cast("double")
    count = 1 << registers
    empty = F.lit(count) - F.count("*")
    alpha = 0.709 if count == 64 else 0.7213 / (1 + 1.079 / count)
    estimate = F.lit(alpha * count * count) / (F.sum(F.pow(F.lit(2.0), -F.col("value"))) + empty)
    few = F.lit(float(count)) * F.log(F.lit(float(count)) / empty)
    return F.when((estimate <= 2.5 * count) & (empty > 0), few).otherwise(estimate)


def write_level(
    level: str,
    vertices: DataFrame,
    edges: DataFrame,
    ranks: DataFrame,
    centrality: DataFrame,
    path: str,
) -> None:
    """Write the three tables of a level."""
    more = ["hosts"] if level == "domain" else []
    _write(vertices.select("id", "name", *more).sort("id"), f"{path}/vertices", False)
    _write(edges.select("source", "target").sort("source", "target"), f"{path}/edges", False)
    both = vertices.join(ranks, "id").join(centrality, "id")
    # A window over all rows: one task sorts the numbers of all vertices, and nothing else.
    by_harmonic = F.row_number().over(Window.orderBy(F.desc("harmonic"), "id"))
    by_rank = F.row_number().over(Window.orderBy(F.desc("rank"), "id"))
    _write(
        both.select(
            by_harmonic.alias("#harmonicc_pos"),
            F.col("harmonic").alias("#harmonicc_val"),
            by_rank.alias("#pr_pos"),
            F.col("rank").alias("#pr_val"),
            F.col("name").alias("#url" if level == "page" else "#host_rev"),
            *([F.col("hosts").alias("#n_hosts")] if more else []),
        ).sort("#harmonicc_pos"),
        f"{path}/ranks",
        True,
    )


def _write(table: DataFrame, path: str, has_header: bool) -> None:
    """Write gzipped lines of text; the first part begins with the names of the columns.

    The writer of CSV would put quotes around a field that begins with ``#``.
    """
    first = "\t".join(table.columns)

    def lines(part: int, rows: Iterable[Row]) -> Iterator[str]:
        if has_header and part == 0:
            yield first
        for row in rows:
            yield "\t".join(map(str, row))

    codec = "org.apache.hadoop.io.compress.GzipCodec"
    table.rdd.mapPartitionsWithIndex(lines).saveAsTextFile(path, codec)


def main() -> None:
    parser = argparse.ArgumentParser(description="PageRank and harmonic centrality with Spark.")
    parser.add_argument("crawl", help="folder or s3a:// address that has links/ and pages/")
    parser.add_argument("output", help="where host/, domain/ and page/ are written")
    parser.add_argument("--levels", default="host,domain,page")
    parser.add_argument("--nofollow", action="store_true", help="count links that are nofollow too")
    parser.add_argument("--damping", type=float, default=0.85)
    parser.add_argument("--tolerance", type=float, default=1e-10)
    parser.add_argument("--registers", type=int, default=8, help="2^N for each ball")
    parser.add_argument("--exact", action="store_true", help="exact harmonic centrality")
    parser.add_argument("--suffixes", default="", help="public suffix list, on each executor")
    args = parser.parse_args()
    # Hashes rely on integers that wrap around.
    spark = SparkSession.builder.config("spark.sql.ansi.enabled", "false").getOrCreate()
    spark.sparkContext.setCheckpointDir(f"{args.output}/checkpoints")
    links, pages = counted_links(spark, args.crawl, args.nofollow)
    links, pages = links.checkpoint(), pages.checkpoint()
    for level in args.levels.split(","):
        named, names = named_links(level, links, pages, args.suffixes)
        vertices = numbered(names).checkpoint()
        ids = vertices.select("id", "name")
        edges = (
            named.join(ids.withColumnsRenamed({"id": "s", "name": "source"}), "source")
            .join(ids.withColumnsRenamed({"id": "t", "name": "target"}), "target")
            .where("s <> t").select(F.col("s").alias("source"), F.col("t").alias("target"))
            .distinct().checkpoint()
        )  # fmt: skip
        ranks = page_rank(edges, vertices, args.damping, args.tolerance)
        centrality = harmonic(edges, vertices, 0 if args.exact else args.registers)
        write_level(level, vertices, edges, ranks, centrality, f"{args.output}/{level}")
    spark.stop()


if __name__ == "__main__":
    main()
