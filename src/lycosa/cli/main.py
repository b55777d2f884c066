"""``lycosa``: find the command, run it, and turn every expected error into a line and an exit code.

A command's module is imported when the command is used, and errors are recognised by name, so that
``lycosa --help`` imports nothing but click. Modules named in ``_COMMANDS`` export ``command``.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence

import click

from lycosa.base.config.near_names import near_name
from lycosa.cli.output import ExitCode, clean

_COMMANDS = {
    "crawl": "Crawl from seeds; the same folder again resumes.",
    "status": "Progress of a crawl: URLs by state, hosts, errors.",
    "describe": "A crawl in words, for the methods of a paper.",
    "explain": "Everything about one URL: state, rule, robots line, history.",
    "audit": "Prove from disk that nothing was lost and every delay was kept.",
    "reparse": "Parse stored documents that were never parsed; add their links.",
    "extract": "Items from stored captures by your code, without a request.",
    "shell": "A page as your code gets it, at a Python prompt.",
    "init": "Begin a crawl with code of your own: settings, extractor, test.",
    "simulate": "Predict pages a day, freshness, disk and cost of a crawl.",
    "check": "The links of a site; what a crawl would do with a URL.",
    "config": "Every setting with its value, source and meaning.",
    "export": "Pages, links, URLs or hosts of a crawl as a table; a crawl as one WACZ file.",
    "replay": "A crawl or WACZ file in the browser, by pywb.",
    "sql": "Query a crawl's tables with SQL.",
    "rank": "PageRank and harmonic centrality by the stored links.",
    "feed": "Captures, changes or dead letters, each once: JSON lines, databases.",
    "changes": "Pages that are new, changed, gone or back.",
    "webhooks": "Tell the URLs of the settings what has changed.",
    "diff": "How the text of a page differs between two captures.",
    "extension": "Digests of your code, what a crawl runs, and its updates.",
    "host": "Show, pause, resume or retire a host of a crawl.",
    "use-ranks": "Let a crawl go by the ranks of a link graph.",
    "own": "The tokens that prove your own hosts, which then have no delay.",
    "scope": "Show, try or change which URLs belong to a crawl.",
    "policy": "Show, try or change when pages are fetched again.",
    "render": "Render pages of a crawl again, from their stored captures.",
    "dlq": "List, retry or drop URLs that failed for good.",
    "project": "Keep a copy of a crawl's URL state in a database.",
    "cluster": "Create, check and control a crawl on many machines.",
    "serve": "Run a crawl as a service, or coordinate many machines.",
    "node": "Run this machine's share of a crawl on many machines.",
    "mcp": "Tools for language models: read or operate a crawl.",
    "identity": "Keys that sign requests, and the page for site owners.",
    "completion": "Completion for bash, zsh or fish.",
    "man": "Manual pages.",
    "docs": "The documents of this version.",
    "health": "Whether a node or coordinator on this machine runs.",
}

_MODULES = {"identity": "crawler_identity", "scope": "crawl_scope"}

_EPILOG = f"""
\b
Examples:
  lycosa crawl https://example.org/ --max-pages 1000 --contact you@example.org
  lycosa explain crawls/example.org https://example.org/about
  lycosa sql crawls/example.org "SELECT fetch_status, count(*) FROM pages GROUP BY ALL"

