"""libcurl, loaded so that the machine's OpenSSL configuration cannot break it.

The wheel of pycurl contains a copy of OpenSSL, which reads the *system's* ``openssl.cnf`` when it
is loaded. A file written for another release (with provider sections, for example) makes every TLS
connection fail. So the configuration is hidden while the library loads, unless the operator has
chosen one, and is visible again for child processes. Import ``pycurl`` only from here.
"""

from __future__ import annotations

import os
from pathlib import Path

_OPENSSL_CONF = "OPENSSL_CONF"
_operators_choice = os.environ.get(_OPENSSL_CONF)
os.environ.setdefault(_OPENSSL_CONF, os.devnull)
import pycurl  # noqa: E402  the environment must be set before the library loads

if _operators_choice is None:
    del os.environ[_OPENSSL_CONF]

__all__ = ["default_ca_file", "pycurl"]

_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)


def default_ca_file() -> str:
    """The system's bundle of CA certificates: ``SSL_CERT_FILE``, or its usual location.

    Empty if there is none; libcurl then uses its default.
    """
    candidates = (os.environ.get("SSL_CERT_FILE", ""), *_CA_FILES)
    return next((name for name in candidates if name and Path(name).is_file()), "")
