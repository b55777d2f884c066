"""The fingerprint: near for small changes, far for other texts, 0 for too little text."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.stages.parse.fingerprint import MIN_WORDS, simhash

WORDS = [
    f"{first}{second}{third}"
    for first in ("ba", "do", "ri", "lu")
    for second in ("ken", "mor", "tas", "vil")
    for third in ("an", "ed", "is", "ol", "um")
]


def distance(a: int, b: int) -> int:
    """The number of bits in which two fingerprints differ."""
    return (a ^ b).bit_count()


def text(seed: int, length: int = 400) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) + str(chance.randrange(40)) + "x" for _ in range(length))


def test_a_changed_word_changes_few_bits_and_another_text_many() -> None:
    original = text(1)
    assert (
        distance(simhash(original), simhash(original.replace(original.split()[7], "changed", 1)))
        <= 3
    )
    assert distance(simhash(original), simhash(text(2))) > 10


def test_case_punctuation_numbers_and_white_space_do_not_count() -> None:
    assert simhash(text(1)) == simhash(text(1).upper().replace(" ", " — \n 17, "))


def test_texts_with_fewer_words_than_the_minimum_have_none() -> None:
    assert simhash("") == 0
    assert simhash(" ".join(WORDS[: MIN_WORDS - 1])) == 0
    assert simhash(" ".join(WORDS[:MIN_WORDS])) != 0
    assert simhash("1 2 3 4 5 6 7 8 9 10 11 " * 20) == 0


def test_unspaced_scripts_have_one_by_pairs_of_characters() -> None:
    original = (
        "网络爬虫是一种按照一定的规则自动地抓取万维网信息的程序或者脚本它们被广泛用于互联网搜索引擎"
        * 2
    )
    assert simhash(original) != 0
    assert distance(simhash(original), simhash(original + "新")) <= 8
    assert (
        distance(
            simhash(original),
            simhash(
                "蜘蛛结网捕虫夜间活动身体分为头胸部和腹部有八条腿大多数种类有毒但对人无害喜欢温暖潮湿的地方"
                * 2
            ),
        )
        > 12
    )


def test_order_of_words_does_not_count() -> None:
    words = text(3).split()
    assert simhash(" ".join(words)) == simhash(" ".join(sorted(words)))


def test_it_is_the_same_on_every_machine() -> None:
    assert simhash(" ".join(WORDS[:40])) == 0x4012C021408C5280


def hash_of(word: bytes) -> int:
    """The hash of one word, written down number by number."""
    size = min(len(word), 8)
    at = (len(word) - size) // 2
    first, middle, last = (
        int.from_bytes(part, "little") for part in (word[:size], word[at : at + size], word[-size:])
    )
    value = len(word)
    for part in (first, middle, last, 0):
        value = (value ^ part) * 0x94D049BB133111EB % 2**64
        value ^= value >> 32
    return value


@settings(deadline=None)
@given(st.lists(st.from_regex(r"[a-zß-ÿ0-9]{1,30}", fullmatch=True), max_size=60))
def test_each_word_votes_with_its_hash(words: list[str]) -> None:
    data = " ".join(words).encode().split()
    counts = Counter(
        word for word in data if len(word) > 2 and not (word[:8] + word[-8:]).isdigit()
    )
    weights = {
        word: float(np.rint(16 * np.log1p(np.float32(count)))) for word, count in counts.items()
    }
    bits = [
        sum(weight for word, weight in weights.items() if hash_of(word) >> bit & 1)
        for bit in range(64)
    ]
    majority = sum(1 << bit for bit in range(64) if bits[bit] * 2 > sum(weights.values()))
    # numpy numbers the bits of a byte from the highest; the fingerprint keeps that.
    expected = int.from_bytes(
        bytes(int(f"{byte:08b}", 2) for byte in majority.to_bytes(8, "little")), "little"
    )
    assert simhash(" ".join(words)) == (expected if sum(counts.values()) >= MIN_WORDS else 0)


def test_words_of_up_to_24_bytes_are_told_apart() -> None:
    chance = random.Random(4)
    words = {"".join(chance.choices("ab", k=chance.randint(3, 24))) for _ in range(3000)}
    assert len({hash_of(word.encode()) for word in words}) == len(words)


@settings(deadline=None)
@given(st.text(max_size=600))
def test_any_text_has_an_unsigned_64_bit_value(value: str) -> None:
    assert 0 <= simhash(value) < 1 << 64


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_distance_counts_the_bits_that_differ(a: int, b: int) -> None:
    assert distance(a, b) == bin(a ^ b).count("1") == distance(b, a)
