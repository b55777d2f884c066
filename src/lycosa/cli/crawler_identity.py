"""``lycosa identity``: keys that sign requests, and the files by which others know the crawler."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.option_sets import option_set
from lycosa.cli.output import emit, emit_json, emit_pairs
from lycosa.cli.setting_options import config_option, set_option

if TYPE_CHECKING:
    from lycosa.base.config.sections import Config
    from lycosa.base.signing.archive_key import ArchiveKey
    from lycosa.base.signing.signing_key import SigningKey
    from lycosa.cli.identity_files import WrittenSite

_EPILOG = """
\b
In this order, once:
  lycosa identity new /etc/lycosa/signing.pem --json > NODE.json        on each node
  lycosa identity directory *.json --url https://crawler.example --out site
  lycosa identity page --url https://crawler.example --out site --address 192.0.2.0/28
  serve the folder site at https://crawler.example, then start the crawl with
  --set agent.page=... --set agent.key_directory=... --set agent.key_file=/etc/lycosa/signing.pem

`lycosa docs identity` has a server's settings for the folder, the rotation of keys, and more.
"""
_NEW_EPILOG = """
\b
Examples:
  lycosa identity new signing.pem
  lycosa identity new /etc/lycosa/signing.pem --json > node-7.json
  lycosa identity new archives.pem --archives

The private key stays in FILE, which only its owner may read. No other command prints or copies it.
Make one on each node, so that a node that is lost costs one key. The public part is printed; it
goes into the directory (`lycosa identity directory`). The key of --archives signs what
`lycosa export DIR wacz --sign FILE` writes; give its public part to those who check archives.
"""
_SHOW_EPILOG = """
\b
Examples:
  lycosa identity show signing.pem
  lycosa identity show signing.pem --json > node-7.json
"""
_DIRECTORY_EPILOG = """
\b
Examples:
  lycosa identity directory node-1.json node-2.json --url https://crawler.example --out site
  lycosa identity directory signing.pem --url https://crawler.example --out site   one machine
  lycosa identity directory site/.well-known/http-message-signatures-directory node-17.json \\
      --url https://crawler.example --out site                                   one more node

KEY is what `lycosa identity new` printed with --json, a key file, a public key in PEM, or an older
directory. The new directory has exactly the keys of all of them. To replace a key, publish both
first, then start the node with the new one, then publish without the old one.
"""
_PROVE_EPILOG = """
\b
Examples:
  lycosa identity prove signing.pem --url https://crawler.example \\
      --directory site/.well-known/http-message-signatures-directory

Run it on the machine of each key, with the directory that is published, and let the web server send
the three lines of each with the directory. Some verifiers ask for this; the draft recommends it. Do
it again when the directory changes, and before the proof ends.
"""
_PAGE_EPILOG = """
\b
Examples:
  lycosa identity page --url https://crawler.example --out site --purpose search \\
      --address 192.0.2.0/28 --address 2001:db8::/64 --set agent.contact=you@example.org
  lycosa identity page --config crawl.toml --url https://crawler.example --out site

