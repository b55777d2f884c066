"""Rules and sinks of users that raise: the crawl goes on, and says what failed and where."""

from __future__ import annotations

from lycosa.base.messages.progress import Progress, total
from lycosa.base.model.code_failure import CodeFailure, FailureNote, failure_in, name_of_code
from lycosa.base.reasons import Reason
from lycosa.worker.extension_failures import KINDS, ExtensionFailures


def broken(number: int) -> None:
    raise ValueError(f"no {number}")


def failure_of_call() -> CodeFailure:
    try:
        broken(7)
    except ValueError as error:
        return failure_in("sink", name_of_code(broken), error)
    raise AssertionError


def test_a_remark_names_function_class_and_line_and_no_text_of_the_exception() -> None:
    failure = failure_of_call()
    assert failure.remark.reason is Reason.EXTENSION_FAILED
    line = broken.__code__.co_firstlineno + 1
    assert failure.remark.detail == f"test_user_code:broken: ValueError (test_user_code.py:{line})"
    assert failure.message == "no 7" and "broken(7)" in failure.trace


def test_the_first_failure_of_a_kind_is_told_and_then_their_number_once_a_minute() -> None:
    told: list[tuple[str, int]] = []
    now = [100.0]
    failures = ExtensionFailures(
        lambda failure, number: told.append((failure.error, number)), lambda: now[0]
    )
    first, other = CodeFailure("sink", "m:f", "A"), CodeFailure("rule", "m:g", "B")
    for _ in range(10):
        failures.note(first)
    failures.note(other)
    assert told == [("A", 1), ("B", 1)]
    now[0] += 60
    failures.note(first)
    assert told[2:] == [("A", 10)]
    assert failures.counts == dict.fromkeys(KINDS, 0) | {"rule": 1, "sink": 11}
    assert failures.notes() == [FailureNote(11, first), FailureNote(1, other)]
    assert [each.detail for each in failures.take_rule_remarks()] == ["m:g: B"]
    assert failures.take_rule_remarks() == ()


def test_failures_of_several_workers_are_added_by_function() -> None:
    first, other = CodeFailure("sink", "m:f", "A"), CodeFailure("rule", "m:g", "B")
    both = total([
        Progress(failures=[FailureNote(2, first)]),
        Progress(failures=[FailureNote(3, first), FailureNote(9, other)]),
    ])  # fmt: skip
    assert both.failures == [FailureNote(9, other), FailureNote(5, first)]
