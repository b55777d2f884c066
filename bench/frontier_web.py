"""The URLs of the frontier benchmark: a web that is a function of numbers, so that no list of its
URLs is ever in memory.

Host ``h`` of ``hosts`` has a number of known URLs by a Zipf law; URL ``i`` of host ``h`` is a
string. The paths are made of words as those of real sites are (folders by subject and date, a slug
of a title, an identifier): 75 bytes a URL on average.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_EXPONENT = 0.8  # of the Zipf law: the largest of a million hosts then has 1.3 % of all URLs
_TEXT = (
    "about account after air album all analysis animal april archive army art article asia author"
    " back bank bar best big black blog blue body book box brand bridge brown budget build business"
    " buy cable camera camp canada capital car card care case cash castle cat center central change"
    " chart child china church city class clean climate clinic cloud club coast code coffee college"
    " color comment company computer contact control cook copper corner cost country county course"
    " court cover credit culture custom daily dance data date day deal death design desk digital"
    " dinner doctor dog door dream drive east economy edition education effect election energy"
    " engine english estate europe event expert eye family farm fashion father festival field film"
    " final find fire first fish food football forest form forum free friend fuel future gallery"
    " game garden gas gift girl glass global gold golf good government grand green group growth"
    " guide hall hand health heart heavy help high history holiday home horse hospital hotel house"
    " how human ice idea image india industry island issue item japan job july june key kids king"
    " kitchen lake land language law leader league learn legal letter library life light line link"
    " list little live local london long love machine magazine mail main man map march market"
    " master match media medical meeting member memory men metal mexico middle military mind mobile"
    " model modern money month moon mother mountain movie music nation nature network new night"
    " north note number ocean office oil old online open opera order paper parent park part party"
    " people phone photo place plan plant player point police policy pool power press"
)
_WORDS = _TEXT.split()
_TOP = ("com", "org", "net", "de", "co.uk", "info", "fr", "it")
_MANY = len(_WORDS)


class Web:
    """``urls`` known URLs on ``hosts`` hosts."""

    def __init__(self, urls: int, hosts: int) -> None:
        weights = np.arange(1, hosts + 1, dtype=np.float64) ** -_EXPONENT
        self._upto: NDArray[np.float64] = np.cumsum(weights / weights.sum())
        self.sizes: NDArray[np.int64] = np.maximum(
            np.diff(np.floor(self._upto * urls), prepend=0), 1
        ).astype(np.int64)
        self.hosts = hosts

    def pick(self, chance: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Hosts, by their size."""
        return np.minimum(np.searchsorted(self._upto, chance.random(count)), self.hosts - 1)


def host_name(h: int) -> str:
    """The host's name: two words and its number."""
    x = h * 2654435761 & 0xFFFFFFFF
    return f"www.{_WORDS[x % _MANY]}{_WORDS[x // 1009 % _MANY]}{h}.{_TOP[x % 8]}"


def target(h: int, i: int) -> str:
    """Path and query of one URL of a host."""
    x = (i * 2246822519 + h * 374761393 & 0xFFFFFFFFFFFF) ^ i >> 7
    word, slug = (
        _WORDS[((i >> 9) * 7 % 40 + h) % _MANY],
        f"{_WORDS[x % _MANY]}-{_WORDS[x // 331 % _MANY]}-{_WORDS[x // 100003 % _MANY]}",
    )
    match h % 4:
        case 0:
            return f"/{word}/{2005 + i % 20}/{1 + x % 12:02d}/{slug}-{_WORDS[x // 7919 % _MANY]}-{i}.html"
        case 1:
            return f"/{word}/articles/{slug}/{i}"
        case 2:
            return f"/index.php?section={word}&topic={slug}&id={i}"
        case _:
            return f"/{word}/{_WORDS[x // 613 % 60]}/{slug}-and-{_WORDS[x // 7919 % _MANY]}/{i}/"


def url(host: str, h: int, i: int) -> str:
    """One URL; ``host`` is the name of host ``h``."""
    return f"http://{host}{target(h, i)}"


def pages(web: Web, chance: np.random.Generator, links: int) -> Iterator[list[str]]:
    """The links of pages, for ever: nine of ten are known; four of five are on the page's own
    host, the others anywhere.
    """
    added: dict[int, int] = {}
    while True:
        home = int(web.pick(chance, 1)[0])
        hosts = np.where(chance.random(links) < 0.8, home, web.pick(chance, links))
        news, places, page = chance.random(links) < 0.1, chance.random(links), []
        for h, is_new, place in zip(hosts.tolist(), news.tolist(), places.tolist(), strict=True):
            size = int(web.sizes[h])
            i = int(place * size)
            if is_new:
                i = size + added.get(h, 0)
                added[h] = added.get(h, 0) + 1
            page.append(url(host_name(h), h, i))
        yield page
