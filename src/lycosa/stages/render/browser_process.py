"""One browser process with all its children: found, started apart from everything, watched, killed.

It stays in the process group of this process, whose parent kills that as a whole. It gets an empty
environment, a folder that is deleted, a network namespace without
a network where the system permits one, and another user if this one is root. Where there is no
namespace, names do not resolve and connections go to a proxy that does not exist.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.base.system.process_memory import cpu_s, held_by
from lycosa.stages.render.devtools import DevTools, DevToolsError, EventHandler

_PROGRAMS = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
)
_NOBODY = 65534
_START_S = 20.0
_NO_SANDBOX = "No usable sandbox"
_WITHOUT_SANDBOX = (
    ", which needs user namespaces; permit them, or set render.container_sandbox where a container "
    "is the sandbox"
)
_STARTER = Path(__file__).with_name("browser_start.py")

# What a page could otherwise reach the network by without a request, or what only costs time.
_OFF = (
    "AutofillServerCommunication,BackForwardCache,CertificateTransparencyComponentUpdater,"
    "DestroyProfileOnBrowserClose,DialMediaRouteProvider,DnsOverHttps,FencedFrames,"
    "GlobalMediaControls,HttpsFirstBalancedModeAutoEnable,HttpsUpgrades,"
    "IsolateOrigins,LensOverlay,LocalNetworkAccessChecks,MediaRouter,NetworkPrediction,"
    "OptimizationHints,PaintHolding,Prerender2,PrivacySandboxAdsAPIs,"
    "SpeculationRulesPrefetchFuture,Translate,site-per-process"
)
_SWITCHES = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-service-autorun",
    "--no-startup-window",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-extensions",
    f"--disable-features={_OFF}",
    "--disable-gpu",
    "--disable-hang-monitor",
    "--disable-notifications",
    "--disable-popup-blocking",  # each is attached and closed, so that it is counted
    "--disable-prompt-on-repost",
    "--disable-search-engine-choice-screen",
    "--disable-site-isolation-trials",  # one process a page: nothing there is worth protecting
    "--disable-software-rasterizer",
    "--disable-speech-api",
    "--disable-sync",
    "--disable-webgl",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--dns-prefetch-disable",
    "--enforce-webrtc-ip-permission-check",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ^NOTFOUND",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--proxy-bypass-list=<-loopback>",
    "--proxy-server=http://nothing.invalid:9",  # its name does not resolve either
    "--use-mock-keychain",
)


class BrowserConfig(msgspec.Struct, frozen=True, gc=False):
    """How browsers are run.

    ``program`` is a path, empty to look for one. ``has_sandbox`` leaves Chromium's own sandbox on;
    without it the container that this runs in must be one. ``pages`` are those of one browser.
    ``folder`` is where temporary folders are made, empty for the system's.
    """

    program: str = ""
    has_sandbox: bool = True
    pages: int = 200
    languages: str = "en-US,en"
    width: int = 1280
    height: int = 1024
    folder: str = ""


class NoBrowser(Exception):
    """There is no browser, or it does not start; its text says what to do."""


class BrowserUse(NamedTuple):
    """What a browser's processes use: bytes of memory that only they hold, processor seconds."""

    memory_bytes: int
    processor_s: float


def find_browser(program: str) -> str:
    """The path of the browser. Raises ``NoBrowser``, which says how to get one."""
    names = (program,) if program else _PROGRAMS
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        what = f"{program} is no program" if program else f"none of {', '.join(_PROGRAMS)} is found"
        raise NoBrowser(
            f"rendering needs Chromium, and {what}; install it (Debian: apt install "
            "chromium-headless-shell or chromium), or set render.browser to its path"
        )
    # Distributions start it by a shell script that reads the environment and settings of a desktop.
    direct = Path("/usr/lib/chromium") / Path(found).name
    return str(direct) if Path(found).parent == Path("/usr/bin") and direct.exists() else found


