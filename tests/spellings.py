"""Other spellings of a canonical URL that mean the same resource by RFC 3986 section 6.2 and the
WHATWG URL standard.

Each function takes a canonical URL and a source of chance, and gives another way to write it; where
it finds nothing to change it gives the URL itself. They may be applied one after the other in the
order that they have in ``SPELLINGS``, without a base.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address
from random import Random

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HEX = frozenset("0123456789ABCDEFabcdef")
_DOTS = ("。", "．", "｡")  # U+3002, U+FF0E, U+FF61: dots of a name to IDNA
_FULL_WIDTH = {
    chr(code): chr(code - 0x21 + 0xFF01) for code in range(0x30, 0x7B) if chr(code).isalnum()
}

Spelling = Callable[[str, Random], str]


def _split(url: str) -> tuple[str, str, str, str]:
    """Scheme, name, port with its colon, target."""
    scheme, _, rest = url.partition("://")
    slash = rest.index("/")
    authority, target = rest[:slash], rest[slash:]
    at = authority.rfind("]")
    name, colon, port = authority[at + 1 :].partition(":")
    return scheme, authority[: at + 1] + name, colon + port, target


def _joined(scheme: str, name: str, port: str, target: str) -> str:
    return f"{scheme}://{name}{port}{target}"


def encoded_octets(url: str, chance: Random) -> str:
    """Some unreserved characters of path and query percent-encoded, hexadecimal digits in either
    case (RFC 3986 6.2.2.1, 6.2.2.2).
    """
    scheme, name, port, target = _split(url)
    made: list[str] = []
    for at, character in enumerate(target):
        before = target[max(0, at - 2) : at]
        # a lone % stands before it
        completes = before.endswith("%") or (
            before[:1] == "%" and before[1:] and before[1:] in _HEX
        )
        if (
            character in _UNRESERVED
            and not completes
            and not _is_in_escape(target, at)
            and chance.random() < 0.3
        ):
            made.append(f"%{ord(character):02{chance.choice('xX')}}")
        elif character in "ABCDEF" and _is_in_escape(target, at) and chance.random() < 0.5:
            made.append(character.lower())
        else:
            made.append(character)
    return _joined(scheme, name, port, "".join(made))


def _is_in_escape(target: str, at: int) -> bool:
    for start in (at - 1, at - 2):
        digits = target[start + 1 : start + 3]
        if start >= 0 and target[start] == "%" and len(digits) == 2 and set(digits) <= _HEX:
            return True
    return False


def dot_segments(url: str, chance: Random) -> str:
    """``/./`` and ``/x/../`` where a slash of the path is, dots also percent-encoded (WHATWG
    URL, single- and double-dot segments).
    """
    scheme, name, port, target = _split(url)
    path, question, query = target.partition("?")
    made = []
    for part in path.split("/")[1:]:
        step = chance.choice(("", "", "/.", "/%2e", "/x/..", "/x/.%2E", "/x/y/../.."))
        made.append(f"{step}/{part}")
    return _joined(scheme, name, port, "".join(made) + question + query)


def above_the_root(url: str, chance: Random) -> str:
    """``..`` at the root stays at the root (RFC 3986 5.2.4)."""
    scheme, name, port, target = _split(url)
    return _joined(scheme, name, port, chance.choice(("", "/..", "/../%2E%2e")) + target)


def letters(url: str, chance: Random) -> str:
    """Scheme and host in any case (RFC 3986 6.2.2.1)."""
    scheme, name, port, target = _split(url)
    mixed = (
        "".join(chance.choice((c.upper(), c)) if c.isascii() else c for c in part)
        for part in (scheme, name)
    )
    return _joined(*mixed, port, target)


def international(url: str, chance: Random) -> str:
    """Labels of Punycode in Unicode, letters and digits in their full-width forms, and the dots of
    IDNA (UTS 46).

    A label that looks encoded and is not is a name only as long as all of the host is ASCII, so
    such a host stays.
    """
    scheme, name, port, target = _split(url)
    if name.startswith("[") or any(
        label.startswith("xn--") and _in_unicode(label) == label for label in name.split(".")
    ):
        return url
    labels = []
    for label in name.split("."):
        if label.startswith("xn--"):
            labels.append(chance.choice((label, _in_unicode(label))))
        elif chance.random() < 0.3:
            labels.append("".join(chance.choice((c, _FULL_WIDTH.get(c, c))) for c in label))
        else:
            labels.append(label)
    dotted = labels[0]
    for label in labels[1:]:
        dotted += chance.choice((".", ".", *_DOTS)) + label
    return _joined(scheme, dotted, port, target)


def _in_unicode(label: str) -> str:
    """A label of Punycode in Unicode, or the label itself where that form is not certain."""
    try:
        text = label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label
    is_plain = (
        text.isalpha()
        and not text.isascii()
        and unicodedata.normalize("NFKC", text.lower()) == text
    )
    return text if is_plain and text.encode("punycode").decode("ascii") == label[4:] else label


def numbers(url: str, chance: Random) -> str:
    """An IPv4 address as one number or fewer parts, in decimal, octal or hexadecimal (WHATWG
    URL, IPv4 parser).
    """
    scheme, name, port, target = _split(url)
    try:
        value = int(IPv4Address(name))
    except AddressValueError:
        return url
    octets, count = (
        [value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255],
        chance.randint(1, 4),
    )
    last = value & (1 << 8 * (5 - count)) - 1
    parts = [*octets[: count - 1], last]
    written = ".".join(
        chance.choice((f"{part}", f"0{part:o}", f"0x{part:x}", f"0X{part:06X}")) for part in parts
    )
    return _joined(scheme, written, port, target)


def host_octets(url: str, chance: Random) -> str:
    """Some characters of the host percent-encoded (RFC 3986 3.2.2; WHATWG URL, host parser)."""
    scheme, name, port, target = _split(url)
    if name.startswith("["):
        return url
    written = "".join(
        f"%{ord(c):02X}" if c.isascii() and c.isalnum() and chance.random() < 0.2 else c
        for c in name
    )
    return _joined(scheme, written, port, target)


def absolute_name(url: str, chance: Random) -> str:
    """The dot of an absolute name."""
    scheme, name, port, target = _split(url)
    return (
        url
        if name.startswith("[")
        else _joined(scheme, name + chance.choice(("", ".")), port, target)
    )


def default_port(url: str, chance: Random) -> str:
    """The scheme's own port, an empty one, zeros before any (RFC 3986 6.2.3)."""
    scheme, name, port, target = _split(url)
    own = "80" if scheme.lower() == "http" else "443"
    written = (
        f":{chance.choice(('', '0', '00'))}{port[1:]}"
        if port
        else chance.choice(("", ":", f":{own}", f":0{own}"))
    )
    return _joined(scheme, name, written, target)


