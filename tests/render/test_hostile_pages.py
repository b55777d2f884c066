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
from browser_sandbox import permits_sandbox
from hostile_scripts import COSTLY, HINTS, KILLED, READ, WAYS_OUT, with_script
from killing import children_of
from lycosa.base.model.rendered_page import RenderBounds, RenderEnd
from lycosa.stages.render.browser_process import BrowserConfig, find_browser

pytestmark = pytest.mark.browser

_SHORT = RenderBounds(round_s=1.5, whole_s=10.0, memory_bytes=600_000_000)
# A busy machine takes long to fill memory; the page ends when it has.
_FILLED = RenderBounds(round_s=60.0, whole_s=90.0, memory_bytes=600_000_000)
_WHOLE = RenderBounds(round_s=3.0, whole_s=10.0, memory_bytes=700_000_000)
_AFTER = "<p>a page after it</p>"


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
            page = (HINTS + with_script(WAYS_OUT)).replace("PORT", port)
            rendered = await render(renderer, page, RenderBounds(round_s=4.0, whole_s=12.0))
            assert rendered.end in READ, rendered.detail
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
    if permits_sandbox():
        assert "no network" in where  # a namespace of its own


async def test_endless_scripts_are_stopped_and_full_memory_is_ended() -> None:
    before = set(children_of(os.getpid()))  # what earlier tests of this process have kept
    async with open_renderer() as renderer:
        endless = await render(renderer, with_script("setTimeout(() => { for (;;); }, 10)"), _SHORT)
        fill = "kept = []; for (;;) kept.push(new Uint8Array(4e7).fill(1))"
        memory = await render(renderer, with_script(fill), _FILLED)
        closed = await render(
            renderer, with_script("window.close(); document.documentElement.remove()")
        )
        after = await render(renderer, _AFTER)
        children = set(children_of(os.getpid())) - before
    assert endless.end is RenderEnd.BUSY
    assert "after" in endless.html
    assert endless.elapsed_s < 6
    assert memory.end in KILLED, memory.detail
    assert memory.memory_bytes < 1.5 * _FILLED.memory_bytes
    assert not closed.html
    assert _AFTER in after.html
    assert children
    assert not children & set(children_of(os.getpid()))


@pytest.mark.long
async def test_hostile_pages_cost_what_they_may_and_end_with_a_result() -> None:
    async with open_renderer() as renderer:
        for name, (page, ends) in COSTLY.items():
            rendered = await render(renderer, page, _WHOLE)
            assert rendered.end in ends, (name, rendered.end, rendered.detail)
            assert rendered.elapsed_s < _WHOLE.whole_s + 5, name
            assert rendered.memory_bytes < 1.6 * _WHOLE.memory_bytes, name
            assert "FAKE" not in rendered.html
            after = await render(renderer, _AFTER)
            assert _AFTER in after.html, name


@pytest.mark.long
async def test_ten_thousand_requests_of_strangers_become_few_wants() -> None:
    script = "for (let i = 0; i < 12000; i++) new Image().src = 'https://h' + i + '.test/'"
    archive = BodyArchive({PAGE: with_script(script)})
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
            page = (HINTS + with_script(WAYS_OUT)).replace("PORT", port)
            bounds = RenderBounds(round_s=15.0, whole_s=40.0)
            rendered = await render(renderer, page, bounds)
            assert rendered.end in READ, rendered.detail
        assert _connections(server) == 0
    calls = trace.read_text().splitlines()
    assert any("sun_path" in line for line in calls)  # it is traced: it looks for a bus
    outside = [line for line in calls if "sin_port" in line or "sin6_port" in line]
    assert outside == []
