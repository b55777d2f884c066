"""Values of Content-Usage (vocab-08 with RFC 9651), Content-Signal, noai and tdm-reservation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs import run_below
from lycosa.base.preferences.preference_model import (
    PreferenceSource,
    Statement,
    combine,
    nested_answers,
)
from lycosa.base.preferences.usage_values import (
    MAX_STATEMENTS,
    MAX_VALUE_CHARACTERS,
    bounded,
    dictionary_members,
    no_ai_answers,
    signal_answers,
    tdm_answers,
    usage_answers,
)

UNREAD = {"bots": False}


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        # attach-05 section 1.2 and 3.5
        ("train-ai=n", {"ai-train": False}),
        ("train-ai=y", {"ai-train": True}),
        # vocab-08 section 6
        ("train-ai=y, search=n", {"ai-train": True, "search": False}),
        # section 6.6.1: the last of a repeated key counts, and neither value is a token
        ('train-ai=y, train-ai, search=n, search="n"', {}),
        # section 6.6.2: parameters have no meaning
        ("train-ai;allow=n, train-ai=y", {"ai-train": True}),
        ('train-ai;has;parameters="?"', {}),
        # contentsignals-00 section 4
        (
            "search=y, ai-input=n, ai-train=n",
            {"search": True, "ai-input": False, "ai-train": False},
        ),
        # vocab-04 section 4.1
        ("bots=n, search=y", {"bots": False, "search": True}),
    ],
)
def test_examples_of_the_drafts(text: str, answers: dict[str, bool]) -> None:
    assert usage_answers(text) == answers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Train-AI=n",  # section 6.6.1: keys are case-sensitive, and capitals are no dictionary
        "train-ai=N",  # section 6.2: a token other than y and n is unknown
        "train-ai=?0",  # a boolean is no token
        "train-ai",  # a key alone is the boolean true
        "train-ai=0",
        'train-ai="n"',
        "train-ai=(n)",
        "foundation=n",  # section 6.5: unknown labels are ignored
        "train-ai=n,",  # the parsing of the dictionary fails, so all is unknown
        "train-ai=n; search=n",  # search is a parameter here, after an illegal blank? no: legal
        "train-ai=n search=n",
        "train-ai: n",
        "train-ai=n\u00e9",
        "train-ai=n, =y",
    ],
)
def test_what_states_nothing(text: str) -> None:
    expected = {"ai-train": False} if text == "train-ai=n; search=n" else {}
    assert usage_answers(text) == expected


@pytest.mark.parametrize(
    ("text", "members"),
    [
        # RFC 9651 section 3.2: order, booleans, inner lists, parameters, a repeated key
        ("a=1, b=2.5, c", {"a": 1, "b": 2.5, "c": True}),
        ("a=?0, b, c; foo=bar", {"a": False, "b": True, "c": True}),
        ("a=1, a=2", {"a": 2}),
        ("", {}),
        ("  a=1  ", {"a": 1}),
        ("a=1\t,\tb=2", {"a": 1, "b": 2}),
        # section 4.2.2: what fails the whole field
        ("a=1,", {}),
        ("a=1 b=2", {}),
        ("a==1", {}),
        ("a= 1", {}),
        ("a =1", {}),
        ("A=1", {}),
        ("1a=1", {}),
        ("a=1;;b", {}),
        ("a=(1", {}),
        ('a="x', {}),
        ("a=1234567890123456", {}),
        ("a=@1.5", {}),
        ("a=:?:", {}),
        ("\ta=1", {}),  # section 4.2: only spaces are discarded at the beginning
    ],
)
def test_dictionaries(text: str, members: dict[str, object]) -> None:
    found = dictionary_members(text)
    assert {key: float(v) if key == "b" and v == 2.5 else v for key, v in found.items()} == members


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        # the line that a large provider writes into its customers' files
        ("search=yes,ai-train=no", {"search": True, "ai-train": False}),
        (
            "search=yes, ai-input=no, ai-train=no",
            {"search": True, "ai-input": False, "ai-train": False},
        ),
        ("Search = YES , AI-Train=No", {"search": True, "ai-train": False}),
        ('ai-train="no"', {"ai-train": False}),
        ("ai-train=yes, ai-train=no", {"ai-train": False}),
        ("ai-train=no, ai-train=yes", {"ai-train": False}),
        ("ai-train=maybe, use=reference, search=yes", {"search": True}),
        ("no", {}),
        (",,,", {}),
    ],
)
def test_signals(text: str, answers: dict[str, bool]) -> None:
    assert signal_answers(text) == answers


@pytest.mark.parametrize("read", [usage_answers, signal_answers])
def test_a_value_beyond_the_limit_counts_as_a_no_to_everything(read: object) -> None:
    assert callable(read)
    longest = "search=y" + " " * (MAX_VALUE_CHARACTERS - 8)
    assert read(longest) != UNREAD
    assert read(longest + " ") == UNREAD


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        ("1", {"tdm": False}),
        (" 0 ", {"tdm": True}),
        ("2", {}),
        ("", {}),
        ("true", {}),
        ("1, 0", {}),
        ("01", {}),
    ],
)
def test_a_reservation_is_zero_or_one_and_else_unset(value: str, answers: dict[str, bool]) -> None:
    assert tdm_answers(value) == answers


def test_noai_is_about_training_and_input_and_noimageai_about_images() -> None:
    both = {"ai-train": False, "ai-input": False}
    assert no_ai_answers(["noindex", "noai"], is_image=False) == both
    assert no_ai_answers(["noimageai"], is_image=False) == {}
    assert no_ai_answers(["noimageai"], is_image=True) == both
    assert no_ai_answers(["noindex", "noaix"], is_image=True) is None


@given(
    st.lists(
        st.builds(
            Statement,
            st.sampled_from([PreferenceSource.ROBOTS_META, PreferenceSource.USAGE_ROBOTS]),
            st.integers(0, 99).map(str),
            st.just(0),
            answers=st.dictionaries(
                st.sampled_from(["search", "ai-train", "bots"]), st.booleans(), max_size=2
            ),
        ),
        min_size=50,
        max_size=80,
    )
)
def test_a_bound_on_statements_drops_no_denial(stated: list[Statement]) -> None:
    kept = bounded(stated)
    assert len(kept) <= 2 * MAX_STATEMENTS
    for each in stated:
        for use, allowed in nested_answers(each.answers).items():
            assert allowed or combine(kept)[use] is False
    for use, allowed in combine(kept).items():
        assert not allowed or combine(stated).get(use) is True


@pytest.mark.parametrize("place", [0, MAX_STATEMENTS - 1, MAX_STATEMENTS, 3 * MAX_STATEMENTS])
def test_one_denial_among_many_permissions_counts_wherever_it_stands(place: int) -> None:
    texts = [str(n) for n in range(3 * MAX_STATEMENTS)]
    stated = [Statement(PreferenceSource.TDM_META, text, 0, {"tdm": True}) for text in texts]
    stated.insert(place, Statement(PreferenceSource.TDM_META, "1", 0, {"bots": False}))
    assert combine(bounded(stated))["ai-train"] is False


@pytest.mark.parametrize(
    "piece", ["a=y,", "a=(", 'a="', "a;b;", "train-ai=n, ", "\\", "a=:", "(", "search=yes,"]
)
def test_the_cost_of_a_value_is_bounded(piece: str) -> None:
    text = (piece * MAX_VALUE_CHARACTERS)[:MAX_VALUE_CHARACTERS]
    run_below(100, lambda: (usage_answers(text), signal_answers(text)))
