"""The local folder of a node: one node at a time, of one crawl, and what it keeps of processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lycosa.processes.cluster.node_folder import NodeFolder, NodeFolderError
from lycosa.state.folder.names import spool_folder, suffix_list


def acquired(path: Path, crawl: str = "id-1", patience_s: float = 20.0) -> NodeFolder:
    folder = NodeFolder(path)
    folder.acquire(crawl, "news", "a", 1.0, patience_s)
    return folder


def test_two_nodes_in_one_folder_are_refused_with_a_way_out(tmp_path: Path) -> None:
    first = acquired(tmp_path / "n")
    with pytest.raises(NodeFolderError, match=r"is in use by process .*--work DIR"):
        acquired(tmp_path / "n")
    first.release()
    acquired(tmp_path / "n").release()


def test_a_node_waits_for_the_workers_of_a_node_that_was_killed(tmp_path: Path) -> None:
    acquired(tmp_path / "n").release()
    holds = (
        "import sys, time; from pathlib import Path; from lycosa.state.folder.lock import CrawlLock;"
        "import os; lock = CrawlLock(Path(sys.argv[1])).acquire(1.0);"
        "[os.set_inheritable(fd, True) for fd in lock.filenos()]; print('held', flush=True);"
        "os.fork() or (print('worker', flush=True), sys.stdin.read(), os._exit(0));"
        "os._exit(0)"
    )
    node = subprocess.Popen(
        [sys.executable, "-c", holds, str(tmp_path / "n")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert node.stdin is not None and node.stdout is not None
    assert node.stdout.readline() == b"held\n" and node.stdout.readline() == b"worker\n"
    assert node.wait(60) == 0
    with pytest.raises(NodeFolderError, match="is in use"):
        acquired(tmp_path / "n", patience_s=0.0)
    ending = threading.Timer(0.5, node.stdin.close)
    ending.start()
    acquired(tmp_path / "n").release()
    ending.join()
    node.stdout.close()


def test_a_folder_of_another_crawl_is_refused_and_unchanged(tmp_path: Path) -> None:
    acquired(tmp_path / "n").release()
    before = (tmp_path / "n" / "node.json").read_bytes()
    with pytest.raises(NodeFolderError, match="another crawl"):
        acquired(tmp_path / "n", "id-2")
    assert (tmp_path / "n" / "node.json").read_bytes() == before
    acquired(tmp_path / "n").release()


@pytest.mark.parametrize(
    ("name", "message"), [("crawl.json", "a crawl of one machine"), ("notes.txt", "notes.txt")]
)
def test_a_folder_with_other_files_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(NodeFolderError, match=message):
        acquired(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_in_place_of_the_folder_and_a_damaged_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(NodeFolderError, match="is a file"):
        acquired(tmp_path / "f")
    acquired(tmp_path / "n").release()
    (tmp_path / "n" / "node.json").write_text("{")
    with pytest.raises(NodeFolderError, match="delete the folder"):
        acquired(tmp_path / "n")


def test_each_process_has_empty_tables_the_crawls_list_and_an_empty_spool(tmp_path: Path) -> None:
    folder = acquired(tmp_path / "n")
    folder.keep_suffixes(b"com\n")
    first = folder.begin_process(3)
    (first / "table").write_text("x")
    (spool_folder(folder.shard_folder(3)) / "body").write_text("x")
    folder.keep_suffixes(b"org\n")
    second = folder.begin_process(3)
    assert (first.name, second.name) == ("owner-1", "owner-2")
    assert first.parent == second.parent == tmp_path / "n" / "s003"
    assert list(second.iterdir()) == [] and (first / "table").exists()
    assert list(spool_folder(second.parent).iterdir()) == []
    assert suffix_list(second.parent).read_bytes() == b"org\n"
    folder.release()


def test_the_newest_tables_stay_at_a_start_and_none_when_the_shard_is_lost(tmp_path: Path) -> None:
    folder = acquired(tmp_path / "n")
    folder.keep_suffixes(b"com\n")
    made = [folder.begin_process(shard) for shard in (0, 0, 12)]
    folder.delete_unused_owners()
    assert [path.exists() for path in made] == [False, True, True]
    folder.delete_owners(12)
    folder.delete_owners(7)  # of which nothing was ever here
    assert [path.exists() for path in made] == [False, True, False]
    folder.release()


def test_the_term_of_the_last_process_survives_the_program(tmp_path: Path) -> None:
    folder = acquired(tmp_path / "n")
    folder.keep_suffixes(b"com\n")
    assert folder.last_term(0) == -1
    folder.begin_process(0)
    folder.record_term(0, 5)
    folder.release()
    assert acquired(tmp_path / "n").last_term(0) == 5
    (tmp_path / "n" / "s000" / "term.json").write_text("")
    assert folder.last_term(0) == -1
