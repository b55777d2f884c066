"""``lycosa own``: the tokens that prove the operator's own hosts, and whether they are in place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.output import ExitCode, clean, emit, emit_json
from lycosa.cli.run_settings import settings_of_options
from lycosa.cli.setting_options import address_options, config_option, set_option

if TYPE_CHECKING:
    from lycosa.inspect.own_file_check import OwnFileCheck

_EPILOG = """
\b
Examples:
  openssl rand -hex 32 > /etc/lycosa/own && chmod 600 /etc/lycosa/own
  lycosa own www.example.org docs.example.org --secret file:/etc/lycosa/own
  lycosa own www.example.org --secret file:/etc/lycosa/own --check
  lycosa crawl https://www.example.org/ --set requests.own_secret=file:/etc/lycosa/own \\
      --set 'requests.own_hosts=["www.example.org"]'

Put each token, which is public, at the URL that is printed with it. The crawl requests that file
once an hour; while it has the token, the host has no delay between requests, and as many at once as
requests.own_concurrency says. robots.txt with Crawl-delay, Retry-After, and the limits of its IP
address stay in force.

With --check the host is asked for its robots.txt and, if that allows it, for the file, as a crawl
with the same settings would.

\b
Exit codes: 0 done, 1 with --check: a file does not prove its host, 2 bad usage, or a secret that
cannot be read
"""


@click.command("own", epilog=_EPILOG, short_help="The tokens that prove your own hosts.")
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
@click.option(
    "--secret",
    metavar="PLACE",
    help="Where the secret is: file:FILE or env:NAME [requests.own_secret].",
)
@click.option("--check", is_flag=True, help="Request the file of each HOST, and say what it is.")
@click.option("--http", "is_plain", is_flag=True, help="With --check: by http instead of https.")
@config_option
@set_option
@address_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def command(
    hosts: tuple[str, ...],
    secret: str | None,
    check: bool,
    is_plain: bool,
    config_file: Path | None,
    pairs: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Print what to put on each HOST to prove that it is yours, or check that it is there.

    HOST is an exact name as URLs of the crawl have it, with the port if it is not that of the
    scheme.
    """
    from lycosa.base.config.own_texts import check_own_hosts
    from lycosa.base.config.sources import load_settings
    from lycosa.stages.fetch.secret_values import read_own_secrets
    from lycosa.stages.politeness.own_proofs import OWN_PATH, token_of

    config = load_settings(config_file, os.environ, pairs, settings_of_options(options)).config
    place = secret or config.requests.own_secret
    if not place:
        raise click.UsageError("no secret; give --secret file:FILE, or set requests.own_secret")
    try:
        check_own_hosts(hosts)
        key = read_own_secrets(place)[0]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if check:
        from lycosa.inspect.own_file_check import check_own_file

        found = [
            check_own_file(host, token_of(key, host), config, is_secure=not is_plain)
            for host in hosts
        ]
        return _print_checks(found, as_json)
    tokens = [(host, OWN_PATH, token_of(key, host)) for host in hosts]
    if as_json:
        emit_json([{"host": host, "path": path, "token": token} for host, path, token in tokens])
        return ExitCode.FINISHED
    for host, path, token in tokens:
        emit(f"{clean(host)}{path}")
        emit(f"  {token}")
    return ExitCode.FINISHED


def _print_checks(found: list[OwnFileCheck], as_json: bool) -> ExitCode:
    import msgspec

    if as_json:
        emit_json(msgspec.to_builtins(found))
    else:
        for each in found:
            detail = f" ({each.detail})" if each.detail and not each.is_right else ""
            emit(clean(f"{each.url}: {each.meaning.removesuffix('.')}{detail}."))
            if each.finding in ("wrong_token", "missing"):
                emit(f"  put there: {each.token}")
    is_right = all(each.is_right for each in found)
    return ExitCode.FINISHED if is_right else ExitCode.INTERNAL