\b
Exit codes:
{chr(10).join(f"  {code.value}  {code.meaning}" for code in ExitCode)}
"""

# Expected errors, by module and name so that naming them imports nothing: the exit code, and what
# to do when the message does not say it.
_EXPECTED: dict[str, tuple[ExitCode, str]] = {
    "lycosa.base.config.sources.SettingsError": (ExitCode.USAGE, ""),
    "lycosa.base.signing.signing_key.KeyFileError": (ExitCode.USAGE, ""),
    "lycosa.stages.fetch.secret_values.SecretError": (ExitCode.USAGE, ""),
    "lycosa.state.folder.manifest.DamagedManifest": (ExitCode.INTERNAL, ""),
    "lycosa.state.folder.manifest.DamagedFile": (ExitCode.INTERNAL, ""),
    "lycosa.state.folder.manifest.ManifestError": (ExitCode.USAGE, ""),
    "lycosa.base.system.code_file.UnreadableCode": (ExitCode.USAGE, ""),
    "lycosa.state.objects.stored_code.DamagedCode": (ExitCode.INTERNAL, ""),
    "lycosa.state.folder.lock.CrawlInUse": (ExitCode.USAGE, ""),
    "lycosa.state.folder.lock.LockUnsupported": (ExitCode.USAGE, ""),
    "lycosa.processes.cluster.node_folder.NodeFolderError": (ExitCode.USAGE, ""),
    "lycosa.moves.rescue_run.RescueRefused": (ExitCode.USAGE, ""),
    "lycosa.service.api.answers.ServiceRefusal": (ExitCode.USAGE, ""),
    "lycosa.service.api.decision_calls.Undecided": (ExitCode.INTERNAL, ""),
    "lycosa.feeds.export_port.TargetError": (ExitCode.USAGE, ""),
    "lycosa.feeds.feed_position.BadPosition": (ExitCode.USAGE, ""),
    "lycosa.state.kv.kv_port.TableLocked": (ExitCode.USAGE, "stop that process first"),
    "lycosa.state.cold.cold_rows.ColdDamaged": (ExitCode.INTERNAL, "restore it from a copy"),
    "lycosa.state.kv.kv_port.TableDamaged": (
        ExitCode.INTERNAL,
        "restore the crawl folder from a copy",
    ),
    "lycosa.state.kv.kv_port.TableError": (ExitCode.INTERNAL, ""),
    "lycosa.state.commit.record.LogDamaged": (ExitCode.INTERNAL, ""),
    "lycosa.cluster.kafka.kafka_clients.BadClientSettings": (
        ExitCode.USAGE,
        "correct the section kafka.security of the file",
    ),
    "lycosa.cluster.kafka.upkeep.KafkaAway": (
        ExitCode.INTERNAL,
        "check the addresses, the network and the security settings",
    ),
    "lycosa.cluster.shards.opened_cluster.NotInitialized": (ExitCode.USAGE, ""),
    "lycosa.cluster.shards.opened_cluster.CacheDamaged": (ExitCode.INTERNAL, ""),
    "lycosa.state.shard.usable_snapshots.SnapshotUnusable": (ExitCode.INTERNAL, ""),
    "lycosa.state.shard.snapshot_view.LogMovedOn": (
        ExitCode.INTERNAL,
        "give the same command again",
    ),
    "lycosa.cluster.kafka.generations.LogWentOn": (ExitCode.INTERNAL, ""),
    "lycosa.cluster.kafka.new_log.NewLogTaken": (ExitCode.INTERNAL, ""),
    "lycosa.moves.stopped_cluster.CrawlRuns": (ExitCode.USAGE, ""),
    "lycosa.moves.new_generation.AnotherImport": (ExitCode.INTERNAL, ""),
    "lycosa.moves.new_shards.TopicsUnfit": (ExitCode.USAGE, ""),
    "lycosa.moves.reshard.host_owners.StateDamaged": (ExitCode.INTERNAL, ""),
    "lycosa.state.store.segments_port.NotStored": (
        ExitCode.INTERNAL,
        "give the same command again",
    ),
    "lycosa.cluster.kafka.control_topic.ControlDamaged": (ExitCode.INTERNAL, ""),
    "lycosa.cluster.network.endpoints.RefusedConnection": (ExitCode.USAGE, ""),
    "lycosa.cluster.serve.coordinator_server.CannotListen": (ExitCode.USAGE, ""),
    "lycosa.cluster.serve.caller.NoCoordinator": (ExitCode.INTERNAL, ""),
    "lycosa.cluster.serve.caller.RequestRefused": (ExitCode.USAGE, ""),
    "lycosa.cluster.serve.seed_caller.NothingToCrawl": (ExitCode.USAGE, ""),
    "lycosa.state.exchange.exchange_errors.InboxDamaged": (ExitCode.INTERNAL, ""),
    "lycosa.state.exchange.exchange_errors.PositionLost": (ExitCode.INTERNAL, ""),
    "lycosa.state.exchange.exchange_errors.ParcelsLost": (ExitCode.INTERNAL, ""),
    "lycosa.state.exchange.exchange_errors.ParcelsStuck": (ExitCode.INTERNAL, ""),
    "lycosa.stages.frontier.back_queue.QueueDamaged": (
        ExitCode.INTERNAL,
        "restore the crawl folder from a copy",
    ),
    "lycosa.state.folder.start_check.CommittedDataMissing": (ExitCode.INTERNAL, ""),
    "lycosa.state.store.damage.CommitsLost": (ExitCode.INTERNAL, ""),
    "lycosa.state.store.damage.StoreDamaged": (ExitCode.INTERNAL, ""),
    "lycosa.state.store.journal.JournalError": (
        ExitCode.INTERNAL,
        "restore it from a copy, or rebuild it from the WARC file",
    ),
    "lycosa.state.store.stored_data.RecordError": (
        ExitCode.INTERNAL,
        "restore the WARC file from a copy",
    ),
    "lycosa.state.store.removed_files.ElsewhereError": (ExitCode.INTERNAL, ""),
    "lycosa.state.objects.object_errors.ObjectError": (ExitCode.USAGE, ""),
    "lycosa.base.system.durable.FileTooShort": (ExitCode.INTERNAL, "restore it from a copy"),
    "lycosa.inspect.saved_settings.SettingsUnreadable": (ExitCode.USAGE, ""),
    "lycosa.feeds.registry.registry_port.RegistryError": (ExitCode.USAGE, ""),
    "lycosa.inspect.sql_query.SqlError": (ExitCode.USAGE, ""),
    "lycosa.state.ranks.rank_results.RanksError": (ExitCode.USAGE, ""),
    "lycosa.inspect.ranks.work_files.WorkInUse": (ExitCode.USAGE, ""),
    "lycosa.inspect.ranks.rank_run.NoLinks": (ExitCode.NOTHING_FETCHED, ""),
    "lycosa.inspect.ranks.graph_tables.TooManyVertices": (ExitCode.USAGE, ""),
    "lycosa.inspect.wacz.wacz_reading.WaczError": (ExitCode.USAGE, ""),
    "lycosa.feeds.extraction.extraction_versions.ExtractionRefused": (ExitCode.USAGE, ""),
    "lycosa.feeds.extraction.code_pool.CodeSuspended": (ExitCode.INTERNAL, ""),
    "lycosa.base.model.known_code.CodeError": (ExitCode.USAGE, ""),
    "lycosa.cli.replay.ReplayFailed": (ExitCode.INTERNAL, ""),
    "lycosa.cli.shell.NothingFetched": (ExitCode.NOTHING_FETCHED, ""),
    "lycosa.cli.shell.StatementFailed": (ExitCode.USAGE, ""),
    "lycosa.simulate.sample_parts.PartLostError": (
        ExitCode.INTERNAL,
        "if memory was short, use a smaller --sample or --jobs 1",
    ),
    "lycosa.base.urls.canonical.InvalidUrl": (ExitCode.USAGE, "give an absolute http or https URL"),
    "lycosa.inspect.robots_source.NoRobots": (ExitCode.NOTHING_FETCHED, ""),
    "lycosa.base.ports.ResolveError": (ExitCode.NOTHING_FETCHED, "check the name and the network"),
}
_MAKE_ROOM = "nothing stored is lost: make room and give the same command again"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})


def _module_of(command: str) -> str:
    """The module of a command. A file name occurs once, and some of them others have."""
    return f"lycosa.cli.{_MODULES.get(command, command.replace('-', '_'))}"


class _ReaderGoneError(Exception):
    """The reader of standard output has closed it."""


class _Commands(click.Group):
    """Commands that are imported when they are used."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        # click would end with 1 here, and treat a broken socket as a closed pipe
        except BrokenPipeError as error:
            if _is_output_closed():
                raise _ReaderGoneError from error
            raise RuntimeError("a connection between the crawler's own processes broke") from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in _COMMANDS if importlib.util.find_spec(_module_of(name))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS or importlib.util.find_spec(_module_of(cmd_name)) is None:
            return None
        command: click.Command = importlib.import_module(_module_of(cmd_name)).command
        _share_examples(command, f"lycosa {cmd_name}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"{args[0]!r} is not a command{_near(args[0])}", ctx)
        return super().resolve_command(ctx, args)


def _share_examples(group: click.Command, path: str) -> None:
    """Give subcommands without an epilog the examples of their group that name them."""
    if not isinstance(group, click.Group):
        return
    for name, each in group.commands.items():
        named = re.findall(rf"(?m)^  {path} {name} .*$", group.epilog or "")
        if not each.epilog and named:
            each.epilog = "\n".join(["\b", "Examples:", *named])


def _is_output_closed() -> bool:
    """Whether standard output is a pipe without a reader."""
    import select

    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"lycosa {version('lycosa')}")
        ctx.exit()


