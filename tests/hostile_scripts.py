"""Pages whose scripts are hostile: endless, large, or looking for a way out of the browser."""

from __future__ import annotations

from body_archive import PAGE
from lycosa.base.model.rendered_page import RenderEnd

READ, KILLED = {RenderEnd.QUIET, RenderEnd.BUSY}, {RenderEnd.MEMORY, RenderEnd.CRASHED}
"""Ends of a page that was read, and of one that cost its browser."""

_FULL = {RenderEnd.TOO_LARGE, RenderEnd.HUNG, *READ, *KILLED}


def with_script(script: str) -> str:
    return f"<!doctype html><title>t</title><p>before</p><script>{script}</script><p>after</p>"


def _in_worker(script: str) -> str:
    return f"new Worker(URL.createObjectURL(new Blob([{script!r}])));"


# Each tries everything that needs a network of its own, a window or a person, as far as it goes.
WAYS_OUT = """
const say = (text) => document.body.append(' ' + text);
const at = '127.0.0.1:PORT';
for (let i = 0; i < 5; i++) window.open('http://' + at + '/popup' + i);
const inner = document.createElement('iframe'); document.body.append(inner);
inner.contentWindow.open('http://' + at + '/inner');
alert(1); confirm(2); prompt(3); onbeforeunload = (e) => { e.preventDefault(); return 'stay'; };
const link = document.createElement('a'); link.download = 'x.bin';
link.href = URL.createObjectURL(new Blob(['x'.repeat(1e6)])); document.body.append(link); link.click();
try { navigator.serviceWorker.register('/sw.js').catch(() => say('no-service-worker')) }
catch { say('no-service-worker') }
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
HINTS = """<link rel=dns-prefetch href=http://localhost:PORT><link rel=icon href=http://127.0.0.1:PORT/i>
<link rel=preconnect href=http://127.0.0.1:PORT><link rel=prefetch href=http://127.0.0.1:PORT/p>
<link rel=modulepreload href=http://127.0.0.1:PORT/m.js><link rel=manifest href=/m.json>
<script type=speculationrules>{"prefetch":[{"source":"list","urls":["/next"]}]}</script>
<video src=http://127.0.0.1:PORT/v.mp4 autoplay></video><object data=http://127.0.0.1:PORT/o></object>
<embed src=http://127.0.0.1:PORT/e><iframe src=file:///etc/passwd></iframe><img src=file:///etc/passwd>
<iframe src=chrome://version></iframe><iframe src="view-source:http://127.0.0.1:PORT/"></iframe>
<form id=form action=http://127.0.0.1:PORT/form></form>
<meta http-equiv=refresh content="0;url=http://127.0.0.1:PORT/refresh">"""

COSTLY: dict[str, tuple[str, set[RenderEnd]]] = {
    "promises": (with_script("(function f() { Promise.resolve().then(f) })()"), READ),
    "intervals": (with_script("for (let i = 0; i < 2000; i++) setInterval(() => i * i, 1)"), READ),
    "mutations": (
        with_script("setInterval(() => document.body.append('x'), 50)"),
        {RenderEnd.BUSY},
    ),
    "writes": (with_script("for (;;) document.write('<p>' + 'x'.repeat(1000))"), _FULL),
    "elements": (
        with_script(
            "for (let i = 0; i < 4e5; i++) document.body.append('x'.repeat(60), new Image())"
        ),
        _FULL,
    ),
    "depth": (
        with_script(
            "let e = document.body; for (let i = 0; i < 1e5; i++) e = e.appendChild(new Image())"
        ),
        _FULL,
    ),
    "shadows": (
        with_script(
            "let e = document.body; for (let i = 0; i < 3000; i++) { const c = "
            "document.createElement('div'); e.append(c); e = c.attachShadow({mode: 'closed'}) }"
        ),
        _FULL,
    ),
    "heap": (
        with_script("const k = []; for (;;) k.push({a: new Array(100).fill(Math.random())})"),
        _FULL,
    ),
    "workers": (with_script(_in_worker("for(;;);") * 4), READ),
    "memory of workers": (
        with_script(_in_worker("k=[];for(;;){a=new Uint8Array(5e7);a.fill(1);k.push(a)}")),
        READ | KILLED,
    ),
    "10 GB": (
        with_script("k = []; for (let i = 0; i < 100; i++) k.push(new Uint8Array(1e8).fill(1))"),
        READ | KILLED,
    ),
    "reloads": (with_script("location.reload()"), READ),
    "leaving": (with_script("setInterval(() => { location.href = '/' + Math.random() }, 1)"), READ),
    "blank": (with_script("location.href = 'about:blank'"), {RenderEnd.NO_PAGE}),
    "histories": (
        with_script("n = 0; setInterval(() => history.pushState({}, '', '/s' + n++), 1)"),
        READ,
    ),
    "crash": (with_script("location.href = 'chrome://crash'"), READ),
    "overwriting": (
        with_script(
            "JSON.stringify = () => 1; Element.prototype.getHTML = () => 'FA' + 'KE'; "
            "Object.defineProperty(document, 'documentElement', {get() { return null }});"
            "MutationObserver = null; performance.now = () => 0; Array.prototype.push = null"
        ),
        READ,
    ),
    "console": (with_script("for (let i = 0; i < 1e5; i++) console.error('x'.repeat(1000))"), READ),
    "surrogates": (
        with_script(r"document.body.append('a\ud800b'); document.title = '\udc00'"),
        READ,
    ),
    "frames in frames": (f"<p>x<iframe src={PAGE}></iframe>", READ),
    "frames": (
        with_script(
            "for (let i = 0; i < 300; i++) { const f = document.createElement('iframe'); "
            "f.srcdoc = i; document.body.append(f) }"
        ),
        READ,
    ),
}
