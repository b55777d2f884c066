"""The static imports of a JavaScript module (ECMAScript 2024, 16.2).

A browser loads them before a line of the module runs, so they are known without running anything.
There is no parser here, only the tokens that decide where code is: comments, strings, templates and
regular expressions are skipped, and ``import`` and ``export … from`` count outside of all brackets.
Whether a slash divides or begins a regular expression follows from the token before it. A wrong
guess in rare code misses an import or reads a string too many; it never costs more than a pass over
the text.

Scripts are long and few are modules. So one search decides whether there may be an import at all,
and the tokens are read up to the last place where one may begin: usually the first lines.
"""

from __future__ import annotations

import re

MAX_SCRIPT_BYTES = 2 << 20
MAX_IMPORTS = 1000

# Each alternative matches possessively or without choice, so a hostile script cannot backtrack.
# No possessive group has a look-ahead in it: the engine of Python 3.11 loses its way there.
_TOKEN = re.compile(
    r"""
      (?P<skip> //[^\n\r\u2028\u2029]*+ | [ \t\n\r\f\v\ufeff]++ )
    | (?P<comment> /\* )
    | (?P<string> "[^"\\\n\r]*+(?:\\.[^"\\\n\r]*+)*+"? | '[^'\\\n\r]*+(?:\\.[^'\\\n\r]*+)*+'? )
    | (?P<word> [\w$]++ )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEXP = re.compile(
    r"/[^/\\\[\n\r]*+(?:(?:\\.|\[[^\]\\\n\r]*+(?:\\.[^\]\\\n\r]*+)*+\])[^/\\\[\n\r]*+)*+/",
    re.DOTALL,
)
_LONGEST_REGEXP = 2000  # characters; without a bound each slash could cost a pass over the rest
_IN_TEMPLATE = re.compile(r"`|\$\{|\\.", re.DOTALL)
# where an import may begin: a comment between its first two tokens is the one form that is missed
_CANDIDATE = re.compile(
    r"(?<![.\w$])(?:import\s*+(?:[\"'{*]|[\w$]++\s*+(?:,|from\b|\{|\*))"
    r"|export\s*+(?:\*|\{[^{}]*+\}\s*+from\b))"
)
_BEFORE_EXPRESSION = frozenset("(,=:[!&|?{;+-*%~^<>") | frozenset(
    [
        "return",
        "typeof",
        "case",
        "do",
        "else",
        "in",
        "instanceof",
        "new",
        "void",
        "delete",
        "throw",
        "yield",
        "await",
        "of",
    ]
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.S)
_ABSOLUTE = re.compile(r"https?:", re.IGNORECASE)


def static_imports(text: str) -> list[str]:
    """The raw URLs that a module imports, each once, in their order; at most ``MAX_IMPORTS``.

    A bare name ("lodash") is no URL: it stands for what an import map says, which is read with the
    page (HTML standard, "resolve a module specifier").
    """
    text = text[:MAX_SCRIPT_BYTES]
    last = -1
    for found in _CANDIDATE.finditer(text):
        last = found.start()
    if last < 0:
        return []
    reader = _Reader()
    reader.read(text, last)
    return [each for each in reader.found if is_module_url(each)][:MAX_IMPORTS]


def is_module_url(specifier: str) -> bool:
    """Whether a module specifier is a URL, and not a bare name."""
    return specifier.startswith(("/", "./", "../")) or bool(_ABSOLUTE.match(specifier))


class _Reader:
    """Where a reading is: open brackets, the last token, the statement.

    A statement is ``import`` (only that word so far), ``export``, ``clause`` (names of either, in
    front of ``from``), ``from``, or empty.
    """

    def __init__(self) -> None:
        self.found: dict[str, None] = {}
        self._depth = 0
        self._templates: list[int] = []  # the depth outside of each open ``${``
        self._last = ";"
        self._statement = ""

    def read(self, text: str, last: int) -> None:
        """Read the tokens up to the end of the statement that begins at ``last``."""
        at, end = 0, len(text)
        while at < end and (at <= last or self._statement):
            token = _TOKEN.match(text, at)
            assert token is not None  # the last alternative matches any character
            at = token.end()
            what = token.lastgroup
            if what == "word":
                self._take_word(token.group())
            elif what == "string":
                self._take_string(token.group())
            elif what == "comment":
                at = text.find("*/", at) + 2
                if at < 2:
                    return  # a comment without an end
            elif what == "other":
                at = self._take_other(text, token.group(), at)

    def _take_string(self, quoted: str) -> None:
        if not self._depth:
            if self._statement in ("import", "from"):
                self.found[unescaped(quoted.strip(quoted[0]))] = None
            self._statement = ""
        self._last = '"'

    def _take_word(self, word: str) -> None:
        if not self._depth:
            if word in ("import", "export") and self._last != ".":
                self._statement = word
            elif self._statement == "import":
                self._statement = "clause"
            elif word == "from" and self._statement in ("clause", "from"):
                self._statement = "from"
            elif self._statement != "clause" or self._last == "}":
                self._statement = ""
        self._last = word

    def _take_other(self, text: str, char: str, at: int) -> int:
        """Take a character outside of words and strings; return where the next token begins."""
        if char == "`":
            self._statement = "" if not self._depth else self._statement
            return self._end_of_template(text, at)
        if char == "/":
            before = self._last in _BEFORE_EXPRESSION
            found = _REGEXP.match(text, at - 1, at + _LONGEST_REGEXP) if before else None
            self._last = ")" if found else "/"
            return found.end() if found else at
        if not self._depth and self._statement:
            names = char in "{*," and self._statement != "from"
            self._statement = "clause" if names else ""
        if char in "({[":
            self._depth += 1
        elif char in ")}]":
            self._depth = max(self._depth - 1, 0)
            if char == "}" and self._templates and self._templates[-1] == self._depth:
                self._templates.pop()
                return self._end_of_template(text, at)
        self._last = char
        return at

    def _end_of_template(self, text: str, at: int) -> int:
        """Where the text of a template ends: behind it, or in the expression that interrupts it."""
        self._last = ")"
        for found in _IN_TEMPLATE.finditer(text, at):
            if found.group() == "`":
                return found.end()
            if found.group() == "${":
                self._templates.append(self._depth)
                self._depth += 1
                self._last = "{"
                return found.end()
        return len(text)


def unescaped(text: str) -> str:
    """The value of a string literal's content."""
    if "\\" not in text:
        return text

    def char(found: re.Match[str]) -> str:
        digits = found.group(1) or found.group(2) or found.group(3)
        if not digits:
            return found.group(4)
        number = int(digits, 16)
        return chr(number) if number <= 0x10FFFF and not 0xD800 <= number < 0xE000 else "\ufffd"

    return _ESCAPE.sub(char, text)
