"""How statements combine: draft-ietf-aipref-vocab-08 section 7.1, and TDMRep's order of its own
three places.
"""

from __future__ import annotations

import re
from itertools import combinations_with_replacement, permutations, product
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.preferences.preference_model import (
    NARROWER,
    NOTHING_STATED,
    Preferences,
    PreferenceSource,
    Statement,
    Use,
    combine,
    gather_preferences,
    may_use,
    nested_answers,
)

S = PreferenceSource
DOCUMENT = Path(__file__).parents[2] / "docs" / "consent.md"
TDM = (S.TDM_FILE, S.TDM_HEADER, S.TDM_META)
ANSWERS = st.dictionaries(st.sampled_from([use.value for use in Use]), st.booleans())


def statements(sources: list[PreferenceSource] = list(S)) -> st.SearchStrategy[list[Statement]]:  # noqa: B006  # never changed
    one = st.builds(
        Statement, st.sampled_from(sources), st.just("as sent"), st.just(0), answers=ANSWERS
    )
    return st.lists(one, max_size=6)


def said(source: PreferenceSource, **answers: bool) -> Statement:
    return Statement(source, "", 0, {use.replace("_", "-"): yes for use, yes in answers.items()})


def test_any_no_counts_before_a_yes_and_silence_is_neutral() -> None:
    yes, no = said(S.USAGE_HEADER, search=True), said(S.SIGNAL_ROBOTS, search=False)
    silent = said(S.ROBOTS_TAG)
    assert combine([yes]) == combine([yes, silent]) == {"search": True}
    assert combine([yes, no]) == combine([no]) == {"search": False}
    assert combine([]) == combine([silent]) == {}


@given(statements(), st.randoms())
def test_the_order_does_not_matter(stated: list[Statement], random: object) -> None:
    shuffled = list(stated)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert combine(shuffled) == combine(stated)


@given(statements())
def test_a_statement_that_is_made_twice_says_no_more(stated: list[Statement]) -> None:
    assert combine(stated + stated) == combine(stated)


@given(statements(), statements())
def test_a_silent_statement_changes_nothing(stated: list[Statement], more: list[Statement]) -> None:
    silent = [msgspec.structs.replace(each, answers={}) for each in more]
    assert combine(stated + silent) == combine(stated)


@given(statements(), statements([each for each in S if each not in TDM]))
def test_a_further_statement_never_turns_a_no_into_a_yes(
    stated: list[Statement], more: list[Statement]
) -> None:
    before, after = combine(stated), combine(stated + more)
    for use, allowed in before.items():
        assert use in after and (allowed or not after[use])


@given(statements(), st.sampled_from(TDM), ANSWERS)
def test_a_statement_of_tdmrep_lifts_only_a_no_of_tdmrep(
    stated: list[Statement], source: PreferenceSource, answers: dict[str, bool]
) -> None:
    others = combine([each for each in stated if each.source not in TDM])
    after = combine([*stated, Statement(source, "", 0, answers)])
    assert all(after[use] is False for use, allowed in others.items() if not allowed)


@pytest.mark.parametrize(("first", "second", "third"), list(product([None, False, True], repeat=3)))
def test_of_the_three_places_of_tdmrep_the_last_that_answers_counts(
    first: bool | None, second: bool | None, third: bool | None
) -> None:
    """TDMRep, "Processing priority": header before file, markup before both; absence resets
    nothing.
    """
    stated = [
        Statement(source, "", 0, {} if answer is None else {"tdm": answer})
        for source, answer in zip(TDM, (first, second, third), strict=True)
    ]
    last = next((each for each in (third, second, first) if each is not None), None)
    for order in permutations(stated):
        assert combine(order).get("tdm") is last


def test_the_document_has_a_row_for_each_pair_and_says_what_happens() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \| `(\w+)` \| (\S+) \| ", DOCUMENT.read_text("utf-8"))
    answering = [each for each in S if not each.label.startswith("license")]
    pairs = list(combinations_with_replacement(answering, 2))
    assert [(one, other) for one, other, _ in rows] == [
        (one.label, other.label) for one, other in pairs
    ]
    for (one, other), (_, _, counts) in zip(pairs, rows, strict=True):
        for answer in (False, True):
            stated = [Statement(one, "", 0, {"tdm": answer})]
            stated.append(Statement(other, "", 0, {"tdm": not answer}))
            expected = not answer if counts == f"`{other.label}`" else False
            assert combine(stated)["tdm"] is combine(stated[::-1])["tdm"] is expected


