"""``lycosa own``: the tokens that prove the operator's own hosts."""

from __future__ import annotations

import click

from lycosa.cli.output import ExitCode, clean, emit, emit_json

_EPILOG = """
\b
Examples:
  openssl rand -hex 32 > /etc/lycosa/own && chmod 600 /etc/lycosa/own
  lycosa own www.example.org docs.example.org --secret file:/etc/lycosa/own
  lycosa crawl https://www.example.org/ --set requests.own_secret=file:/etc/lycosa/own \\
      --set 'requests.own_hosts=["www.example.org"]'

Put each token, which is public, at the URL that is printed with it. The crawl requests that file
once an hour; while it has the token, the host has no delay between requests. robots.txt with
Crawl-delay, Retry-After, and the limits of its IP address stay in force.

\b
Exit codes: 0 done, 2 bad usage, or a secret that cannot be read
"""


@click.command("own", epilog=_EPILOG, short_help="The tokens that prove your own hosts.")
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
@click.option(
    "--secret",
    metavar="PLACE",
    required=True,
    help="Where the secret is: file:FILE or env:NAME [requests.own_secret].",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def command(hosts: tuple[str, ...], secret: str, as_json: bool) -> int:
    """Print what to put on each HOST to prove that it is yours.

    HOST is an exact name as URLs of the crawl have it, with the port if it is not that of the
    scheme.
    """
    from lycosa.base.config.own_texts import check_own_hosts
    from lycosa.stages.fetch.secret_values import read_own_secret
    from lycosa.stages.politeness.own_proofs import OWN_PATH, token_of

    try:
        check_own_hosts(hosts)
        key = read_own_secret(secret)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    tokens = [(host, OWN_PATH, token_of(key, host)) for host in hosts]
    if as_json:
        emit_json([{"host": host, "path": path, "token": token} for host, path, token in tokens])
        return ExitCode.FINISHED
    for host, path, token in tokens:
        emit(f"{clean(host)}{path}")
        emit(f"  {token}")
    return ExitCode.FINISHED
