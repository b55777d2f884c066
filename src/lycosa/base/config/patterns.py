"""The operator's regular expressions, searched in time proportional to the length of the text.

Pages decide which texts are searched, so an engine that backtracks is a way to stop a crawl: the
pattern ``/(a+)+$`` and one link of 60 characters keep Python's ``re`` busy for hours. RE2 never
backtracks. It has no look-around and no back-references, and a pattern that would mean something
else to it than to ``re`` is refused as well (docs/decisions/regular-expressions.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import re2

MAX_CHARACTERS = 10_000
"""The length of one pattern."""
MEMORY_BYTES = 8 << 20
"""The memory of one compiled pattern, and of what it remembers between searches."""
_SHOWN = 200
_PERL = "invalid perl operator: "
_ESCAPE = "invalid escape sequence: "
_DOUBLED = "bad repetition operator: "
_ADVICE = (
    (
        (f"{_PERL}(?=", f"{_PERL}(?!", f"{_PERL}(?<"),
        "look-around is not supported; write what a URL must match in scope.include and what it"
        " must not match in scope.exclude",
    ),
    (
        ("a reference (?P=", *(f"{_ESCAPE}\\{digit}" for digit in range(1, 10))),
        "references to a group are not supported; write out the alternatives",
    ),
    (
        (f"{_PERL}(?>", *(f"{_DOUBLED}{sign}+" for sign in ("*", "+", "?"))),
        "possessive repetitions are not supported; an ordinary one costs the same here",
    ),
    (
        (f"{_PERL}(?",),
        "comments, conditions and the flags a, L, u and x are not supported; there are i, m and s",
    ),
    ((f"{_ESCAPE}\\Q",), "write a backslash before each sign"),
    ((f"{_ESCAPE}\\Z",), "write $ for the end of the URL"),
    ((f"{_ESCAPE}\\u", f"{_ESCAPE}\\U", f"{_ESCAPE}\\N"), "write \\x{E9} for U+00E9"),
    (("invalid repetition size",), "a repetition has at most 1000, also when it is nested"),
    (("pattern too large",), "write several shorter patterns"),
)
_OPEN_COUNT = re.compile(r"\{,\d*\}")
_NUMBER_OR_QUOTE = re.compile(r"\\(?:[1-9](?![0-7]{2})|Q)")
_NAME = "(?P="


class _Flaw(NamedTuple):
    """What is wrong with a pattern, in words of RE2, and the part of the pattern."""

    message: str
    part: str
    advice: str


class Patterns:
    """The patterns of one setting, in order.

    Raises ``ValueError`` for the first that is not supported: it names the setting, the pattern,
    the position and what to write instead.
    """

    def __init__(self, setting: str, patterns: Sequence[str]) -> None:
        self.texts = tuple(patterns)
        self._each = []
        for number, pattern in enumerate(self.texts):
            try:
                self._each.append(compile_pattern(pattern))
            except ValueError as error:
                raise ValueError(f"{setting}[{number}]: {error}") from None
        self._any = compiled_together(self.texts)

    def find(self, text: str) -> int | None:
        """The number of the first pattern that matches somewhere in ``text``, or ``None``."""
        if not self._each:
            return None
        data = text.encode("utf-8", "replace")  # a lone surrogate has no other form
        # One search for all patterns first, because most URLs match none.
        if self._any is not None and self._any.search(data) is None:
            return None
        return next(
            (number for number, each in enumerate(self._each) if each.search(data) is not None),
            None,
        )

    def __bool__(self) -> bool:
        return bool(self.texts)

    def __repr__(self) -> str:
        return f"<Patterns {self.texts}>"


def compile_pattern(pattern: str) -> Any:
    """The compiled pattern, with ``search`` and ``fullmatch`` for bytes in UTF-8.

    Raises ``ValueError`` with the pattern, the position and what to write instead.
    """
    if len(pattern) > MAX_CHARACTERS:
        raise ValueError(
            f"a pattern has {len(pattern)} characters, at most {MAX_CHARACTERS} are supported;"
            f" write several shorter ones: {_shown(pattern, 0)}"
        )
    other = _other_meaning(pattern)
    if other is not None:
        position, flaw = other
        raise ValueError(_refusal(pattern, position, flaw))
    try:
        return re2.compile(pattern, _options())
    except UnicodeEncodeError as error:
        raise ValueError(_refusal(pattern, error.start, _Flaw("not a character", "", ""))) from None
    except re2.error as error:
        flaw = _flaw(error)
        raise ValueError(_refusal(pattern, _position(pattern, flaw), flaw)) from None


def compiled_together(patterns: Sequence[str]) -> Any:
    """One pattern that matches what any of them matches; ``None`` where RE2 refuses that."""
    if len(patterns) < 2:
        return None
    try:
        return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns), _options())
    except re2.error:
        return None  # too large together, or two groups of one name


def _options() -> Any:
    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False  # it writes to standard error
    return options


def _other_meaning(pattern: str) -> tuple[int, _Flaw] | None:
    """The first part, outside character classes, that RE2 accepts with another meaning than
    ``re`` or reports badly, and its position.
    """
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if found := _NUMBER_OR_QUOTE.match(pattern, position):
            return position, _flaw_of(f"{_ESCAPE}{found[0]}")
        if pattern.startswith(_NAME, position):
            return position, _flaw_of(f"a reference {_NAME}")
        if found := _OPEN_COUNT.match(pattern, position):
            return position, _Flaw(f"no minimum in {found[0]}", "", f"write {{0{found[0][1:]}")
        if sign == "[":
            position = _class_end(pattern, position)
        else:
            position += 2 if sign == "\\" else 1
    return None


def _class_end(pattern: str, start: int) -> int:
    """The position after the character class that begins at ``start``."""
    position = start + 1
    position += pattern.startswith("^", position)
    position += pattern.startswith("]", position)  # the first one stands for itself
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1


def _flaw(error: Exception) -> _Flaw:
    told = error.args[0]
    return _flaw_of(told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told))


def _flaw_of(message: str) -> _Flaw:
    advice = next((advice for begins, advice in _ADVICE if message.startswith(begins)), "")
    return _Flaw(message, message.partition(": ")[2], advice)


def _position(pattern: str, flaw: _Flaw) -> int:
    """Where the part is that RE2 refuses; it does not tell.

    The same text may stand earlier with a harmless meaning, so what ends with it is compiled.
    """
    position = pattern.find(flaw.part)
    while flaw.part and position >= 0:
        try:
            re2.compile(pattern[: position + len(flaw.part)], _options())
        except re2.error as error:
            # The first prefix that fails in the same way ends where the flaw is.
            if _flaw(error).message == flaw.message:
                return position
        position = pattern.find(flaw.part, position + 1)
    return max(pattern.find(flaw.part), 0)


def _refusal(pattern: str, position: int, flaw: _Flaw) -> str:
    advice = f"; {flaw.advice}" if flaw.advice else ""
    return (
        f"{_shown(pattern, position)} is not a regular expression of RE2: character"
        f" {position + 1}: {flaw.message}{advice}"
    )


def _shown(pattern: str, position: int) -> str:
    """A pattern for a message; of a long one, the part around ``position``."""
    if len(pattern) <= _SHOWN:
        return repr(pattern)
    return f"...{pattern[max(position - _SHOWN // 2, 0) :][:_SHOWN]!r}..."
