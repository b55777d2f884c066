"""What is known of an exception in a user's rule or sink: whose it is, where, and its traceback.

A remark has the name of the function, the kind of the exception and the line, but not its message:
that may have words of the page, which outputs with a purpose leave out. The log has everything.
"""

from __future__ import annotations

import traceback

import msgspec

from lycosa.base.model.remark import Remark
from lycosa.base.reasons import Reason

PROGRAM = "__lycosa_program__"
"""The name under which a worker imports the program that started it."""
PRINTED = "output"
"""The kind of a message that is no failure: what user code printed."""
_MAX_TEXT, _MAX_TRACE = 300, 2000  # characters; a message may contain a page
_PACKAGE = __file__.rpartition("/base/")[0]


class TooSlow(BaseException):
    """User code has not returned within its time. Not an ``Exception``, so that the code does not
    catch it.
    """


class CodeFailure(msgspec.Struct, frozen=True):
    """One failure of user code.

    ``kind`` is ``rule``, ``sink``, ``extractor``, ``links``, ``score``, or ``extension`` for the
    process of user code. ``name`` is ``module:function``. ``error`` is the class of the
    exception with the line, ``message`` its text, and ``trace`` the end of the traceback.
    """

    kind: str
    name: str
    error: str
    message: str = ""
    trace: str = ""

    @property
    def remark(self) -> Remark:
        """The remark for the page."""
        return Remark(Reason.EXTENSION_FAILED, f"{self.name}: {self.error}")

    @property
    def headline(self) -> str:
        """One line for people."""
        if self.kind == PRINTED:
            return f"user code printed: {self.message.rstrip()}"
        said = f": {self.message}" if self.message else ""
        return f"the {self.kind} {self.name} failed: {self.error}{said}"


class FailureNote(msgspec.Struct, frozen=True):
    """A rule or sink that failed: the number of its failures in this run, and the first of them."""

    failures: int
    first: CodeFailure

    def __str__(self) -> str:
        return f"{self.first.headline} ({self.failures:,} in this run)"


def name_of_code(code: object) -> str:
    """``module:function``, or the class of an object that is called."""
    named = code if hasattr(code, "__qualname__") else type(code)
    module = getattr(named, "__module__", "?")
    return f"{'__main__' if module == PROGRAM else module}:{getattr(named, '__qualname__', '?')}"


def failure_in(kind: str, name: str, error: BaseException) -> CodeFailure:
    """The failure of an exception, with the last line of the user's code in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(each.filename.rpartition("/")[2], each.lineno) for each in frames if _is_users(each)]
    file, line = lines[-1] if lines else ("", 0)
    where = f" ({file}:{line})" if file else ""
    trace = "".join(traceback.format_exception(error))[-_MAX_TRACE:]
    try:
        message = str(error)[:_MAX_TEXT]
    except Exception:  # the exception is the user's too
        message = ""
    return CodeFailure(kind, name, f"{type(error).__name__}{where}", message, trace)


def _is_users(frame: traceback.FrameSummary) -> bool:
    return not frame.filename.startswith((_PACKAGE, "<frozen"))


def summed_notes(notes: list[FailureNote]) -> list[FailureNote]:
    """One note for each function, with the sum of the numbers; the most frequent first."""
    found: dict[tuple[str, str], FailureNote] = {}
    for each in notes:
        key = each.first.kind, each.first.name
        before = found.get(key)
        found[key] = FailureNote(each.failures + before.failures, before.first) if before else each
    return sorted(found.values(), key=lambda each: -each.failures)
