"""``lycosa serve`` and the commands of an operator as processes, over real sockets and a real
broker: several coordinators, callers that come and go, and what is said about every bad input.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import Program, RealCluster, real_cluster
from free_ports import free_port
from kafka_broker import Broker
from lycosa.base.messages.coordinator_messages import (
    NOT_READY,
    CoordinatorHello,
    encode_node_message,
)
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.serve.caller import CoordinatorPlace, why_none_answers
from small_node import SmallNode

pytestmark = pytest.mark.service
SEED = "http://a.example/"


@pytest.fixture
def cluster(kafka: Broker, tmp_path: Path) -> Iterator[RealCluster]:
    """A crawl of two shards, with two addresses for coordinators."""
    with real_cluster(tmp_path, kafka, {}, shards=2) as cluster:
        text = cluster.file.read_text()
        second = f', "127.0.0.1:{free_port(("127.0.0.1",))}"]'
        cluster.file.write_text(text[: text.rindex("]")] + second)
        yield cluster


def addresses(cluster: RealCluster) -> list[str]:
    line = cluster.file.read_text().rpartition("addresses = ")[2]
    found: list[str] = json.loads(line)
    return found


def small_node(cluster: RealCluster, name: str = "n1", ahead_s: float = 0.0) -> SmallNode:
    return SmallNode(cluster.name, addresses(cluster), name, ahead_s)


def command(cluster: RealCluster, name: str, *arguments: str) -> Program:
    return cluster.run("cluster", name, "cluster.toml", *arguments)


def said(program: Program, code: int = 0) -> str:
    assert program.wait() == code, str(program)
    return "\n".join(program.lines)


async def done(program: Program, code: int = 0) -> str:
    """What a command said, while nodes of this process continue."""
    return await asyncio.to_thread(said, program, code)


async def crawled(cluster: RealCluster, *seeds: str, code: int = 0) -> str:
    return await done(cluster.crawl(*seeds), code)


# -- coordinators


def test_a_coordinator_that_starts_takes_over_and_the_one_before_ends(
    cluster: RealCluster,
) -> None:
    first = cluster.serve()
    second = cluster.serve()
    assert second.lines[0] == f"lycosa: listening at {addresses(cluster)[1]}"
    assert "another coordinator has taken over; this one ends" in said(first)
    assert cluster.status()["coordinator"] == 2
    third = cluster.run("serve", "--cluster", "cluster.toml", "--listen", "127.0.0.1:0")
    third.await_line("coordinator 3 of the crawl")
    assert "another coordinator has taken over" in said(second)
    third.process.send_signal(signal.SIGTERM)
    assert "the coordinator ends; the crawl continues without it" in said(third)


async def test_nodes_find_the_coordinator_that_took_over(cluster: RealCluster) -> None:
    cluster.serve()
    async with small_node(cluster) as node:
        await node.until(lambda: len(node.workers) == 2)
        before = dict(node.terms)
        await asyncio.to_thread(cluster.serve)
        await node.until(lambda: node.plan.coordinator == 2)
        status = await asyncio.to_thread(cluster.status)
        assert [each["name"] for each in status["nodes"]] == ["n1"]
        assert node.terms == before, "shards stay where they are"


async def test_what_was_decided_survives_a_coordinator_that_is_killed(
    cluster: RealCluster,
) -> None:
    first = cluster.serve()
    async with small_node(cluster) as node:
        await node.until(lambda: len(node.workers) == 2)
        await done(command(cluster, "set", "politeness.delay_s=7s"))
        await done(command(cluster, "stop"))
        await node.until(lambda: not node.workers)
        first.end()
        await asyncio.to_thread(cluster.serve)
        await node.until(lambda: node.plan.coordinator == 2)
        status = await asyncio.to_thread(cluster.status)
        assert (status["coordinator"], status["end"], status["is_over"]) == (2, "stopped", True)
        assert status["settings"] == {"politeness.delay_s": "7s"}
        assert "not known to this coordinator" in await done(command(cluster, "status"))
        assert cluster.name in await done(command(cluster, "resume"))
        assert (await asyncio.to_thread(cluster.status))["end"] == ""


async def test_a_hello_that_does_not_belong_here_is_answered_with_the_reason(
    cluster: RealCluster,
) -> None:
    serving = cluster.serve()
    address = addresses(cluster)[0]
    for hello, why in (
        (encode_node_message(CoordinatorHello("node", "n", "other")), "not 'other'"),
        (encode_node_message(CoordinatorHello("page", "n", cluster.name)), "no role 'page'"),
        (
            encode_node_message(CoordinatorHello("caller", "n", cluster.name, 99)),
            f"protocol {PROTOCOL}",
        ),
        (b"\xc1 garbage", "not of a form that this program reads"),
    ):
        stream = await connect(address, Credentials(), hello)
        answer = await stream.receive()
        assert answer is not None and why in answer.decode("utf-8", "replace")
        assert await stream.receive() is None
        stream.close()
    stream = await connect(
        address, Credentials(), encode_node_message(CoordinatorHello("node", "n", cluster.name))
    )
    await stream.send(b"\xc1 garbage")
    assert await stream.receive() is None
    stream.close()
    serving.process.send_signal(signal.SIGTERM)
    await done(serving)


# -- nodes


async def test_two_nodes_of_one_name_are_not_mixed_up(cluster: RealCluster) -> None:
    cluster.serve()
    async with small_node(cluster) as node, small_node(cluster) as other:
        await node.until(lambda: len(node.workers) == 2 or len(other.workers) == 2)
        first, second = (node, other) if node.workers else (other, node)
        await second.until(lambda: second.refused)
        assert "give each node its own name" in second.refused[0]
        assert not second.workers and len(first.workers) == 2


async def test_a_node_with_a_wrong_clock_is_told_so(cluster: RealCluster) -> None:
    cluster.serve()
    async with small_node(cluster, ahead_s=5.0) as node:
        await node.until(lambda: node.notes)
        # a message that arrives late makes it less
        ahead = r"its clock is (5\.0|4\.\d) s ahead of the coordinator's"
        assert re.match(f"this node gets no shards: {ahead}", node.notes[0]), node.notes
        assert re.search(
            r"its clock is (5\.0|4\.\d) s ahead", await done(command(cluster, "status"))
        )
        assert not node.workers


async def test_operators_move_and_drain(cluster: RealCluster) -> None:
    cluster.serve()
    async with small_node(cluster) as one:
        await one.until(lambda: len(one.workers) == 2)
        async with small_node(cluster, "n2") as two:
            await two.until(lambda: len(two.workers) == 1)  # each gets its share
            assert "n1 gets no more shards" in await done(command(cluster, "drain", "n1"))
            await two.until(lambda: len(two.workers) == 2 and not one.workers)
            assert "it is being drained" in await done(command(cluster, "status"))
            await done(command(cluster, "drain", "n1", "--over"))
            await one.until(lambda: len(one.workers) == 1)
            [shard] = one.workers
            told = await done(command(cluster, "move", str(shard), "n2"))
            assert f"shard {shard} moves to n2" in told
            await two.until(lambda: len(two.workers) == 2)


# -- callers


async def test_seeds_are_given_and_the_crawl_is_followed_to_its_end(cluster: RealCluster) -> None:
    cluster.serve()
    async with small_node(cluster) as node:
        found = await crawled(cluster, SEED, "bad", "b.example")
        assert "3 seeds given" in found and "finished after" in found
        assert "seed refused: http://bad: not a URL" in found
        assert node.plan.end is not None
        assert "no seed given" not in await crawled(cluster)  # follows what is there
        (cluster.folder / "seeds.txt").write_text("".join(f"http://{n}.x/\n" for n in range(2500)))
        found = await done(
            cluster.run("crawl", "--seeds", "seeds.txt", "--cluster", "cluster.toml", "--json")
        )
        assert "the crawl had ended (finished); it continues" in found
        values = json.loads(found[found.index("{\n") :])
        assert (values["end"], values["seeds_given"], values["exit_code"]) == ("finished", 2500, 0)
        assert values["are_all_seeds_given"] and values["status"]["progress"]["captures"] == 2502


async def test_a_caller_that_leaves_does_not_stop_the_crawl(cluster: RealCluster) -> None:
    cluster.serve()
    async with small_node(cluster) as node:
        node.takes_seeds = False
        await node.until(lambda: len(node.workers) == 2)
        crawl = cluster.crawl(SEED)
        await asyncio.to_thread(crawl.await_line, f"crawl {cluster.name}")
        while not (await asyncio.to_thread(cluster.status))["open_requests"]:
            pass
        crawl.process.send_signal(signal.SIGINT)
        found = await done(crawl, 4)
        assert f"the crawl {cluster.name} continues on its nodes" in found
        assert "the same command gives the rest" in found
        node.takes_seeds = True
        await node.until(lambda: not node.workers)  # what was asked is done, and then it ends
        assert (await asyncio.to_thread(cluster.status))["end"] == "finished"


async def test_a_caller_waits_for_a_coordinator_and_outlives_one(cluster: RealCluster) -> None:
    crawl = cluster.crawl(SEED)
    await asyncio.to_thread(crawl.await_line, "no coordinator of .* answers .*; trying again")
    first = await asyncio.to_thread(cluster.serve)
    async with small_node(cluster) as node:
        node.takes_seeds = False
        await node.until(lambda: len(node.workers) == 2)
        while not (await asyncio.to_thread(cluster.status))["open_requests"]:
            pass
        first.end()
        await asyncio.to_thread(crawl.await_line, "connecting again")
        await asyncio.to_thread(cluster.serve)
        node.takes_seeds = True
        assert "1 seed given" in await done(crawl)


async def test_a_crawl_that_is_stopped_while_seeds_are_given_stays_so(
    cluster: RealCluster,
) -> None:
    cluster.serve()
    async with small_node(cluster) as node:
        node.takes_seeds = False
        await node.until(lambda: len(node.workers) == 2)
        crawl = cluster.crawl(SEED)
        while not (await asyncio.to_thread(cluster.status))["open_requests"]:
            pass
        told = await done(command(cluster, "stop", "--now"))
        assert "`lycosa cluster resume cluster.toml` continues it" in told
        found = await done(crawl, 4)
        assert "the crawl was ended before all seeds were given" in found
        assert f"to continue: lycosa cluster resume {cluster.file.name}" in found
        assert (await asyncio.to_thread(cluster.status))["end"] == "stopped"
        assert "giving seeds to the workers" in await done(command(cluster, "resume"))
        node.takes_seeds = True
        await node.until(lambda: len(node.workers) == 2)


# -- bad input


def test_a_coordinator_that_starts_is_told_apart_from_none() -> None:
    place = CoordinatorPlace("try", ("127.0.0.1:7070",), "start one with `lycosa serve`")
    starting = ConnectionError(f"127.0.0.1:7070: {NOT_READY}: it waits for topics")
    nobody = ConnectionRefusedError("127.0.0.2:7070: connection refused")
    told = why_none_answers(place, [nobody, starting])
    assert told.startswith(
        "the coordinator of try is starting (127.0.0.2:7070: connection refused;"
    )
    assert "start one" not in told
    assert why_none_answers(place, [nobody]).endswith("; start one with `lycosa serve`")


def test_commands_without_a_coordinator_say_so_after_some_seconds(cluster: RealCluster) -> None:
    began = time.monotonic()
    found = said(command(cluster, "status"), 1)
    assert "no coordinator of" in found and "start one with `lycosa serve --cluster" in found
    assert 5.0 < time.monotonic() - began < 120.0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["cluster", "drain", "FILE", "n9"], "there is no node 'n9'; no node has reported"),
        (["cluster", "move", "FILE", "0", "n9"], "there is no node 'n9'"),
        (["cluster", "move", "FILE", "x", "n9"], "'x' is not a valid integer"),
        (["cluster", "set", "FILE", "scope.rule=any"], "scope.rule: it cannot change while"),
        (["cluster", "set", "FILE", "delay"], "write KEY=VALUE"),
        (["cluster", "resume", "FILE"], "has not ended (waiting for nodes"),
        (["crawl", "--cluster", "FILE"], "no seed given, and the crawl has none"),
        (["crawl", "--cluster", "FILE", "--dir", "x"], "--dir and --cluster"),
        (["crawl", "--cluster", "FILE", "--scope", "any"], "--scope: settings of a crawl on a"),
        (["crawl", "--cluster", "FILE", "--set", "x=y"], "--set: settings of a crawl on a"),
        (["crawl", "--cluster", "absent.toml", SEED], "absent.toml"),
        (["serve", "--cluster", "absent.toml"], "absent.toml"),
        (["serve", "--cluster", "FILE", "--listen", "127.0.0.1"], "HOST:PORT"),
        (["serve", "--cluster", "FILE", "--listen", "192.0.2.1:70"], "loopback"),
        (["cluster", "init", "FILE", "--set", "frontier.bands=2"], "frozen with the crawl"),
        (["cluster", "init", "FILE", "--set", "frontier.partitions=9"], "set shards in"),
        (["cluster", "init", "FILE", "--set", "upload.url=file:///x"], "upload.url: a crawl on"),
    ],
)
def test_bad_input_is_explained(serving: RealCluster, arguments: list[str], why: str) -> None:
    given = [serving.file.name if each == "FILE" else each for each in arguments]
    assert why in said(serving.run(*given), 2)


@pytest.fixture(scope="module")
def serving(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A crawl with a coordinator and no node."""
    with real_cluster(tmp_path_factory.mktemp("serving"), kafka, {}, shards=2) as cluster:
        cluster.serve()
        yield cluster


