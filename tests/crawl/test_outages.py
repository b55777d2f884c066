"""The short form of the proof of outages, and that its judges find what they look for."""

from __future__ import annotations

from pathlib import Path

import pytest

from absences import Absence, Attempt
from judging import quick_config
from lycosa.base.reasons import Reason
from proofs import outages
from proofs.outages import judge_attempts, most_attempts

CONFIG = quick_config()
HOUR = Absence(0.0, 3600.0, Reason.CONNECT_REFUSED, frozenset({"a.example"}))


def test_nothing_is_lost_while_servers_names_or_the_network_are_away(tmp_path: Path) -> None:
    lines = outages.prove(tmp_path, short=True)
    print("\n".join(lines))
    assert len(lines) == 1 + 6 + 2, lines


def attempts(*starts: float, was_away: bool = True) -> list[Attempt]:
    return [Attempt("a.example", start, start + 0.01, was_away) for start in starts]


def test_an_attempt_within_the_delay_is_found() -> None:
    judge_attempts(CONFIG, attempts(0.0, 1.02, 30.0), [HOUR])
    with pytest.raises(AssertionError, match="delay"):
        judge_attempts(CONFIG, attempts(0.0, 0.9, 30.0), [HOUR])
    with pytest.raises(AssertionError, match="delay"):
        judge_attempts(CONFIG, [*attempts(0.0), *attempts(0.5, was_away=False)], [HOUR])


def test_attempts_one_delay_after_the_other_are_found() -> None:
    with pytest.raises(AssertionError, match="attempts"):
        judge_attempts(CONFIG, attempts(*(2.0 * number for number in range(60))), [HOUR])
    assert most_attempts(CONFIG, HOUR) < 30
    other = Absence(0.0, 3600.0, Reason.CONNECT_REFUSED, frozenset({"b.example"}))
    judge_attempts(CONFIG, attempts(*(2.0 * number for number in range(60))), [other])