The page says who crawls, why, from which addresses (also as crawlerips.json), and how to slow the
crawler down or to keep it out. Name, contact and delays are those of the settings.
"""


@click.group("identity", epilog=_EPILOG, short_help="Keys that sign requests, and the page.")
def command() -> None:
    """Show site owners who crawls: signed requests (Web Bot Auth), and a page about the crawler."""


_site_options = option_set(
    click.option(
        "--url",
        required=True,
        metavar="URL",
        help="Where DIR will be served: https and a host, as https://crawler.example.",
    ),
    click.option(
        "--out",
        required=True,
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder for the files; it is created, and files of the same name are replaced.",
    ),
    click.option(
        "--purpose",
        "purposes",
        multiple=True,
        metavar="WORDS",
        help="What the pages are used for, as `search`; may be repeated. By default those of"
        " agent.purpose.",
    ),
    config_option,
    set_option,
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)
"""The options of commands that write files to be served."""


_ARCHIVES = click.option(
    "--archives", is_flag=True, help="A key that signs archives (lycosa export DIR wacz --sign)."
)


@command.command("new", epilog=_NEW_EPILOG, short_help="Make this machine's key.")
@click.argument("file", type=click.Path(path_type=Path))
@_ARCHIVES
@click.option("--json", "as_json", is_flag=True, help="Print the public key as JWK.")
def make_key(file: Path, archives: bool, as_json: bool) -> None:
    """Make a new Ed25519 key in FILE, which must not exist, and print its public part.

    With --archives it is an ECDSA key of the curve P-384.
    """
    if archives:
        from lycosa.base.signing.archive_key import create_archive_key

        _print_archive_key(create_archive_key(file), file, as_json)
        return
    from lycosa.base.signing.signing_key import create_key

    _print_key(create_key(file), file, as_json)


@command.command("show", epilog=_SHOW_EPILOG, short_help="The public part of a key.")
@click.argument("file", type=click.Path(path_type=Path))
@_ARCHIVES
@click.option("--json", "as_json", is_flag=True, help="Print the public key as JWK.")
def show_key(file: Path, archives: bool, as_json: bool) -> None:
    """Print the public part of the key in FILE, and check that a crawl can use it."""
    if archives:
        from lycosa.base.signing.archive_key import load_archive_key

        _print_archive_key(load_archive_key(file), file, as_json)
        return
    from lycosa.base.signing.signing_key import load_key

    _print_key(load_key(file), file, as_json)


def _print_archive_key(key: ArchiveKey, file: Path, as_json: bool) -> None:
    """The public key in the form in which a signed archive names it."""
    if as_json:
        emit_json({"publicKey": key.public})
    else:
        emit_pairs((("key file", file), ("public key", key.public)))


def _print_key(key: SigningKey, file: Path, as_json: bool) -> None:
    from lycosa.base.signing.signing_key import public_jwk

    jwk = public_jwk(key.public)
    if as_json:
        emit_json(jwk)
    else:
        emit_pairs((("key file", file), ("key id", key.key_id), ("public key", jwk["x"])))


@command.command("directory", epilog=_DIRECTORY_EPILOG, short_help="Publish the keys of all nodes.")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...", type=click.Path(path_type=Path))
@_site_options
def write_key_directory(
    keys: tuple[Path, ...],
    url: str,
    out: Path,
    purposes: tuple[str, ...],
    config_file: Path | None,
    pairs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the directory of public keys, and the signature agent card, as files to be served."""
    from lycosa.cli.identity_files import site_of, write_directory

    config = _config(config_file, pairs)
    purposes = purposes or config.agent.purpose
    _print_site(write_directory(out, site_of(url), config, keys, purposes), as_json)


@command.command("prove", epilog=_PROVE_EPILOG, short_help="Prove that a directory is yours.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--directory",
    "published",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The directory as it is published, byte for byte.",
)
@click.option("--url", required=True, metavar="URL", help="Where it is served.")
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    default=30,
    show_default=True,
    help="How long the proof holds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the header fields by name.")
def prove_directory(file: Path, published: Path, url: str, days: int, as_json: bool) -> None:
    """Print header fields by which the key in FILE proves that the directory is its owner's."""
    from lycosa.cli.identity_files import proof_of, site_of

    lines = proof_of(file, published, site_of(url), days)
    if as_json:
        emit_json(dict(line.split(": ", 1) for line in lines))
    else:
        emit("\n".join(lines))


@command.command("page", epilog=_PAGE_EPILOG, short_help="Write the page for site owners.")
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="RANGE",
    help="Addresses from which the crawler sends requests, as 192.0.2.7 or 2001:db8::/64; may be"
    " repeated.",
)
@_site_options
def write_site_page(
    addresses: tuple[str, ...],
    url: str,
    out: Path,
    purposes: tuple[str, ...],
    config_file: Path | None,
    pairs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a page for owners of sites, and the addresses of the crawler, as files to be served."""
    from lycosa.cli.identity_files import prefixes_of, site_of, write_page

    config = _config(config_file, pairs)
    purposes = purposes or config.agent.purpose
    written = write_page(out, site_of(url), config, prefixes_of(addresses), purposes)
    _print_site(written, as_json)


def _config(file: Path | None, pairs: tuple[str, ...]) -> Config:
    from lycosa.base.config.sources import load_settings

    return load_settings(file, os.environ, pairs).config


def _print_site(written: WrittenSite, as_json: bool) -> None:
    if as_json:
        emit_json(
            {
                "files": [str(each) for each in written.files],
                "keys": written.keys,
                "settings": written.settings,
            }
        )
        return
    emit_pairs(
        [
            *(("wrote", each) for each in written.files),
            *(("key", each) for each in written.keys),
            *(("setting", f"{key}={value}") for key, value in written.settings.items()),
        ]
    )
    for note in written.notes:
        emit(note)
