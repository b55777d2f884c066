"""Whether and how the content of a page differs from that of its capture before.

The visible text decides, not the body: the bodies of many pages differ at every request in a token,
a time of day or an advertisement that no reader sees. A change of one digit is a change of the
text, so the digest is exact (a fingerprint such as simhash does not see that 19.90 became 21.90).
Where there is no text, the target of a redirect decides, else the payload.
"""

from __future__ import annotations

import hashlib

from lycosa.base.model.capture import Change
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.fetch_outcome import Meaning

_DIGEST_BYTES = 8


def text_digest_of(text: str, target: str, digest: bytes) -> bytes:
    """The 8 bytes that ``History.text_digest`` keeps of an answer.

    ``text`` is the visible text, ``target`` that of a redirect; either may be empty. ``digest`` is
    the SHA-1 of the payload. Empty when all three are.
    """
    if text:
        data = text.encode("utf-8", "replace")
    elif target:
        data = target.encode("utf-8", "replace")
    else:
        return digest[:_DIGEST_BYTES]
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def is_changed(old: History, meaning: Meaning, digest: bytes, text_digest: bytes) -> bool:
    """Whether the content differs from that of the capture before, also when there was none.

    A record without a text digest, as of an older program, is compared by the payload's digest.
    """
    if meaning is Meaning.NOT_MODIFIED:
        return False
    if old.text_digest and text_digest:
        return text_digest != old.text_digest
    return digest != old.digest


def change_of(old: History, meaning: Meaning, digest: bytes, text_digest: bytes) -> Change:
    """How a capture with this content differs from the one before, whose record is ``old``.

    ``Meaning.FAILED`` is an answer without content, as status 404. ``NONE`` when there was no
    content before it either.
    """
    had_content = old.fetches > 0 and not has_failed(old)
    if meaning is Meaning.FAILED:
        return Change.GONE if had_content else Change.NONE
    if had_content:
        is_same = not is_changed(old, meaning, digest, text_digest)
        return Change.SAME if is_same else Change.CHANGED
    # Of an error page after an error page nothing says whether there was content before both.
    return Change.BACK if old.fetches > 1 else Change.NEW


def has_failed(old: History) -> bool:
    """Whether the last capture was stored without content, as an error page is."""
    return old.status >= 400
