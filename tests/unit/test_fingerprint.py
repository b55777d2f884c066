"""The fingerprint: near for small changes, far for other texts, 0 for too little text."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.parse.fingerprint import MIN_WORDS, distance, simhash

WORDS = [
    f"{first}{second}{third}"
    for first in ("ba", "do", "ri", "lu")
    for second in ("ken", "mor", "tas", "vil")
    for third in ("an", "ed", "is", "ol", "um")
]


def text(seed: int, length: int = 400) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) + str(chance.randrange(40)) + "x" for _ in range(length))


def test_a_changed_word_changes_few_bits_and_another_text_many() -> None:
    original = text(1)
    assert distance(simhash(original), simhash(original.replace(original.split()[7], "changed", 1))) <= 3
    assert distance(simhash(original), simhash(text(2))) > 10


def test_case_punctuation_numbers_and_white_space_do_not_count() -> None:
    assert simhash(text(1)) == simhash(text(1).upper().replace(" ", " — \n 17, "))


def test_texts_with_fewer_words_than_the_minimum_have_none() -> None:
    assert simhash("") == 0
    assert simhash(" ".join(WORDS[: MIN_WORDS - 1])) == 0
    assert simhash(" ".join(WORDS[:MIN_WORDS])) != 0
    assert simhash("1 2 3 4 5 6 7 8 9 10 11 " * 20) == 0


def test_unspaced_scripts_have_one_by_pairs_of_characters() -> None:
    original = "网络爬虫是一种按照一定的规则自动地抓取万维网信息的程序或者脚本它们被广泛用于互联网搜索引擎" * 2
    assert simhash(original) != 0
    assert distance(simhash(original), simhash(original + "新")) <= 8
    assert (
        distance(
            simhash(original), simhash("蜘蛛结网捕虫夜间活动身体分为头胸部和腹部有八条腿大多数种类有毒但对人无害喜欢温暖潮湿的地方" * 2)
        )
        > 12
    )


def test_order_of_words_does_not_count() -> None:
    words = text(3).split()
    assert simhash(" ".join(words)) == simhash(" ".join(sorted(words)))


def test_it_is_the_same_on_every_machine() -> None:
    assert simhash(" ".join(WORDS[:40])) == 0x60C56B498D476062


@settings(deadline=None)
@given(st.text(max_size=600))
def test_any_text_has_an_unsigned_64_bit_value(value: str) -> None:
    assert 0 <= simhash(value) < 1 << 64


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_distance_counts_the_bits_that_differ(a: int, b: int) -> None:
    assert distance(a, b) == bin(a ^ b).count("1") == distance(b, a)
