"""Pages that loop, fill memory, open windows and look for ways out: what each may cost is bounded,
it ends with a result, and the browser connects to nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from pathlib import Path

import pytest

from body_archive import PAGE, BodyArchive, open_renderer, render
from killing import children_of
from lycosa.base.model.rendered_page import RenderBounds, RenderEnd
from lycosa.stages.render.browser_process import BrowserConfig, find_browser

pytestmark = pytest.mark.browser

_SHORT = RenderBounds(round_s=1.5, whole_s=10.0, memory_bytes=600_000_000)
_WHOLE = RenderBounds(round_s=3.0, whole_s=10.0, memory_bytes=700_000_000)
_READ, _KILLED = {RenderEnd.QUIET, RenderEnd.BUSY}, {RenderEnd.MEMORY, RenderEnd.CRASHED}
_FULL = {RenderEnd.TOO_LARGE, RenderEnd.HUNG, *_READ, *_KILLED}
_AFTER = "<p>a page after it</p>"


def _page(script: str) -> str:
    return f"<!doctype html><title>t</title><p>before</p><script>{script}</script><p>after</p>"


def _in_worker(script: str) -> str:
    return f"new Worker(URL.createObjectURL(new Blob([{script!r}])));"


# Each tries everything that needs a network of its own, a window or a person, as far as it goes.
_WAYS_OUT = """
const say = (text) => document.body.append(' ' + text);
const at = '127.0.0.1:PORT';
for (let i = 0; i < 5; i++) window.open('http://' + at + '/popup' + i);
const inner = document.createElement('iframe'); document.body.append(inner);
inner.contentWindow.open('http://' + at + '/inner');
alert(1); confirm(2); prompt(3); onbeforeunload = (e) => { e.preventDefault(); return 'stay'; };
const link = document.createElement('a'); link.download = 'x.bin';
link.href = URL.createObjectURL(new Blob(['x'.repeat(1e6)])); document.body.append(link); link.click();
navigator.serviceWorker.register('/sw.js').catch(() => say('no-service-worker'));
try { new SharedWorker('/shared.js') } catch { say('no-shared-worker') }
new WebSocket('ws://' + at + '/socket').onerror = () => say('no-socket');
try { new RTCPeerConnection({iceServers: [{urls: 'stun:' + at}]}) } catch { say('no-webrtc') }
try { new WebTransport('https://' + at) } catch { say('no-transport') }
navigator.sendBeacon('http://' + at + '/beacon', 'x');
fetch('http://' + at + '/post', {method: 'POST', body: 'x'}).catch(() => say('no-post'));
fetch('http://' + at + '/get').catch(() => say('no-get'));
fetch('file:///etc/passwd').then(() => say('read' + '-it')).catch(() => say('no-file'));
new EventSource('http://' + at + '/events');
navigator.geolocation.getCurrentPosition(() => 0, () => say('no-place'));
const unload = new Image(); unload.src = 'http://' + at + '/pixel.png';
new Worker(URL.createObjectURL(new Blob([
  "new WebSocket('ws://" + at + "/w'); fetch('http://" + at + "/w').catch(() => postMessage(1))"
]))).onmessage = () => say('no-worker-get');
onload = () => { form.submit(); location.href = 'http://' + at + '/away'; };
"""
_HINTS = """<link rel=dns-prefetch href=http://localhost:PORT><link rel=icon href=http://127.0.0.1:PORT/i>
<link rel=preconnect href=http://127.0.0.1:PORT><link rel=prefetch href=http://127.0.0.1:PORT/p>
<link rel=modulepreload href=http://127.0.0.1:PORT/m.js><link rel=manifest href=/m.json>
<script type=speculationrules>{"prefetch":[{"source":"list","urls":["/next"]}]}</script>
<video src=http://127.0.0.1:PORT/v.mp4 autoplay></video><object data=http://127.0.0.1:PORT/o></object>
<embed src=http://127.0.0.1:PORT/e><iframe src=file:///etc/passwd></iframe><img src=file:///etc/passwd>
<iframe src=chrome://version></iframe><iframe src="view-source:http://127.0.0.1:PORT/"></iframe>
<form id=form action=http://127.0.0.1:PORT/form></form>
<meta http-equiv=refresh content="0;url=http://127.0.0.1:PORT/refresh">"""


def _listening() -> tuple[socket.socket, str]:
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    return server, str(server.getsockname()[1])


def _connections(server: socket.socket) -> int:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return 0
    return 1


async def test_every_way_out_is_refused_counted_and_leads_nowhere() -> None:
    server, port = _listening()
    with server:
        async with open_renderer() as renderer:
            page = (_HINTS + _page(_WAYS_OUT)).replace("PORT", port)
            rendered = await render(renderer, page, RenderBounds(round_s=4.0, whole_s=12.0))
            assert rendered.end in _READ, rendered.detail
            after = await render(renderer, _AFTER)
            where = renderer.describe()
        assert _connections(server) == 0
    said = set(re.findall(r" no-[a-z-]+", rendered.html))
    assert said >= {
        f" no-{each}" for each in ("service-worker", "shared-worker", "socket", "webrtc")
    }
    assert said >= {f" no-{each}" for each in ("post", "get", "file", "place", "worker-get")}
    assert "read-it" not in rendered.html
    assert "root:" not in rendered.html + "".join(each.html for each in rendered.frames)
    assert rendered.refused.keys() >= {
        "popup",
        "dialog",
        "download",
        "websocket",
        "webrtc",
        "beacon",
    }
    assert rendered.refused.keys() >= {"service_worker", "shared_worker", "method", "navigation"}
    assert _AFTER in after.html
    if os.geteuid() == 0:
        assert "no network" in where  # root may make a namespace; others, where the kernel permits


async def test_endless_scripts_are_stopped_and_full_memory_is_ended() -> None:
    async with open_renderer() as renderer:
        endless = await render(renderer, _page("setTimeout(() => { for (;;); }, 10)"), _SHORT)
        fill = "kept = []; for (;;) kept.push(new Uint8Array(4e7).fill(1))"
        memory = await render(renderer, _page(fill), _SHORT)
        closed = await render(renderer, _page("window.close(); document.documentElement.remove()"))
        after = await render(renderer, _AFTER)
        children = children_of(os.getpid())
    assert endless.end is RenderEnd.BUSY
    assert "after" in endless.html
    assert endless.elapsed_s < 6
    assert memory.end in _KILLED, memory.detail
    assert memory.memory_bytes < 1.5 * _SHORT.memory_bytes
    assert not closed.html
    assert _AFTER in after.html
    assert children
    assert not set(children) & set(children_of(os.getpid()))


_LONG = {
    "promises": (_page("(function f() { Promise.resolve().then(f) })()"), _READ),
    "intervals": (_page("for (let i = 0; i < 2000; i++) setInterval(() => i * i, 1)"), _READ),
    "mutations": (_page("setInterval(() => document.body.append('x'), 50)"), {RenderEnd.BUSY}),
    "writes": (_page("for (;;) document.write('<p>' + 'x'.repeat(1000))"), _FULL),
    "elements": (
        _page("for (let i = 0; i < 4e5; i++) document.body.append('x'.repeat(60), new Image())"),
        _FULL,
    ),
    "depth": (
        _page(
            "let e = document.body; for (let i = 0; i < 1e5; i++) e = e.appendChild(new Image())"
        ),
        _FULL,
    ),
    "shadows": (
        _page(
            "let e = document.body; for (let i = 0; i < 3000; i++) { const c = "
            "document.createElement('div'); e.append(c); e = c.attachShadow({mode: 'closed'}) }"
        ),
        _FULL,
    ),
    "heap": (
        _page("const k = []; for (;;) k.push({a: new Array(100).fill(Math.random())})"),
        _FULL,
    ),
    "workers": (_page(_in_worker("for(;;);") * 4), _READ),
    "memory of workers": (
        _page(_in_worker("k=[];for(;;){a=new Uint8Array(5e7);a.fill(1);k.push(a)}")),
        _READ | _KILLED,
    ),
    "10 GB": (
        _page("k = []; for (let i = 0; i < 100; i++) k.push(new Uint8Array(1e8).fill(1))"),
        _READ | _KILLED,
    ),
    "reloads": (_page("location.reload()"), _READ),
    "leaving": (_page("setInterval(() => { location.href = '/' + Math.random() }, 1)"), _READ),
    "blank": (_page("location.href = 'about:blank'"), {RenderEnd.NO_PAGE}),
    "histories": (
        _page("n = 0; setInterval(() => history.pushState({}, '', '/s' + n++), 1)"),
        _READ,
    ),
    "crash": (_page("location.href = 'chrome://crash'"), _READ),
    "overwriting": (
        _page(
            "JSON.stringify = () => 1; Element.prototype.getHTML = () => 'FA' + 'KE'; "
            "Object.defineProperty(document, 'documentElement', {get() { return null }});"
            "MutationObserver = null; performance.now = () => 0; Array.prototype.push = null"
        ),
        _READ,
    ),
    "console": (_page("for (let i = 0; i < 1e5; i++) console.error('x'.repeat(1000))"), _READ),
    "surrogates": (_page(r"document.body.append('a\ud800b'); document.title = '\udc00'"), _READ),
    "frames in frames": (f"<p>x<iframe src={PAGE}></iframe>", _READ),
    "frames": (
        _page(
            "for (let i = 0; i < 300; i++) { const f = document.createElement('iframe'); "
            "f.srcdoc = i; document.body.append(f) }"
        ),
        _READ,
    ),
}


@pytest.mark.long
async def test_hostile_pages_cost_what_they_may_and_end_with_a_result() -> None:
    async with open_renderer() as renderer:
        for name, (page, ends) in _LONG.items():
            rendered = await render(renderer, page, _WHOLE)
            assert rendered.end in ends, (name, rendered.end, rendered.detail)
            assert rendered.elapsed_s < _WHOLE.whole_s + 5, name
            assert rendered.memory_bytes < 1.6 * _WHOLE.memory_bytes, name
            assert "FAKE" not in rendered.html
            after = await render(renderer, _AFTER)
            assert _AFTER in after.html, name


@pytest.mark.long
async def test_ten_thousand_requests_of_strangers_become_few_wants() -> None:
    script = "for (let i = 0; i < 12000; i++) fetch('https://h' + i + '.test/').catch(() => 0)"
    archive = BodyArchive({PAGE: _page(script)})
    async with open_renderer() as renderer:
        rendered = await render(renderer, archive)
        after = await render(renderer, _AFTER)
    assert len(archive.asked) <= 10_000
    assert len(rendered.requests) <= 10_000
    assert len(rendered.wants) <= 50
    assert rendered.refused.get("bounds")
    assert _AFTER in after.html


@pytest.mark.long
@pytest.mark.parametrize("is_apart", [True, False], ids=["namespace", "switches"])
async def test_the_system_sees_no_connection(tmp_path: Path, is_apart: bool) -> None:
    """Also where there is no namespace, names do not resolve and the proxy does not exist."""
    if os.geteuid() or not (shutil.which("strace") and shutil.which("nsenter")):
        pytest.skip("needs root, strace and nsenter")
    trace = tmp_path / "trace"
    back = "" if is_apart else f"nsenter --net=/proc/{os.getpid()}/ns/net "
    wrapper = tmp_path / "browser"
    tool = f"strace -f -qq -e trace=connect,sendto,sendmsg -o {trace}"
    wrapper.write_text(f'#!/bin/sh\nexec {back}{tool} {find_browser("")} "$@"\n')
    wrapper.chmod(0o755)
    server, port = _listening()
    with server:
        async with open_renderer(BrowserConfig(str(wrapper), has_sandbox=False)) as renderer:
            page = (_HINTS + _page(_WAYS_OUT)).replace("PORT", port)
            bounds = RenderBounds(round_s=15.0, whole_s=40.0)
            rendered = await render(renderer, page, bounds)
            assert rendered.end in _READ, rendered.detail
        assert _connections(server) == 0
    calls = trace.read_text().splitlines()
    assert any("sun_path" in line for line in calls)  # it is traced: it looks for a bus
    outside = [line for line in calls if "sin_port" in line or "sin6_port" in line]
    assert outside == []
