"""What ``lycosa crawl`` prints at the end: the result, failures, how to resume or inspect it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lycosa.base.config.sections import Config, LimitSection, RefetchRule, RefetchSection
from lycosa.base.config.units import show_bytes, show_seconds
from lycosa.base.messages.progress import Progress, UnreadSeed
from lycosa.base.model.parsed import ParserHealth
from lycosa.base.model.progress_parts import UploadState
from lycosa.base.reasons import Reason
from lycosa.cli.output import ExitCode, counted, human_bytes, human_count, human_duration
from lycosa.cli.status import lacking_lines
from lycosa.inspect.unfetched import LASTING, Unfetched
from lycosa.processes.status_file import held_up_by
from lycosa.processes.supervisor import CrawlOutcome
from lycosa.state.folder.seed_sources import SeedSource, SourceKind, how_far, load_sources, unread
from lycosa.state.store import layout
from lycosa.state.store.closing import LackingFile, lacking_files
from lycosa.state.store.derived_files import folders_of_kinds

_ENDS = {"finished": "finished", "limit": "stopped by a limit", "stopped": "interrupted"}
_MAX = 8


class FilesThere(NamedTuple):
    """The output files of a crawl and the sources of its seeds.

    ``kinds`` are those that exist: ``store.text`` and ``store.links`` can switch theirs off.
    ``lacking`` are files that closed segments lack, ``feeds`` the feeds that lack rows.
    """

    kinds: list[str]
    lacking: list[LackingFile]
    seeds: Sequence[SeedSource] = ()
    feeds: Sequence[str] = ()


def files_there(folder: Path) -> FilesThere:
    possible = (layout.WARC, *folders_of_kinds(folder))
    kinds = [kind for kind in possible if any((folder / kind).glob("[!.]*"))]
    return FilesThere(kinds, lacking_files(folder), load_sources(folder))


def end_of(outcome: CrawlOutcome) -> str:
    """How the run ended. A limit that was reached with the last URL stopped nothing."""
    is_done = outcome.end == "limit" and not outcome.progress.states.get("queued")
    return "finished" if is_done else outcome.end


def exit_code(
    outcome: CrawlOutcome,
    left: Sequence[SeedSource] = (),
    feeds: Sequence[str] = (),
    unfetched: Unfetched | None = None,
) -> ExitCode:
    """The exit code of the run.

    ``left`` are the seed sources that were not read completely, ``feeds`` the feeds that are not
    complete. These, seeds that the parser could not read, and files that were not uploaded are
    equal reasons to give a command again. Damaged segments and files need a person, and count
    before everything else. ``unfetched`` are the hosts whose URLs were not fetched, where they are
    known.
    """
    if outcome.progress.damaged_segments:
        return ExitCode.INTERNAL
    end = end_of(outcome)
    uploads = outcome.progress.uploads
    if uploads is not None and uploads.doubtful_files:
        return ExitCode.INTERNAL
    has_fetched = bool(outcome.progress.states.get("fetched"))
    is_short = bool(feeds) or (uploads is not None and uploads.waiting_files)
    if end == "stopped" or (is_short and has_fetched):
        return ExitCode.INTERRUPTED
    if end == "limit":
        return ExitCode.LIMIT
    if left or outcome.progress.unread_seeds:
        return ExitCode.INTERRUPTED
    if not has_fetched:
        return ExitCode.NOTHING_FETCHED
    has_lost = unfetched is not None and unfetched.has_lost
    return ExitCode.INCOMPLETE if urls_left_waiting(outcome) or has_lost else ExitCode.FINISHED


def summary_values(
    folder: Path,
    outcome: CrawlOutcome,
    code: ExitCode,
    refused: Iterable[tuple[str, str]],
    files: FilesThere,
    unfetched: Unfetched | None = None,
) -> dict[str, Any]:
    """The summary as values for JSON."""
    progress = outcome.progress
    return {
        "end": end_of(outcome),
        "exit_code": int(code),
        "folder": str(folder),
        "duration_s": round(outcome.duration_s, 3),
        "discovered": progress.discovered,
        "states": progress.states,
        "captures": progress.captures,
        "captures_this_run": outcome.captured,
        "pages": progress.pages,
        "requests": progress.requests,
        "body_bytes": progress.body_bytes,
        "reasons": {
            name: number for name, number in progress.reasons.items() if name != Reason.NONE.label
        },
        "rule_refusals": progress.rule_refusals,
        "refused_seeds": [{"seed": seed, "reason": reason} for seed, reason in refused],
        "seed_sources": [_source_values(each) for each in files.seeds],
        "hosts": _host_values(progress),
        "worker_deaths": outcome.deaths,
        "lacking_files": [{"file": each.file, "reason": each.reason} for each in files.lacking],
        "parser": {
            "away_s": round(progress.parser.away_total_s, 3),
            "deaths": progress.parser.deaths,
            "tried_again": progress.parser.tried_again,
        },
        "unparsed": progress.unparsed,
        "unread_seeds": msgspec.to_builtins(progress.unread_seeds),
        "failures": msgspec.to_builtins(progress.failures),
        "reparsed": progress.reparsed,
        "waiting": (
            {"urls": urls_left_waiting(outcome), "next_due_in_s": round(progress.next_in_s, 3)}
            if urls_left_waiting(outcome)
            else None
        ),
        "held_up_by": held_up_by(progress),
        "unfetched": _unfetched_values(unfetched or Unfetched()),
        "uploads": msgspec.to_builtins(progress.uploads),
        "incomplete_feeds": list(files.feeds),
    }


def _host_values(progress: Progress) -> dict[str, Any]:
    return {
        "met": progress.hosts,
        "parked": progress.hosts_parked,
        "retired": progress.hosts_retired,
        "paused": progress.hosts_paused,
        "snoozed": progress.hosts_snoozed,
    }


def _unfetched_values(unfetched: Unfetched) -> list[dict[str, Any]]:
    return [
        {**msgspec.to_builtins(group), "state": group.state.label, "reason": group.reason.label}
        for group in unfetched.groups
    ]


def _source_values(source: SeedSource) -> dict[str, Any]:
    return {
        "source": source.title,
        "lines": source.lines,
        "seeds": source.seeds,
        "is_complete": source.is_complete,
    }


def summary_lines(
    folder: Path,
    outcome: CrawlOutcome,
    code: ExitCode,
    config: Config,
    files: FilesThere,
    unfetched: Unfetched | None = None,
) -> list[str]:
    """The summary as text; ``unfetched`` are the hosts whose URLs were not fetched."""
    unfetched = unfetched or Unfetched()
    progress, end = outcome.progress, end_of(outcome)
    quoted = shlex.quote(str(folder))
    lines = count_lines(outcome)
    lines += reason_lines(progress.reasons)
    lines += _parser_lines(progress.parser)
    lines += [str(each) for each in progress.failures]
    lines += unfetched.lines(str(folder), time.time())
    if held_up := held_up_by(progress):
        lines.append(f"at the end it waited for {held_up}")
    lines += _waiting_lines(outcome, quoted)
    lines += _idle_lines(outcome, config.refetch)
    if progress.uploads is not None:
        lines += _upload_lines(progress.uploads, quoted)
    if code is ExitCode.NOTHING_FETCHED:
        lines.append(nothing_line(progress, unfetched))
        return lines
    lines += _unparsed_lines(outcome, quoted)
    lines += unread_seed_lines(progress.unread_seeds, quoted)
    left = unread(files.seeds)
    lines += [f"seeds of {how_far(source)}" for source in left]
    if end != "finished" or left:
        resume = f"lycosa crawl --dir {quoted}{_extensions(config)}"
        lines.append(f"to resume: {resume}{_with_seeds(left)}")
    if end == "limit" and (again := _again(config.limits)):
        lines.append(
            f"       or: lycosa crawl --dir {quoted}{_extensions(config)} {again} (limits are not"
            f" saved{_counting(config.limits)})"
        )
    return [
        *lines,
        *lacking_lines(files.lacking),
        *(
            [f"files in {folder}: {' '.join(f'{kind}/' for kind in files.kinds)}"]
            if files.kinds
            else []
        ),
        f"  lycosa status {quoted}",
        f'  lycosa sql {quoted} "SELECT url, title FROM pages WHERE fetch_status = 200 LIMIT 10"',
        f"  lycosa explain {quoted} URL",
    ]


def count_lines(outcome: CrawlOutcome) -> list[str]:
    """How the run ended, and the numbers of URLs and captures."""
    progress, states = outcome.progress, outcome.progress.states
    rate = outcome.captured / max(outcome.duration_s, 0.001)
    what = (
        f"{counted(progress.captures, 'capture')} ({counted(progress.pages, 'page')},"
        f" {human_bytes(progress.body_bytes)})"
    )
    if outcome.captured != progress.captures:
        what = f"{counted(outcome.captured, 'capture')} in this run, {what} in all"
    rest = [
        f"{human_count(number)} {name.replace('_', ' ')}"
        for name, number in states.items()
        if number and name != "fetched"
    ]
    known = (
        f"{counted(progress.discovered, 'URL')} discovered: {human_count(states.get('fetched', 0))}"
        " fetched"
    )
    how = _ENDS[end_of(outcome)]
    return [
        f"{how} after {human_duration(outcome.duration_s)}: {what}, {rate:.1f} a second",
        ", ".join([known, *rest]),
    ]


def nothing_line(progress: Progress, unfetched: Unfetched | None = None) -> str:
    """What the same command would do after a crawl that fetched nothing."""
    reasons = {Reason[name.upper()] for name, number in progress.reasons.items() if number}
    may_pass = bool(progress.states.get("queued")) or (unfetched is not None and unfetched.may_pass)
    if may_pass or any(each.is_failure and each not in LASTING for each in reasons):
        return "no page was fetched; give the same command to try again"
    return "no page was fetched, and the same command would not help while the cause remains"


def _idle_lines(outcome: CrawlOutcome, section: RefetchSection) -> list[str]:
    """Why a run that ended by itself has no capture: nothing was due, and when something is."""
    progress = outcome.progress
    is_idle = end_of(outcome) == "finished" and not outcome.captured and progress.captures > 0
    if not is_idle or urls_left_waiting(outcome):
        return []
    if progress.next_in_s < 0:
        return ["nothing was due in this run, and nothing will be: refetch.rule is off"]
    # By value the first interval follows from the change rate, not from a setting.
    is_by_value = section.rule is RefetchRule.VALUE
    first = "" if is_by_value else f" refetch.first_s = {show_seconds(section.first_s)},"
    return [
        f"nothing was due in this run; the next fetch is due {_due_in(progress.next_in_s)}"
        f" (refetch.rule = {section.rule.value},{first}"
        f" refetch.min_s = {show_seconds(section.min_s)},"
        f" refetch.max_s = {show_seconds(section.max_s)})"
    ]


def _due_in(seconds: float) -> str:
    due = datetime.fromtimestamp(time.time() + seconds).strftime("%Y-%m-%d %H:%M:%S")
    return f"in {human_duration(seconds)} ({due})"


def _unparsed_lines(outcome: CrawlOutcome, quoted: str) -> list[str]:
    """Stored documents that were parsed late or are still unparsed."""
    progress, lines = outcome.progress, []
    if progress.reparsed:
        lines.append(f"{counted(progress.reparsed, 'stored document')} of earlier runs parsed now")
    if progress.unparsed:
        lines.append(
            f"{counted(progress.unparsed, 'document')} stored but not parsed; the next start"
            f" tries again, and so does: lycosa reparse {quoted}"
        )
    return lines


def unread_seed_lines(seeds: Sequence[UnreadSeed], place: str) -> list[str]:
    """Seeds that the parser could not read, and how to read them.

    ``place`` is the folder or ``--cluster FILE``, quoted.
    """
    if not seeds:
        return []
    named = [
        f"  {each.url}: {each.reason}, {Reason[each.reason.upper()].meaning}" for each in seeds
    ]
    return [
        "NOT READ: seeds were stored but not parsed, so the crawl does not know their links:",
        *named,
        f"  to parse them again: lycosa reparse {place} --killed",
    ]


def _extensions(config: Config) -> str:
    """The part of the command to resume that names the code of the crawl again."""
    return "".join(f" --extension {shlex.quote(each)}" for each in config.extensions.code)


def _with_seeds(left: Sequence[SeedSource]) -> str:
    """The part of the command to resume that reads the rest of the seeds."""
    kinds = {source.kind for source in left}
    if SourceKind.INPUT in kinds:
        return " --seeds -   with the same input again (standard input cannot be reopened)"
    if SourceKind.PROGRAM in kinds:
        return "   and run the program again, which has the rest of the seeds"
    return "   which also reads the rest of the seeds" if left else ""


def urls_left_waiting(outcome: CrawlOutcome) -> int:
    """Queued URLs that a finished run left.

    Their host or their retry is due later than ``frontier.finish_wait_s``.
    """
    return outcome.progress.states.get("queued", 0) if end_of(outcome) == "finished" else 0


def _waiting_lines(outcome: CrawlOutcome, quoted: str) -> list[str]:
    """How long the queued URLs of a finished run wait."""
    waiting, next_in_s = urls_left_waiting(outcome), outcome.progress.next_in_s
    if not waiting:
        return []
    if next_in_s < 0:
        return [f"{counted(waiting, 'URL')} queued without a due time: run lycosa audit {quoted}"]
    what = "1 queued URL waits" if waiting == 1 else f"{human_count(waiting)} queued URLs wait"
    return [
        f"{what} for a host or a retry; the first URL or page is due {_due_in(next_in_s)}:"
        f" lycosa crawl --dir {quoted}"
    ]


def _upload_lines(uploads: UploadState, quoted: str) -> list[str]:
    """Files that the store has, and files that are only in the folder."""
    removed = (
        f"; {counted(uploads.removed_files, 'file')} ({human_bytes(uploads.removed_bytes)}) removed"
        " here"
        if uploads.removed_files
        else ""
    )
    lines = [
        f"uploaded: {counted(uploads.files, 'file')} ({human_bytes(uploads.bytes)}) in"
        f" {uploads.url}{removed}"
    ]
    if uploads.waiting_files:
        lines.append(
            f"NOT UPLOADED: {counted(uploads.waiting_files, 'file')}"
            f" ({human_bytes(uploads.waiting_bytes)}), which are kept here:"
            f" {uploads.why or 'the upload was aborted'}"
        )
        lines.append(f"  to upload the rest: lycosa crawl --dir {quoted}")
    if uploads.doubtful_files:
        lines.append(
            f"KEPT HERE: {counted(uploads.doubtful_files, 'file')} of which the store has another"
            " content:"
        )
        lines += [f"  {each}" for each in uploads.doubtful]
    return lines


def _again(limits: LimitSection) -> str:
    """The options with which the next run gets as much again."""
    parts = [
        f"--max-pages {2 * limits.max_pages}" if limits.max_pages else "",
        f"--max-bytes {show_bytes(2 * limits.max_bytes)}" if limits.max_bytes else "",
        f"--max-disk {show_bytes(2 * limits.max_disk_bytes)}" if limits.max_disk_bytes else "",
        f"--max-time {show_seconds(limits.max_time_s)}" if limits.max_time_s else "",
    ]
    return " ".join(filter(None, parts))


def _counting(limits: LimitSection) -> str:
    is_total = limits.max_pages or limits.max_bytes
    return "; --max-pages and --max-bytes count all runs of the crawl" if is_total else ""


def reason_lines(reasons: Mapping[str, int]) -> list[str]:
    """URLs that were not fetched, and apart from them URLs that were fetched with a remark."""
    lines = []
    counted_reasons = [
        (Reason[name.upper()], number)
        for name, number in reasons.items()
        if name != Reason.NONE.label and number
    ]
    for title, is_remark in (("not fetched:", False), ("stored, but notable:", True)):
        found = sorted(
            (item for item in counted_reasons if is_a_remark(item[0]) is is_remark),
            key=lambda item: -item[1],
        )
        if found:
            lines += [
                title,
                *(
                    f"  {number:>7}  {reason.label}: {reason.meaning}"
                    for reason, number in found[:_MAX]
                ),
            ]
        if len(found) > _MAX:
            lines.append(
                f"           and {counted(len(found) - _MAX, 'more reason')}; see lycosa status"
            )
    return lines


def _parser_lines(parser: ParserHealth) -> list[str]:
    """Failures of parse children. A page loses links by them only when a remark above says so."""
    lines = []
    if parser.away_total_s >= 1.0:
        lines.append(
            f"no parse child could be started for {human_duration(parser.away_total_s)}; pages"
            " waited"
        )
    if parser.deaths:
        ends = "once" if parser.deaths == 1 else f"{human_count(parser.deaths)} times"
        lines.append(
            f"a parse child ended at a document {ends}; {counted(parser.tried_again, 'document')}"
            " retried once"
        )
    return lines


def is_a_remark(reason: Reason) -> bool:
    """Whether a URL with this reason was fetched."""
    return reason >= Reason.NOT_MODIFIED