@click.group(
    cls=_Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Save web sites as WARC files and tables.

    Obeys robots.txt, survives crashes, and says why any URL was or was not fetched.
    """
    ctx.obj = debug


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; only ``--debug`` prints a traceback."""
    _open_standard_files()
    arguments = list(sys.argv[1:] if args is None else args)
    if arguments[:1] == ["help"]:  # lycosa help host pause
        arguments = [*arguments[1:], "--help"]
    elif arguments == ["version"]:
        arguments = ["--version"]
    try:
        result = cli.main(arguments, prog_name="lycosa", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as end:
        return (
            end.code
            if isinstance(end.code, int)
            else ExitCode.FINISHED
            if end.code is None
            else ExitCode.USAGE
        )
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error), err=True)
        return ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        return _tell("interrupted", ExitCode.INTERRUPTED)
    except (_ReaderGoneError, BrokenPipeError):
        # The interpreter must not report an error when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # the same code as with a reader that reads everything: `| head` is a normal use of a
        # command, and scripts run with pipefail
        return ExitCode.FINISHED
    except Exception as error:
        return _explain(error, arguments)
    return result if isinstance(result, int) else ExitCode.FINISHED


def _open_standard_files() -> None:
    """Open ``/dev/null`` for standard input, output and error where the caller closed them.

    Otherwise the next file that is opened, such as the lock of a crawl, gets the number 0, 1 or 2,
    and each child process writes its output there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, this one
            os.set_inheritable(nowhere, True)
    # the interpreter has None for a file that was closed
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _explain(error: Exception, arguments: Sequence[str]) -> ExitCode:
    """Print one line about an error on standard error; returns the exit code."""
    if isinstance(error, click.ClickException):
        return _tell(_usage(error, arguments), ExitCode.USAGE)
    if "--debug" in arguments:
        traceback.print_exception(error)
    # RocksDB and DuckDB report this only in their text
    if os.strerror(errno.EMFILE) in str(error) and not getattr(error, "errno", 0):
        return _tell(f"{error}; {_raise_limit()}", ExitCode.USAGE)
    for kind in type(error).__mro__:
        if found := _EXPECTED.get(f"{kind.__module__}.{kind.__qualname__}"):
            code, advice = found
            return _tell(f"{error}; {advice}" if advice else str(error), code)
    told_kind = str(getattr(error, "kind", ""))  # a worker's error, reported by name
    if told_kind in _EXPECTED:
        return _tell(str(error), _EXPECTED[told_kind][0])
    if number := getattr(error, "errno", 0) if told_kind else 0:
        told = _tell_system(
            OSError(number, os.strerror(number), getattr(error, "filename", "") or None)
        )
        if told is not None:
            return told
    # the first error of a task group is the cause of the others
    if isinstance(error, ExceptionGroup):
        return _explain(error.exceptions[0], arguments)
    if (
        isinstance(error, OSError)
        and error.errno is not None
        and (told := _tell_system(error)) is not None
    ):
        return told
    return _tell(_unexpected(error), ExitCode.INTERNAL)


def _tell_system(error: OSError) -> ExitCode | None:
    """Report errors of disks, permissions and paths; ``None`` for others."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in _FULL:
        what = f"{where}no room left on the disk ({error.strerror}); {_MAKE_ROOM}"
        return _tell(what, ExitCode.INTERRUPTED)
    if error.errno in _TOO_MANY_FILES:
        return _tell(f"{where}{error.strerror}; {_raise_limit()}", ExitCode.USAGE)
    if error.filename is None:
        return None
    advice = {
        errno.EACCES: "; use a path that you may read and write, or change its permissions",
        errno.EPERM: "; use a path that you may read and write, or change its permissions",
        errno.EROFS: "; use a path that can be written to",
        errno.ENOENT: "; check the path",
        errno.ENOTDIR: "; check the path",
        errno.EISDIR: "; give a file",
    }
    if error.errno not in advice:
        return _tell(f"{where}{error.strerror}", ExitCode.INTERNAL)
    return _tell(f"{where}{error.strerror}{advice[error.errno]}", ExitCode.USAGE)


