"""Pages in a real browser whose every request is answered from what is stored."""

from __future__ import annotations

import pytest

from body_archive import PAGE, BodyArchive, open_renderer, render, stored
from lycosa.base.model.capture import Want
from lycosa.base.model.rendered_page import RenderEnd
from lycosa.base.reasons import Reason
from lycosa.stages.render.browser_process import BrowserConfig

pytestmark = pytest.mark.browser

_APP = """<!doctype html><title>app</title><div id=root></div><noscript>needs scripts</noscript>
<script src=/app.js></script><script src="https://cdn.test/jsonp?callback=cb_1700000000001"></script>
<x-box></x-box><div style="height:5000px"></div><div id=end></div>
<iframe src=/frame.html></iframe><script type=module>import '/module.js'</script>"""
_SCRIPT = """
const say = (text) => { root.append(' [' + text + ']'); };
self.cb = say; self.cb_1700000000001 = say;
say(new Date().toISOString()); say(Math.random()); say(crypto.randomUUID());
fetch('https://api.test/data.json', {headers: {'x-key': '1'}}).then((r) => r.json())
  .then((d) => say('data ' + d.a));
fetch('https://counter.test/data').catch(() => 0);  // data of another site is never wanted
new Worker('/worker.js').onmessage = (e) => say('worker ' + e.data);
setTimeout(() => say('late'), 5000);
customElements.define('x-box', class extends HTMLElement {
  connectedCallback() { this.attachShadow({mode: 'closed'}).innerHTML = '<a href=/in-shadow>s</a>'; }
});
addEventListener('load', () => new IntersectionObserver((seen, self) => {
  if (seen.some((s) => s.isIntersecting)) { self.disconnect(); say('seen the end'); }
}).observe(document.getElementById('end')));
console.error('a complaint'); setTimeout(() => { throw new Error('a fault'); });
"""
_BODIES = {
    PAGE: _APP,
    f"{PAGE}app.js": _SCRIPT,
    "https://cdn.test/jsonp?callback=cb": stored("cb('called back')", "text/javascript"),
    "https://api.test/data.json": '{"a": 42}',
    f"{PAGE}worker.js": "fetch('/w.json').then((r) => r.text()).then(postMessage)",
    f"{PAGE}w.json": "of the archive",
    f"{PAGE}frame.html": stored("<p>in a frame", x_frame_options="DENY"),
    f"{PAGE}module.js": "import '/deep.js'; import '/missing.js'",
    f"{PAGE}deep.js": "",
}


async def test_a_page_is_what_its_scripts_make_of_stored_answers() -> None:
    async with open_renderer() as renderer:
        rendered = await render(renderer, BodyArchive(_BODIES), has_screenshot=True)
        again = await render(renderer, BodyArchive(_BODIES))
    assert rendered.end is RenderEnd.QUIET, rendered.detail
    assert rendered.title == "app"
    for text in ("2023-11-14T00:00:00", "data 42", "worker of the archive", "late", "seen the end"):
        assert text in rendered.html
    assert "called back" in rendered.html
    assert '<template shadowrootmode="open"' in rendered.html
    assert "in-shadow" in rendered.html
    assert "needs scripts" not in rendered.html
    assert [each.url for each in rendered.frames] == [f"{PAGE}frame.html"]
    assert rendered.wants == (Want(f"{PAGE}missing.js", "script"),)
    asked = {each.url: each.refusal for each in rendered.requests}
    assert asked.keys() > _BODIES.keys() - {"https://cdn.test/jsonp?callback=cb"}
    assert asked["https://counter.test/data"] == Reason.WANT_ELSEWHERE.label
    assert rendered.changed.keys() == {"preflight", "cors", "framing", "matched", "jsonp"}
    assert rendered.console == ("a complaint",)
    assert "a fault" in rendered.errors[0]
    assert rendered.screenshot.startswith(b"\x89PNG")
    assert 0 < rendered.processor_s < 20
    assert 20_000_000 < rendered.memory_bytes < 1_500_000_000

    # The same answers give the same page, but for the order in which they arrive.
    assert sorted(again.html) == sorted(rendered.html)
    assert {each.url for each in again.requests} == {each.url for each in rendered.requests}


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (None, RenderEnd.NO_PAGE),
        (stored("bytes", "application/octet-stream"), RenderEnd.NO_PAGE),
        (stored("", status=204), RenderEnd.NO_PAGE),
        (stored("no target", status=302), RenderEnd.NO_PAGE),
        (stored("attached", content_disposition="attachment"), RenderEnd.NO_PAGE),
        (stored("<p>gone", status=404), RenderEnd.QUIET),
        (stored("plain <b>", "text/plain"), RenderEnd.QUIET),
        (stored("<p>x", refresh="0;url=/x", content_security_policy="sandbox"), RenderEnd.QUIET),
    ],
)
@pytest.mark.long
async def test_what_is_no_page_is_said_to_be_none(answer: object, end: RenderEnd) -> None:
    async with open_renderer() as renderer:
        archive = BodyArchive({} if answer is None else {PAGE: answer})  # type: ignore[dict-item]
        rendered = await render(renderer, archive)
    assert rendered.end is end, rendered.detail
    assert bool(rendered.html) is end.has_document


async def test_redirects_and_addresses_that_are_none_of_the_web() -> None:
    bodies = {
        PAGE: stored("", status=302, location="/b"),
        f"{PAGE}b": stored("", status=301, location="https://c.test/"),
        "https://c.test/": "<title>end</title><img src=/r.png>",
        "https://c.test/r.png": stored("", status=307, location="/z.png"),
    }
    async with open_renderer() as renderer:
        rendered = await render(renderer, BodyArchive(bodies))
        for url in (
            "file:///etc/passwd",
            "chrome://version",
            "view-source:http://a.test/",
            "data:,x",
        ):
            assert (await render(renderer, "", url=url)).end is RenderEnd.REFUSED
    assert (rendered.title, rendered.url) == ("end", "https://c.test/")
    assert rendered.wants == (Want("https://c.test/z.png", "image"),)


async def test_without_a_browser_the_result_says_how_to_get_one() -> None:
    from lycosa.stages.render.chromium_renderer import ChromiumRenderer

    renderer = ChromiumRenderer(BrowserConfig(program="/no/such/browser"))
    rendered = await render(renderer, "x")
    assert rendered.end is RenderEnd.NO_BROWSER
    assert "/no/such/browser is no program" in rendered.detail
    assert "render.browser" in renderer.describe()
    await renderer.close()
