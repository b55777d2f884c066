"""The options by which commands take settings: ``--config FILE`` and ``--set KEY=VALUE``.

And the sections in which the help of ``lycosa crawl`` shows its options.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lycosa.cli.option_sets import option_set

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings file in TOML; see `lycosa config`.",
)
set_option = click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting; may be repeated. See `lycosa config`.",
)
contact_option = click.option(
    "--contact", metavar="URL|EMAIL", help="Where site owners can reach you; part of User-Agent."
)
scope_option = click.option(
    "--scope",
    type=click.Choice(["host", "site", "prefix", "page", "surt", "any"]),
    help="Which URLs belong to the crawl, relative to the seeds [host].",
)
delay_option = click.option(
    "--delay", metavar="TIME", help="Minimum pause between two requests to a host [1s]."
)


def words(given: Sequence[str]) -> tuple[str, ...]:
    """The words of options that may be repeated, or have several between commas."""
    return tuple(word.strip() for text in given for word in text.split(",") if word.strip())


limit_options = option_set(
    click.option(
        "--max-pages",
        metavar="N",
        help="Stop after N captures, over the life of the crawl; 0 is no limit.",
    ),
    click.option(
        "--max-bytes",
        metavar="SIZE",
        help="Stop after 500MB, 10GB of bodies received, over the life of the crawl; 0 is no"
        " limit.",
    ),
    click.option(
        "--max-disk",
        metavar="SIZE",
        help="Stop when the files of the crawl folder have this size; 0 is no limit.",
    ),
    click.option(
        "--max-time", metavar="TIME", help="Stop this run after 90s, 2h, 3d; 0 is no limit."
    ),
    click.option(
        "--until",
        metavar="DATE",
        help="Stop this run at 2027-01-31T18:00, or 18:00 today or tomorrow.",
    ),
    click.option(
        "--max-rate",
        metavar="N",
        help="At most N requests a second of the whole crawl, as 2 or 0.5; 0 is no limit.",
    ),
    click.option(
        "--max-bandwidth",
        metavar="SIZE",
        help="At most so many bytes of bodies a second on average, as 500KB; 0 is no limit.",
    ),
    click.option(
        "--hours",
        multiple=True,
        metavar="HOURS",
        help="Send requests in these hours only: 22:00-06:00, 'Mon-Fri 20:00-06:30 Europe/Berlin';"
        " may be repeated.",
    ),
)
"""What ends a run, or slows it down."""
address_options = option_set(
    click.option(
        "--resolve",
        multiple=True,
        metavar="PATTERN=ADDR",
        help="Use this address instead of a DNS lookup; * is a wildcard.",
    ),
    click.option(
        "--allow-address",
        multiple=True,
        metavar="CIDR",
        help="Allow a private or special address range.",
    ),
)


class CrawlOptions(click.Command):
    """A command whose help shows options by what they are for, as one list of fifty is not read."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        left = {
            each.opts[-1]: record
            for each in self.get_params(ctx)
            if isinstance(each, click.Option) and (record := each.get_help_record(ctx)) is not None
        }
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([left.pop(name) for name in names.split()])
        with formatter.section("Other options"):
            formatter.write_dl(list(left.values()))


_SECTIONS = {
    "Where to begin, and the folder": "--seeds --dir --cluster --config --set --workers --memory",
    "Which URLs": "--scope --surts --one-hop-out --include --exclude --max-depth --languages"
    " --accept --links --requisites --ranks",
    "When to stop": "--max-pages --max-bytes --max-disk --max-time --until --continuous",
    "How fast, and how often": "--delay --max-rate --max-bandwidth --hours --refetch",
    "Requests": "--contact --resolve --allow-address --cookies --auth --bearer --header"
    " --client-cert --cookies-from --proxy",
    "What is made of pages": "--extension --render --feed --earlier --upload --upload-remove",
    "Watch and steer it": "--api --api-tokens --api-tls --behind-proxy --api-rate --json --log-file"
    " --log-format --log-level --log-rotate --traces",
}
