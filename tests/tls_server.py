"""An authority of the tests' own, and TLS with certificates of it."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme

from lycosa.base.config.cluster_file import TlsSection

AUTHORITY = trustme.CA()


def server_tls(issued: trustme.LeafCert, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def tls_files(
    folder: Path, of: trustme.CA = AUTHORITY, trusted: trustme.CA | None = None
) -> TlsSection:
    """Files of one machine: a new certificate of ``of``, which trusts those of ``trusted``."""
    folder.mkdir(exist_ok=True)
    issued = of.issue_cert("machine.test")
    files = TlsSection(folder / "machine.pem", folder / "machine.key", folder / "authority.pem")
    files.certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    files.key.write_bytes(issued.private_key_pem.bytes())
    (trusted or of).cert_pem.write_to_path(str(files.authority))
    return files
