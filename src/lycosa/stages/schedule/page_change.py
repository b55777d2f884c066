"""Whether and how the content of a page differs from that of its capture before.

The visible text decides, not the body: the bodies of many pages differ at every request in a token,
a time of day or an advertisement that no reader sees. A change of one digit is a change of the
text, so the digest is exact (a fingerprint such as simhash does not see that 19.90 became 21.90).
Where there is no text, the target of a redirect decides, else the payload.
"""

from __future__ import annotations

import hashlib
import re
import zlib

from lycosa.base.model.capture import Change
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.fetch_outcome import Meaning

GONE_STATUSES = frozenset({404, 410})
_DIGEST_BYTES = 8
_NUMBERS = re.compile(r"[0-9]+").sub


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


def title_hash(title: str) -> int:
    """A hash of a title without its numbers, for the comparison of near copies; 0 without one."""
    words = " ".join(_NUMBERS(" ", title).lower().split())
    return zlib.crc32(words.encode("utf-8", "replace")) | 1 << 32 if words else 0


def is_changed(old: History, meaning: Meaning, digest: bytes, text_digest: bytes) -> bool:
    """Whether the content differs from that of the capture before, also when there was none.

    Equal bodies are the same in any case: their texts differ when one of them was not parsed. A
    record without a text digest, as of an older program, is compared by the payload's digest.
    """
    if meaning is Meaning.NOT_MODIFIED or (digest and digest == old.digest):
        return False
    if old.text_digest and text_digest:
        return text_digest != old.text_digest
    return digest != old.digest


def change_of(
    old: History,
    meaning: Meaning,
    status: int,
    digest: bytes,
    text_digest: bytes,
    was_gone: bool = False,
) -> Change:
    """How a capture with this content differs from the one before, whose record is ``old``.

    ``Meaning.FAILED`` is an answer without content, as status 404. ``NONE`` when it is no content
    and not the first to say that the content is gone. ``was_gone``: the URL is known as gone.
    """
    had, was_gone = had_content(old), was_gone or old.status in GONE_STATUSES
    if meaning is Meaning.FAILED:
        is_first = had and status in GONE_STATUSES and not was_gone
        return Change.GONE if is_first else Change.NONE
    if not had:
        return Change.NEW
    if was_gone:
        return Change.BACK
    # An equal body is the same, also when one of the two could not be parsed, so had no text.
    is_same = digest == old.digest or not is_changed(old, meaning, digest, text_digest)
    return Change.SAME if is_same else Change.CHANGED


def change_distance(old: History, meaning: Meaning, simhash: int) -> int | None:
    """The number of SimHash bits in which a text differs from the last one of its page.

    ``None`` where one of them has no SimHash.
    """
    if meaning is Meaning.FAILED or not simhash or not old.simhash:
        return None
    return (simhash ^ old.simhash).bit_count()


def is_gone(old: History, status: int, was_gone: bool) -> bool:
    """Whether an error page says that content is gone, or is another error where it was gone."""
    return (status in GONE_STATUSES or was_gone) and had_content(old)


def had_content(old: History) -> bool:
    """Whether the URL ever had content. Text digest and SimHash of it outlive error pages."""
    return bool(old.text_digest) or (old.fetches > 0 and not has_failed(old))


def has_failed(old: History) -> bool:
    """Whether the last capture was stored without content, as an error page is."""
    return old.status >= 400
