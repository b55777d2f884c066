"""The operator's own hosts: without a delay while a file of each proves it, and marked so."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from crawling import Pages, crawl_folder, page, robots
from lycosa.base.config.sections import Config, StoreSection
from lycosa.base.model.fetched import FetchKind
from lycosa.cli.main import main
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.inspect.top_lists import host_line
from lycosa.stages.politeness.own_proofs import token_of
from lycosa.state.attempts import Attempt, read_attempts
from lycosa.state.attempts.attempt_files import open_file
from lycosa.state.folder.names import attempts_folder
from lycosa.synthetic import Faults, Response
from own_settings import OWN_FILE, SECRET, A, own_config

B = "http://b.test/"
TOKEN = token_of(SECRET.encode(), "a.test")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return own_config(tmp_path)


def text(body: str, status: int = 200) -> Response:
    return Response(status, [("Content-Type", "text/plain")], body.encode())


def web(*files: Response, pages: int = 20, **more: Response) -> Pages:
    names = [f"p{number}" for number in range(pages)]
    return Pages(
        {
            **{url: page(*(f"{url}{name}" for name in names)) for url in (A, B)},
            **{f"{url}{name}": page(text=name) for name in names for url in (A, B)},
            OWN_FILE: files,
            f"{A}robots.txt": robots("User-agent: *", "Disallow: /private"),
            **{f"{A}{name}.txt": answer for name, answer in more.items()},
        }
    )


def attempts(folder: Path) -> Mapping[str, list[Attempt]]:
    found: dict[str, list[Attempt]] = {"a.test": [], "b.test": []}
    for each in read_attempts(attempts_folder(folder)):
        found[each.host].append(each)
    return found


def pauses(of_host: list[Attempt]) -> list[float]:
    return [after.started - before.ended for before, after in pairwise(of_host)]


def test_a_proved_host_has_no_delay_and_its_neighbour_has(tmp_path: Path, config: Config) -> None:
    crawl_folder(tmp_path / "c", web(text(f"{TOKEN}\n")), [A, B], config)
    found = attempts(tmp_path / "c")
    own, other = pauses(found["a.test"]), pauses(found["b.test"])
    marked = [each for each in found["a.test"] if each.is_own]
    assert len(marked) > 10 and sum(pause < 1 for pause in own) > 10
    assert min(other) >= 300 - 1e-5 and not any(each.is_own for each in found["b.test"])
    assert [e.kind for e in found["a.test"]].count(FetchKind.KEY_FILE) == 1
    assert main(["audit", str(tmp_path / "c")]) == 0


def test_a_secret_that_was_replaced_still_proves_older_marks(
    tmp_path: Path, config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl_folder(tmp_path / "c", web(text(TOKEN)), [A], config)
    secret = Path(config.requests.own_secret.removeprefix("file:"))
    secret.write_text("n" * 40)
    assert main(["audit", str(tmp_path / "c")]) == 1
    assert "a secret that was replaced" in "".join(capsys.readouterr())
    secret.write_text("n" * 40 + f"\n{SECRET}\n")
    assert main(["audit", str(tmp_path / "c")]) == 0


@pytest.mark.parametrize(
    "file",
    [
        text(TOKEN, status=404),
        text(token_of(SECRET.encode(), "b.test")),
        text(f"{TOKEN}{TOKEN}"),
        text(""),
        Response(302, [("Location", "/token.txt")], b""),
    ],
)
def test_without_its_token_a_host_has_its_delay(
    tmp_path: Path, config: Config, file: Response
) -> None:
    crawl_folder(tmp_path / "c", web(file, pages=3, token=text(TOKEN)), [A], config)
    found = attempts(tmp_path / "c")["a.test"]
    assert min(pauses(found)) >= 300 - 1e-5 and not any(each.is_own for each in found)


def shown(folder: Path, now: float) -> tuple[str, str]:
    """The state of the own host: in the list of hosts, and in the answer for its page."""
    reader = read_folder(folder)
    saved = load_saved_settings(reader)
    (row,) = [each for each in reader.hosts() if each.record.host == "a.test"]
    told = {fact.key: fact for fact in explain(reader, saved, A, now).facts}
    return host_line(row.record, saved.config, now).own, told["own_host"].text


def test_reports_say_whether_a_host_is_proved(
    tmp_path: Path, config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl_folder(tmp_path / "c", web(text(TOKEN), pages=3), [A, B], config)
    at = next(e.started_wall for e in attempts(tmp_path / "c")["a.test"] if e.url == OWN_FILE)
    state, words = shown(tmp_path / "c", at + 60)
    assert state == "proved" and words.startswith("proved: The file has its token. It counts until")
    assert shown(tmp_path / "c", at + 4000)[0] == "expired"
    assert main(["status", str(tmp_path / "c")]) == 0
    assert "a.test    expired  The file that proved the host is too old" in capsys.readouterr().out


def test_robots_keeps_the_crawler_from_the_file(tmp_path: Path, config: Config) -> None:
    pages = web(text(TOKEN), pages=3, robots=robots("User-agent: *", "Disallow: /.well-known/"))
    crawl_folder(tmp_path / "c", pages, [A], config)
    assert OWN_FILE not in pages.asked
    state, words = shown(tmp_path / "c", 1e9)
    assert state == "disallowed" and "Disallow: /.well-known/" in words
    assert min(pauses(attempts(tmp_path / "c")["a.test"])) >= 300 - 1e-5


def test_crawl_delay_stays(tmp_path: Path, config: Config) -> None:
    pages = web(text(TOKEN), pages=6, robots=robots("User-agent: *", "Crawl-delay: 7"))
    crawl_folder(tmp_path / "c", pages, [A], config)
    found = attempts(tmp_path / "c")["a.test"]
    assert 7 - 1e-5 <= min(pauses(found)) < 8 and any(each.is_own for each in found)


def test_a_file_that_lost_its_token_ends_it(tmp_path: Path, config: Config) -> None:
    # Crawl-delay lets the crawl of 140 pages last for more than an hour.
    slow = robots("User-agent: *", "Crawl-delay: 29")
    pages = web(text(TOKEN), text("gone", status=404), pages=140, robots=slow)
    crawl_folder(tmp_path / "c", pages, [A], config)
    found = attempts(tmp_path / "c")["a.test"]
    files = [at for at, each in enumerate(found) if each.kind is FetchKind.KEY_FILE]
    assert len(files) > 1
    after = pauses(found[files[1] :])
    assert len(after) > 2 and min(after) >= 300 - 1e-5
    assert not any(each.is_own for each in found[files[1] + 1 :])
    assert main(["audit", str(tmp_path / "c")]) == 0


@pytest.mark.parametrize("crash_at", [3, 8, 10])
def test_after_a_kill_the_host_is_proved_again(
    tmp_path: Path, config: Config, crash_at: int
) -> None:
    folder = tmp_path / "c"
    config = msgspec.structs.replace(config, store=StoreSection(commit_pages=3))
    faults = Faults(random.Random(1), crash_at=crash_at, crash_point="commit:settled")
    assert crawl_folder(folder, web(text(TOKEN)), [A], config, faults=faults) is None
    before = attempts(folder)["a.test"]
    assert any(each.is_own for each in before) == (crash_at > 3)
    assert main(["audit", str(folder)]) == 0
    crawl_folder(folder, web(text(TOKEN)), [A], config, start=1000.0)
    later = attempts(folder)["a.test"][len(before) :]
    file = [each.kind for each in later].index(FetchKind.KEY_FILE)
    # Nothing is lifted before the file was requested again.
    assert all(pause >= 300 - 1e-5 for pause in pauses(later[: file + 2]))
    assert not any(each.is_own for each in later[: file + 1])
    assert any(each.is_own for each in later)
    assert main(["audit", str(folder)]) == 0


def test_a_forged_mark_fails_the_audit(
    tmp_path: Path, config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    crawl_folder(folder, web(text("nothing"), pages=3), [A], config)
    assert main(["audit", str(folder)]) == 0
    (path,) = attempts_folder(folder).glob("attempts-w*.log*")
    with open_file(path) as file:
        lines = file.read().decode().splitlines()
    path.unlink()
    at = max(number for number, line in enumerate(lines) if line.startswith("E\t"))
    lines[at] += "\town"
    path.with_name(path.name.removesuffix(".zst")).write_text("\n".join([*lines, ""]))
    capsys.readouterr()
    assert main(["audit", str(folder)]) == 1
    assert "marked as of an own host" in "".join(capsys.readouterr())
