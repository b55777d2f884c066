"""The short form of the proof that hosts which flood with TLS handshake messages stop no other."""

from __future__ import annotations

from pathlib import Path

from proofs import tls_floods


def test_all_pages_of_good_hosts_are_fetched_beside_hosts_that_flood(tmp_path: Path) -> None:
    report = tls_floods.prove(tmp_path, short=True)
    assert "ended as tls_failed; 0 workers died" in report[0]
