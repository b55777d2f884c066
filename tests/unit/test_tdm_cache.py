"""What responses for tdmrep.json mean over time, for any series of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.sections import RobotsSection
from lycosa.base.reasons import Reason
from lycosa.stages.politeness.robots_cache import LONGEST_USE_S, MIN_USE_S, RobotsAnswer
from lycosa.stages.politeness.tdm_cache import (
    TdmRecord,
    after_response,
    decode_tdm_record,
    is_needed,
)
from lycosa.state.kv.table_records import encode_record

SECTION = RobotsSection(retry_s=60.0)
FILE = b'[{"location": "/", "tdm-reservation": 1}]'
answers = st.builds(
    RobotsAnswer,
    st.sampled_from([0, 200, 204, 301, 401, 404, 410, 429, 500, 503]),
    st.sampled_from([FILE, b"", b"no json"]),
    st.sampled_from([Reason.NONE, Reason.CONNECTION_LOST, Reason.BODY_TRUNCATED]),
    st.sampled_from([-1.0, 0.0, 60.0, 1e4, 1e9]),
)
waits = st.floats(0.0, 3 * LONGEST_USE_S)


@given(st.lists(st.tuples(answers, waits), min_size=1, max_size=12))
def test_no_response_is_ever_asked_for_again_at_once(
    series: list[tuple[RobotsAnswer, float]],
) -> None:
    now, record = 1e9, None
    assert is_needed(None, now)
    for answer, wait in series:
        before, record = record, after_response(record, answer, SECTION, now)
        assert not is_needed(record, now)
        assert is_needed(record, record.expires) and is_needed(record, now + LONGEST_USE_S)
        least = min(MIN_USE_S, SECTION.retry_s)
        assert least <= record.expires - now <= LONGEST_USE_S + 1e-3
        assert decode_tdm_record(encode_record(record)) == record
        if record.failures:
            # whatever was stated before still is, and nothing is stated where nothing was
            old = before or TdmRecord()
            assert (record.rules, record.version, record.fetched) == (
                old.rules,
                old.version,
                old.fetched,
            )
            assert record.failures == old.failures + 1
        else:
            assert record.status == answer.status and record.fetched == now
            assert bool(record.version) == (200 <= answer.status < 300)
        now += wait


def test_a_clock_that_was_set_back_asks_again() -> None:
    record = after_response(None, RobotsAnswer(200, FILE), SECTION, 1e9)
    assert not is_needed(record, 1e9 + 1) and is_needed(record, 1e9 - 2)
    assert record.rules.statement("/a") is not None
