"""What the rules of the settings add to a request: header lines, cookies, a certificate, a proxy.

The profile of a request follows from its own URL alone. So a redirect to another host carries
nothing of the first one, nor does what a page loads from there. A secret is sent only to the host
and the port that its rule names, over https, or over http to a loopback address or where the rule
says ``plain-http``.

Secrets leave this module in header lines and in options of libcurl (``profile``).
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from lycosa.base.config.profile_texts import (
    ProfileKind,
    ProfileRule,
    port_of,
    read_profile_rule,
)
from lycosa.base.config.sections import RequestsSection
from lycosa.base.config.url_matchers import MatcherBook
from lycosa.base.model.fetched import FetchRequest, Privacy
from lycosa.base.urls.identity import host_of
from lycosa.stages.fetch.cookies import CookieJars
from lycosa.stages.fetch.profile import Profile, Proxy
from lycosa.stages.fetch.secret_values import (
    SecretError,
    read_login,
    read_token,
    read_value,
    secret_content,
)

_COOKIE = b"cookie"
_JAR_BYTES = 4_000_000


class _Loaded(NamedTuple):
    """A rule with its secret."""

    rule: ProfileRule
    line: bytes = b""
    jars: CookieJars | None = None
    proxy: Proxy | None = None


class RequestProfiles:
    """The profiles of one fetcher. Reading them blocks; raises ``SecretError``.

    ``site_of`` returns the site of a host. With ``keeps_cookies`` answers to requests with
    credentials fill separate jars, as those of other requests fill theirs.
    """

    def __init__(
        self,
        section: RequestsSection,
        site_of: Callable[[str], str],
        *,
        keeps_cookies: bool = False,
    ) -> None:
        self._site_of, self._keeps_cookies = site_of, keeps_cookies
        self._privacy = Privacy.SHARED if section.share else Privacy.PRIVATE
        groups: dict[tuple[ProfileKind, str], list[_Loaded]] = {}
        for number, text in enumerate(section.rules, 1):
            rule = read_profile_rule(text)
            loaded = self._load(rule, f"requests.rules, line {number}")
            groups.setdefault(_group(rule), []).append(loaded)
        for rules in groups.values():
            # A secret without a port is for no other port. Behind those with one it hides none.
            rules.sort(key=lambda each: each.rule.needs_default_port)
        self._groups = [
            (MatcherBook([each.rule.matcher for each in rules]), rules) for rules in groups.values()
        ]
        self._made: dict[tuple[int, ...], Profile] = {}

    def profile_of(self, request: FetchRequest) -> Profile:
        """What is added to a request."""
        url = request.url
        found = [book.find(url, len(rules)) for book, rules in self._groups]
        is_safe = url.startswith("https:") or (
            _is_loopback(request.address) and self._stays_here(found)
        )
        key = tuple(
            at if at == len(rules) or _may_carry(rules[at].rule, url, is_safe) else len(rules)
            for at, (_, rules) in zip(found, self._groups, strict=True)
        )
        profile = self._made.get(key)
        if profile is None:
            profile = self._made[key] = self._profile(key)
        return profile

    def _stays_here(self, found: Sequence[int]) -> bool:
        """Whether a request to a loopback address goes through no proxy of another machine.

        It is a loopback address of the proxy's machine then, and all between read the request.
        """
        return all(
            each.proxy is None or _is_loopback(each.proxy.address) for each in self._chosen(found)
        )

    def _chosen(self, found: Sequence[int]) -> list[_Loaded]:
        return [
            rules[at] for (_, rules), at in zip(self._groups, found, strict=True) if at < len(rules)
        ]

    def _profile(self, found: Sequence[int]) -> Profile:
        chosen = self._chosen(found)
        lines = tuple(each.line for each in chosen if each.line)
        certificates = [
            each.rule.secret.name
            for each in chosen
            if each.rule.kind is ProfileKind.CERTIFICATE and each.rule.secret is not None
        ]
        jars = next((each.jars for each in chosen if each.jars is not None), None)
        proxy = next((each.proxy for each in chosen if each.proxy is not None), None)
        if all(each.rule.kind.is_of_connection for each in chosen):
            return Profile(proxy=proxy)
        if jars is None and self._keeps_cookies:
            jars = CookieJars(self._site_of, _JAR_BYTES)
        hidden = {line.partition(b":")[0].lower() for line in lines}
        return Profile(
            lines,
            jars,
            certificates[0] if certificates else "",
            proxy,
            frozenset(hidden | {_COOKIE}),
            self._privacy,
        )

    def _load(self, rule: ProfileRule, what: str) -> _Loaded:
        """Read the secret of a rule."""
        kind, place = rule.kind, rule.secret
        if kind is ProfileKind.PROXY:
            return _Loaded(rule, proxy=_proxy(rule, what))
        if place is None:  # direct
            return _Loaded(rule)
        if kind is ProfileKind.BASIC:
            return _Loaded(rule, b"Authorization: Basic " + _base64(read_login(place, what)))
        if kind is ProfileKind.BEARER:
            return _Loaded(rule, b"Authorization: Bearer " + read_token(place, what))
        if kind is ProfileKind.HEADER:
            return _Loaded(rule, rule.name.encode() + b": " + read_value(place, what))
        if kind is ProfileKind.COOKIES:
            jars = CookieJars(self._site_of, _JAR_BYTES)
            jars.fill(_cookie_lines(secret_content(place, what), f"{what}: {place.name}"))
            return _Loaded(rule, jars=jars)
        secret_content(place, what)  # a file that others cannot read
        _check_certificate(place.name, what)
        return _Loaded(rule)

    def __repr__(self) -> str:
        return f"<RequestProfiles: {sum(len(rules) for _, rules in self._groups)} rules>"


def load_profiles(
    section: RequestsSection, site_of: Callable[[str], str], *, keeps_cookies: bool = False
) -> RequestProfiles | None:
    """The profiles by the settings; ``None`` without a rule. Raises ``SecretError``."""
    if not section.rules:
        return None
    return RequestProfiles(section, site_of, keeps_cookies=keeps_cookies)


def _group(rule: ProfileRule) -> tuple[ProfileKind, str]:
    """Rules of which one applies: those of one header, whichever kind sets it."""
    if rule.kind in (ProfileKind.BASIC, ProfileKind.BEARER):
        return ProfileKind.HEADER, "authorization"
    if rule.kind.is_of_connection:
        return ProfileKind.PROXY, ""
    return rule.kind, rule.name.lower()


def _may_carry(rule: ProfileRule, url: str, is_safe: bool) -> bool:
    """Whether a URL that a rule matches gets what it adds."""
    if rule.kind.is_of_connection:
        return True
    if rule.kind is ProfileKind.CERTIFICATE:
        is_safe = url.startswith("https:")
    if not (is_safe or rule.on_http):
        return False
    return not (rule.needs_default_port and port_of(host_of(url)))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _base64(data: bytes) -> bytes:
    import base64  # only few crawls log in

    return base64.b64encode(data)


def _proxy(rule: ProfileRule, what: str) -> Proxy:
    """The proxy of a rule, whose name is looked up once, now."""
    login = b"" if rule.secret is None else read_login(rule.secret, what)
    parts = urlsplit(rule.name)
    host, port = parts.hostname or "", parts.port
    try:
        ip_address(host)
    except ValueError:
        try:
            [(*_, place), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            raise SecretError(
                f"{what}: the name of the proxy {host} has no address on this machine"
            ) from None
        return Proxy(rule.name, login, f"{host}:{port}:{place[0]}")
    return Proxy(rule.name, login)


def _check_certificate(name: str, what: str) -> None:
    """The file must have a certificate and its key, which is not encrypted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_cert_chain(name, password=_no_password)
    except (ssl.SSLError, OSError, ValueError):
        raise SecretError(
            f"{what}: {name} is not a PEM file with a certificate and its private key, without a"
            " password; cat client.crt client.key > FILE makes one"
        ) from None


def _no_password() -> str:
    raise ValueError("encrypted")


def _cookie_lines(content: bytes, what: str) -> list[bytes]:
    """The cookies of a file in Netscape's format that have not expired."""
    now, found, expired = time.time(), [], 0
    for number, line in enumerate(content.replace(b"\r", b"").split(b"\n"), 1):
        if not line.strip() or (line.startswith(b"#") and not line.startswith(b"#HttpOnly_")):
            continue
        fields = line.split(b"\t")
        if len(fields) != 7 or not fields[4].lstrip(b"-").isdigit() or b"\0" in line:
            raise SecretError(
                f"{what}, line {number}, is no cookie in Netscape's format (seven fields between"
                " tabs), as browsers' extensions and `curl --cookie-jar` write it"
            )
        if 0 < int(fields[4]) < now:
            expired += 1
            continue
        found.append(line)
    if not found:
        said = "all of its cookies have expired" if expired else "it has no cookies"
        raise SecretError(f"{what}: {said}; log in with a browser and export them again")
    return found