class BrowserProcess:
    """A running browser. ``is_apart`` says that it has a network namespace without a network."""

    def __init__(
        self, process: subprocess.Popen[bytes], devtools: DevTools, folder: Path, version: str
    ) -> None:
        self._process, self.devtools, self._folder = process, devtools, folder
        self.version = version
        self.pages = 0
        self.is_apart = _network_of(process.pid) != _network_of(os.getpid())
        self._ended_s: dict[int, float] = {}  # processor time of each process, also of ended ones

    @property
    def has_ended(self) -> bool:
        return self.devtools.ended.is_set() or self._process.poll() is not None

    def measure(self) -> BrowserUse:
        """What all its processes use now. Costs some 100 us for each."""
        memory = 0
        for pid in self._members():
            memory += held_by(pid).own_bytes
            self._ended_s[pid] = max(self._ended_s.get(pid, 0.0), cpu_s(pid))
        return BrowserUse(memory, sum(self._ended_s.values()))

    def kill(self) -> None:
        """End it with all its children. Returns at once; ``close`` waits."""
        self.devtools.close()
        for pid in self._members():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    async def close(self) -> None:
        """Kill it, wait for its end and delete its folder."""
        self.kill()
        await asyncio.to_thread(self._clean)

    def _clean(self) -> None:
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _members(self) -> list[int]:
        """The browser and all its descendants, parents first."""
        found, at = [self._process.pid], 0
        while at < len(found):
            found += _children(found[at])
            at += 1
        return found


async def start_browser(
    config: BrowserConfig, on_event: EventHandler, memory_bytes: int
) -> BrowserProcess:
    """Start a browser. Half of ``memory_bytes`` is for what its scripts allocate.

    Raises ``NoBrowser``.
    """
    program = find_browser(config.program)
    is_root = os.geteuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="lycosa-render-", dir=config.folder or None))
    devtools = DevTools(on_event)
    ours, theirs = socket.socketpair()
    errors = (folder / "errors").open("w+b")
    process = None
    try:
        if is_root and config.has_sandbox:
            os.chown(folder, _NOBODY, _NOBODY)
        with theirs, errors:
            process = _start(program, config, folder, theirs, errors.fileno(), memory_bytes)
        await devtools.open(ours)
        async with asyncio.timeout(_START_S):
            answer = await devtools.call("Browser.getVersion")
        version = msgspec.json.decode(answer)["product"]
        return BrowserProcess(process, devtools, folder, str(version))
    except (OSError, DevToolsError, TimeoutError, KeyError) as error:
        said = _last_line(folder / "errors")
        devtools.close()
        ours.close()
        if process is not None:
            process.kill()
            await asyncio.to_thread(process.wait)
        shutil.rmtree(folder, ignore_errors=True)
        why = said or str(error) or type(error).__name__
        if _NO_SANDBOX in why:
            why = "the kernel refuses its sandbox" + _WITHOUT_SANDBOX
        raise NoBrowser(f"{program} does not start: {why}") from error


def _start(
    program: str,
    config: BrowserConfig,
    folder: Path,
    sock: socket.socket,
    errors: int,
    memory_bytes: int,
) -> subprocess.Popen[bytes]:
    is_other = os.geteuid() == 0 and config.has_sandbox
    switches = [*_SWITCHES, f"--user-data-dir={folder / 'profile'}", f"--lang={config.languages}"]
    switches.append(f"--window-size={config.width},{config.height}")
    # Half of it: then a page's arrays and documents fit too.
    switches.append(f"--js-flags=--max-old-space-size={memory_bytes >> 21}")
    if not config.has_sandbox:
        switches.append("--no-sandbox")
    starter = [sys.executable, "-I", "-S", str(_STARTER), str(sock.fileno()), str(os.getpid())]
    return subprocess.Popen(
        [*starter, str(_NOBODY if is_other else 0), program, *switches],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=(sock.fileno(),),
        cwd=folder,
        env={"HOME": str(folder), "TMPDIR": str(folder), "TZ": "UTC", "LANG": "C.UTF-8"},
    )


def _last_line(path: Path) -> str:
    """What the browser complained about last, without where in its source."""
    with suppress(OSError):
        lines = [
            line
            for line in path.read_text("utf-8", "replace").splitlines()
            if line.strip() and "/dbus/" not in line
        ]
        return lines[-1].rpartition("] ")[2][:300] if lines else ""
    return ""


def _network_of(pid: int) -> str:
    """The network namespace of a process; empty if the system does not say."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115 (no file: a name)
    return ""


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (a pseudo-file)
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return found
