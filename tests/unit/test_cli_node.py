"""``lycosa node``: what is refused before anything runs."""

from __future__ import annotations

import asyncio

import click
import pytest

from lycosa.cli.node import check_listen
from lycosa.cluster.network import Credentials


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("127.0.0.1:7071", "without a port"),
        ("192.0.2.1", "neither token_file nor"),
        ("", "give --listen HOST"),
    ],
)
def test_a_host_at_which_workers_cannot_listen_is_refused_at_once(host: str, said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        asyncio.run(check_listen(host, Credentials()))


def test_an_address_of_this_machine_is_taken() -> None:
    asyncio.run(check_listen("127.0.0.1", Credentials()))
