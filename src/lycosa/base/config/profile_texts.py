"""Rules that say what a request carries: credentials, cookies, a client certificate, a proxy.

A text of the setting ``requests.rules`` is a matcher (``url_matchers``), a kind, and where its
secret is::

    intranet.example basic file:/etc/lycosa/login          the file has USER:PASSWORD
    host:api.example /v2/* bearer env:API_TOKEN
    host:api.example header X-Api-Key file:/run/secrets/key
    host:pki.example certificate file:/etc/lycosa/client.pem
    shop.example cookies file:/etc/lycosa/cookies.txt      Netscape's format
    host:stage.example basic file:/etc/lycosa/login plain-http
    * proxy http://10.0.0.1:3128 env:PROXY_LOGIN           its USER:PASSWORD, if it needs one
    host:www.example.org direct

Of each kind, and of each name of a header, the first rule that is for a URL counts. Another port is
another server: a rule of a secret without a port is for the default ports alone. A rule has the
place of a secret and never the secret: settings are stored, shown and sent to other machines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

from lycosa.base.config.near_names import near_name
from lycosa.base.config.url_matchers import (
    MAX_RULE_CHARACTERS,
    MatcherBook,
    UrlMatcher,
    read_matcher,
)

MAX_PROFILE_RULES = 1000

_PLAIN_HTTP = "plain-http"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110 section 5.6.2
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
# What the crawl itself sets, what frames the message, and what would change the kind of answer.
_OURS = frozenset(
    {
        *("accept", "accept-encoding", "accept-language", "connection", "content-length"),
        *("cookie", "expect", "from", "host", "keep-alive", "range", "referer", "te", "trailer"),
        *("if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"),
        *("proxy-authorization", "proxy-connection", "transfer-encoding", "upgrade", "user-agent"),
        *("signature", "signature-agent", "signature-input"),
    }
)
_INSTEAD = {
    "cookie": "write a rule `cookies file:FILE`",
    "proxy-authorization": "give the secret after the address of the proxy",
    "user-agent": "site owners must be able to recognise the crawler; see agent.product",
    "accept-language": "there is the setting fetch.accept_language",
    "accept": "there is the setting fetch.accept",
}
_PROXY_SCHEMES = ("http", "socks5")
_NAMES_ONLY = ("socks5h", "socks4", "socks4a")


class ProfileKind(Enum):
    """What a rule adds to requests. The value is its word in texts."""

    BASIC = "basic"
    BEARER = "bearer"
    HEADER = "header"
    CERTIFICATE = "certificate"
    COOKIES = "cookies"
    PROXY = "proxy"
    DIRECT = "direct"

    @property
    def is_of_connection(self) -> bool:
        """Whether it says only how the server is reached."""
        return self in (ProfileKind.PROXY, ProfileKind.DIRECT)


_KINDS = {each.value: each for each in ProfileKind}
_FILES_ONLY = (ProfileKind.CERTIFICATE, ProfileKind.COOKIES)


class SecretPlace(msgspec.Struct, frozen=True):
    """Where a secret is: a file of each machine, or a variable of its environment."""

    name: str
    is_file: bool = True

    @property
    def text(self) -> str:
        """As in a rule."""
        return f"{'file' if self.is_file else 'env'}:{self.name}"


class ProfileRule(msgspec.Struct, frozen=True):
    """One rule.

    ``name`` is that of a header, or the URL of a proxy. ``on_http`` says that the secret may also
    be sent without encryption.
    """

    matcher: UrlMatcher
    kind: ProfileKind
    name: str = ""
    secret: SecretPlace | None = None
    on_http: bool = False

    @property
    def needs_default_port(self) -> bool:
        """Whether it is for no URL that has a port."""
        return not (self.kind.is_of_connection or port_of(self.matcher.domain))


class PrivateUrls:
    """The URLs that rules of credentials are for; without reading a secret."""

    def __init__(self, texts: Sequence[str]) -> None:
        rules = [read_profile_rule(text) for text in texts]
        matchers = [each.matcher for each in rules if not each.kind.is_of_connection]
        self._number, self._book = len(matchers), MatcherBook(matchers)

    @property
    def are_any(self) -> bool:
        """Whether there may be such URLs."""
        return self._number > 0

    def __contains__(self, url: str) -> bool:
        return self._number > 0 and self._book.find(url, self._number) < self._number


def read_profile_rule(text: str) -> ProfileRule:
    """One rule. Raises ``ValueError``, which says what to write and repeats no secret."""
    words = text.split()
    if len(words) < 2 or len(text) > MAX_RULE_CHARACTERS:
        raise ValueError(
            "that is no rule; write MATCHER KIND SECRET, as intranet.example basic file:/etc/login"
        )
    matcher = read_matcher(words)
    word = words.pop(0).lower() if words else ""
    kind = _KINDS.get(word)
    if kind is None:
        # Only the kind is repeated, and only where it looks like one.
        near = near_name(word, _KINDS)
        meant = f"{word!r} is no kind; did you mean {near}?" if near else "the kind is missing;"
        raise ValueError(f"{meant} write one of {', '.join(_KINDS)} after the matcher")
    if kind.is_of_connection:
        _check_any_url(matcher)
        return _connection_rule(matcher, kind, words)
    _check_owner(matcher, kind)
    _check_port(matcher.domain)
    on_http = bool(words) and words[-1] == _PLAIN_HTTP
    rest = words[:-1] if on_http else words
    if kind is ProfileKind.CERTIFICATE and on_http:
        raise ValueError("a certificate is for https; leave out plain-http")
    name = _header_name(rest.pop(0)) if kind is ProfileKind.HEADER and rest else ""
    if len(rest) != 1:
        form = "header NAME file:FILE" if kind is ProfileKind.HEADER else f"{word} file:FILE"
        raise ValueError(f"write {form} (or env:NAME) after the matcher, and nothing else")
    return ProfileRule(matcher, kind, name, read_secret_place(rest[0], kind), on_http)


def read_secret_place(text: str, kind: ProfileKind | None = None) -> SecretPlace:
    """Where a secret is. Raises ``ValueError`` for anything else, which may be the secret."""
    form, colon, name = text.partition(":")
    if form == "file" and colon and name.startswith("/"):
        return SecretPlace(name)
    if form == "file" and colon:
        raise ValueError("write the whole path of the file, as file:/etc/lycosa/secret")
    if form == "env" and colon and _VARIABLE.fullmatch(name):
        if kind in _FILES_ONLY:
            raise ValueError(f"{kind.value} are in a file: write file:FILE")
        return SecretPlace(name, is_file=False)
    raise ValueError(
        "a secret is not written here, where it would be stored and shown; put it into a file that"
        " only you can read and write file:FILE, or into a variable and write env:NAME"
    )


def _check_any_url(matcher: UrlMatcher) -> None:
    if matcher.sitemap:
        raise ValueError("a sitemap cannot choose requests; write a domain or a pattern")


def _check_owner(matcher: UrlMatcher, kind: ProfileKind) -> None:
    """A secret belongs to a host or a domain: a pattern of URLs matches hosts of others."""
    is_named = bool(matcher.domain) and matcher.domain != "*"
    if not is_named or not (matcher.is_host or "." in matcher.domain.strip(".")):
        raise ValueError(
            f"{kind.value} needs the name of a host or a domain, which alone gets the secret; write"
            " host:www.example.org or example.org, and a path after it if you like"
        )


def _check_port(domain: str) -> None:
    """Canonical URLs never have the default port, so a rule that has it would be for none."""
    port = port_of(domain)
    if port in ("80", "443"):
        raise ValueError(f"leave out :{port}; a rule without a port is for the ports 80 and 443")
    if port and not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ValueError("what follows the colon is no port")


def port_of(host: str) -> str:
    """The port in the name of a host, or the empty string."""
    return host.rpartition("]")[2].partition(":")[2]


def _header_name(name: str) -> str:
    name = name.removesuffix(":")
    if not _TOKEN.fullmatch(name):
        raise ValueError("that is not the name of a header; write header X-Api-Key file:FILE")
    if name.lower() in _OURS:
        instead = _INSTEAD.get(name.lower(), "a rule cannot change it")
        raise ValueError(f"the crawl itself decides about {name}; {instead}")
    return name


def _connection_rule(matcher: UrlMatcher, kind: ProfileKind, words: list[str]) -> ProfileRule:
    if kind is ProfileKind.DIRECT:
        if words:
            raise ValueError("nothing follows direct")
        return ProfileRule(matcher, kind)
    if not 1 <= len(words) <= 2:
        raise ValueError("write proxy http://HOST:PORT, and file:FILE with its USER:PASSWORD")
    secret = read_secret_place(words[1]) if len(words) == 2 else None
    return ProfileRule(matcher, kind, proxy_url(words[0]), secret)


def proxy_url(text: str) -> str:
    """The URL of a proxy in its one form. Raises ``ValueError``; a password is not repeated."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("that is not the URL of a proxy; write http://HOST:PORT") from None
    if "@" in text:
        raise ValueError(
            "the login of a proxy is not written into its URL; put USER:PASSWORD into a file and"
            " write file:FILE after the URL"
        )
    if parts.scheme in _NAMES_ONLY:
        raise ValueError(
            f"{parts.scheme} is not used: the crawl resolves names itself, so that it judges each"
            " address and paces it, and gives the proxy the address; write socks5://HOST:PORT"
        )
    if parts.scheme not in _PROXY_SCHEMES or not host or port is None:
        raise ValueError("that is not the URL of a proxy; write http://HOST:PORT or socks5://...")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("the URL of a proxy ends with its port; write http://HOST:PORT")
    try:
        shown = f"[{host}]" if ip_address(host).version == 6 else host
    except ValueError:
        if not _NAME.fullmatch(host):
            raise ValueError("the proxy has no valid name; write http://HOST:PORT") from None
        shown = host
    return f"{parts.scheme}://{shown}:{port}"


def check_profile_rules(texts: Sequence[str]) -> None:
    """Raises ``ValueError`` for a text that ``read_profile_rule`` does not read, with its line."""
    if len(texts) > MAX_PROFILE_RULES:
        raise ValueError(f"{len(texts)} rules; there may be {MAX_PROFILE_RULES}")
    for number, text in enumerate(texts, 1):
        try:
            read_profile_rule(text)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
