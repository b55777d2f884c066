"""The push of index lines to OutbackCDX during a run over a crawl folder, in a separate thread.

A segment is pushed when its index is there. Its name is noted then, in a file for each collection,
so a segment is pushed again only if the machine stops between the two. A server that is away does
not stop the crawl: the thread tries again with growing pauses, the end of the run once more, and
the next run pushes the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path

import msgspec

from lycosa.base.config.feature_sections import EarlierSection
from lycosa.feeds.export_port import TargetAway
from lycosa.feeds.exporters.http_sender import AddressRefused, HttpSender
from lycosa.stages.fetch.guard import Guard
from lycosa.state.store import layout
from lycosa.state.store.cdxj import CdxjEntry
from lycosa.state.store.derived_files import CDXJ
from lycosa.state.store.earlier_bodies import FOLDER

_LOOK_S = 2.0
_FIRST_S, _MOST_S = 1.0, 300.0
_TIMEOUT_S = 60.0


class IndexSender:
    """One per run. ``tell`` gets lines for the operator, called from the thread."""

    def __init__(self, folder: Path, section: EarlierSection, tell: Callable[[str], None]) -> None:
        self._folder, self._url, self._tell = folder, section.push.rstrip("/"), tell
        guard = Guard(section.allow_addresses)
        self._sender = HttpSender(_TIMEOUT_S, guard.refusal, is_direct=True, max_answer=10_000)
        name = sha256(self._url.encode()).hexdigest()[:16]
        self._noted = folder / FOLDER / f"pushed-{name}"
        self._wake, self._is_ending = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="index push", daemon=True)
        self.why = ""
        """Why the last try failed."""

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """Push the rest, if the server answers at once. Blocks."""
        self._is_ending = True
        self._wake.set()
        self._thread.join()
        self._sender.close()

    def _run(self) -> None:
        wait = _FIRST_S
        while True:
            is_last = self._is_ending
            try:
                self.push_all()
            except (TargetAway, OSError, ValueError) as error:
                if str(error) != self.why:
                    self._tell(f"index lines are not pushed: {error}; it is tried again")
                self.why, wait = str(error), min(2 * wait, _MOST_S)
            else:
                self.why, wait = "", _FIRST_S
            if is_last:
                return
            self._wake.wait(wait if self.why else _LOOK_S)

    def push_all(self) -> int:
        """Push the closed segments that are not noted; return their number.

        Raises ``TargetAway``, ``ValueError`` for an index that is damaged, and ``OSError``.
        """
        known, pushed = self._known(), 0
        for name in sorted(layout.segment_names(self._folder, CDXJ) - known):
            path = self._folder / layout.file_name(CDXJ, name)
            with layout.open_segment_file(path) as lines:
                push_lines(self._sender, self._url, lines)
            self._noted.parent.mkdir(exist_ok=True)
            with self._noted.open("a") as file:
                file.write(f"{name}\n")
            pushed += 1
        return pushed

    def _known(self) -> set[str]:
        with suppress(FileNotFoundError):
            return set(self._noted.read_text("utf-8").splitlines())
        return set()


_LINES = 5000  # of a request: the server holds all of one in memory
_decode = msgspec.json.Decoder(CdxjEntry).decode


def cdx_line(line: bytes) -> bytes:
    """A line of CDXJ as one of CDX: ``N b a m s k r M S V g``, of which M (robots) is unknown.

    The file is named without its folder, as tools that serve WARC files expect it. Raises
    ``ValueError`` for a line that is not CDXJ.
    """
    key, time, data = line.split(b" ", 2)
    try:
        found = _decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a line of CDXJ: {error}") from error
    fields = (
        found.url,
        found.mime.replace(" ", "") or "unk",
        found.status or "-",
        found.digest or "-",
        found.redirect.replace(" ", "%20") or "-",
        "-",
        found.length or "-",
        found.offset,
        found.filename.rpartition("/")[2],
    )
    return b" ".join((key, time, *(each.encode() for each in fields))) + b"\n"


def push_lines(sender: HttpSender, collection: str, lines: Iterable[bytes]) -> int:
    """Give lines of CDXJ to a collection; return their number.

    Raises ``TargetAway`` when the server does not answer or refuses them.
    """
    pushed, rest = 0, (cdx_line(line) for line in lines)
    for part in _parts(rest):
        body = b" CDX N b a m s k r M S V g\n" + b"".join(part)
        try:
            answer = sender.send("POST", collection, body, {"Content-Type": "text/plain"})
        except AddressRefused as error:
            raise TargetAway(f"{error}; see earlier.allow_addresses") from error
        if answer.status != 200:
            said = answer.body[:200].decode("utf-8", "replace").strip()
            raise TargetAway(f"{collection} answered {answer.status}: {said}")
        pushed += len(part)
    return pushed


def _parts(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    return iter(lambda: list(islice(lines, _LINES)), [])