def _raise_limit() -> str:
    """What to do about too many open files, with the present limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = (
        "" if hard == resource.RLIM_INFINITY else f", at most {hard} without administrator rights"
    )
    return f"raise the limit of open files (ulimit -n; it is {soft}{most})"


def _usage(error: click.ClickException, arguments: Sequence[str]) -> str:
    context = getattr(error, "ctx", None)
    if context is not None:
        path = context.command_path
    else:  # an option at the end without its value
        path = " ".join(["lycosa", *(each for each in arguments[:1] if each in _COMMANDS)])
    text = " ".join(error.format_message().split()).rstrip(".")
    if context is not None and isinstance(context.command, click.Group):
        names = ", ".join(context.command.list_commands(context))
        text += f"; there are {names}" if text.startswith("No such command") else ""
    return f"{text}; see `{path} --help`"


def _unexpected(error: Exception) -> str:
    """Keep the traceback in a file and name that file."""
    what = f"internal error: {type(error).__name__}: {error}".replace("\n", " ")
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="lycosa-error-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exception(error, file=file)
            file.write(getattr(error, "trace", ""))  # a worker's own
    except OSError:
        return f"{what}; run it again as `lycosa --debug ...` for the traceback"
    return f"{what}; the traceback is in {file.name}"


def _tell(text: str, code: ExitCode) -> ExitCode:
    for line in text.split("\n"):
        click.echo(f"lycosa: {clean(line)}", err=True)
    return code


def _near(name: str) -> str:
    near = near_name(name, _COMMANDS)
    return f"; did you mean {near}?" if near else f"; there are {', '.join(_COMMANDS)}"
