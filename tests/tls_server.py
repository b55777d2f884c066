"""An authority of the tests' own, and servers' TLS with certificates of it."""

from __future__ import annotations

import ssl

import trustme

AUTHORITY = trustme.CA()


def server_tls(issued: trustme.LeafCert, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context
