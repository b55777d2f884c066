"""What workers of this machine need for their requests: the key that signs them, and secrets.

The modules for them are loaded only if the settings name some, so that other crawls start without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lycosa.base.config.sections import AgentSection, RequestsSection
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


def check_key(agent: AgentSection, requests: RequestsSection) -> None:
    """Raise ``KeyFileError`` when the workers on this machine could not use the key.

    Raises ``SecretError`` when they could not use a secret that the rules of requests name, or
    that of own hosts.
    """
    load_signer(agent, SystemClock())
    if requests.rules:
        from lycosa.stages.fetch.request_profiles import load_profiles

        load_profiles(requests, str)
    if requests.own_hosts:
        from lycosa.stages.fetch.secret_values import read_own_secrets

        read_own_secrets(requests.own_secret)
