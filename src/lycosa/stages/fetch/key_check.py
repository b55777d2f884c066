"""The key with which the workers of this machine sign their requests, if the settings name one.

The library of the keys is loaded only then, so that other crawls start without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lycosa.base.config.sections import AgentSection
from lycosa.base.ports import Clock
from lycosa.base.system.clock import SystemClock

if TYPE_CHECKING:
    from lycosa.stages.fetch.request_signer import RequestSigner


def load_signer(agent: AgentSection, clock: Clock) -> RequestSigner | None:
    """The signer of requests; ``None`` without a key. Raises ``KeyFileError``."""
    if not agent.key_file:
        return None
    from lycosa.stages.fetch.request_signer import request_signer

    return request_signer(agent, clock)


def check_key(agent: AgentSection) -> None:
    """Raise ``KeyFileError`` when the workers on this machine could not use the key."""
    load_signer(agent, SystemClock())