def test_a_reservation_covers_training_and_input_but_not_search() -> None:
    assert combine([said(S.TDM_HEADER, tdm=False)]) == {
        "ai-train": False,
        "ai-input": False,
        "tdm": False,
    }


def test_a_statement_about_automated_processing_covers_all_other_uses() -> None:
    assert combine([said(S.USAGE_ROBOTS, bots=False)]) == {use.value: False for use in Use}


def test_what_one_statement_says_of_a_narrower_use_is_its_answer_there() -> None:
    answers = combine([said(S.USAGE_ROBOTS, bots=False, search=True)])
    assert answers["search"] is True and answers["ai-train"] is False
    nearer = combine([said(S.USAGE_ROBOTS, bots=True, tdm=False)])
    assert nearer["ai-train"] is False and nearer["search"] is True


def test_another_statement_about_a_narrower_use_does_not_lift_a_broader_no() -> None:
    broad, narrow = said(S.USAGE_ROBOTS, bots=False), said(S.SIGNAL_HEADER, ai_train=True)
    assert combine([broad, narrow])["ai-train"] is False


@given(ANSWERS)
def test_nesting_adds_answers_and_changes_none(answers: dict[str, bool]) -> None:
    full = nested_answers(answers)
    assert answers.items() <= full.items()
    assert nested_answers(full) == full
    for broader, narrower in NARROWER.items():
        assert broader not in full or full.keys() >= set(narrower)


@given(statements(), st.lists(st.sampled_from(list(Use)), max_size=4))
def test_each_use_of_a_purpose_has_to_be_allowed(
    stated: list[Statement], purpose: list[Use]
) -> None:
    preferences = gather_preferences(stated)
    for unstated in ("use", "skip"):
        assert may_use(preferences, purpose, unstated) == all(
            may_use(preferences, [use], unstated) for use in purpose
        )


def test_no_purpose_records_and_obeys_nothing() -> None:
    denied = gather_preferences([said(S.USAGE_HEADER, bots=False)])
    assert may_use(denied, [], "use") and may_use(denied, [], "skip")


def test_the_setting_decides_about_a_use_that_is_unstated() -> None:
    assert may_use(NOTHING_STATED, ["ai-train"], "use")
    assert not may_use(NOTHING_STATED, ["ai-train"], "skip")
    stated = Preferences({"ai-train": False, "search": True})
    assert may_use(stated, ["search"], "skip") and not may_use(stated, ["ai-train"], "use")
    assert not may_use(stated, ["search", "ai-train"], "use")


@given(statements(), st.text(max_size=5), st.text(max_size=5))
def test_preferences_are_the_same_after_they_were_stored(
    stated: list[Statement], address: str, price: str
) -> None:
    preferences = gather_preferences(stated, address, price)
    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(preferences), type=Preferences) == preferences


def test_the_licence_is_the_most_specific_one() -> None:
    robots = Statement(S.LICENSE_ROBOTS, "https://a.org/robots.xml", 3)
    header = Statement(S.LICENSE_HEADER, "https://a.org/header.xml")
    markup = Statement(S.LICENSE_MARKUP, "https://a.org/markup.xml")
    assert gather_preferences([robots, markup, header]).license == markup.text
    assert gather_preferences([robots, header]).license == header.text
    assert gather_preferences([robots]).license == robots.text
    assert gather_preferences([]) == Preferences()


def test_numbers_on_disk_stay() -> None:
    assert [(each.label, each.value) for each in S] == [
        ("usage_header", 1),
        ("usage_robots", 2),
        ("signal_header", 3),
        ("signal_robots", 4),
        ("robots_tag", 5),
        ("robots_meta", 6),
        ("tdm_file", 7),
        ("tdm_header", 8),
        ("tdm_meta", 9),
        ("license_robots", 10),
        ("license_header", 11),
        ("license_markup", 12),
    ]
