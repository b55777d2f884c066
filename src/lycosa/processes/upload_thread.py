"""The upload of closed segments during a crawl, in a separate thread.

An unavailable store does not stop the crawl. Its files stay here, and the thread retries with
back-off of up to a minute and reports each reason once. At the end of a run it continues until
everything is uploaded, or until ``upload.finish_wait_s`` have passed without a success. A
message says what is left, and the next run uploads it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from lycosa.base.config.sections import UploadSection
from lycosa.base.config.units import show_seconds
from lycosa.base.model.progress_parts import UploadState
from lycosa.processes.session import Session
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.upload import Upload, owner_of, refuse_others, refuse_own_folder, reserve
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.store_opening import CreateOnlyIgnored, open_store

_LOOK_S = 2.0  # between two checks of the folder
_FIRST_S, _MOST_S = 1.0, 60.0  # back-off
_SHOW_S = 0.2


def check_place(folder: Path, section: UploadSection) -> None:
    """Ask the store, before a crawl begins or resumes, whether it accepts its segments. Blocks.

    Raises the ``ObjectError`` that stops the start. A store that is only unavailable does not.
    """
    refuse_own_folder(section.url, folder)
    crawl = manifests.load_manifest(folder).crawl if manifests.has_manifest(folder) else ""
    try:
        owner = owner_of(open_store(section.url, section.options), section.url)
        refuse_others(owner, crawl, section.url)
    except ObjectError as error:
        # a store that is only unavailable now gets its segments later
        if not error.is_passing:
            raise


def begin_uploads(session: Session, tell: Callable[[str], None]) -> Uploads | None:
    """The upload during a run, if the settings ask for one. Blocks. Raises ``ObjectError``."""
    section = session.config.upload
    if not section.url:
        return None
    uploads = Uploads(session.folder, section, session.manifest.crawl, tell)
    uploads.begin()
    return uploads


class Uploads:
    """The upload of one run over a crawl folder.

    ``tell`` gets lines for the operator, called from the thread.
    """

    def __init__(
        self,
        folder: Path,
        section: UploadSection,
        crawl: str,
        tell: Callable[[str], None],
        store: ObjectStore | None = None,
    ) -> None:
        self._folder, self._section, self._crawl, self._tell = folder, section, crawl, tell
        self._store = store or open_store(section.url, section.options)
        self._upload = Upload(folder, section, self._store)
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
        self._wake = threading.Event()
        self._is_ending = self._is_stopped = self._is_reserved = False
        self._state = UploadState(section.url)
        self._failing_since = 0.0
        self._tries = self._doubtful = 0
        self._advanced = time.monotonic()
        self._random = Random()

    def begin(self) -> None:
        """Reserve the place and start the thread. Blocks.

        Raises the ``ObjectError`` that stops the start.
        """
        try:
            self._reserve()
        except ObjectError as error:
            # the thread tries it again; only a store that refuses us stops the start
            if not error.is_passing:
                raise
            self._failed(error)
        self._thread.start()

    @property
    def state(self) -> UploadState:
        """The current state."""
        since = self._failing_since
        failing = round(time.monotonic() - since, 1) if since else 0.0
        return msgspec.structs.replace(self._state, failing_s=failing, is_ending=self._is_ending)

    def stop(self) -> None:
        """End at once; the next run uploads the rest."""
        self._is_stopped = True
        self._wake.set()

    async def finish(self, show: Callable[[], None]) -> UploadState:
        """Upload the rest, when no process writes to the folder any more.

        ``show`` is called often.
        """
        self._advanced = time.monotonic()
        self._is_ending = True
        self._wake.set()
        while self._thread.is_alive() and not self._is_stopped:
            show()
            await asyncio.sleep(_SHOW_S)
        return self.state

    # -- on the thread

    def _run(self) -> None:
        while not self._is_stopped:
            self._wake.clear()
            is_ending = self._is_ending
            try:
                self._reserve()
                self._pass(is_ending)
            except Exception as error:  # no error of an upload may stop the crawl
                if is_ending and self._is_hopeless():
                    self._failed(error)
                    return
                self._wake.wait(self._failed(error))
            else:
                if is_ending:
                    return
                # a segment is closed every few minutes, so looking is cheaper than being told
                self._wake.wait(_LOOK_S)

    def _is_hopeless(self) -> bool:
        return time.monotonic() - self._advanced > self._section.finish_wait_s

    def _reserve(self) -> None:
        if self._is_reserved:
            return
        try:
            reserve(self._store, self._section.url, self._folder, self._crawl)
        except CreateOnlyIgnored as error:
            self._tell(f"{error}. Two crawls that are given this URL could mix their files")
        self._is_reserved = True

    def _pass(self, is_final: bool) -> None:
        """Upload and remove everything that can be now."""
        waiting = self._upload.waiting(is_final)
        # ``why`` stays: a store that lists its objects may still not accept one.
        self._state = msgspec.structs.replace(self._upload.state(waiting), why=self._state.why)
        for number, file in enumerate(waiting, 1):
            if self._is_stopped:
                return
            self._upload.put(file)
            self._tell_doubtful()
            self._succeeded(self._upload.state(waiting[number:]))
        for segment in self._upload.removable(is_final):
            if self._is_stopped:
                return
            self._upload.remove(segment)
            self._tell_doubtful()
            self._advanced = time.monotonic()
        self._succeeded(self._upload.state(self._upload.not_held(is_final)))

    def _tell_doubtful(self) -> None:
        """Report each doubtful file once."""
        for text in list(self._upload.doubtful.values())[self._doubtful :]:
            self._tell(text)
        self._doubtful = len(self._upload.doubtful)

    def _succeeded(self, state: UploadState) -> None:
        if state.waiting_files < self._state.waiting_files:
            self._advanced = time.monotonic()
        if self._failing_since:
            away = time.monotonic() - self._failing_since
            self._tell(f"{self._section.url}: uploads again, after {show_seconds(round(away))}")
        self._failing_since, self._tries, self._state = 0.0, 0, state

    def _failed(self, error: Exception) -> float:
        """Report a failure; return the seconds to wait."""
        why = str(error) if isinstance(error, ObjectError | OSError) else repr(error)
        if not self._failing_since:
            self._failing_since = time.monotonic()
        if why != self._state.why:
            self._tell(
                f"not uploaded: {why}. The crawl continues; its files stay here until the upload"
                " works"
            )
        self._upload.forget()
        left = self._upload.state(self._upload.not_held(self._is_ending))
        self._state = msgspec.structs.replace(left, why=why)
        self._tries += 1
        pause: float = min(_FIRST_S * 2 ** (self._tries - 1), _MOST_S)
        return pause * self._random.uniform(0.5, 1.0)
