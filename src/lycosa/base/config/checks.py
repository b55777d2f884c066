"""Checks of settings whose form is more than a type: patterns, address ranges, pins, header values.

They accept what the stages accept that use the settings (a test compares the two), and they run
before anything is written, so a crawl folder never keeps a setting that its crawl cannot start
with. Each raises ``ValueError`` with one line that says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from lycosa.base.config.end_date import check_end_date
from lycosa.base.config.hours import check_hours
from lycosa.base.config.near_names import near_name
from lycosa.base.config.own_texts import check_own_hosts, check_own_secret
from lycosa.base.config.patterns import compile_pattern
from lycosa.base.config.profile_texts import check_profile_rules
from lycosa.base.config.refetch_budget import check_budget
from lycosa.base.config.refetch_policies import check_intervals, check_policies
from lycosa.base.config.render_policies import check_render_policies
from lycosa.base.config.surt_prefixes import read_surts
from lycosa.base.media_rules import check_accept

STORE_SCHEMES = ("s3", "gs", "az", "file")
USES = ("search", "ai-train", "ai-input", "tdm", "bots", "archive", "research")
"""The uses that a crawl may have as its purpose."""

STORE_OPTIONS = (
    "account_name",
    "allow_http",
    "authority_host",
    "base_url",
    "checksum_algorithm",
    "conditional_put",
    "connect_timeout",
    "disable_tagging",
    "endpoint",
    "imdsv1_fallback",
    "metadata_endpoint",
    "proxy_url",
    "region",
    "request_payer",
    "role_arn",
    "role_session_name",
    "s3_express",
    "server_side_encryption",
    "skip_signature",
    "sse_bucket_key_enabled",
    "sse_kms_key_id",
    "sts_endpoint",
    "timeout",
    "unsigned_payload",
    "use_emulator",
    "use_fabric_endpoint",
    "virtual_hosted_style_request",
)
"""Options of ``obstore`` that are no secrets."""
UPLOAD_KINDS = (
    *("warc", "cdxj", "pages", "links", "text", "content", "renders", "items"),
    *("journal", "attempts"),
)
SECURITY_PREFIXES = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.")
"""Beginnings of the options of the Kafka client that ``kafka.security`` may have."""
CHANGE_KINDS = ("new", "changed", "gone", "back")
_MAX_WEBHOOKS = 16
_MAX_ARCHIVES = 64
_SEED_RULES = ("host", "site", "prefix", "page")
_CRAWL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")  # of topics, and of paths of objects
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_VISIBLE = re.compile(r"[\x20-\x7e]*")
_LANGUAGE = re.compile(r"[a-z]{2}")
_NO = set(' "\\?#')  # characters that the URL of a key directory does not have
_CONTACT = re.compile(r"(?:https?://[^\s/.]+\.[^\s]+|(?:mailto:)?[^@\s]+@[^@\s]+)", re.IGNORECASE)


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 as 64 hexadecimal digits in lower case."""
    return _DIGEST.fullmatch(text) is not None


def check_expressions(patterns: Sequence[str]) -> None:
    for pattern in patterns:
        compile_pattern(pattern)


def check_ranges(ranges: Sequence[str]) -> None:
    for entry in ranges:
        try:
            ip_network(entry.strip())
        except ValueError:
            raise ValueError(
                f"{entry!r} is not an address range; write {_range_meant(entry)}"
            ) from None


def _range_meant(entry: str) -> str:
    """The probable meaning of a range with host bits: a network or a single address."""
    try:
        network = ip_network(entry.strip(), strict=False)
    except ValueError:
        return "10.0.0.0/8, 192.0.2.7 or fd00::/8"
    return f"{network} for the whole range or {entry.partition('/')[0].strip()} for one address"


def check_languages(codes: Sequence[str]) -> None:
    for code in codes:
        if not _LANGUAGE.fullmatch(code):
            raise ValueError(
                f"{code!r} is not a language code of two letters (ISO 639-1); write en or de"
            )


def check_pins(pins: Sequence[str]) -> None:
    for pin in pins:
        name, _, addresses = pin.partition("=")
        if not name.strip(" .") or not all(map(_is_address, addresses.split(","))):
            raise ValueError(
                f"{pin!r} is not NAME=ADDRESS; write example.org=192.0.2.7 or"
                " *.example.org=192.0.2.7"
            )


def check_servers(servers: Sequence[str]) -> None:
    for server in servers:
        host, _, port = server.strip().rpartition(":")
        if not _is_address(server) and not (
            _is_address(host) and port.isdecimal() and 0 < int(port) < 65536
        ):
            raise ValueError(
                f"{server!r} is not a name server; write its address, 192.0.2.53 or 192.0.2.53:5353"
            )


