"""A real nginx that serves a folder, as an ordinary process with configuration, logs and ports of
its own, ended by its process id.

Its access log is the judge of crawls: it is written by somebody who knows nothing of us. nginx
gives times in milliseconds: the end of a request when its line is made, and how long it took; the
start is the difference. Each can be one millisecond off.
"""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from free_ports import free_port

RESOLUTION_S = 0.002
"""What a pause between two lines of the log may look shorter than it was: both ends are cut to
milliseconds.
"""

_FORMAT = r"'$msec\t$request_time\t$host\t$server_addr\t$status\t$sent_http_content_type\t$request_method\t$request_uri\t$http_user_agent\t$body_bytes_sent'"
_WORDS = (
    "amber anvil basin birch cedar cinder cobalt copper coral crater delta dune ember fjord flint"
    " garnet glacier granite harbour hazel heath indigo ivory jasper juniper lagoon larch lichen"
    " marble meadow mica moor moss nettle oak ochre onyx opal orchid pebble pine plum quartz raven"
    " reed ridge river rowan ruby saffron sage sand sequoia shale silver slate spruce stone summit"
    " thistle tundra umber valley velvet violet willow yarrow zinc"
)
_VOCABULARY = _WORDS.split()


class Hit(NamedTuple):
    """One line of the access log; times in seconds since 1970."""

    start: float
    end: float
    host: str
    address: str
    status: int
    content_type: str
    method: str
    target: str
    agent: str
    body_bytes: int = 0

    @property
    def is_html(self) -> bool:
        """Whether this was an HTML page with status 200, asked for with GET."""
        media_type = self.content_type.partition(";")[0].strip()
        return (
            self.method == "GET"
            and self.status == 200
            and media_type in ("text/html", "application/xhtml+xml")
        )


def nginx_program() -> str | None:
    """Where nginx is, or ``None``."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")


class NginxSite:
    """A context manager. ``addresses`` are loopback addresses, all with the same port; ``extra``
    goes into the server block. Those in ``own`` have a block of their own, with this text in it.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        addresses: Sequence[str] = ("127.0.0.1",),
        extra: str = "",
        own: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.root, self.addresses, self._extra = folder, root, tuple(addresses), extra
        self._own = dict(own or {})
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        """Its first address as a URL without a slash at the end."""
        return f"http://{self.addresses[0]}:{self.port}"

    def __enter__(self) -> NginxSite:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port(self.addresses)
        config = self.folder / "nginx.conf"
        config.write_text(self._configuration())
        program = nginx_program()
        assert program is not None, "nginx is not installed"
        self._process = subprocess.Popen(
            [program, "-c", str(config), "-e", str(self.folder / "error.log")],
            stdin=subprocess.DEVNULL,
        )
        self._wait_until_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(60)

    @property
    def pid(self) -> int:
        """Of its first process, the one that the others come from."""
        assert self._process is not None
        return self._process.pid

    def hits(self) -> list[Hit]:
        """The access log so far, in the order of its lines."""
        with (self.folder / "access.log").open(encoding="utf-8", errors="replace") as file:
            return list(_read(file))

    def _wait_until_open(self) -> None:
        assert self._process is not None
        for _ in range(3000):
            try:
                socket.create_connection((self.addresses[0], self.port), 1).close()
                return
            except ConnectionRefusedError:
                try:
                    self._process.wait(0.02)
                except subprocess.TimeoutExpired:
                    continue
                raise RuntimeError(
                    f"nginx did not start: {(self.folder / 'error.log').read_text()}"
                ) from None
        raise RuntimeError("nginx does not listen")

    def _configuration(self) -> str:
        folder = self.folder
        shared = [address for address in self.addresses if address not in self._own]
        listens = " ".join(f"listen {address}:{self.port};" for address in shared)
        own = "\n".join(
            f"  server {{ listen {address}:{self.port}; {text} }}"
            for address, text in self._own.items()
        )
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        return f"""
daemon off; worker_processes 1; pid {folder}/nginx.pid; user root;
events {{ worker_connections 1024; }}
http {{
  types {{ text/html html htm; text/css css; application/javascript js; image/png png; image/svg+xml svg; image/gif gif; image/x-icon ico;
    text/plain txt; application/json json; application/pdf pdf; application/zip zip; }}
  default_type application/octet-stream;
  {temporary}
  log_format proof {_FORMAT};
  access_log {folder}/access.log proof;
  keepalive_requests 1000000; sendfile on; tcp_nopush on;
  server {{ {listens} server_name _; root {self.root}; disable_symlinks off; {self._extra} }}
{own}
}}
"""


def write_tree(root: Path, pages: int, seed: int = 0, size: int = 4000) -> set[str]:
    """A static site of HTML files that are all reachable from ``/``; gives their targets. The
    same seed gives the same files.
    """
    chance = random.Random(seed)
    names = ["/", *(f"/{chance.choice(_VOCABULARY)}/{number}.html" for number in range(1, pages))]
    for number, name in enumerate(names):
        children = names[3 * number + 1 : 3 * number + 4]
        links = [*children, *(chance.choice(names) for _ in range(8))]
        anchors = "\n".join(
            f'<li><a href="{link}">{chance.choice(_VOCABULARY)}</a></li>' for link in links
        )
        text = " ".join(chance.choices(_VOCABULARY, k=size // 7))
        path = root / (name.lstrip("/") or "index.html")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "<!DOCTYPE html><html lang=en><title>Page"
            f" {number}</title><p>{text}</p><ul>{anchors}</ul></html>"
        )
    return set(names)


def _read(lines: Iterator[str]) -> Iterator[Hit]:
    for line in lines:
        if not line.endswith("\n"):
            return  # nginx is writing it
        end, took, host, address, status, content_type, method, target, agent, size = line[
            :-1
        ].split("\t")
        yield Hit(
            float(end) - float(took),
            float(end),
            host,
            address,
            int(status),
            content_type,
            method,
            target,
            agent,
            int(size),
        )
