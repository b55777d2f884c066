"""The frame of the command line: help, exit codes, and one line for every expected error."""

from __future__ import annotations

import errno
import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lycosa.base.config.sources import SettingsError
from lycosa.base.reasons import Reason
from lycosa.base.system.durable import DiskFull
from lycosa.base.urls.identity import InvalidUrl
from lycosa.cli import main as exported_main
from lycosa.cli.main import _COMMANDS, _EXPECTED, _explain, cli, main
from lycosa.cli.output import (
    ExitCode,
    clean,
    emit_pairs,
    emit_table,
    human_bytes,
    human_count,
    human_duration,
    human_time,
)
from lycosa.processes.worker_handle import WorkerFailed
from lycosa.state.commit import LogDamaged
from lycosa.state.folder.lock import CrawlInUse, CrawlLock
from lycosa.state.folder.manifest import (
    DamagedFile,
    DamagedManifest,
    IdentityChanged,
    NewerFormat,
    NotACrawl,
)
from lycosa.state.kv.kv_port import TableDamaged, TableError, TableLocked
from lycosa.state.store.damage import StoreDamaged as FilesDamaged

HEAVY = {
    "pycurl",
    "duckdb",
    "pyarrow",
    "numpy",
    "rocksdict",
    "rich",
    "uvloop",
    "turbohtml",
    "lxml",
    "msgspec",
    "asyncio",
}


def lycosa(*args: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lycosa", *args],
        capture_output=True,
        text=True,
        env={**os.environ, **changes},
    )


# Help


def test_help_names_every_command_and_exit_code() -> None:
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    for name in cli.list_commands(click.Context(cli)):
        assert re.search(
            rf"^  {name} +{re.escape(_COMMANDS[name][:20])}", result.output, re.MULTILINE
        )
    for code in ExitCode:
        assert f"  {code.value}  {code.meaning}" in result.output
    assert result.output.count("  lycosa ") >= 3


