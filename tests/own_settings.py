"""The settings of a crawl with one own host, ``a.test``, for whole crawls in virtual time."""

from __future__ import annotations

from pathlib import Path

import msgspec

from crawling import QUICK
from lycosa.base.config.sections import Config, PolitenessSection, RequestsSection
from lycosa.stages.politeness.own_proofs import OWN_PATH

A, SECRET = "http://a.test/", "s" * 40
OWN_FILE = f"{A[:-1]}{OWN_PATH}"


def own_config(folder: Path, at_once: int = 1) -> Config:
    """Hosts that are not proved have five minutes between two requests."""
    secret = folder / "secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    return msgspec.structs.replace(
        QUICK,
        politeness=PolitenessSection(
            delay_s=300.0, adaptive_factor=0.0, jitter=0.0, address_delay_s=0.0
        ),
        requests=RequestsSection(
            own_hosts=("a.test",), own_secret=f"file:{secret}", own_concurrency=at_once
        ),
    )
