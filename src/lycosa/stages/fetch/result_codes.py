"""The meaning of libcurl's result codes for a crawler.

libcurl names the operation that failed. A crawler needs to know which side failed and whether a
retry makes sense, which also depends on how far the request had come. One table has the codes that
are sufficient, one function handles the others.
"""

from __future__ import annotations

import errno
import re

from lycosa.base.reasons import Reason
from lycosa.stages.fetch.libcurl import pycurl

_TLS = (
    "SSL_CONNECT_ERROR",
    "PEER_FAILED_VERIFICATION",
    "SSL_CERTPROBLEM",
    "SSL_CIPHER",
    "SSL_CACERT_BADFILE",
    "SSL_ISSUER_ERROR",
    "SSL_CRL_BADFILE",
    "SSL_INVALIDCERTSTATUS",
    "SSL_PINNEDPUBKEYNOTMATCH",
    "SSL_SHUTDOWN_FAILED",
    "SSL_ENGINE_INITFAILED",
    "USE_SSL_FAILED",
)
_BY_CODE: dict[int, Reason] = {
    getattr(pycurl, f"E_{name}"): Reason.TLS_FAILED for name in _TLS if hasattr(pycurl, f"E_{name}")
} | {
    pycurl.E_URL_MALFORMAT: Reason.UNPARSABLE,
    pycurl.E_LOGIN_DENIED: Reason.UNPARSABLE,  # a user name in the URL; we never send one
    pycurl.E_GOT_NOTHING: Reason.EMPTY_RESPONSE,
    pycurl.E_PARTIAL_FILE: Reason.CONNECTION_LOST,
    pycurl.E_SEND_ERROR: Reason.CONNECTION_LOST,
    pycurl.E_HTTP2: Reason.CONNECTION_LOST,
    pycurl.E_BAD_CONTENT_ENCODING: Reason.MALFORMED_RESPONSE,
    # the address is pinned, so only .onion names give this code
    pycurl.E_COULDNT_RESOLVE_HOST: Reason.NETWORK_UNREACHABLE,
    getattr(pycurl, "E_WEIRD_SERVER_REPLY", 8): Reason.MALFORMED_RESPONSE,
    getattr(pycurl, "E_HTTP2_STREAM", 92): Reason.CONNECTION_LOST,
    getattr(pycurl, "E_TOO_LARGE", 100): Reason.HEADERS_TOO_LARGE,
}
_CONNECT_ERRORS = {
    errno.ECONNREFUSED: Reason.CONNECT_REFUSED,
    errno.ECONNRESET: Reason.CONNECT_REFUSED,
    errno.ETIMEDOUT: Reason.CONNECT_TIMEOUT,
    errno.EMFILE: Reason.INTERNAL,
    errno.ENFILE: Reason.INTERNAL,
    errno.ENOMEM: Reason.INTERNAL,
}
# What a SOCKS proxy says of the host (RFC 1928 section 6); 2, 7 and 8 are about the proxy.
_SOCKS_REPLIES = {
    1: Reason.NETWORK_UNREACHABLE,
    3: Reason.NETWORK_UNREACHABLE,
    4: Reason.NETWORK_UNREACHABLE,
    5: Reason.CONNECT_REFUSED,
    6: Reason.CONNECT_TIMEOUT,
}
_CONNECT_TOO_LARGE = "CONNECT response too large"
_NO_CONNECTION = (Reason.CONNECT_TIMEOUT, Reason.TOTAL_TIMEOUT)  # before a request was sent
_SOCKS_REPLY = re.compile(r"SOCKS5 connection .*\((\d+)\)")
_ALERT = " alert "  # of OpenSSL: "tlsv13 alert certificate required"
_TWO_TARGETS = "Multiple Location headers"
# libcurl's message when it gives up repeating a request; its count may include an earlier request
_REPEATED = "Connection died, tried"
# Errors in the chunked framing have the same code as a broken connection.
_FRAMING_WORDS = ("chunk", "encoding", "too large", "header", "malformed", "illegal")


