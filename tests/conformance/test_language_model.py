"""The model evaluated with numpy says what the library that it comes from says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from lycosa.stages.parse.language_model import LanguageModel
from lycosa.stages.parse.language_tables import load_tables

SENTENCES = (
    (
        "The quick brown fox jumps over the lazy dog, and nobody in the village was surprised to"
        " see it."
    ),
    (
        "Der Hund lief über die Straße, während die Kinder auf dem Hof spielten und die Glocken"
        " läuteten."
    ),
    "Le conseil municipal a décidé hier soir de fermer l'école pendant les travaux de rénovation.",
    "В лесу родилась ёлочка, в лесу она росла, зимой и летом стройная, зелёная была.",
    "昨日の会議では、新しい計画について多くの意見が出されました。",
    "这座城市的历史可以追溯到两千多年以前，吸引了许多游客。",
    "اجتمع مجلس المدينة أمس لمناقشة خطة بناء المدرسة الجديدة.",
    "La reunión del comité se celebrará el próximo martes en la biblioteca pública.",
    "Влада је јуче усвојила нови закон о образовању.",
    "Vlada je juče usvojila novi zakon o obrazovanju u osnovnim školama.",
    "ALL CAPITALS ARE READ AS SMALL LETTERS, SAYS THE LIBRARY",
    "<div class=x> 0x1234 getElementById(); return;",
    "a",
    "",
)


@pytest.fixture(scope="module")
def identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel(load_tables(None))


@pytest.mark.parametrize("text", SENTENCES)
def test_says_what_the_library_says(
    text: str, identifier: LanguageIdentifier, model: LanguageModel
) -> None:
    code, certainty = model.classify(text)
    expected, expected_certainty = identifier.classify(text)
    assert (code, certainty) == (expected, pytest.approx(expected_certainty, abs=1e-4))


@settings(deadline=None)
@given(
    text=st.lists(st.sampled_from(SENTENCES), max_size=3).map(" ".join),
    cut=st.integers(0, 60),
    more=st.text(max_size=20),
)
def test_says_it_of_any_text(
    text: str, cut: int, more: str, identifier: LanguageIdentifier, model: LanguageModel
) -> None:
    text = text[cut : cut + 300] + more
    code, certainty = model.classify(text)
    expected, expected_certainty = identifier.classify(text.encode("utf-8", "replace").decode())
    assert certainty == pytest.approx(expected_certainty, abs=1e-4)
    assert code == expected or certainty < 0.5
