"""The check at the start of a crawl that its requests can be signed, if the settings name a key.

It loads the library of the keys only then, so that other crawls start without it.
"""

from __future__ import annotations

from lycosa.base.config.sections import AgentSection
from lycosa.base.system.clock import SystemClock


def check_key(agent: AgentSection) -> None:
    """Raise ``KeyFileError`` when the workers on this machine could not use the key."""
    if agent.key_file:
        from lycosa.stages.fetch.request_signer import request_signer

        request_signer(agent, SystemClock())