def check_contact(contact: str) -> None:
    """The contact is part of a comment in User-Agent (RFC 9110 section 5.6.5)."""
    contact = contact.strip()
    if not _VISIBLE.fullmatch(contact) or set(contact) & set("()\\"):
        raise ValueError(
            f"{contact!r} must be visible ASCII without brackets and backslashes, as"
            " https://example.org/bot or you@example.org"
        )


def check_page(url: str) -> None:
    """The page's URL is part of a comment in User-Agent, like the contact."""
    if url:
        check_contact(url)
        if not _has_host(url, ("https", "http")):
            raise ValueError(f"{url!r} is not the URL of a page; write https://crawler.example/")


def check_key_directory(url: str) -> None:
    """The URL is a string of a structured field (RFC 9651 section 3.3.3).

    The draft of Web Bot Auth permits only https.
    """
    if url and not (_has_host(url, ("https",)) and _VISIBLE.fullmatch(url) and not set(url) & _NO):
        raise ValueError(
            f"{url!r} is not an https URL without a user, query and fragment; write"
            " https://crawler.example/.well-known/http-message-signatures-directory"
        )


def _has_host(url: str, schemes: Sequence[str]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def check_purpose(uses: Sequence[str]) -> None:
    """The uses are those of ``preferences.Use``."""
    for each in uses:
        if each not in USES:
            raise ValueError(f"{each!r} is not a use; there are {', '.join(USES)}")


def is_contact(contact: str) -> bool:
    """Whether the contact can be used: a URL or an e-mail address."""
    return _CONTACT.fullmatch(contact.strip()) is not None


def check_header(value: str) -> None:
    if not _VISIBLE.fullmatch(value):
        raise ValueError(f"{value!r} is not valid in a header: write only visible ASCII")


def check_store_url(url: str) -> None:
    """A message does not repeat a URL that may hold a secret."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        has_secret = "@" in parts.netloc or bool(parts.query)
    except ValueError:
        raise ValueError("that is not a URL; write s3://BUCKET/PREFIX") from None
    if has_secret:
        raise ValueError(
            "credentials do not belong into the URL; set them in the environment, as"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if parts.scheme not in STORE_SCHEMES:
        raise ValueError(
            f"{url!r} is not the URL of a store; write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,"
            " az://CONTAINER/PREFIX or file:///FOLDER"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise ValueError(f"{url!r} has no absolute path; write file:///FOLDER, with three slashes")
    if parts.scheme != "file" and not parts.netloc:
        raise ValueError(f"{url!r} names no bucket; write {parts.scheme}://BUCKET/PREFIX")
    if parts.fragment:
        raise ValueError(f"{url!r} has a fragment; a prefix cannot contain #")


def check_store_options(options: Sequence[str]) -> None:
    for option in options:
        name, is_given, value = option.partition("=")
        if name not in STORE_OPTIONS:
            near = near_name(name, STORE_OPTIONS)
            what = f"did you mean {near}?" if near else f"there are {', '.join(STORE_OPTIONS)}"
            raise ValueError(
                f"{name!r} is no option of a store; {what} Credentials are set in the environment"
            )
        if not is_given or not value:
            raise ValueError(f"{name!r} has no value; write {name}=VALUE")
        if "@" in value and "://" in value:
            raise ValueError(f"{name}: credentials do not belong into settings; leave out NAME@")


def check_crawl_name(name: str) -> None:
    if not _CRAWL_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a name; write up to 100 small letters, digits, '.', '_' and '-', the"
            " first a letter or a digit"
        )


def check_addresses(addresses: Sequence[str]) -> None:
    if not addresses:
        raise ValueError("write a list of HOST:PORT")
    for address in addresses:
        found = _SERVER.fullmatch(address)
        if found is None or not 0 < int(found[2]) < 65536:
            # what has an @ may be a URL with a password
            raise ValueError(f"{'an entry' if '@' in address else repr(address)} is not HOST:PORT")


def check_security(security: Mapping[str, Any]) -> None:
    if problems := "; ".join(_security_problems(security)):
        raise ValueError(problems)


def _security_problems(security: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with each key. No value is repeated, because it may be a password."""
    for key, value in security.items():
        if isinstance(value, dict) and f"{key}.".startswith(SECURITY_PREFIXES):
            inner = next(iter(value), "")
            yield f'write "{key}.{inner}" in quotes; without them its dots make sections'
        elif not key.startswith(SECURITY_PREFIXES):
            begins = ", ".join(SECURITY_PREFIXES)
            yield f"{key} is not a security setting; they begin with {begins}"
        elif not isinstance(value, str):
            yield f"the value of {key} is not a text; put it in quotes"


def check_upload_kinds(kinds: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in UPLOAD_KINDS:
            raise ValueError(f"{kind!r} is not uploaded; there are {', '.join(UPLOAD_KINDS)}")


def _is_address(text: str) -> bool:
    try:
        ip_address(text.strip().removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def check_webhooks(urls: Sequence[str]) -> None:
    if len(urls) > _MAX_WEBHOOKS:
        raise ValueError(f"{len(urls)} webhooks; at most {_MAX_WEBHOOKS} are sent")
    if len(set(urls)) < len(urls):
        raise ValueError("a webhook is named twice")
    for url in urls:
        parts = urlsplit(url)
        if not parts.hostname or parts.scheme not in ("http", "https") or parts.fragment:
            raise ValueError(f"{url!r} is not a webhook; write https://HOST/PATH")
        if parts.username or parts.password:
            raise ValueError(f"a webhook of {parts.hostname} has a password; requests are signed")
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise ValueError(f"{url!r} is not encrypted; write https://")


def check_surts(lines: Sequence[str]) -> None:
    read_surts(lines)


def check_per_seed(texts: Sequence[str]) -> None:
    for text in texts:
        url, _, rule = text.strip().rpartition(" ")
        if rule not in _SEED_RULES or not _has_host(url.strip(), ("http", "https")):
            raise ValueError(
                f"{text!r} is not a seed and its rule; write `https://example.org/docs/ prefix`,"
                f" with one of {', '.join(_SEED_RULES)}"
            )


def check_earlier(archives: Sequence[str]) -> None:
    """The places of earlier crawls, or of their WARC files."""
    if len(archives) > _MAX_ARCHIVES:
        raise ValueError(f"{len(archives)} entries; at most {_MAX_ARCHIVES} are searched")
    if not all(map(str.strip, archives)):
        raise ValueError("an entry is empty; write a folder or a file")
    if remote := next((each for each in archives if "://" in each), ""):
        raise ValueError(f"{remote} is a URL; only folders and files of this machine are read")


def check_collection(url: str) -> None:
    """A collection of OutbackCDX. A message does not repeat a password."""
    if not url:
        return
    if not _has_host(url, ("http", "https")) or set(url) & set("?# "):
        shown = "that" if "@" in url else repr(url)
        raise ValueError(
            f"{shown} is not the URL of a collection; write http://cdx.example:8080/COLLECTION"
        )
    if not urlsplit(url).path.strip("/"):
        raise ValueError(f"{url!r} names no collection; write {url.rstrip('/')}/COLLECTION")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # a name may resolve to any address a moment later


def check_changes(kinds: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in CHANGE_KINDS:
            raise ValueError(f"{kind!r} is not a change; there are {', '.join(CHANGE_KINDS)}")


CHECKS: Mapping[str, Callable[[Any], None]] = {
    "agent.contact": check_contact,
    "agent.key_directory": check_key_directory,
    "agent.page": check_page,
    "agent.purpose": check_purpose,
    "coordinator.addresses": check_addresses,
    "dns.pins": check_pins,
    "dns.servers": check_servers,
    "earlier.allow_addresses": check_ranges,
    "earlier.archives": check_earlier,
    "earlier.outbackcdx": check_collection,
    "earlier.push": check_collection,
    "earlier.warcs": check_earlier,
    "fetch.accept": check_header,
    "fetch.accept_language": check_header,
    "fetch.allow_addresses": check_ranges,
    "fetch.hours": check_hours,
    "kafka.addresses": check_addresses,
    "kafka.security": check_security,
    "limits.until": check_end_date,
    "name": check_crawl_name,
    "objects.url": check_store_url,
    "redis.addresses": check_addresses,
    "refetch.intervals": check_intervals,
    "refetch.policies": check_policies,
    "refetch.budget": check_budget,
    "render.policies": check_render_policies,
    "requests.own_hosts": check_own_hosts,
    "requests.own_secret": check_own_secret,
    "requests.rules": check_profile_rules,
    "scope.accept": check_accept,
    "scope.exclude": check_expressions,
    "scope.include": check_expressions,
    "scope.languages": check_languages,
    "scope.per_seed": check_per_seed,
    "scope.surts": check_surts,
    "upload.kinds": check_upload_kinds,
    "upload.options": check_store_options,
    "upload.url": check_store_url,
    "webhooks.allow_addresses": check_ranges,
    "webhooks.kinds": check_changes,
    "webhooks.urls": check_webhooks,
}
"""The checks by setting of a crawl, and by key of ``cluster.toml``."""
