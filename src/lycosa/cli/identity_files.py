"""The files by which a crawler is known, to be served as they are.

* ``.well-known/http-message-signatures-directory``: the public keys (JWKS, RFC 7517 section 5), by
  draft-ietf-webbotauth-httpsig-protocol-01;
* ``signature-agent-card.json``: what the crawler says of itself, by
  draft-meunier-webbotauth-registry-04;
* ``index.html``: the page for site owners (``owner_page``);
* ``crawlerips.json``: the addresses, by draft-illyes-webbotauth-jafar-00.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lycosa.base.config.checks import is_contact
from lycosa.base.config.sections import Config
from lycosa.base.config.sources import SettingsError
from lycosa.base.system.durable import replace_file
from lycosa.cli.owner_page import PageFacts, owner_page

DIRECTORY_PATH = ".well-known/http-message-signatures-directory"
CARD_NAME = "signature-agent-card.json"
ADDRESSES_NAME = "crawlerips.json"
_INDEX = "index.html"
Prefix = IPv4Network | IPv6Network


class WrittenSite(NamedTuple):
    """What a command wrote, the IDs of keys in it, and the settings that go with it."""

    files: list[Path]
    keys: list[str]
    settings: dict[str, str]
    notes: list[str]


def site_of(url: str) -> str:
    """The URL at whose root the files will be served, without a slash at its end.

    Raises ``SettingsError``. A directory must be below ``/.well-known`` of a host, by https.
    """
    try:
        parts = urlsplit(url)
        is_site = parts.scheme == "https" and parts.hostname and url.isascii()
        is_root = parts.path in ("", "/") and not (parts.query or parts.fragment)
    except ValueError:
        is_site = is_root = False
    if not (is_site and is_root and parts.netloc.replace("@", " ").isprintable()) or set(
        parts.netloc
    ) & set('@ "\\<>'):
        raise SettingsError([f"--url {url!r}: write https and a host, as https://crawler.example"])
    return f"https://{parts.netloc.lower()}"


def prefixes_of(addresses: Sequence[str]) -> list[Prefix]:
    """The address ranges, joined and in order. Raises ``SettingsError``."""
    found: list[Prefix] = []
    problems = []
    for text in addresses:
        try:
            network = ip_network(text.strip())
        except ValueError as error:
            problems.append(f"--address {text!r}: {error}; write 192.0.2.7 or 2001:db8::/64")
            continue
        if network.is_private and not _is_example(network):
            problems.append(f"--address {text!r}: no site sees this address; write the public ones")
        found.append(network)
    if problems:
        raise SettingsError(problems)
    ipv4 = collapse_addresses(each for each in found if isinstance(each, IPv4Network))
    ipv6 = collapse_addresses(each for each in found if isinstance(each, IPv6Network))
    return [*ipv4, *ipv6]


def _is_example(network: Prefix) -> bool:
    """Whether a range is for documentation (RFC 5737, RFC 3849), as in our examples."""
    ranges = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
    return any(
        network.version == each.version and network.subnet_of(each)  # type: ignore[arg-type]
        for each in map(ip_network, ranges)
    )


def write_directory(
    out: Path, site: str, config: Config, keys: Sequence[Path], purposes: Sequence[str]
) -> WrittenSite:
    """Write the directory of the public keys, and the card. Raises ``KeyFileError``."""
    from lycosa.base.signing.signing_key import public_jwk, read_public_keys

    contact = _contact(config)
    given = [public for path in keys for public in read_public_keys(path)]
    # By ID, so that the same keys make the same file in whatever order they are given.
    jwks = sorted((public_jwk(each) for each in set(given)), key=lambda jwk: jwk["kid"])
    files = [
        _write(out / DIRECTORY_PATH, _json({"keys": jwks})),
        _write(out / CARD_NAME, _json(agent_card(site, config, contact, purposes, out))),
    ]
    settings = {"agent.key_directory": f"{site}/{DIRECTORY_PATH}"}
    notes = [
        f"serve {DIRECTORY_PATH} as application/http-message-signatures-directory+json, over https"
    ]
    if len(jwks) < len(given):
        notes.append(f"{len(given) - len(jwks)} of the {len(given)} keys are listed once only")
    return WrittenSite(files, [jwk["kid"] for jwk in jwks], settings, notes)


def proof_of(file: Path, published: Path, site: str, days: int) -> list[str]:
    """Header fields that prove the directory ``published`` by the key in ``file``.

    Raises ``KeyFileError``, also when the directory does not have the key.
    """
    from lycosa.base.signing.message_signature import directory_proof
    from lycosa.base.signing.signing_key import KeyFileError, load_key, read_public_keys

    key = load_key(file)
    if key.public not in read_public_keys(published):
        raise KeyFileError(
            f"{published} does not have the key of {file}; first make the directory with it, by"
            " lycosa identity directory"
        )
    now = int(time.time())
    authority = site.partition("://")[2].removesuffix(":443")
    return directory_proof(key, published.read_bytes(), authority, now, now + days * 86_400)


def write_page(
    out: Path, site: str, config: Config, prefixes: Sequence[Prefix], purposes: Sequence[str]
) -> WrittenSite:
    """Write the page, the list of addresses if there are any, and the card if there are keys."""
    facts = PageFacts(
        site,
        config.agent.product,
        _contact(config),
        tuple(purposes),
        tuple(map(str, prefixes)),
        config.politeness.delay_s,
        config.politeness.max_crawl_delay_s,
        is_signed=(out / DIRECTORY_PATH).is_file() or bool(config.agent.key_directory),
    )
    files = [_write(out / _INDEX, owner_page(facts))]
    notes = []
    if prefixes:
        files.append(_write(out / ADDRESSES_NAME, _json(address_list(prefixes, time.time()))))
    else:
        notes.append(
            f"no --address was given, so there is no {ADDRESSES_NAME}; sites cannot check requests"
            " by their addresses"
        )
    if (out / DIRECTORY_PATH).is_file():
        # again, because it names the page and the addresses
        card = agent_card(site, config, facts.contact, purposes, out)
        files.append(_write(out / CARD_NAME, _json(card)))
    return WrittenSite(files, [], {"agent.page": f"{site}/"}, notes)


def agent_card(
    site: str, config: Config, contact: str, purposes: Sequence[str], out: Path
) -> dict[str, Any]:
    """The signature agent card (draft-meunier-webbotauth-registry-04 section 3).

    It names the page and the list of addresses if ``out`` has them, or the settings do.
    """
    product = config.agent.product
    page = config.agent.page or (f"{site}/" if (out / _INDEX).is_file() else "")
    about: dict[str, Any] = {
        "expected-user-agent": f"{product}/*",
        "rfc9309-product-token": product,
        "rfc9309-compliance": True,
        "trigger": "crawler",
        "rate-control": "429 or 503 with Retry-After; Crawl-delay in robots.txt",
        "known-urls": ["/robots.txt"],
    }
    if purposes:
        about["purpose"] = ", ".join(purposes)
    if (out / ADDRESSES_NAME).is_file():
        about["ips_uri"] = f"{site}/{ADDRESSES_NAME}"
    return {
        "client_id": f"{site}/{CARD_NAME}",
        "client_name": product,
        **({"client_uri": page} if page else {}),
        "contacts": [contact if "://" in contact else f"mailto:{contact.removeprefix('mailto:')}"],
        "jwks_uri": f"{site}/{DIRECTORY_PATH}",
        "web_bot_auth": about,
    }


def address_list(prefixes: Iterable[Prefix], now: float) -> dict[str, Any]:
    """The addresses as draft-illyes-webbotauth-jafar-00 has them; ``now`` is Unix time."""
    return {
        "creationTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "prefixes": [{f"ipv{each.version}Prefix": str(each)} for each in prefixes],
    }


def _contact(config: Config) -> str:
    contact = config.agent.contact.strip()
    if not is_contact(contact):
        raise SettingsError(
            [
                "site owners must be able to reach you: set the contact to an e-mail address or"
                " URL, as --set agent.contact=you@example.org"
            ]
        )
    return contact


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode())
    path.chmod(0o644)  # a web server of another user reads it
    return path