def test_a_file_without_coordinator_or_objects_is_explained(cluster: RealCluster) -> None:
    text = cluster.file.read_text()
    cluster.file.write_text(text.partition("[coordinator]")[0])
    assert "names no coordinator: add the section [coordinator]" in said(
        cluster.run("serve", "--cluster", "cluster.toml"), 2
    )
    assert "names no coordinator" in said(command(cluster, "status"), 2)
    cluster.file.write_text(text.partition("[objects]")[0])
    assert "add the section [objects]" in said(command(cluster, "init"), 2)


def test_a_crawl_that_was_not_made_is_explained(kafka: Broker, cluster: RealCluster) -> None:
    (cluster.folder / "empty").mkdir()
    text = cluster.file.read_text().replace("/objects", "/empty")
    cluster.file.write_text(text)
    found = said(cluster.run("serve", "--cluster", "cluster.toml"), 2)
    assert "`lycosa cluster init FILE` creates it" in found


def test_a_token_admits_commands_and_a_wrong_one_is_named(cluster: RealCluster) -> None:
    text = cluster.file.read_text()
    for name in ("token", "wrong"):
        (cluster.folder / name).write_text(name * 20)
        (cluster.folder / name).chmod(0o600)
        (cluster.folder / f"{name}.toml").write_text(f'token_file = "{name}"\n{text}')
    serving = cluster.run("serve", "--cluster", "token.toml")
    serving.await_line("coordinator 1 of the crawl")
    assert "waiting for nodes" in said(cluster.run("cluster", "status", "token.toml"))
    found = said(cluster.run("cluster", "status", "wrong.toml"), 2)
    assert "the token is not the one of this crawl" in found
    serving.await_line("connection refused: .*token")
    found = said(cluster.run("crawl", SEED, "--cluster", "cluster.toml"), 2)
    assert "token" in found


def test_an_address_that_is_in_use_is_named(cluster: RealCluster) -> None:
    cluster.serve()
    taken = addresses(cluster)[0]
    found = said(cluster.run("serve", "--cluster", "cluster.toml", "--listen", taken), 2)
    assert f"cannot listen at {taken}" in found and "in use" in found
    assert cluster.status()["coordinator"] == 1, "it did not claim the crawl"
