"""``lycosa replay``: a crawl or WACZ files in the browser, shown by pywb.

pywb is a separate program, in a separate environment: its requirements replace ``brotli``,
which bounds the bodies that a crawl decodes, by another package of that name
(docs/decisions/replay.md). It listens on loopback, under a name that no other service of the
machine has, because archived pages run their scripts: browsers give ``replay.localhost`` its own
cookies and storage, and ports do not separate cookies.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from lycosa.base.system.child_start import die_with_parent
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json

if TYPE_CHECKING:
    from lycosa.inspect.wacz.replay_folder import ReplayFolder
    from lycosa.inspect.wacz.wacz_reading import WaczPage

_EPILOG = """
\b
Examples:
  lycosa replay --install                                    once: pywb, in a separate folder
  lycosa replay crawls/example.org --open
  lycosa replay example.wacz --open
  lycosa replay crawls/second crawls/first                   a crawl that was deduplicated
  lycosa export --cluster cluster.toml wacz --output news.wacz && lycosa replay news.wacz

What is committed is shown, also of a crawl that runs; give the command again for what comes later.
Nothing is copied or changed, and what a page loads comes from the archive or is answered 404. The
command ends with Ctrl-C. `lycosa docs replay` says what replays, and what does
not.
"""
_PORT = 8094
_HOST = "replay.localhost"
_START_S = 60.0
_EVERY_S = 0.1
_PACKAGES = ("pywb>=2.10,<3", "setuptools<81")  # pywb imports pkg_resources, which later ones lack
_PROGRAM = "wayback"


class ReplayFailed(Exception):
    """pywb could not be installed, did not start, or ended."""


@click.command("replay", epilog=_EPILOG, short_help="A crawl or WACZ file in the browser, by pywb.")
@click.argument("places", nargs=-1, metavar="DIR|FILE.wacz...", type=click.Path(path_type=Path))
@click.option("--port", metavar="N", type=click.IntRange(1, 65535), help=f"Port [{_PORT}].")
@click.option("--open", "is_opening", is_flag=True, help="Open the first page in the browser.")
@click.option("--install", is_flag=True, help="Install pywb for this user, and end.")
@click.option(
    "--pywb",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help=f"The program {_PROGRAM}, or the environment that has it [that of --install, or on PATH].",
)
@click.option("--json", "as_json", is_flag=True, help="Print where it is shown as JSON.")
def command(
    places: tuple[Path, ...],
    port: int | None,
    is_opening: bool,
    install: bool,
    pywb: Path | None,
    as_json: bool,
) -> ExitCode:
    """Show the crawls and WACZ files as one archive at http://replay.localhost:8094/."""
    if install:
        if places:
            raise click.UsageError("--install stands alone; give the crawl to the next command")
        return _install()
    if not places:
        raise click.UsageError("give the folder of a crawl or a WACZ file: lycosa replay DIR")
    for place in places:
        if not place.exists():
            raise click.UsageError(f"{place}: there is no such folder or file")
    program = _find_program(pywb)
    number = port or _PORT
    _check_port(number)
    with tempfile.TemporaryDirectory(prefix="lycosa-replay-") as folder:
        return _show(places, program, number, Path(folder).resolve(), is_opening, as_json)


def _show(
    places: tuple[Path, ...],
    program: Path,
    port: int,
    work: Path,
    is_opening: bool,
    as_json: bool,
) -> ExitCode:
    from lycosa.inspect.wacz.replay_folder import prepare_replay

    prepared = prepare_replay(places, work)
    signal.signal(signal.SIGTERM, _interrupt)  # so that the folder and pywb end with the command
    log = work / "pywb.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(program), "-p", str(port), "-b", "127.0.0.1"],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            # after kill -9 of this command too; it has no threads that a fork would cut off
            preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509
        )
    try:
        _wait_until_open(process, port, log)
        address = address_of(prepared.first, port)
        _tell(prepared, address, as_json)
        if is_opening and not webbrowser.open(address):
            click.echo(f"lycosa: no browser was found: open {address}", err=True)
        process.wait()
        raise ReplayFailed(f"pywb has ended: {_last_line(log)}")
    except KeyboardInterrupt:
        return ExitCode.FINISHED
    finally:
        process.terminate()
        process.wait()


def address_of(first: WaczPage | None, port: int) -> str:
    """Where a page is shown, or the collection if there is no page to begin with."""
    from lycosa.inspect.wacz.replay_folder import COLLECTION

    home = f"http://{_HOST}:{port}/{COLLECTION}/"
    if first is None:
        return home
    stamp = "".join(each for each in first.time if each.isdigit())[:14]
    return f"{home}{stamp}/{first.url}" if stamp else f"{home}{first.url}"


def _tell(prepared: ReplayFolder, address: str, as_json: bool) -> None:
    if as_json:
        emit_json({"address": address, "segments": prepared.segments, "signed": prepared.keys})
        sys.stdout.flush()
        return
    emit(clean(address))
    sys.stdout.flush()  # a program may read it from a pipe, while the command runs
    for path, key in prepared.keys.items():
        click.echo(clean(f"lycosa: {path} is signed by {key}"), err=True)
    if prepared.removed:
        click.echo(
            f"lycosa: the WARC files of {counted(prepared.removed, 'segment')} were removed after"
            " their upload: their captures are not shown (lycosa docs replay)",
            err=True,
        )
    click.echo("lycosa: Ctrl-C ends the replay", err=True)


def _wait_until_open(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(_EVERY_S)
            continue
        if process.poll() is None:  # otherwise another program listens there
            return
    raise ReplayFailed(f"pywb did not start: {_last_line(log)}")


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return clean(lines[-1]) if lines else "it said nothing"


def _check_port(port: int) -> None:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            raise click.UsageError(
                f"port {port} cannot be used ({error.strerror}); give another one: --port N"
            ) from None


def _find_program(given: Path | None) -> Path:
    """pywb's program. Raises ``click.UsageError`` that says how to get it."""
    if given is not None:
        for path in (given, given / _PROGRAM, given / "bin" / _PROGRAM):
            if path.is_file() and os.access(path, os.X_OK):
                return path.resolve().parent / path.name
        raise click.UsageError(f"--pywb {given}: there is no program {_PROGRAM}")
    own = _environment() / "bin" / _PROGRAM
    if own.is_file():
        return own
    found = shutil.which(_PROGRAM)
    if found is None:
        raise click.UsageError(
            "pywb, which shows archives, is not installed; `lycosa replay --install` installs it"
            " in a separate folder, as does `pipx install pywb`"
        )
    return Path(found)


def _environment() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "lycosa" / "pywb"


def _install() -> ExitCode:
    """Make the environment. One that is there is made again, which also upgrades it."""
    place = _environment()
    click.echo(f"lycosa: installing {_PACKAGES[0]} in {place}", err=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    steps: tuple[Callable[[], list[str]], ...] = (
        lambda: [sys.executable, "-m", "venv", "--clear", str(place)],
        lambda: [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *_PACKAGES],
    )
    for step in steps:
        done = subprocess.run(step(), capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(place, ignore_errors=True)  # half an environment would look like one
            said = (done.stderr or done.stdout).strip().splitlines()
            reason = clean(said[-1]) if said else "no reason was given"
            raise ReplayFailed(f"pywb could not be installed: {reason}")
    emit(str(place / "bin" / _PROGRAM))
    return ExitCode.FINISHED


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
