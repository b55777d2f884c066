"""The short form of every target: its samples, blind mutations of them, and its words in any
order. ``script/fuzz`` is the long one.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.judging import CPU_S, MAX_BYTES, TARGETS, TooSlow, judge, load
from fuzz.mutation import mutated
from fuzz.stretching import slow

MUTATIONS = 150


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_target_promises_holds_of_its_samples_and_of_mutations_of_them(name: str) -> None:
    target = load(name)
    samples = sorted(set(target.samples()))
    words, chance = [word.encode() for word in target.words], Random(name)
    assert len(samples) >= 5
    for data in samples:
        judge(target.check, data)
    for _ in range(MUTATIONS):
        data = mutated(samples, words, chance)
        try:
            judge(target.check, data)
        except Exception as error:
            error.add_note(f"the input: {data!r}")
            raise
    target.close()


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_target_promises_holds_of_its_words_in_any_order(name: str) -> None:
    target = load(name)
    words = st.sampled_from([word.encode() for word in target.words])
    pieces = st.lists(
        words
        | st.text(max_size=5).map(lambda text: text.encode("utf-8", "replace"))
        | st.binary(max_size=8),
        max_size=12,
    )

    @given(pieces.map(b"".join))
    @settings(deadline=None, max_examples=60)
    def holds(data: bytes) -> None:
        judge(target.check, data)

    holds()
    target.close()


@pytest.mark.parametrize(("power", "finds"), [(1, 0), (2, 3)])
def test_what_costs_the_square_of_its_length_is_a_find(power: int, finds: int) -> None:
    spent = [0.0]

    def costs(data: bytes) -> None:
        spent[0] += CPU_S / 2 * (len(data) / MAX_BYTES) ** power

    tried, found = slow(costs, [b"some bytes", b""], 8 * MAX_BYTES, 1, clock=lambda: spent[0])
    assert (tried, len(found)) == (3, finds)


def test_an_input_that_costs_too_much_is_a_find() -> None:
    times = iter((10.0, 10.0 + CPU_S, 20.0, 20.1 + CPU_S))
    judge(bytes.hex, b"in time", clock=lambda: next(times))
    with pytest.raises(TooSlow, match="8 bytes"):
        judge(bytes.hex, b"too late", clock=lambda: next(times))
