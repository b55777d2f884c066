"""Words to generate text from.

They cover four languages well enough that language identification and SimHash behave as on real
pages. Common words give a text its language. Compounds of two nouns give each host and page a
different vocabulary, so that the texts of unrelated pages differ and those of near-duplicates do
not.
"""

from __future__ import annotations

import random

LANGUAGES = ("en", "de", "fr", "es")

_COMMON = {
    "en": (
        "the of and to in is that it was for on are with as his they be at one have this from by"
        " hot but some what there we can out other were all your when up use word how said an each"
        " she which do their time if will way about many then them would write like so these"
    ),
    "de": (
        "der die und in den von zu das mit sich des auf ist im dem nicht ein eine als auch es an"
        " werden aus er hat dass sie nach wird bei einer um am sind noch wie einem einen so zum war"
        " haben nur oder aber vor zur bis mehr durch man sein wurde sei hatte kann gegen schon"
    ),
    "fr": (
        "de la le et les des en un du une que est pour qui dans par plus pas au sur ne se ce il"
        " sont la mais comme ou si leur avec tout nous sa fait cette aux ses elle deux ces entre"
        " sans peut bien aussi encore autre avant moins alors temps toujours ont ainsi depuis vers"
    ),
    "es": (
        "de la que el en y a los se del las un por con no una su para es al lo como pero sus le ha"
        " me si sin sobre este ya entre cuando todo esta ser son dos fue era muy hasta desde mi"
        " porque solo han yo hay vez puede todos nos ni parte tiene uno donde bien tiempo mismo"
    ),
}
_NOUNS = {
    "en": (
        "river stone garden winter market harbour paper silver window morning forest bridge copper"
        " kitchen meadow island thunder mirror candle village basket ladder engine feather valley"
        " needle pepper castle anchor button shadow orchard"
    ),
    "de": (
        "wasser garten winter markt hafen papier silber fenster morgen wald brücke kupfer küche"
        " wiese insel donner spiegel kerze dorf korb leiter motor feder tal nadel pfeffer schloss"
        " anker knopf schatten straße mühle"
    ),
    "fr": (
        "rivière pierre jardin hiver marché port papier argent fenêtre matin forêt pont cuivre"
        " cuisine prairie île tonnerre miroir bougie village panier échelle moteur plume vallée"
        " aiguille poivre château ancre bouton ombre verger"
    ),
    "es": (
        "río piedra jardín invierno mercado puerto papel plata ventana mañana bosque puente cobre"
        " cocina prado isla trueno espejo vela aldea cesta escalera motor pluma valle aguja"
        " pimienta castillo ancla botón sombra huerto"
    ),
}

COMMON: dict[str, list[str]] = {language: text.split()[:64] for language, text in _COMMON.items()}
NOUNS: dict[str, list[str]] = {language: text.split() for language, text in _NOUNS.items()}
SLUGS: list[str] = NOUNS["en"]
SECTIONS: tuple[str, ...] = ("news", "docs", "shop", "blog", "wiki", "help", "team", "data")


def topic_words(chance: random.Random, language: str, count: int) -> list[str]:
    """``count`` compounds, the vocabulary of one host or page."""
    nouns = NOUNS[language]
    picks = chance.randbytes(2 * count)
    return [nouns[picks[i] & 31] + nouns[picks[i + 1] & 31] for i in range(0, 2 * count, 2)]


def sentences(chance: random.Random, vocabulary: list[str], words: int) -> list[str]:
    """Text of about ``words`` words in sentences of twelve.

    ``vocabulary`` has 256 words, with common words repeated.
    """
    picked = [vocabulary[byte] for byte in chance.randbytes(words)]
    return [" ".join(picked[i : i + 12]).capitalize() + "." for i in range(0, words, 12)]