def reason_of(code: int, message: str, os_error: int, is_sent: bool, has_answer: bool) -> Reason:
    """The reason for libcurl's result ``code``.

    ``is_sent`` says that a connection was ready and the request was sent; ``has_answer`` that a
    response had begun.
    """
    # TLS 1.3 refuses a client after its handshake, so a read or a write meets the alert.
    if code in (pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR) and not has_answer and _ALERT in message:
        return Reason.TLS_FAILED
    known = _BY_CODE.get(code)
    if known is not None:
        return known
    if code == pycurl.E_COULDNT_CONNECT:
        return _CONNECT_ERRORS.get(os_error, Reason.NETWORK_UNREACHABLE)
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if not is_sent:
            return Reason.CONNECT_TIMEOUT
        return Reason.TOTAL_TIMEOUT if has_answer else Reason.FIRST_BYTE_TIMEOUT
    if message.startswith(_REPEATED):
        return Reason.REQUEST_UNANSWERED
    if code == pycurl.E_RECV_ERROR:
        return _receive_error(message.lower())
    # libcurl also uses this code for HTTP/0.9 and for unknown HTTP versions
    if code == pycurl.E_UNSUPPORTED_PROTOCOL:
        return Reason.MALFORMED_RESPONSE if is_sent else Reason.SCHEME
    if code == pycurl.E_BAD_FUNCTION_ARGUMENT:  # also the code for a zero byte in a header
        return Reason.MALFORMED_RESPONSE if is_sent else Reason.INTERNAL
    return Reason.INTERNAL


def reason_of_proxy(
    verdict: Reason, code: int, message: str, answered: int, is_there: bool
) -> tuple[Reason, str] | None:
    """Why no request was sent through a proxy; ``None`` if the proxy has nothing to do with it.

    ``verdict`` is ours, if there is one. ``answered`` is the status of the answer to CONNECT (0:
    none yet, or a SOCKS proxy). ``is_there`` says that the proxy accepted the connection. That a
    proxy cannot reach a host says something about the host; all else is about the proxy.
    """
    # Of a request that was not sent, the only header lines are those of the answer to CONNECT.
    if verdict is Reason.HEADERS_TOO_LARGE or message.startswith(_CONNECT_TOO_LARGE):
        return Reason.PROXY_FAILED, "the proxy's answer to CONNECT is too large"
    if verdict not in (Reason.NONE, *_NO_CONNECTION) or 200 <= answered < 300:
        return None
    if answered:
        detail = f"the proxy answered {answered} to CONNECT with the address of the host"
        if answered == 504:
            return Reason.CONNECT_TIMEOUT, detail
        return (Reason.NETWORK_UNREACHABLE if answered >= 500 else Reason.PROXY_FAILED), detail
    if not is_there:
        return Reason.PROXY_FAILED, f"no connection to the proxy: {message or 'timeout'}"
    if verdict in _NO_CONNECTION or code == pycurl.E_OPERATION_TIMEDOUT:
        return Reason.CONNECT_TIMEOUT, "the proxy made no connection within the limit"
    reply = _SOCKS_REPLY.search(message)
    if reply is None:
        # TLS begins when a SOCKS proxy has made its connection.
        is_later = _BY_CODE.get(code) is Reason.TLS_FAILED
        return None if is_later else (Reason.PROXY_FAILED, message)
    reason = _SOCKS_REPLIES.get(int(reply[1]), Reason.PROXY_FAILED)
    return reason, f"the SOCKS proxy answered {reply[1]} (RFC 1928 section 6)"


def is_of_two_targets(code: int, message: str) -> bool:
    """Whether libcurl ended the response at a second ``Location`` that differs from the first.

    libcurl gives neither that line nor anything after it.
    """
    return code == getattr(pycurl, "E_WEIRD_SERVER_REPLY", 8) and message.startswith(_TWO_TARGETS)


def _receive_error(message: str) -> Reason:
    if "too large" in message and "header" in message:
        return Reason.HEADERS_TOO_LARGE
    return (
        Reason.MALFORMED_RESPONSE
        if any(word in message for word in _FRAMING_WORDS)
        else Reason.CONNECTION_LOST
    )
