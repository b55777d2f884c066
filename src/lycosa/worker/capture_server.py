"""OutbackCDX as a source of earlier captures: asked for each page, by its URL, over HTTP.

    GET COLLECTION?url=URL&sort=reverse&limit=100  ->  lines of CDX with 11 fields

A capture counts if status, digest and media type are those of the answer, and if the length of its
record is what this body takes when it is compressed. The server is another program, which others
write to, so it is trusted less than an index of files:

* a question has a time limit, and the connection must be to an address that the guard allows;
* after three questions in a row without an answer it is not asked for ten minutes;
* after three captures whose record in the archive was another one, it is not asked any more in this
  run. An archive that is not within reach is no failure: the bodies that would be compared are
  stored.

In all these cases the body is stored in full.
"""

from __future__ import annotations

import threading
import time
import zlib
from base64 import b32encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from lycosa.base.config.feature_sections import EarlierSection
from lycosa.base.model.fetched import Fetched
from lycosa.feeds.export_port import TargetAway
from lycosa.feeds.exporters.http_sender import AddressRefused, HttpSender
from lycosa.stages.fetch.guard import Guard
from lycosa.state.store.earlier_index import EarlierCapture

_MOST = 100  # captures of a URL, the newest first
_FAILURES = 3
_REST_S = 600.0
_ANSWER = 1_000_000
_LARGEST = 50_000_000  # bytes of a body; the length of a larger one is not computed
# Other programs compress at other levels, and other headers are in the record.
_SLACK, _SLACK_SHARE = 4096, 0.15


class OutbackServer:
    """One collection; a ``CaptureServer``. Its calls block, and may come from several threads."""

    def __init__(self, section: EarlierSection, now: Callable[[], float] = time.monotonic) -> None:
        self._url, self._now = section.outbackcdx.rstrip("/"), now
        guard = Guard(section.allow_addresses)
        self._sender = HttpSender(
            section.timeout_s, guard.refusal, is_direct=True, max_answer=_ANSWER
        )
        self._lock = threading.Lock()  # the sender has one connection
        self._silent = self._wrong = 0
        self._asks_from = 0.0
        self.counts = {"found": 0, "unlike": 0, "none": 0, "silent": 0, "unasked": 0}
        """Questions by their result: captures with this digest that are of another type or size
        are ``unlike``."""
        self.why = ""
        """Why it was not asked, or did not answer, the last time."""

    def find(self, fetched: Fetched, digest: bytes) -> EarlierCapture | None:
        """See ``CaptureServer``."""
        if self._wrong >= _FAILURES or self._now() < self._asks_from:
            self.counts["unasked"] += 1
            return None
        url = f"{self._url}?url={quote(fetched.url, safe='')}&sort=reverse&limit={_MOST}"
        try:
            with self._lock:
                answer = self._sender.send("GET", url)
            if answer.status != 200:
                raise TargetAway(f"it answered {answer.status}")
        except (TargetAway, AddressRefused) as error:
            self._note_silence(str(error))
            self.counts["silent"] += 1
            return None
        self._silent = 0
        name = b32encode(digest).decode()
        same = [
            line
            for line in answer.body.decode("utf-8", "replace").splitlines()
            if line.split(" ")[4:6] == ["200", name]
        ]
        if not same:
            self.counts["none"] += 1
            return None
        found = next((each for line in same if (each := _capture(line, fetched, digest))), None)
        self.counts["found" if found else "unlike"] += 1
        return found

    def note(self, is_right: bool) -> None:
        """See ``CaptureServer``."""
        if not is_right:
            self._wrong += 1
            if self._wrong >= _FAILURES:
                self.why = f"{_FAILURES} of its captures were not what it said"

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()

    def _note_silence(self, why: str) -> None:
        self.why = why
        self._silent += 1
        if self._silent >= _FAILURES:
            self._silent, self._asks_from = 0, self._now() + _REST_S


def _capture(line: str, fetched: Fetched, digest: bytes) -> EarlierCapture | None:
    """The capture of a line, if it can be that of this body and can be referred to."""
    fields = line.split(" ")
    if len(fields) < 11 or not (fields[8].isdigit() and fields[9].isdigit()):
        return None
    _, date, url, mime = fields[:4]
    length, offset, file = int(fields[8]), int(fields[9]), fields[10]
    is_usable = len(date) == 14 and file.endswith(".warc.gz") and offset > 0
    if not is_usable or mime != _media_type(fetched) or not _fits(length, fetched):
        return None
    return EarlierCapture(digest, url, date, file, offset, mime)


def _media_type(fetched: Fetched) -> str:
    return fetched.header("content-type").partition(";")[0].strip().lower() or "unk"


def _fits(length: int, fetched: Fetched) -> bool:
    """Whether a record of so many compressed bytes can have this body."""
    if fetched.body_bytes > _LARGEST:
        return False
    body = Path(fetched.spool).read_bytes() if fetched.spool else fetched.body
    own = len(zlib.compress(fetched.header_block + body, 6))
    return abs(length - own) <= _SLACK + own * _SLACK_SHARE
