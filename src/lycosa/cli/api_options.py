"""The options of commands that offer the HTTP interface of a crawl."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lycosa.base.config.extras import install_command
from lycosa.cli.option_sets import option_set

if TYPE_CHECKING:
    from lycosa.processes.api_keeper import ApiListener
    from lycosa.service.api.api_job import ApiSettings

DEFAULT_ADDRESS = "127.0.0.1:8470"
_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path, dir_okay=False)


api_options = option_set(
    click.option(
        "--api",
        "api_address",
        metavar="[HOST:PORT]",
        is_flag=False,
        flag_value=DEFAULT_ADDRESS,
        help=f"Offer the HTTP interface and the operator's page [{DEFAULT_ADDRESS}].",
    ),
    click.option(
        "--api-tokens",
        type=_FILE,
        metavar="FILE",
        help="File with lines NAME read|operate SECRET [environment: LYCOSA_API_TOKENS].",
    ),
    click.option(
        "--api-tls",
        nargs=2,
        type=_FILE,
        metavar="CERT KEY",
        help="PEM files of a certificate and its key.",
    ),
    click.option(
        "--behind-proxy",
        is_flag=True,
        help="State that a proxy in front of the interface provides TLS.",
    ),
    click.option(
        "--api-rate",
        type=click.FloatRange(min=1),
        default=100.0,
        show_default=True,
        metavar="N",
        help="Requests a second of one client.",
    ),
)
"""Add the options; ``api_given`` reads them."""


def api_given(options: dict[str, Any], default: str = "") -> tuple[ApiSettings, ApiListener] | None:
    """The settings of the interface and its open port; ``None`` when it was not asked for.

    Takes its options out of ``options``. Raises ``click.UsageError`` and ``SettingsError`` for what
    would be unsafe or cannot work, before anything else is done.
    """
    address = options.pop("api_address") or default
    tokens, tls = options.pop("api_tokens"), options.pop("api_tls")
    is_behind_proxy, rate = options.pop("behind_proxy"), options.pop("api_rate")
    if not address:
        if tokens or tls or is_behind_proxy:
            raise click.UsageError("--api-tokens, --api-tls and --behind-proxy need --api")
        return None
    if "://" in address or "/" in address:
        raise click.UsageError(
            f"--api {address}: this is not HOST:PORT; write seeds before --api, or --api"
            f" {DEFAULT_ADDRESS}"
        )
    for name in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise click.UsageError(f"{name} is not installed: {install_command('api')}")
    from lycosa.processes.api_keeper import ApiListener
    from lycosa.service.api.api_job import ApiLimits, ApiSettings
    from lycosa.service.api.tokens import read_tokens

    certificate, key = (str(path.resolve()) for path in tls) if tls else ("", "")
    settings = ApiSettings(
        address=address,
        token_file=str(tokens.resolve()) if tokens else "",
        certificate=certificate,
        key=key,
        is_behind_proxy=is_behind_proxy,
        limits=ApiLimits(rate=rate),
    )
    if certificate:
        _check_certificate(certificate, key)
    has_tokens = not read_tokens(settings.token_file).are_none
    listener = ApiListener(address, bool(certificate))
    if problem := _danger(settings, has_tokens, listener.is_loopback):
        listener.close()
        raise click.UsageError(problem)
    return settings, listener


def _danger(settings: ApiSettings, has_tokens: bool, is_loopback: bool) -> str:
    """Why the interface would be unsafe; empty when it is not."""
    from lycosa.base.system.environment import TOKENS_VARIABLE

    how = f"give --api-tokens FILE, or {TOKENS_VARIABLE} in the environment"
    if not is_loopback and not has_tokens:
        return f"other machines can reach {settings.address}: {how}"
    if not is_loopback and not settings.certificate and not settings.is_behind_proxy:
        return (
            f"tokens would be sent to {settings.address} unencrypted: give --api-tls CERT KEY, or"
            " --behind-proxy if a proxy provides TLS"
        )
    if settings.is_behind_proxy and not has_tokens:
        return f"everyone who reaches the proxy could steer the crawl: {how}"
    return ""


def _check_certificate(certificate: str, key: str) -> None:
    import ssl

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        raise click.UsageError(
            f"--api-tls: {certificate} and {key} are not PEM files of a certificate and its key"
            f" without a password ({os.strerror(error.errno) if error.errno else error})"
        ) from error
