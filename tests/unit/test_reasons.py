"""Every reason has its line in the table, and a number and a name that no other has."""

from __future__ import annotations

import pytest

from lycosa.base.reasons import Cause, Reason


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_meaning_and_a_cause(reason: Reason) -> None:
    assert reason.meaning
    assert isinstance(reason.cause, Cause)


def test_no_number_is_used_twice() -> None:
    assert list(Reason.__members__) == [reason.name for reason in Reason]
