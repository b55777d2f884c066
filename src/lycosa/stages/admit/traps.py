"""Endless URL spaces, recognised by the URL alone.

Each rule prefers to let a trap pass over losing a page; budgets bound what passes. For an ordinary
URL only some characters are counted and four digits are searched for. The exact test of a rule runs
only when its count makes a match possible.
"""

from __future__ import annotations

import re

from lycosa.base.config.sections import TrapSection
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import find_session, may_have_session, target_of
from lycosa.stages.admit.refusal import Refusal

_YEAR_S = 31_556_952
_YEAR = re.compile(r"[0-9]{4}").search
_CALENDAR_WORD = re.compile(
    r"(?<![a-z])(?:calend(?:ar|ario|rier)|kalend(?:er|ar)|cal|ical|minical)(?![a-z])", re.IGNORECASE
).search
# /2044/01, /2044/01/05 (whole segments, at the end of the path) or one segment 2044-01 or
# 2044-01-05.
_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12][0-9]|3[01])"
_PATH_DATE = re.compile(rf"/([0-9]{{4}})(?:/{_MONTH}(?:/{_DAY})?/?$|-{_MONTH}(?:-{_DAY})?(?:/|$))")
_VALUE_DATE = re.compile(rf"([0-9]{{4}})(?:-{_MONTH}(?:-{_DAY})?|{_MONTH}(?:{_DAY})?)(?:T.*)?")
_DATE_NAME = re.compile(
    r"date|month|week|calend|(?:^|[^a-z])(?:day|cal|start|end|from|to|since|until|dt|when|m|d)(?:$|[^a-z])",
    re.IGNORECASE,
)
_YEAR_NAME = re.compile(r"(?:.*[^a-z])?(?:year|yr|jahr|annee|ano|anno)(?:[^a-z].*)?", re.IGNORECASE)
_PART_NAME = re.compile(
    r"(?:.*[^a-z])?(?:month|mon|mo|day|week|monat|tag|woche|mois|jour|mes|dia|mese)(?:[^a-z].*)?",
    re.IGNORECASE,
)


def year_of(wall: float) -> int:
    """The year of a wall time, in years of the Gregorian mean length."""
    return 1970 + int(wall // _YEAR_S)


class Traps:
    """Judges URLs by the settings, relative to ``year``.

    ``year`` is fixed for the crawl, so that the same URL always gets the same result.
    """

    def __init__(self, section: TrapSection, year: int) -> None:
        self._section = section
        self._first_year, self._last_year = (
            year - section.calendar_years,
            year + section.calendar_years,
        )
        near = [f"{near:04}" for near in range(max(self._first_year, 0), self._last_year + 1)]
        # Four digits that are not a near year. With very many near years the plain search is as
        # fast.
        self._far_digits = (
            re.compile(rf"[0-9]{{4}}(?<!{'|'.join(near)})").search if len(near) <= 100 else _YEAR
        )

    def judge_url(self, url: str) -> Refusal | None:
        """Why a canonical URL looks like a trap, or ``None``."""
        section = self._section
        if len(url) > section.max_url_length:
            return Refusal(
                Reason.URL_TOO_LONG,
                "traps.max_url_length",
                f"{len(url)} of {section.max_url_length}",
            )
        slashes = url.count("/")
        # Two slashes belong to the scheme. A segment that repeats too often needs as many slashes.
        if slashes > section.max_repeats + 2 or slashes > section.max_path_depth + 2:
            refusal = self._judge_path(url)
            if refusal is not None:
                return refusal
        if ("?" in url or ";" in url or "(" in url) and (
            refusal := self._judge_parameters(url)
        ) is not None:
            return refusal
        return self._judge_calendar(url) if self._far_digits(url) else None

    def _judge_path(self, url: str) -> Refusal | None:
        segments = (url if "?" not in url else url[: url.index("?")]).split("/")
        del segments[:3]  # scheme, nothing, host
        if not segments[-1]:
            segments.pop()
        section = self._section
        if len(segments) > section.max_path_depth:
            return Refusal(
                Reason.PATH_TOO_DEEP,
                "traps.max_path_depth",
                f"{len(segments)} of {section.max_path_depth}",
            )
        if len(set(segments)) < len(segments) and (run := _repeated(segments, section.max_repeats)):
            return Refusal(Reason.REPEATING_SEGMENTS, "traps.max_repeats", run)
        return None

    def _judge_parameters(self, url: str) -> Refusal | None:
        section = self._section
        if url.count("&") >= section.max_parameters:
            query = target_of(url).partition("?")[2]
            count = query.count("&") + 1 if query else 0
            if count > section.max_parameters:
                return Refusal(
                    Reason.TOO_MANY_PARAMETERS,
                    "traps.max_parameters",
                    f"{count} of {section.max_parameters}",
                )
        if (
            section.refuse_session_ids
            and may_have_session(url)
            and (session := find_session(target_of(url)))
        ):
            return Refusal(Reason.SESSION_ID, "traps.refuse_session_ids", session[:100])
        return None

    def _judge_calendar(self, url: str) -> Refusal | None:
        """Refuse a date too far in the future, or too far in the past in a calendar.

        A word in the URL must show that it is a calendar and not an archive.
        """
        target = target_of(url)
        path, _, query = target.partition("?")
        dates = [found[0] for found in _PATH_DATE.finditer(path)] + _query_dates(query)
        for date in dates:
            year = int(_digits(date))
            if year > self._last_year or (year < self._first_year and _CALENDAR_WORD(target)):
                return Refusal(
                    Reason.FAR_CALENDAR,
                    "traps.calendar_years",
                    f"{date.strip('/')} is not in {self._first_year} to {self._last_year}",
                )
        return None


def _digits(date: str) -> str:
    found = _YEAR(date)
    assert found is not None, "a date without a year"
    return found[0]


def _query_dates(query: str) -> list[str]:
    """Parameters that are dates.

    Either name and value show it, or it is a year next to a month or a day.
    """
    if not query:
        return []
    pairs = [parameter.partition("=")[::2] for parameter in query.split("&")]
    dates = [
        f"{name}={value}"
        for name, value in pairs
        if _VALUE_DATE.fullmatch(value) and _DATE_NAME.search(name)
    ]
    if any(value and _PART_NAME.fullmatch(name) for name, value in pairs):
        dates += [
            f"{name}={value}"
            for name, value in pairs
            if len(value) == 4 and value.isdigit() and _YEAR_NAME.fullmatch(name)
        ]
    return dates


def _repeated(segments: list[str], most: int) -> str:
    """A sequence of segments that repeats more than ``most`` times, or the empty string.

    Either a run of segments occurs more than ``most`` times in a row, or one name more than
    ``most`` times in the whole path. The latter counts only names of at least two characters that
    are not numbers: folders of digits (``/000/000/012``) repeat legitimately.
    """
    for segment in set(segments):
        if len(segment) > 1 and not segment.isdigit() and segments.count(segment) > most:
            return f"/{segment}"
    for length in range(1, len(segments) // (most + 1) + 1):
        same = 0
        for index in range(length, len(segments)):
            same = same + 1 if segments[index] == segments[index - length] else 0
            if same >= length * most:
                return "/" + "/".join(segments[index - length + 1 : index + 1])
    return ""
