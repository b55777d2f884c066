"""A check of links from its start to its report: crawl the site, ask about the rest, judge.

    site -> crawl of its pages -> survey of links -> what has no answer -> crawl of single URLs

The pages of the site are an ordinary crawl. Everything else that they link to is asked for once, in
a second crawl that follows no link, whose bodies are cut after 64 KB; where a place in a page of
another site is named, in a third one, with 2 MB. So all requests obey robots.txt and the delays of
hosts, and no rule of the frontier knows of link checks. What is known of other sites is used again
for a day, and what waits for its host continues.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.base.config.feature_sections import WebhookSection
from lycosa.base.config.sections import (
    Config,
    EarlierSection,
    ExtensionSection,
    LimitSection,
    RenderSection,
    ScopeRule,
    UploadSection,
)
from lycosa.base.model.end import End
from lycosa.base.urls.identity import Canonicalizer, host_of
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.linked.link_findings import (
    REPORT_FORMAT,
    LinkCounts,
    LinkReport,
    Severity,
)
from lycosa.inspect.linked.link_judgement import MAX_REDIRECTS, LinkJudge
from lycosa.inspect.linked.link_survey import LinkSurvey
from lycosa.inspect.linked.report_texts import exact_count
from lycosa.processes.embedded_crawl import Report
from lycosa.processes.link_checks.checked_pages import (
    Answers,
    OwnPlaces,
    PageReader,
    named_sitemaps,
    url_answers,
)
from lycosa.state.folder.manifest import has_manifest

CUT_BYTES = 65_536
"""Of the body of a URL that is only asked for."""
PLACE_BYTES = 2_000_000
"""The same where a place in it is looked for."""
MOST_OF_HOST = 500
"""URLs of a host of another site that are asked for, in the life of a folder of single URLs."""
_ROUNDS = 3  # a redirect of the site may lead to a URL that was not asked for
_OWN, _OTHERS, _PLACES = _FOLDERS = "own", "others", "places"


class SiteCheckOptions(msgspec.Struct, frozen=True):
    """What is checked, and how findings count. ``reuse_s``: how long answers are used again."""

    checks_others: bool = True
    checks_places: bool = True
    ignored: Sequence[str] = ()
    allowed: Sequence[int] = ()
    severities: Mapping[str, Severity] = {}
    reuse_s: float = 86_400.0
    may_fetch: bool = True


class RunCrawl(Protocol):
    """Runs one of the crawls, with its progress; ``None`` when the check was stopped before."""

    def __call__(
        self, seeds: Sequence[str], folder: Path, config: Config, what: str
    ) -> Report | None: ...


class SiteCheck:
    """One check. ``pages`` is the crawl of the site, ``root`` the folder for everything else.

    ``config`` has the settings of the site, ``others`` those for other sites, which have another
    delay. ``show`` gets how many pages were read.
    """

    def __init__(
        self,
        pages: Path,
        root: Path,
        config: Config,
        others: Config,
        options: SiteCheckOptions,
        run_crawl: RunCrawl,
        show: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._pages, self._root, self._options = pages, root, options
        self._config, self._others = config, others
        self._run, self._reader = run_crawl, PageReader(config, show)
        self._answers: Answers = {}
        self._anchors: dict[str, frozenset[str]] = {}
        self._unwanted: dict[str, str] = {}
        self._asked: Counter[str] = Counter()  # URLs of single requests, by host
        self._stopped = ""

    def report(self, seeds: Sequence[str], program: str, began: float, stopped: str) -> LinkReport:
        """Ask about what has no answer, and judge all links. Blocks.

        ``stopped`` says why the crawl of the site ended early. Raises what ``lycosa.Crawl`` and
        the readers of folders raise.
        """
        self._stopped = stopped
        reader = read_folder(self._pages)
        self._own = OwnPlaces(reader)
        survey = LinkSurvey(self._options.ignored)
        self._answers = url_answers(self._pages)
        self._reader.survey_pages(self._pages, survey, self._answers, self._own)
        for file, place in named_sitemaps(reader, Canonicalizer(self._config.canonical)):
            if file in self._own:
                survey.add_place(file, place)
        if not self._options.checks_others:
            survey.links = [link for link in survey.links if link.url in self._own]
        if not self._options.checks_places:
            survey.links = [link._replace(fragment="") for link in survey.links]
        self._ask(survey)
        judge = self._judge()
        findings = judge.findings(survey, self._anchors)
        targets = set(survey.targets())
        counts = LinkCounts(
            survey.pages,
            len(survey.links),
            len(targets),
            len({host_of(url) for url in targets}),
            dict(survey.skipped.most_common()),
        )
        return LinkReport(
            REPORT_FORMAT,
            program,
            list(seeds),
            _time_text(began),
            _time_text(time.time()),
            counts,
            findings,
            self._stopped,
        )

    def _judge(self) -> LinkJudge:
        return LinkJudge(
            self._answers,
            self._own.__contains__,
            self._options.allowed,
            self._options.severities,
            self._unwanted,
        )

    def _ask(self, survey: LinkSurvey) -> None:
        """Request what has no answer, in rounds, because an answer may be a redirect."""
        places = {link.url for link in survey.links if link.fragment}
        for name in _FOLDERS:
            self._begin(name)
        for _ in range(_ROUNDS):
            missing = self._missing(survey.targets())
            if not missing or self._stopped or not self._options.may_fetch:
                break
            wanted: dict[str, set[str]] = {name: set() for name in _FOLDERS}
            for url, end in missing.items():
                is_other = end not in self._own
                name = (_PLACES if url in places else _OTHERS) if is_other else _OWN
                wanted[name].add(end)
            for name, urls in wanted.items():
                if urls and not self._stopped:
                    self._crawl(name, urls)
        judge = self._judge()
        ends = {judge.verdict(url).end or url for url in places} - set(survey.anchors)
        for name in _FOLDERS:
            if ends and has_manifest(folder := self._root / name):
                self._anchors |= self._reader.foreign_anchors(folder, self._answers, ends)

    def _begin(self, name: str) -> None:
        """Take the answers of a folder of single URLs; delete it when they are too old."""
        folder = self._root / name
        if not has_manifest(folder):
            return
        # What the owner of the site has corrected is seen at once; other sites are spared.
        is_old = name == _OWN or time.time() - _created(folder) > self._options.reuse_s
        if is_old and self._options.may_fetch:
            shutil.rmtree(folder)
        elif self._options.may_fetch and self._waits(folder):
            self._crawl(name, ())  # what waited for its host
        else:
            self._take_answers(folder)
        if has_manifest(folder):
            self._asked.update(host_of(url) for url in url_answers(folder))

    def _waits(self, folder: Path) -> bool:
        states = {answer.state.label for answer in url_answers(folder).values()}
        return "queued" in states

    def _missing(self, targets: Iterable[str]) -> dict[str, str]:
        """By target without an answer the URL to ask for: itself, or where its redirects lead."""
        judge, missing = self._judge(), {}
        for url in targets:
            verdict = judge.verdict(url)
            end = verdict.end or url
            if verdict.rule == "not-checked" and end not in self._answers:
                if end in self._unwanted:
                    continue
                if why := self._why_not(end):
                    self._unwanted[end] = why
                else:
                    missing[url] = end
        return missing

    def _why_not(self, url: str) -> str:
        """Why a URL is not asked for. Asking for one of another site counts against its host."""
        if url in self._own:
            return ""
        if not self._options.checks_others:
            return "a link to another site"
        host = host_of(url)
        if self._asked[host] >= MOST_OF_HOST:
            return f"at most {MOST_OF_HOST} URLs of another host are asked for"
        self._asked[host] += 1
        return ""

    def _crawl(self, name: str, urls: Iterable[str]) -> None:
        """Ask for single URLs, politely."""
        folder = self._root / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        base = self._config if name == _OWN else self._others
        config = _single_urls(base, CUT_BYTES if name == _OTHERS else PLACE_BYTES)
        seeds = sorted(urls)
        what = (
            f"asking for {exact_count(len(seeds), 'URL')}"
            if seeds
            else "asking again for URLs that waited"
        )
        report = self._run(seeds, folder, config, what)
        if has_manifest(folder):
            self._take_answers(folder)
        if report is None or report.end is not End.FINISHED:
            is_limit = report is not None and report.end is End.LIMIT
            limit = reached_limit(self._config.limits)
            self._stopped = limit if is_limit else "it was interrupted"
            return
        self._unwanted |= dict(report.refused_seeds)
        for url in seeds:
            if url not in self._answers:
                self._unwanted.setdefault(url, "refused by a rule of the crawl")

    def _take_answers(self, folder: Path) -> None:
        for url, answer in url_answers(folder).items():
            self._answers.setdefault(url, answer)
            if self._answers[url].state.label == "queued":
                self._answers[url] = answer


def reached_limit(limits: LimitSection) -> str:
    """Why a check ended that had these limits: which of several it was is not known."""
    given = [
        f"limits.{name} = {value}"
        for name, value in msgspec.structs.asdict(limits).items()
        if value and name != "continuous"
    ]
    return f"a limit was reached ({' or '.join(given)})"


def _single_urls(config: Config, body_bytes: int) -> Config:
    """The settings of a crawl that follows no link; redirects of a seed are followed."""
    replace = msgspec.structs.replace
    return replace(
        config,
        limits=replace(config.limits, max_pages=0, max_bytes=0, continuous=False),
        extensions=ExtensionSection(),
        render=RenderSection(),
        upload=UploadSection(),
        webhooks=WebhookSection(),
        earlier=EarlierSection(),
        scope=replace(
            config.scope,
            rule=ScopeRule.PAGE,
            requisites=False,
            one_hop_out=False,
            include=(),
            surts=(),
            per_seed=(),
            max_hops=max(config.scope.max_hops, MAX_REDIRECTS),
        ),
        fetch=replace(
            config.fetch,
            body_bytes=min(body_bytes, config.fetch.body_bytes),
            media_bytes=min(CUT_BYTES, body_bytes),
        ),
        sitemaps=replace(config.sitemaps, follow=False, guess=False),
    )


def _created(folder: Path) -> float:
    from datetime import datetime

    from lycosa.state.folder.manifest import load_manifest

    return datetime.fromisoformat(load_manifest(folder).created).timestamp()


def _time_text(wall: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))
