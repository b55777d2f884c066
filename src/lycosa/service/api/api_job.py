"""The job of a process that serves the HTTP interface: the crawl, addresses, limits.

No secret is in it: the process reads the tokens from the file or the environment itself.
"""

from __future__ import annotations

import msgspec


class ApiLimits(msgspec.Struct, frozen=True):
    """Bounds on what clients can take.

    ``connections`` may be open at the same time. One client may make ``rate`` requests a second,
    and ``rate`` times ``burst_s`` at once. A request has at most ``header_bytes`` and
    ``body_bytes`` and arrives within ``request_s``; an answer is read within ``answer_s`` without
    progress. ``polls`` long polls, ``scrapes`` of single pages (half of them of one client) and
    ``listeners`` of events wait at the same time. Of calls to the crawl ``calls`` are in progress,
    and ``waiting_calls`` more wait.
    """

    connections: int = 500
    rate: float = 100.0
    burst_s: float = 3.0
    header_bytes: int = 16_384
    body_bytes: int = 16_000_000
    request_s: float = 15.0
    answer_s: float = 30.0
    polls: int = 100
    scrapes: int = 40
    listeners: int = 50
    calls: int = 16
    waiting_calls: int = 200


class ApiSettings(msgspec.Struct, frozen=True):
    """How an operator wants the interface.

    ``address`` is where it listens, ``HOST:PORT``. ``token_file`` has the tokens (empty = those of
    the environment, or none). ``certificate`` and ``key`` are PEM files. With ``is_behind_proxy`` a
    proxy on the way provides TLS.
    """

    address: str
    token_file: str = ""
    certificate: str = ""
    key: str = ""
    is_behind_proxy: bool = False
    limits: ApiLimits = ApiLimits()


class ApiJob(msgspec.Struct, frozen=True):
    """The crawl to serve.

    ``listener`` is the number of the inherited socket that listens. On one machine ``folder`` is
    the crawl folder and ``sockets`` the folder of the sockets of coordinator and workers; on a
    cluster ``cluster_file`` is the path of cluster.toml. Sessions of the page are those of the
    service with the random ``service``, without those that ``ended``.
    """

    settings: ApiSettings
    listener: int
    folder: str = ""
    sockets: str = ""
    cluster_file: str = ""
    service: str = ""
    ended: list[str] = []


def session_expiry(session: str) -> int:
    """When a session of the page ends by itself, in seconds since 1970: its cookie begins so."""
    expires = session.partition(".")[0]
    return int(expires) if expires.isascii() and expires.isdigit() else 0


encode_api_job = msgspec.json.Encoder().encode
decode_api_job = msgspec.json.Decoder(ApiJob).decode

COORDINATOR_SOCKET = "coordinator"
"""The name of the coordinator's socket in the folder of sockets."""
