"""Decodes a tdmrep.json in a response, for the worker and for the audit."""

from __future__ import annotations

from lycosa.base.model.fetched import Fetched
from lycosa.base.preferences.tdm_file import MAX_FILE_BYTES
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import decode_content

_MAX_RATIO = 1000


def decoded_file(fetched: Fetched, body: bytes) -> bytes:
    """The file in a response with ``body``, content-decoded.

    A file that a limit of ours has cut is longer than any that is read: the cut must not turn a
    reservation into silence.
    """
    encoding, most = fetched.header("content-encoding"), MAX_FILE_BYTES + 1
    decoded = decode_content(body, encoding, most, _MAX_RATIO)
    is_cut = fetched.truncated or decoded.reason is Reason.DECODE_LIMIT
    return decoded.body.ljust(most) if is_cut else decoded.body