def test_help_loads_nothing_heavy() -> None:
    code = (
        f"import sys; from lycosa.cli import main; main(['--help']); sys.exit(len({HEAVY!r} &"
        " set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("name", ["check", "config", "export", "sql"])
def test_the_help_of_a_command_teaches_by_example(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.count(f"  lycosa {name} ") >= 3


def test_the_help_of_crawl_shows_its_options_by_what_they_are_for() -> None:
    said = CliRunner().invoke(cli, ["crawl", "--help"]).output
    titles = re.findall(r"(?m)^([A-Z][^:\n]+):$", said)
    assert titles[:2] == ["Where to begin, and the folder", "Which URLs"]
    assert said.partition("Other options:\n")[2].partition("\n")[0].split()[0] in ("-h,", "--help")
    assert "  --max-time TIME " in said.partition("When to stop:")[2].partition("\n\n")[0]


def test_the_help_of_every_subcommand_has_an_example() -> None:
    def leaves(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
        context = click.Context(command, info_name=path, help_option_names=["-h", "--help"])
        if not isinstance(command, click.Group):
            yield path, command.get_help(context)
            return
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, f"{path} {name}")

    helps = dict(leaves(cli, "lycosa"))
    lacking = [path for path, said in helps.items() if said.count(path) < 2]
    assert lacking == [] and len(helps) > 60


@pytest.mark.parametrize("name", ["url", "scope", "robots"])
def test_the_help_of_a_check_teaches_by_example(name: str) -> None:
    result = CliRunner().invoke(cli, ["check", name, "-h"])
    assert result.output.count(f"lycosa check {name} ") >= 3


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_is_a_module_that_exports_it(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    if command is not None:
        assert command.name == name
        assert command.get_short_help_str(200)


def test_the_version_is_printed() -> None:
    done = lycosa("--version")
    assert (done.returncode, re.fullmatch(r"lycosa \d\S+\n", done.stdout) is not None) == (0, True)


@pytest.mark.parametrize(
    ("args", "same"),
    [
        (["help"], ["--help"]),
        (["help", "host", "pause"], ["host", "pause", "--help"]),
        (["version"], ["--version"]),
        (["-V"], ["--version"]),
    ],
)
def test_help_and_version_are_also_commands(
    args: list[str], same: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == ExitCode.FINISHED
    found = capsys.readouterr().out
    assert main(same) == ExitCode.FINISHED
    assert capsys.readouterr().out == found != ""


# Usage


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["statsu"], "'statsu' is not a command; did you mean status?; see `lycosa --help`"),
        (["zzzz"], "'zzzz' is not a command; there are crawl, "),
        (["serve", "--cluster", "pyproject.toml", "--contact", "x"], "are for a FOLDER"),
        (["host", "list"], "No such command 'list'; there are delay, pause, resume, retire, show;"),
        (["--nonsense"], "No such option"),
        (["config", "--nonsense"], "see `lycosa config --help`"),
        (["sql"], "Missing argument 'DIR'"),
        (["export", ".", "nothing"], "is not a crawl"),
        (["check", "robots", "http://a/"], "no source of robots.txt"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n"), err.startswith("lycosa: ")) == ("", 1, True)


def test_without_arguments_the_help_is_shown_as_bad_usage() -> None:
    done = lycosa()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Commands:" in done.stderr


# Errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError(["one", "two"]), ExitCode.USAGE),
        (NotACrawl("x is not a crawl"), ExitCode.USAGE),
        (NewerFormat("x has format 9"), ExitCode.USAGE),
        (IdentityChanged([]), ExitCode.USAGE),
        (DamagedManifest("x cannot be read"), ExitCode.INTERNAL),
        (DamagedFile("x is damaged"), ExitCode.INTERNAL),
        (CrawlInUse(Path("x"), None), ExitCode.USAGE),
        (TableLocked("x is in use"), ExitCode.USAGE),
        (TableDamaged("x is damaged"), ExitCode.INTERNAL),
        (FilesDamaged(Path("x"), 1, 2), ExitCode.INTERNAL),
        (LogDamaged(Path("x"), 7, "bad"), ExitCode.INTERNAL),
        (InvalidUrl(Reason.UNPARSABLE, "x", "relative"), ExitCode.USAGE),
        (DiskFull(errno.ENOSPC, "no room left", "x"), ExitCode.INTERRUPTED),
        (OSError(errno.ENOSPC, "No space left on device", "x"), ExitCode.INTERRUPTED),
        (PermissionError(errno.EACCES, "Permission denied", "x"), ExitCode.USAGE),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), ExitCode.USAGE),
        (OSError(errno.EIO, "Input/output error", "x"), ExitCode.INTERNAL),
        (OSError(errno.EMFILE, "Too many open files"), ExitCode.USAGE),
        (OSError(errno.ENFILE, "Too many open files in system"), ExitCode.USAGE),
        (
            WorkerFailed("builtins.OSError", "[Errno 24] Too many open files", errno=errno.EMFILE),
            ExitCode.USAGE,
        ),
        (TableDamaged("x cannot be read: IO error: Too many open files"), ExitCode.USAGE),
        (TableError("x: IO error: While open a file: Too many open files"), ExitCode.USAGE),
        (ExceptionGroup("tasks", [NotACrawl("x is not a crawl")]), ExitCode.USAGE),
    ],
)
def test_an_expected_error_has_its_code_and_no_traceback(
    error: Exception, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _explain(error, ()) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert all(line.startswith("lycosa: ") for line in err.splitlines())
    assert "internal error" not in err and "Traceback" not in err


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.EMFILE, "Too many open files", "x"),
        WorkerFailed("builtins.OSError", "[Errno 24] Too many open files", errno=errno.EMFILE),
        TableDamaged("x cannot be read: IO error: Too many open files"),
    ],
)
def test_too_many_open_files_is_told_with_the_limit_and_no_other_advice(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    _explain(error, ())
    err = capsys.readouterr().err
    assert "raise the limit of open files (ulimit -n; it is " in err and "restore" not in err


def test_every_expected_error_is_named_as_it_is() -> None:
    for name in _EXPECTED:
        module, _, kind = name.rpartition(".")
        found = getattr(importlib.import_module(module), kind)
        assert issubclass(found, Exception)
        # errors are looked up by the module that defines them, not by one that imports them
        assert f"{found.__module__}.{found.__qualname__}" == name


def test_an_unexpected_error_leaves_its_traceback_in_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        raise ZeroDivisionError("never\nthis")
    except ZeroDivisionError as error:
        assert _explain(error, ()) == ExitCode.INTERNAL
    err = capsys.readouterr().err
    found = re.fullmatch(
        r"lycosa: internal error: ZeroDivisionError: never this; the traceback is in (\S+)\n", err
    )
    assert found is not None
    path = Path(found[1])
    assert "Traceback" in path.read_text() and "test_cli_main.py" in path.read_text()
    path.unlink()


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = lycosa("--debug", "export", str(tmp_path), "pages")
    assert done.returncode == 2
    assert "Traceback" in done.stderr and done.stderr.splitlines()[-1].startswith("lycosa: ")
    assert "Traceback" not in lycosa("export", str(tmp_path), "pages").stderr


def test_exit_codes_reach_the_shell(tmp_path: Path) -> None:
    assert lycosa("config", "workers").returncode == 0
    assert lycosa("config", "--set", "no=1").returncode == 2
    assert lycosa("config", "--config", str(tmp_path / "none.toml")).returncode == 2
    assert lycosa("sql", str(tmp_path), "SELECT 1").returncode == 2
    assert lycosa("config", LYCOSA_WORKERS="many").returncode == 2


def test_a_command_that_is_interrupted_says_so() -> None:
    waiting = [
        sys.executable,
        "-m",
        "lycosa",
        "check",
        "robots",
        "--robots",
        "-",
        "http://example.org/",
    ]
    with subprocess.Popen(
        waiting, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None and running.stderr is not None
        while not _reads_standard_input(running.pid):
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        assert running.stderr.read().strip() == "lycosa: interrupted"
    assert running.returncode == ExitCode.INTERRUPTED


def _reads_standard_input(pid: int) -> bool:
    """Whether the process stands in a read of its descriptor 0 (system call 0 of x86-64, 63 of
    arm64).
    """
    try:
        return Path(f"/proc/{pid}/syscall").read_text().split()[:2] in (["0", "0x0"], ["63", "0x0"])
    except OSError:
        pytest.skip("the system does not tell what a process waits for")


def test_the_package_can_be_run_and_its_main_is_the_entry_point() -> None:
    assert exported_main is main


def test_a_lock_that_is_held_is_told_with_its_holder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with CrawlLock(tmp_path).acquire(0.0), pytest.raises(CrawlInUse) as caught:
        CrawlLock(tmp_path).acquire(0.0)
    _explain(caught.value, ())
    assert f"is in use by process {os.getpid()}" in capsys.readouterr().err


# Output


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (9999, "9,999"),
        (10_000, "10.0k"),
        (123_456, "123k"),
        (4_560_000, "4.56M"),
        (999_999, "1.00M"),
    ],
)
def test_counts_for_people(number: int, text: str) -> None:
    assert human_count(number) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (10_500_000, "10.5 MB"),
        (999_999_999, "1.00 GB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "0.25s"),
        (12, "12s"),
        (59.6, "1m 00s"),
        (200, "3m 20s"),
        (7500, "2h 05m"),
        (273_600, "3d 4h"),
        (-1, "0s"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_times_for_people() -> None:
    assert (human_time(0), human_time(1_790_000_000)) == ("", "2026-09-21T14:13:20Z")


def test_text_from_the_web_cannot_move_the_cursor() -> None:
    assert clean("a\x1b[2Jb\nc\x9bd\u202ee") == "a\ufffd[2Jb\ufffdc\ufffdd\ufffde"


def test_tables_are_plain_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    emit_table(("a", "long name"), [(1, None), ("x\ny\tz", True)])
    emit_pairs([("key", "value"), ("longer", 1.5), ("empty", "")])
    assert (
        capsys.readouterr().out == "a      long name\n1\nx y z  yes\nkey     value\nlonger  1.5\n"
    )


def test_a_missing_value_of_the_last_option_refers_to_the_help_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["crawl", "http://example.org/", "--accept"]) == ExitCode.USAGE
    assert capsys.readouterr().err.rstrip().endswith("see `lycosa crawl --help`")