def userinfo(url: str, chance: Random) -> str:
    """Somebody's name and password."""
    scheme, name, port, target = _split(url)
    return _joined(
        scheme, chance.choice(("", "user@", "user:pass@", ":@", "a%40b:c@")) + name, port, target
    )


def backslashes(url: str, chance: Random) -> str:
    """Slashes before the query as backslashes (WHATWG URL, special schemes)."""
    scheme, name, port, target = _split(url)
    path, question, query = target.partition("?")
    path = "".join(chance.choice("/\\") if character == "/" else character for character in path)
    slashes = chance.choice(("//", "\\\\", "/\\", "", "/", "////"))
    return f"{scheme}:{slashes}{name}{port}{path}{question}{query}"


def empty_query(url: str, chance: Random) -> str:
    """A question mark with nothing behind it (dropped unless the options keep it)."""
    return url + "?" if "?" not in url and chance.random() < 0.5 else url


def fragment(url: str, chance: Random) -> str:
    """A fragment, ``#!`` too."""
    return url + chance.choice(("", "#", "#top", "#!/a?b", "#%zz\u00e4"))


def blanks(url: str, chance: Random) -> str:
    """Tabs and line ends anywhere, blanks and controls at the ends (WHATWG URL, basic URL
    parser).
    """
    made = list(url)
    for _ in range(chance.randint(0, 3)):
        made.insert(chance.randint(0, len(made)), chance.choice("\t\n\r"))
    return (
        chance.choice(("", " ", "\x00\x1f ")) + "".join(made) + chance.choice(("", " ", "\n\x01"))
    )


SPELLINGS: tuple[Spelling, ...] = (
    encoded_octets,
    dot_segments,
    above_the_root,
    international,
    numbers,
    host_octets,
    letters,
    absolute_name,
    default_port,
    userinfo,
    backslashes,
    empty_query,
    fragment,
    blanks,
)


def respelled(url: str, chance: Random, spellings: tuple[Spelling, ...] = SPELLINGS) -> str:
    """One of many other spellings of a canonical URL."""
    for spelling in spellings:
        if chance.random() < 0.5:
            url = spelling(url, chance)
    return url
