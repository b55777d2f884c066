"""The webhooks of a crawl: each follows the feed of changes by itself, at its own position.

A thread for each, so one that does not answer holds no other up. It waits, growing, with nothing in
memory: what it lacks is in the crawl. The folder ``webhooks`` has a file for each, with position,
failures and the time of the next try, which ``lycosa status`` and the crawl read.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from lycosa.base.config.sections import WebhookSection
from lycosa.base.model.progress_parts import WebhookState
from lycosa.feeds.export_port import TargetError
from lycosa.feeds.export_run import ExportFeed, ExportReport, ExportRun
from lycosa.feeds.exporters.webhook_target import WebhookTarget, read_state, save_state
from lycosa.feeds.feed_position import BadPosition

_LOOK_S = 0.5


def webhook_folder(folder: Path) -> Path:
    """The folder with the states of the webhooks of a crawl folder."""
    return folder / "webhooks"


def webhook_names(urls: Sequence[str]) -> list[str]:
    """A name for each URL: its host, with a number if several have it. A path may be secret."""
    hosts = [urlsplit(url).netloc for url in urls]
    several = {host for host, count in Counter(hosts).items() if count > 1}
    counts: Counter[str] = Counter()
    names = []
    for host in hosts:
        counts[host] += 1
        names.append(f"{host} ({counts[host]})" if host in several else host)
    return names


def state_path(folder: Path, url: str) -> Path:
    """The file with the state of a webhook."""
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.json"


def webhook_states(folder: Path, section: WebhookSection) -> list[WebhookState]:
    """The states of the webhooks of the settings, in their order. Raises ``TargetError``."""
    return [
        read_state(state_path(folder, url)) or WebhookState(name)
        for url, name in zip(section.urls, webhook_names(section.urls), strict=True)
    ]


def move_webhook(folder: Path, section: WebhookSection, name: str, position: str) -> None:
    """Let a webhook continue behind another position; an empty one is before all that is kept.

    Raises ``TargetError`` for a name that no URL of the settings has, or while changes are sent.
    """
    names = webhook_names(section.urls)
    if name not in names:
        raise TargetError(f"there is no webhook {name or 'without a name'}: {', '.join(names)}")
    path = state_path(folder, section.urls[names.index(name)])
    with _locked(folder):
        told = read_state(path) or WebhookState(name)
        save_state(path, WebhookState(name, position, told.delivered, told.delivered_at))


def refuse_unusable(section: WebhookSection) -> None:
    """Raise ``TargetError`` for settings with which nothing could be sent."""
    _targets(Path(), section, "")


def _targets(folder: Path, section: WebhookSection, crawl: str) -> list[WebhookTarget]:
    return [
        WebhookTarget(url, name, state_path(folder, url), section, crawl)
        for url, name in zip(section.urls, webhook_names(section.urls), strict=True)
    ]


class Webhooks:
    """All webhooks of a crawl. ``folder`` gets their states; ``tell`` gets lines for the operator.

    ``open_feed`` gives the changes after a position. Raises ``TargetError``.
    """

    def __init__(
        self,
        folder: Path,
        section: WebhookSection,
        crawl: str,
        open_feed: Callable[[str], ExportFeed],
        tell: Callable[[str], None],
    ) -> None:
        self._folder, self._section, self._open_feed, self._tell = folder, section, open_feed, tell
        self._targets = _targets(folder, section, crawl)
        self._ends = threading.Event()
        self._errors: list[Exception] = []

    def run(self, is_once: bool, has_ended: Callable[[], bool] = lambda: False) -> None:
        """Deliver until ``has_ended``, or what there is now.

        A webhook that does not answer then keeps its position for the next run. Raises the first
        error that ended one of them for good.
        """
        with _locked(self._folder):
            threads = [
                threading.Thread(target=self._run, args=(each, is_once), name=each.name)
                for each in self._targets
            ]
            for each in threads:
                each.start()
            try:
                while any(each.is_alive() for each in threads) and not has_ended():
                    self._ends.wait(_LOOK_S)
            finally:
                self._ends.set()
                for each in threads:
                    each.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, target: WebhookTarget, is_once: bool) -> None:
        shown = ""

        def tell(report: ExportReport) -> None:
            nonlocal shown
            if report.waits_for and not shown:
                self._tell(f"{report.waits_for}; trying again after growing pauses")
            elif shown and not report.waits_for:
                self._tell(f"{target.name} answers again")
            shown = report.waits_for

        def wait(seconds: float) -> bool:
            due = _until_next_try(target) if shown else seconds
            return (is_once and bool(shown)) or self._ends.wait(due)

        try:
            target.open()  # the state says when it may be tried, also after a restart
            target.close()
            if is_once or not self._ends.wait(_until_next_try(target)):
                ExportRun(self._open_feed, lambda _: target, tell, wait).follow(is_once)
        except BadPosition as error:
            # What it lacks is gone, or was never in this crawl. Only a person can tell what it
            # should get instead.
            what = str(error).partition(": ")[0]
            why = f"{what}; continue with: lycosa webhooks --name '{target.state.name}' --since 0"
            self._ends_for_good(target, TargetError(why))
        except Exception as error:
            self._ends_for_good(target, error)

    def _ends_for_good(self, target: WebhookTarget, error: Exception) -> None:
        target.note_failure(str(error))
        self._errors.append(error)
        self._tell(f"{target.name} is told nothing any more: {error}")


def _until_next_try(target: WebhookTarget) -> float:
    return max(target.state.next_try - time.time(), 0.0)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time delivers, or changes would arrive twice and out of order."""
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TargetError(
                f"the webhooks in {folder} are being delivered by another process: the crawl while"
                " it runs, or another `lycosa webhooks`"
            ) from None
        yield
    finally:
        os.close(fd)
