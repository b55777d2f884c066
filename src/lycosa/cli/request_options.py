"""Options of ``lycosa crawl`` for what requests carry; they become rules of ``requests.rules``.

A value is refused: the command line of a process is shown to all users of a machine, and settings
are stored with the crawl.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from lycosa.cli.option_sets import option_set

_KINDS = {
    "auth": "basic",
    "bearer": "bearer",
    "header": "header",
    "client_cert": "certificate",
    "cookies_from": "cookies",
    "proxy": "proxy",
}
_PATHS = ("client_cert", "cookies_from")  # whose value is a file in any case
request_options = option_set(
    click.option(
        "--auth",
        multiple=True,
        metavar="[HOST] file:F|env:N",
        help="Log in with the USER:PASSWORD of this file or variable (HTTP Basic), at the hosts of"
        " the seeds or at HOST.",
    ),
    click.option(
        "--bearer",
        multiple=True,
        metavar="[HOST] file:F|env:N",
        help="Send the token of this file or variable (Authorization: Bearer).",
    ),
    click.option(
        "--header",
        multiple=True,
        metavar="'[HOST] NAME: file:F|env:N'",
        help="Send a header with this value; may be repeated.",
    ),
    click.option(
        "--client-cert",
        multiple=True,
        metavar="[HOST] FILE",
        help="Identify with the certificate and key of this PEM file.",
    ),
    click.option(
        "--cookies-from",
        multiple=True,
        metavar="[HOST] FILE",
        help="Send the cookies of this cookies.txt (Netscape's format), as of a browser's login.",
    ),
    click.option(
        "--proxy",
        multiple=True,
        metavar="'[HOST] URL [file:F]'",
        help="Send requests through http://HOST:PORT or socks5://HOST:PORT; all of them without"
        " HOST. The file has its USER:PASSWORD.",
    ),
)


def rules_given(options: dict[str, Any], seeds: Sequence[str]) -> tuple[str, ...]:
    """The rules that the options stand for. Raises ``click.BadParameter``."""
    rules: list[str] = []
    for name, kind in _KINDS.items():
        for text in options.get(name, ()):
            try:
                rules += _rules(name, kind, text.split(), seeds)
            except ValueError as error:
                raise click.BadParameter(
                    str(error), param_hint=f"--{name.replace('_', '-')}"
                ) from None
    return tuple(rules)


def _rules(name: str, kind: str, words: list[str], seeds: Sequence[str]) -> Iterator[str]:
    from lycosa.base.config.profile_texts import read_profile_rule

    if not words:
        raise ValueError("it is empty")
    if kind == "proxy":
        has_matcher = "://" not in words[0]
    elif kind == "header":
        # as curl writes it: NAME: VALUE; the name may stand alone before the colon
        first = next((at for at, word in enumerate(words) if word.endswith(":")), -1)
        has_matcher = first > 0
    else:
        has_matcher = len(words) > 1
    at = 1 if has_matcher else 0
    if has_matcher and words[1].startswith("/") and kind != "proxy":
        is_path = not (name in _PATHS and len(words) == 2)
        at = 2 if is_path else 1
    matchers = [" ".join(words[:at])] if at else _matchers(kind, seeds)
    rest = words[at:]
    if name in _PATHS:
        rest = [_as_place(each) for each in rest]
    elif kind != "proxy":
        rest = [*rest[:-1], _absolute(rest[-1])] if rest else rest
    elif len(rest) > 1:
        rest = [rest[0], *map(_absolute, rest[1:])]
    for matcher in matchers:
        rule = " ".join((matcher, kind, *rest))
        read_profile_rule(rule)
        yield rule


def _matchers(kind: str, seeds: Sequence[str]) -> list[str]:
    """For which URLs an option is that does not say it."""
    from lycosa.base.config.sections import CanonicalSection
    from lycosa.base.urls.canonical import Canonicalizer
    from lycosa.base.urls.identity import InvalidUrl, host_of
    from lycosa.cli.seed_reading import with_scheme

    if kind == "proxy":
        return ["*"]
    hosts: dict[str, None] = {}
    canonical = Canonicalizer(CanonicalSection()).canonical
    for seed in seeds:
        try:
            hosts[host_of(canonical(with_scheme(seed)))] = None
        except InvalidUrl:
            continue  # reported with the other seeds
    if not hosts:
        raise ValueError("say for which host, as 'www.example.org file:/etc/lycosa/login'")
    if len(hosts) > 1:
        raise ValueError(
            f"the seeds have {len(hosts)} hosts, and a secret belongs to one: say for which, as"
            f" '{next(iter(hosts))} file:/etc/lycosa/login'"
        )
    return [f"host:{host}" for host in hosts]


def _as_place(text: str) -> str:
    return _absolute(text if text.startswith("file:") else f"file:{text}")


def _absolute(text: str) -> str:
    """The whole path of a file: workers run in another folder."""
    if not text.startswith("file:") or len(text) == 5:
        return text
    return f"file:{Path(text[5:]).expanduser().absolute()}"
