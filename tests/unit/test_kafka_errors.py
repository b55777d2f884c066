"""What an error of Kafka means: each code has one meaning, and the document says the same."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from lycosa.cluster.kafka import kafka_clients
from lycosa.cluster.kafka.kafka_clients import ErrorKind, kind_of

SETS = {
    ErrorKind.FENCED: kafka_clients._FENCED,
    ErrorKind.DENIED: kafka_clients._DENIED,
    ErrorKind.AWAY: kafka_clients._AWAY,
    ErrorKind.BROKEN: kafka_clients._BROKEN,
}
GONE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}
DOCUMENT = Path(__file__).parents[2] / "docs" / "cluster.md"


def test_no_code_has_two_meanings() -> None:
    assert all(SETS.values())
    assert [pair for pair in combinations(SETS, 2) if SETS[pair[0]] & SETS[pair[1]]] == []


@pytest.mark.parametrize("kind", SETS, ids=lambda kind: kind.name)
def test_a_code_means_what_its_set_says(kind: ErrorKind) -> None:
    assert {kind_of(KafkaError(code)) for code in SETS[kind]} == {kind}


def test_other_errors_are_sorted_by_what_the_library_says_of_them() -> None:
    assert {kind_of(KafkaError(code)) for code in GONE} == {ErrorKind.GONE}
    other = KafkaError.POLICY_VIOLATION
    assert kind_of(KafkaError(other)) is ErrorKind.FATAL
    assert kind_of(KafkaError(other, "", False, True)) is ErrorKind.AWAY  # it may be retried
    assert kind_of(KafkaError(other, "", False, False, True)) is ErrorKind.ROLL_BACK
    assert kind_of(KafkaError(KafkaError._TRANSPORT, "", True)) is ErrorKind.FATAL


def test_the_codes_in_the_table_of_errors_are_known() -> None:
    table = DOCUMENT.read_text("utf-8").partition("## Errors of brokers")[2]
    names = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", table))
    known = set().union(*SETS.values(), GONE, {KafkaError.MSG_SIZE_TOO_LARGE})
    assert len(names) >= 5
    assert [name for name in names if getattr(KafkaError, name) not in known] == []
