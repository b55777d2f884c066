"""``lycosa node`` as an operator meets it, without Kafka and without a coordinator: refusals with
what to do, and an orderly end.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import Program
from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.base.config.sources import settings
from lycosa.cluster.shards.stored_crawl import store_crawl
from lycosa.state.objects.store_opening import open_store

_NOWHERE = "127.0.0.1:9"  # the discard service, which nobody runs


class Place:
    """A folder with ``cluster.toml``, and the commands started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs: list[Program] = []
        (folder / "objects").mkdir()
        self.write()

    def write(self, name: str = "news", coordinator: str = _NOWHERE) -> None:
        section = f'[coordinator]\naddresses = ["{coordinator}"]\n' if coordinator else ""
        (self.folder / "cluster.toml").write_text(
            f'name = "{name}"\nshards = 2\n[kafka]\naddresses = ["{_NOWHERE}"]\n'
            f'[objects]\nurl = "file://{self.folder}/objects"\n{section}'
        )

    def make_crawl(self) -> None:
        given = read_cluster_file(self.folder / "cluster.toml")
        store_crawl(open_store(given.objects), given, settings({}), "lycosa/test", time.time())

    def node(self, *arguments: str) -> Program:
        program = Program(self.folder, "node", "--cluster", "cluster.toml", *arguments)
        self._programs.append(program)
        return program

    def refused(self, *arguments: str) -> str:
        """What a node says that does not start."""
        program = self.node(*arguments)
        assert program.wait(60) == 2, str(program)
        return program.lines[-1]

    def close(self) -> None:
        for program in self._programs:
            program.end()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


def test_a_file_without_coordinators_and_a_bad_name_are_refused(place: Place) -> None:
    place.write(coordinator="")
    assert "names no coordinator: add the section [coordinator]" in place.refused()
    assert "--name 'a b'" in place.refused("--name", "a b")


def test_a_crawl_that_was_not_created_and_one_of_another_name_are_refused(place: Place) -> None:
    assert "`lycosa cluster init FILE` creates it" in place.refused()
    place.make_crawl()
    place.write(name="other")
    assert "belongs to the cluster crawl 'news'" in place.refused()


def test_a_second_node_in_a_folder_is_refused_and_another_folder_is_the_way_out(
    place: Place,
) -> None:
    place.make_crawl()
    first = place.node("--name", "a", "--work", "here")
    first.await_line(r"a: node of news in here: up to 2 of 2 shards", 60)
    said = place.refused("--name", "b", "--work", "here")
    assert f"here is in use by process {first.process.pid}" in said and "--work DIR" in said
    other = place.node("--name", "b")
    other.await_line("b: node of news in nodes/news/b", 60)
    for node in (first, other):
        node.process.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0
    (place.folder / "here" / "more").write_text("x")
    (place.folder / "here" / "node.json").unlink()
    assert "not the folder of a node" in place.refused("--work", "here")


def test_a_node_tells_once_that_no_coordinator_answers_and_leaves_when_it_is_told_to(
    place: Place,
) -> None:
    place.make_crawl()
    node = place.node("--name", "a", "--json")
    begun = json.loads(node.await_line("up to", 60).string)
    assert begun["node"] == "a" and begun["time"] <= time.time() + 0.001  # it is rounded
    away = json.loads(node.await_line("no connection", 60).string)
    assert away["text"].startswith(f"no connection to a coordinator at {_NOWHERE}: ")
    os.kill(node.process.pid, signal.SIGINT)
    assert node.wait(60) == 0
    assert [json.loads(line)["text"].partition(":")[0] for line in node.lines[2:]] == [
        "leaving the cluster",
        "left the cluster",
    ]


def test_object_storage_that_does_not_answer_is_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    file = place.folder / "cluster.toml"
    file.write_text(file.read_text().replace(f"file://{place.folder}/objects", "s3://bucket/news"))
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{_NOWHERE}",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "here",
    }.items():
        monkeypatch.setenv(name, value)
    node = place.node("--name", "a")
    node.await_line("waiting for object storage: s3://bucket/news: ", 60)
    node.process.send_signal(signal.SIGINT)
    assert node.wait(60) == 4
