"""What ``lycosa crawl`` makes of its seeds, what it says while it runs and at the end, and that
nothing is written for nothing.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest

from lycosa.base.config.sections import Config, LimitSection
from lycosa.base.config.sources import settings
from lycosa.base.messages.progress import Progress, UnreadSeed, total
from lycosa.base.reasons import Reason
from lycosa.cli.cluster_status import damage_line
from lycosa.cli.crawl_display import folder_display
from lycosa.cli.crawl_seeds import CrawlSeeds, default_folder, shortened, with_scheme
from lycosa.cli.crawl_summary import FilesThere, end_of, exit_code, summary_lines, summary_values
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode, Unbroken, counted
from lycosa.cli.progress_rows import hosts_in_words
from lycosa.inspect.unfetched import HeldGroup, HeldHost, Unfetched
from lycosa.processes.status_file import waiting_for
from lycosa.processes.supervisor import CrawlOutcome
from lycosa.stages.frontier.visit_state import HostState
from lycosa.state.store.closing import LackingFile
from progress_making import progress_with

# Seeds


def read(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "seeds.txt"
    path.write_bytes(text.encode())
    return list(CrawlSeeds((), str(path)))


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("\ufeffhttp://a.example/\n", ["http://a.example/"]),
        ("# all of it\n\n  a.example  \n", ["http://a.example"]),
        (
            "http://a.example/ # the first\nhttp://b.example/#part\t# and\n",
            ["http://a.example/", "http://b.example/#part"],
        ),
        ("a.example:8080/x\r\n", ["http://a.example:8080/x"]),
    ],
)
def test_lines_of_a_file(tmp_path: Path, text: str, seeds: list[str]) -> None:
    assert read(tmp_path, text) == seeds


@pytest.mark.parametrize(
    "seed", ["mailto:a@example.org", "tel:5551234", "javascript:alert(1)", "ftp://a.example/"]
)
def test_other_schemes_are_not_made_http(seed: str) -> None:
    assert with_scheme(seed) == seed


def test_a_dash_is_standard_input() -> None:
    code = "from lycosa.cli.crawl_seeds import CrawlSeeds; print(*CrawlSeeds(('c.example', '-')))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=b"\xef\xbb\xbfa.example\nb.example\n",
        capture_output=True,
    )
    assert done.stdout == b"http://c.example http://a.example http://b.example\n"


def test_a_file_given_as_a_seed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.touch()
    with pytest.raises(click.UsageError, match=r"is a file; did you mean --seeds "):
        CrawlSeeds((str(path),))
    with pytest.raises(click.UsageError, match="is a folder"):
        CrawlSeeds((), str(tmp_path))
    with pytest.raises(click.UsageError, match="no such file"):
        CrawlSeeds((), str(tmp_path / "none"))


def test_a_refused_seed_is_told_at_once_with_its_line_and_shortened(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "seeds.txt"
    path.write_text(
        "\n".join(
            [
                "http://good.example/",
                "http://bad.example/" + "x" * 500,
                *[f"bad{n}" for n in range(20)],
                "http://good/",
            ]
        )
    )
    seeds = CrawlSeeds(("bad!",), str(path))
    seeds.judge = lambda seed: "is bad" if "bad" in seed else ""
    seeds.tell = told.append
    assert seeds.has_usable() and told == ["seed refused: http://bad!: is bad"]
    assert list(seeds) == ["http://good.example/", "http://good/"]
    assert told[1].startswith(f"{path}:2: seed refused: http://bad.example/xxx") and told[
        1
    ].endswith("xxx: is bad")
    assert len(told[1].removeprefix(f"{path}:2: seed refused: ").removesuffix(": is bad")) == 100
    assert (len(told), told[-1], len(seeds.refused)) == (11, "and 12 more seeds refused", 22)


def test_the_folder_is_named_after_the_first_host() -> None:
    assert default_folder(("-", "https://me@example.org:8080/x")) == Path("crawls/example.org_8080")
    for given in ((), ("-",), ("mailto:a@b",), ("http://[x/",)):
        with pytest.raises(click.UsageError):
            default_folder(given)


def test_long_texts_lose_their_middle() -> None:
    assert (shortened("a" * 100), len(shortened("a" * 101)), shortened("abcdef" * 40, 7)) == (
        "a" * 100,
        100,
        "abcd…ef",
    )


# Nothing is written for nothing


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["http://a.example/", "--contact", "f\xfcr mich"], "--contact: agent.contact: "),
        (["http://a.example/", "--contact", "a\nb"], "--contact: agent.contact: "),
        (
            ["http://a.example/", "--allow-address", "10.1.2.3/8"],
            "write 10.0.0.0/8 for the whole range",
        ),
        (["http://a.example/", "--allow-address", "home"], "is not an address range"),
        (["http://a.example/", "--resolve", "a.example=b.example"], "is not NAME=ADDRESS"),
        (["http://a.example/", "--set", "fetch.ca_file=/none.pem"], "there is no file /none.pem"),
        (["http://a.example/", "--delay", "-5s"], "is negative"),
        (["mailto:a@example.org", "http://"], "nothing to crawl: 2 seeds refused"),
        (["http://a.example/x.pdf", "--exclude", "pdf"], "nothing to crawl: 1 seed refused"),
        (["--seeds", os.devnull], f"nothing to crawl: there is no seed in {os.devnull}"),
        ([], "no seed given and no crawl in that folder"),
    ],
)
def test_what_cannot_be_crawled_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["crawl", "--dir", str(tmp_path / "crawl"), *arguments]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == "" and said in err and "explain" not in err
    assert all(line.startswith("lycosa: ") for line in err.splitlines())
    assert list(tmp_path.iterdir()) == []


def test_somebody_elses_folder_is_told_before_missing_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").touch()
    assert main(["crawl", "--dir", str(tmp_path)]) == ExitCode.USAGE
    assert "is not empty and not a crawl" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["status", "{}"], ["sql", "{}", "SELECT 1"], ["explain", "{}", "http://a/"], ["audit", "{}"]],
)
def test_a_file_given_as_a_folder_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    path = tmp_path / "x.csv"
    path.touch()
    assert main([part.format(path) for part in command]) == ExitCode.USAGE
    assert f"'{path}' is a file" in capsys.readouterr().err


# Summary


def outcome(end: str, **counts: object) -> CrawlOutcome:
    return CrawlOutcome(end, progress_with(**counts), 1, [], 0, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("end", "states", "code"),
    [
        ("limit", {"queued": 1, "fetched": 1}, ExitCode.LIMIT),
        ("limit", {"queued": 0, "fetched": 1}, ExitCode.FINISHED),
        ("limit", {"failed": 1}, ExitCode.NOTHING_FETCHED),
        ("stopped", {"fetched": 1}, ExitCode.INTERRUPTED),
        ("finished", {"fetched": 1}, ExitCode.FINISHED),
        ("finished", {"failed": 1}, ExitCode.NOTHING_FETCHED),
        ("finished", {"fetched": 1, "queued": 2}, ExitCode.INCOMPLETE),
        ("finished", {"queued": 2}, ExitCode.NOTHING_FETCHED),
        ("finished", {"fetched": 1, "retired": 2}, ExitCode.FINISHED),
    ],
)
def test_a_limit_that_left_nothing_is_a_finish(
    end: str, states: dict[str, int], code: ExitCode
) -> None:
    ended = outcome(end, states=states)
    assert exit_code(ended) is code
    assert end_of(ended) == ("finished" if end == "limit" and code is not ExitCode.LIMIT else end)


@pytest.mark.parametrize("end", ["finished", "limit", "stopped"])
def test_damaged_segments_decide_the_exit_code_of_any_end(end: str) -> None:
    ended = outcome(end, states={"fetched": 1})
    progress = ended.progress.with_numbers({"lycosa_damaged_segments": 2})
    assert exit_code(msgspec.structs.replace(ended, progress=progress)) is ExitCode.INTERNAL
    assert "2 segments damaged when sealed; damaged/" in damage_line(progress)
    assert damage_line(ended.progress) == ""


@pytest.mark.parametrize(
    ("end", "states", "code"),
    [
        ("finished", {"fetched": 1}, ExitCode.INTERRUPTED),
        ("limit", {"fetched": 1}, ExitCode.INTERRUPTED),
        ("limit", {"fetched": 1, "queued": 1}, ExitCode.LIMIT),
    ],
)
def test_a_seed_that_was_not_parsed_is_no_finish(
    end: str, states: dict[str, int], code: ExitCode
) -> None:
    seeds = [UnreadSeed(f"http://{name}.example/", "parse_timeout") for name in "abcdefg"]
    ended = outcome(end, states=states)
    progress = total(
        [msgspec.structs.replace(ended.progress, unread_seeds=each) for each in ([], seeds, seeds)]
    )
    assert progress.unread_seeds == [*seeds, *seeds[:3]]
    assert exit_code(msgspec.structs.replace(ended, progress=progress)) is code


def test_the_summary_speaks_of_one_and_of_many_and_quotes_paths() -> None:
    folder = Path("my crawl's")
    ended = outcome(
        "limit",
        discovered=3,
        captures=1,
        pages=1,
        states={"queued": 2, "fetched": 1},
        reasons={"none": 1},
    )
    lines = summary_lines(
        folder,
        ended,
        ExitCode.LIMIT,
        Config(limits=LimitSection(max_pages=1, max_time_s=90)),
        FilesThere(["warc"], []),
    )
    assert lines[0] == "stopped by a limit after 2s: 1 capture (1 page, 0 B), 0.5 a second"
    assert lines[1] == "3 URLs discovered: 1 fetched, 2 queued"
    commands = [
        shlex.split(line.partition("lycosa ")[2].partition(" (")[0])
        for line in lines
        if "lycosa " in line
    ]
    assert ["crawl", "--dir", str(folder)] in commands
    assert ["crawl", "--dir", str(folder), "--max-pages", "2", "--max-time", "90s"] in commands
    assert all(str(folder) in command for command in commands)


def test_urls_that_were_retired_with_hosts_that_may_answer_again_are_no_full_success() -> None:
    ended = outcome("finished", states={"fetched": 1, "retired": 2})
    for reason, code in (
        (Reason.CONNECT_REFUSED, ExitCode.INCOMPLETE),
        (Reason.DNS_TIMEOUT, ExitCode.INCOMPLETE),
        (Reason.DNS_NO_SUCH_NAME, ExitCode.FINISHED),
        (Reason.RETIRED_BY_OPERATOR, ExitCode.FINISHED),
    ):
        group = HeldGroup(HostState.RETIRED, reason)
        group.add(HeldHost("a.example", 2, "why"))
        assert exit_code(ended, unfetched=Unfetched([group])) is code, reason


def test_groups_of_hosts_are_told_in_a_line_each() -> None:
    paused = HeldGroup(HostState.PAUSED, Reason.NONE)
    retired = HeldGroup(HostState.RETIRED, Reason.CONNECT_REFUSED)
    waiting = HeldGroup(HostState.SNOOZED, Reason.CONNECT_TIMEOUT)
    for number in range(5):
        paused.add(HeldHost(f"p{number}.example", number + 1, "by me"))
        waiting.add(HeldHost(f"w{number}.example", 1200, "late", 1000.0 + number))
    retired.add(HeldHost("r.example", 2, "the connection was refused, 12 times"))
    assert Unfetched([paused, retired, waiting], is_partial=True).lines("a b", 940.0) == [
        "paused by an operator: 15 URLs at 5 hosts: p4.example (5), p3.example (4), p2.example (3)"
        " and 2 more; to continue: lycosa host resume 'a b' p4.example",
        "retired: 2 URLs at r.example: the connection was refused, 12 times; to try again: lycosa"
        " host resume 'a b' r.example",
        "waiting: 6,000 URLs at 5 hosts: no connection within the limit: w0.example (1,200),"
        " w1.example (1,200), w2.example (1,200) and 2 more; the next try is due in 1 minute",
        "and more hosts: lycosa status 'a b' --hosts 50 --order errors",
    ]


def text_of(ended: CrawlOutcome, code: ExitCode, unfetched: Unfetched | None = None) -> str:
    files = FilesThere(["warc"], [])
    return "\n".join(summary_lines(Path("x"), ended, code, Config(), files, unfetched))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lacks_room": True}, "at the end it waited for free disk space"),
        ({"is_paused": True}, "at the end it waited for an operator"),
        (
            {"waits_for": "the network of this machine: no host"},
            "at the end it waited for the network of this machine: no host",
        ),
    ],
)
def test_the_summary_repeats_what_the_whole_crawl_waited_for(
    given: dict[str, object], said: str
) -> None:
    ended = outcome("limit", states={"fetched": 1, "queued": 5}, captures=1, **given)
    assert said in text_of(ended, ExitCode.LIMIT)
    assert summary_values(Path("x"), ended, ExitCode.LIMIT, [], FilesThere([], []))["held_up_by"]


def test_a_run_in_which_nothing_was_due_says_so_and_when_something_is() -> None:
    ended = outcome("finished", states={"fetched": 43}, captures=43, pages=43, next_in_s=597_000.0)
    ended = msgspec.structs.replace(ended, captured=0)
    said = text_of(ended, ExitCode.FINISHED)
    assert said.startswith("finished after 2s: 0 captures in this run, 43 captures (43 pages, 0 B)")
    assert "nothing was due in this run; the next fetch is due in 6d 22h (2" in said
    assert "(refetch.rule = value, refetch.min_s = 1d, refetch.max_s = 90d)" in said
    some = msgspec.structs.replace(ended, captured=3)
    assert "nothing was due" not in text_of(some, ExitCode.FINISHED)
    assert "3 captures in this run, 43 captures" in text_of(some, ExitCode.FINISHED)


@pytest.mark.parametrize(
    ("reasons", "states", "helps"),
    [
        ({"robots_disallowed": 1}, {"refused": 1}, False),
        ({"http_client_error": 1}, {"failed": 1}, False),
        ({"address_forbidden": 1}, {"failed": 1}, False),
        ({"http_server_error": 1}, {"failed": 1}, True),
        ({"none": 1}, {"queued": 1}, True),
        ({"duplicate": 1, "http_client_error": 2}, {"failed": 2}, False),
    ],
)
def test_the_same_command_is_advised_only_where_it_may_help(
    reasons: dict[str, int], states: dict[str, int], helps: bool
) -> None:
    said = text_of(outcome("finished", states=states, reasons=reasons), ExitCode.NOTHING_FETCHED)
    assert ("give the same command to try again" in said) is helps
    assert ("the same command would not help" in said) is not helps


def test_a_time_limit_is_not_said_to_count_the_whole_crawl() -> None:
    ended, files = outcome("limit", states={"fetched": 1, "queued": 1}), FilesThere(["warc"], [])
    for limits, counts in ((LimitSection(max_time_s=9), False), (LimitSection(max_pages=9), True)):
        config = Config(limits=limits)
        said = "\n".join(summary_lines(Path("x"), ended, ExitCode.LIMIT, config, files))
        assert "limits are not saved" in said and ("count all runs" in said) is counts


def test_failures_and_remarks_are_told_apart_and_none_is_neither() -> None:
    reasons = {
        "none": 9,
        "http_client_error": 2,
        "robots_disallowed": 1,
        "content_type": 3,
        "duplicate": 4,
    }
    ended = outcome("finished", states={"fetched": 1}, reasons=reasons)
    lines = summary_lines(Path("x"), ended, ExitCode.FINISHED, Config(), FilesThere(["warc"], []))
    names = [line.split()[1].rstrip(":") for line in lines if line.startswith("   ")]
    assert names == ["http_client_error", "robots_disallowed", "duplicate", "content_type"]
    assert lines.index("not fetched:") < lines.index("stored, but notable:")
    assert (
        "none"
        not in summary_values(Path("x"), ended, ExitCode.FINISHED, [], FilesThere([], []))[
            "reasons"
        ]
    )


def test_the_summary_names_the_files_that_there_are_and_those_that_are_missing() -> None:
    ended = outcome("finished", states={"fetched": 1})
    lacking = [
        LackingFile(
            "pages/a.parquet", "journal/a.jsonl.zst is missing, from which it would be built"
        ),
        LackingFile("cdxj/b.cdxj"),
    ]
    files = FilesThere(["warc", "cdxj", "pages"], lacking)
    lines = summary_lines(Path("x"), ended, ExitCode.FINISHED, Config(), files)
    assert "files in x: warc/ cdxj/ pages/" in lines
    assert "2 derived files missing (every capture is in warc/ all the same):" in lines
    assert (
        "  pages/a.parquet: journal/a.jsonl.zst is missing, from which it would be built" in lines
    )
    assert "  cdxj/b.cdxj: not built yet; the next start of the crawl builds it" in lines
    assert summary_values(Path("x"), ended, ExitCode.FINISHED, [], files)["lacking_files"][1] == {
        "file": "cdxj/b.cdxj",
        "reason": "",
    }


# While it runs


def test_hosts_add_up() -> None:
    progress = progress_with(
        hosts=9, running=2, hosts_ready=1, hosts_snoozed=1, hosts_front=2, hosts_parked=1
    )
    assert (
        hosts_in_words(progress)
        == "9: 2 fetching, 1 ready, 2 waiting for room in memory, 1 made to wait, 1 parked, 2"
        " between requests or done"
    )
    assert (hosts_in_words(Progress()), counted(1, "host"), counted(1234, "host")) == (
        "0",
        "1 host",
        "1,234 hosts",
    )


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "agent.contact",
            "anybody",
            "note: contact 'anybody' is neither a URL nor an e-mail address",
        ),
        ("store.min_free_bytes", 10**18, "fetching waits until there is more"),
        ("politeness.delay_s", 0.1, "requests to one address are 0.2 s apart"),
        ("frontier.finish_wait_s", 8e6, "(refetch.max_s), before the run would end"),
    ],
)
def test_what_the_operator_should_know_is_told_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: object, said: str
) -> None:
    folder = tmp_path / "with [brackets] and a long name " / ("x" * 100)
    folder.mkdir(parents=True)
    with folder_display(folder, settings({key: value}), is_new=True):
        pass
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"crawling into {folder}"  # neither wrapped nor read as markup
    assert [said.removeprefix("note: ") in line for line in lines].count(True) == 1


def test_good_contacts_are_no_reason_for_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for contact in ("https://example.org/bot", "you@example.org", "mailto:you@example.org"):
        with folder_display(
            tmp_path, settings({"agent.contact": contact, "store.min_free_bytes": 0}), is_new=False
        ):
            pass
    assert capsys.readouterr().err == f"resuming {tmp_path}\n" * 3


def test_a_stream_outlives_its_reader() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        os.close(reading)
        out = Unbroken(stream)
        for _ in range(3):
            out.write("nobody reads this\n")
            out.flush()
        assert not out.isatty()


def test_other_errors_of_a_stream_are_told() -> None:
    with Path("/dev/full").open("w") as stream:
        out = Unbroken(stream)
        out.write("x")
        with pytest.raises(OSError, match="No space left"):
            out.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def test_what_a_crawl_waits_for_is_told_in_plain_words() -> None:
    assert waiting_for(progress_with(hosts_front=1)) == "1 host in the front queues"
    assert waiting_for(progress_with(hosts_front=1200)) == "1,200 hosts in the front queues"
    assert waiting_for(progress_with(running=1)) == "1 page being fetched or read"


def test_a_folder_that_is_no_crawl_is_answered_with_a_command_that_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my crawl's"
    assert main(["status", str(folder)]) == ExitCode.USAGE
    suggested = capsys.readouterr().err.partition("`lycosa ")[2].partition("`")[0]
    assert shlex.split(suggested) == ["crawl", "--dir", str(folder), "SEED"]
