"""``python -m lycosa.synthetic``: a synthetic web on loopback.

It serves for sizing and trying a crawl before it requests real sites.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import click
import msgspec

from lycosa.synthetic.misbehaviours import Misbehaviour
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.request_log import RequestLog
from lycosa.synthetic.synthetic_hosts import host_name
from lycosa.synthetic.synthetic_robots import RobotsVariant
from lycosa.synthetic.synthetic_server import SyntheticServer
from lycosa.synthetic.synthetic_web import SyntheticWeb

_EPILOG = """Examples:

\b
  python -m lycosa.synthetic --hosts 50 --port 8080
  python -m lycosa.synthetic --hosts 500 --pages 200 --plan robots=0.5 --plan error_rate=0.05
  python -m lycosa.synthetic --bad redirect-loop=0.1 --bad never-answers=0.01
  python -m lycosa.synthetic --list
"""


def _plan(
    hosts: int, pages: float, seed: int, settings: tuple[str, ...], bad: tuple[str, ...]
) -> WebPlan:
    values: dict[str, object] = {"hosts": hosts, "pages": pages, "seed": seed}
    values.update(entry.partition("=")[::2] for entry in settings)
    if bad:
        values["misbehaviours"] = dict(entry.partition("=")[::2] for entry in bad)
    unknown = set(values) - set(WebPlan.__struct_fields__)
    if unknown:
        raise click.UsageError(f"no such setting of a plan: {', '.join(sorted(unknown))}")
    try:
        plan = msgspec.convert(values, WebPlan, strict=False)
        SyntheticWeb(plan)
    except (ValueError, msgspec.ValidationError) as error:
        raise click.UsageError(str(error)) from None
    return plan


def _print_tables() -> None:
    click.echo("Misbehaviours, below /bad/ on every host:")
    for misbehaviour in Misbehaviour:
        click.echo(f"  {misbehaviour.value:24} {misbehaviour.meaning}")
    click.echo("Variants of robots.txt:")
    for variant in RobotsVariant:
        click.echo(f"  {variant.value:24} {variant.meaning}")


async def _serve(server: SyntheticServer) -> None:
    async with server:
        host = host_name(0)
        click.echo(f"Serving on {', '.join(server.addresses)}, port {server.port}. Crawl it with:")
        pins = f"--resolve '*={server.addresses[0]}' --allow-address 127.0.0.0/8"
        click.echo(f"  lycosa crawl http://{host}:{server.port}/ --scope any {pins} --delay 0.1s")
        await asyncio.Event().wait()


@click.command(epilog=_EPILOG)
@click.option("--hosts", default=50, show_default=True, help="Number of hosts.")
@click.option("--pages", default=20.0, show_default=True, help="Mean number of pages of a host.")
@click.option("--seed", default=0, show_default=True, help="The same seed is the same web.")
@click.option(
    "--plan",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other setting of a plan (see WebPlan); repeatable.",
)
@click.option(
    "--bad",
    multiple=True,
    metavar="NAME=SHARE",
    help="Share of pages that link to a misbehaviour; repeatable.",
)
@click.option(
    "--address",
    "addresses",
    multiple=True,
    default=("127.0.0.1",),
    show_default=True,
    help="Loopback address; repeatable.",
)
@click.option("--port", default=8080, show_default=True, help="Port; 0 is any free one.")
@click.option("--pace", default=1.0, show_default=True, help="Factor on every latency and pause.")
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every request to this file.",
)
@click.option("--list", "is_list", is_flag=True, help="List misbehaviours and robots.txt variants.")
def main(
    hosts: int,
    pages: float,
    seed: int,
    settings: tuple[str, ...],
    bad: tuple[str, ...],
    addresses: tuple[str, ...],
    port: int,
    pace: float,
    log: Path | None,
    is_list: bool,
) -> None:
    """Serve a web of computed pages over loopback."""
    if is_list:
        _print_tables()
        return
    web = SyntheticWeb(_plan(hosts, pages, seed, settings, bad))
    try:
        server = SyntheticServer(
            web, addresses=addresses, port=port, log=RequestLog(log), pace=pace
        )
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(server))
    except OSError as error:
        raise click.ClickException(f"cannot serve: {error}") from None


if __name__ == "__main__":
    main()
