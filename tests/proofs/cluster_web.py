"""The web of the proof ``cluster``: nginx over a folder, and the synthetic server."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from free_ports import free_port
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.synthetic.synthetic_hosts import host_name
from nginx_site import NginxSite, write_tree
from proofs.programs import Program

_NAMES = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "flint",
    "grove",
    "heath",
    "iris",
    "jasper",
    "krill",
    "larch",
]


class Size(NamedTuple):
    """How large the proof is. ``stop_s`` is how long a process is stopped, or a node cut off."""

    brokers: int
    nodes: int
    shards: int
    static_hosts: int
    static_pages: int
    synthetic_hosts: int
    synthetic_pages: int
    faults: int
    stop_s: float

    @property
    def pages(self) -> int:
        """Roughly, how many there are."""
        return self.static_hosts * self.static_pages + self.synthetic_hosts * self.synthetic_pages


WHOLE = Size(3, 3, 6, 12, 1000, 80, 100, 40, 60.0)
SHORT = Size(1, 3, 6, 6, 100, 12, 25, 13, 45.0)


DELAY_S, ADDRESS_SLOTS = 0.1, 12


class Web:
    """nginx over a folder under several host names, and the synthetic server; the front pages of
    one link to the hosts of both. ``config`` is a settings file for crawls of it. A context manager.
    """

    STATIC = tuple(f"127.0.1.{number}" for number in range(1, 5))
    SYNTHETIC = tuple(f"127.0.1.{number}" for number in range(11, 15))

    def __init__(self, work: Path, size: Size) -> None:
        self.folder, self._size = work / "web", size
        self.hosts = [f"{name}.test" for name in _NAMES[: size.static_hosts]]
        self.plan = WebPlan(
            seed=5,
            hosts=size.synthetic_hosts,
            pages=size.synthetic_pages,
            latency_s=0.01,
            page_bytes=4000,
            redirects=0.02,
            gone=0.02,
        )
        self.folder.mkdir(parents=True)
        self.log = self.folder / "synthetic.log"
        self.config = self.folder / "crawl.toml"
        self.port = free_port(self.SYNTHETIC)
        self._stack = ExitStack()

    def __enter__(self) -> Web:
        root = self.folder / "root"
        write_tree(root, self._size.static_pages, seed=5)
        self.site = self._stack.enter_context(
            NginxSite(
                self.folder / "nginx",
                root,
                self.STATIC,
                # hosts at one address have the same bodies, others have not
                extra='sub_filter "@PORT@" "$server_port"; sub_filter_once off;'
                ' sub_filter "<title>" "<title>$server_addr: ";',
            )
        )
        front = root / "index.html"
        there = f"http://{host_name(0)}:{self.port}/"
        links = "".join(f'<a href="http://{host}:@PORT@/">{host}</a> ' for host in self.hosts)
        links += f'<a href="{there}">computed</a>'
        front.write_text(front.read_text().replace("</ul>", f"</ul>{links}"))
        self._serve()
        self.config.write_text(self._settings())
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    @property
    def seeds(self) -> list[str]:
        """The first of the static hosts, and the first page of the computed web."""
        computed = SyntheticWeb(self.plan).seed_url(port=self.port)
        return [f"http://{self.hosts[0]}:{self.site.port}/", computed]

    def requests(self) -> int:
        """How many there were so far, roughly."""
        return sum(_lines(path) for path in (self.site.folder / "access.log", self.log))

    def _serve(self) -> None:
        plan = {"latency_s": 0.01, "page_bytes": 4000, "redirects": 0.02, "gone": 0.02}
        command = [
            sys.executable,
            "-m",
            "lycosa.synthetic",
            "--port",
            str(self.port),
            "--seed",
            "5",
        ]
        command += ["--hosts", str(self.plan.hosts), "--pages", str(self.plan.pages)]
        command += [word for key, value in plan.items() for word in ("--plan", f"{key}={value}")]
        command += [word for each in self.SYNTHETIC for word in ("--address", each)]
        command += ["--log", str(self.log)]
        process = Program("synthetic", command, self.folder / "synthetic.out")
        self._stack.callback(process.end)
        process.start()
        process.await_port(self.SYNTHETIC[-1], self.port)

    def _settings(self) -> str:
        pins = [
            *(f"{host}={self.STATIC[n % 4]}" for n, host in enumerate(self.hosts)),
            *(f"{host_name(n)}={self.SYNTHETIC[n % 4]}" for n in range(self.plan.hosts)),
        ]
        listed = ", ".join(f'"{pin}"' for pin in pins)
        return f"""
[agent]
contact = "proof@example.org"
[scope]
rule = "any"
[politeness]
delay_s = {DELAY_S}
address_delay_s = 0.005
address_slots = {ADDRESS_SLOTS}
adaptive_factor = 0
jitter = 0
max_crawl_delay_s = 1
max_adaptive_delay_s = 1
[dns]
pins = [{listed}]
[fetch]
allow_addresses = ["127.0.0.0/8"]
total_s = 10
[parse]
language = false
[store]
segment_bytes = 2000000
segment_age_s = 60
[frontier]
finish_wait_s = 5
"""


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
