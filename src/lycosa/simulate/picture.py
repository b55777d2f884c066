"""The curves of a simulated crawl in one SVG file: six charts with one time axis, and the limits.

A band below the charts shows what held the crawl back. The file is written without a drawing
library, because it must look the same everywhere and fit into a page of documentation. The title of
a chart names its axis, and the axis has its largest value at the end, so nothing depends on
distinguishing colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from lycosa.simulate.resources import CPU, HOSTS, NETWORK, POLITENESS, SLOTS, WORKBENCH
from lycosa.simulate.simulation_report import ReportRow, SimulationReport

_WIDTH, _HEIGHT = 960, 760
_LEFT, _TOP, _GAP = 70, 96, 70
_CHART_WIDTH, _CHART_HEIGHT = 380, 130
_INK, _FAINT, _LINE, _SECOND = "#222222", "#dddddd", "#1f5fa8", "#c25a00"
_COLOURS = {
    CPU: "#c25a00",
    NETWORK: "#7a3fa0",
    SLOTS: "#2b8a6f",
    WORKBENCH: "#a03f5a",
    POLITENESS: "#1f5fa8",
    HOSTS: "#c8c8c8",
}


class _Curve(NamedTuple):
    name: str
    colour: str
    value: Callable[[ReportRow], float]


class _Chart(NamedTuple):
    title: str
    show: Callable[[float], str]
    curves: tuple[_Curve, ...]
    most: float = 0.0  # steps of the axis; 0 is that of the values


def short_count(number: float) -> str:
    """``950``, ``12k``, ``3.4M``, ``1.2G``: for axes."""
    for factor, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g}{letter}"
    return f"{number:.3g}"


_CHARTS = (
    _Chart("pages a day", short_count, (_Curve("", _LINE, lambda row: row.pages_per_day),)),
    _Chart(
        "URLs",
        short_count,
        (
            _Curve("known", _SECOND, lambda row: row.known),
            _Curve("of them stored", _LINE, lambda row: row.stored),
        ),
    ),
    _Chart(
        "stored pages that are current",
        lambda value: f"{value:.0f} %",
        (_Curve("", _LINE, lambda row: 100 * row.fresh),),
        100.0,
    ),
    _Chart(
        "URLs that wait to be fetched now",
        short_count,
        (_Curve("", _LINE, lambda row: row.queued),),
    ),
    _Chart(
        "received, bits a second", short_count, (_Curve("", _LINE, lambda row: row.bits_per_s),)
    ),
    _Chart("on disk, bytes", short_count, (_Curve("", _LINE, lambda row: row.disk_bytes),)),
)


def svg(found: SimulationReport, title: str, subtitle: str) -> str:
    rows = found.rows
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            f' width="{_WIDTH}" height="{_HEIGHT}" font-family="Helvetica, Arial, sans-serif"'
            ' font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 30, title, size=18),
        _text(_LEFT, 52, subtitle, colour="#555555"),
    ]
    for number, chart in enumerate(_CHARTS):
        left = _LEFT + (number % 2) * (_CHART_WIDTH + _GAP)
        parts += _draw(chart, rows, left, _TOP + (number // 2) * (_CHART_HEIGHT + 52))
    parts += _band(found, _TOP + 3 * (_CHART_HEIGHT + 52) + 10)
    return "\n".join([*parts, "</svg>", ""])


def _draw(chart: _Chart, rows: Sequence[ReportRow], left: float, top: float) -> list[str]:
    days = rows[-1].day
    most = chart.most or _round_up(
        max(max(curve.value(row) for row in rows) for curve in chart.curves)
    )
    bottom = top + _CHART_HEIGHT
    parts = [_text(left, top - 8, chart.title)]
    for step in range(5):
        y = bottom - step / 4 * _CHART_HEIGHT
        parts.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{left + _CHART_WIDTH}" y2="{y:.1f}"'
            f' stroke="{_FAINT}"/>'
        )
        parts.append(
            _text(
                left - 6,
                y + 4,
                chart.show(most * step / 4),
                anchor="end",
                colour="#555555",
                size=10,
            )
        )
    parts += _days(days, left, bottom)
    for number, curve in enumerate(chart.curves):
        path = " ".join(
            f"{left + row.day / days * _CHART_WIDTH:.1f},"
            f"{bottom - min(curve.value(row) / most, 1.0) * _CHART_HEIGHT:.1f}"
            for row in rows
        )
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{curve.colour}" stroke-width="1.6"/>'
        )
        if len(chart.curves) > 1:
            parts.append(
                _text(
                    left + _CHART_WIDTH - 130 * (len(chart.curves) - number) + 130,
                    top - 8,
                    curve.name,
                    "end",
                    curve.colour,
                )
            )
    return parts


def _days(days: float, left: float, bottom: float) -> list[str]:
    unit, scale = ("days", 1.0) if days >= 2 else ("hours", 24.0)
    parts = []
    for step in range(6):
        x = left + step / 5 * _CHART_WIDTH
        label = f"{days * scale * step / 5:.3g}" + (f" {unit}" if step == 5 else "")
        parts.append(_text(x, bottom + 15, label, anchor="middle", colour="#555555", size=10))
    return parts


def _band(found: SimulationReport, top: float) -> list[str]:
    """What held the crawl back, over time, and the share of each limit."""
    width, days = 2 * _CHART_WIDTH + _GAP, found.rows[-1].day
    parts = [_text(_LEFT, top - 8, "what held the crawl back")]
    before = 0.0
    for row in found.rows:
        x, end = _LEFT + before / days * width, _LEFT + row.day / days * width
        parts.append(
            f'<rect x="{x:.2f}" y="{top}" width="{end - x + 0.3:.2f}" height="18"'
            f' fill="{_COLOURS[row.limit]}"/>'
        )
        before = row.day
    left = float(_LEFT)
    for name, share in found.limits.items():
        if share >= 0.0005:
            label = f"{'nothing to do' if name == HOSTS else name} {100 * share:.1f} %"
            parts.append(
                f'<rect x="{left}" y="{top + 30}" width="10" height="10" fill="{_COLOURS[name]}"/>'
            )
            parts.append(_text(left + 15, top + 39, label))
            left += 30 + 7 * len(label)
    return parts


def _round_up(value: float) -> float:
    """Round up to a number of one digit that four steps divide well."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        step * power
        for step in (1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0)
        if step * power >= value * 0.9999
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", colour: str = _INK, size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
        f' font-size="{size}">{escape(text)}</text>'
    )
