"""How the memory of a renderer process is divided among its browsers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lycosa.processes.rendering.render_loop import browser_bytes, process_bytes


@given(memory=st.integers(300_000_000, 64_000_000_000), pages=st.integers(0, 64))
def test_browsers_together_do_not_need_more_than_their_process_may_have(
    memory: int, pages: int
) -> None:
    part, whole = browser_bytes(memory, pages), process_bytes(memory, pages)
    assert pages * part < whole
    assert part >= 300_000_000 and whole >= memory
    assert pages < 2 or part <= browser_bytes(memory, pages - 1)
