"""Errors of connections between machines."""

from __future__ import annotations

import ssl


class RefusedConnection(ConnectionError):
    """The peer was reached, or could have been, but one side refuses the other.

    The text says what is wrong and what to do. Trying again helps only after an operator has
    changed something.
    """


def tls_refusal(error: ssl.SSLError) -> str:
    """What is wrong with the peer, or with this machine in the peer's eyes."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not valid here ({error.verify_message}): tls.authority must have"
            " the authority of all machines' certificates"
        )
    why = (error.reason or str(error)).lower().replace("_", " ")
    if "alert" in why:
        return f"it does not accept the certificate of this machine ({why})"
    if "did not return a certificate" in why:
        return "it showed no certificate: its cluster.toml needs [tls]"
    return f"it does not use TLS ({why}): all machines need [tls], or none"
