"""Rules of what requests carry: how they are written, that no message repeats a secret, and what is
hidden of a header block.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.profile_texts import (
    PrivateUrls,
    ProfileKind,
    SecretPlace,
    check_profile_rules,
    read_profile_rule,
)
from lycosa.base.config.sections import Config, RequestsSection
from lycosa.base.config.sources import SettingsError, load_settings
from lycosa.base.model.fetched import FetchRequest, Privacy
from lycosa.base.urls.identity import Sites
from lycosa.cli.request_options import rules_given
from lycosa.service.api.places import PartitionFinder
from lycosa.stages.fetch.profile import hide_cookies, hide_values
from lycosa.stages.fetch.request_profiles import RequestProfiles
from lycosa.stages.fetch.secret_values import SecretError
from lycosa.stages.fetch.silence import ProxySilence

SECRET = "Zk7-secret"


@pytest.mark.parametrize(
    ("text", "kind", "name", "place"),
    [
        ("a.example basic file:/x/y", ProfileKind.BASIC, "", SecretPlace("/x/y")),
        ("host:a /p* bearer env:T", ProfileKind.BEARER, "", SecretPlace("T", is_file=False)),
        ("a.example header X-Key: env:K", ProfileKind.HEADER, "X-Key", SecretPlace("K", False)),
        ("a.example certificate file:/c", ProfileKind.CERTIFICATE, "", SecretPlace("/c")),
        ("a.example cookies file:/c", ProfileKind.COOKIES, "", SecretPlace("/c")),
        ("* proxy http://p.corp:3128/", ProfileKind.PROXY, "http://p.corp:3128", None),
        (
            "re:x proxy socks5://[::1]:1 env:P",
            ProfileKind.PROXY,
            "socks5://[::1]:1",
            SecretPlace("P", False),
        ),
        ("a.example:443 direct", ProfileKind.DIRECT, "", None),
        ("host:a direct", ProfileKind.DIRECT, "", None),
    ],
)
def test_a_rule_is_read(text: str, kind: ProfileKind, name: str, place: SecretPlace | None) -> None:
    rule = read_profile_rule(text)
    assert (rule.kind, rule.name, rule.secret, rule.on_http) == (kind, name, place, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"a.example basic {SECRET}", "a secret is not written here"),
        (f"a.example bearer {SECRET}", "a secret is not written here"),
        (f"a.example header X-Key {SECRET}", "a secret is not written here"),
        (f"a.example header X-Key {SECRET} more", "write header NAME file:FILE"),
        (f"a.example basic me:{SECRET}", "a secret is not written here"),
        (f"* proxy http://me:{SECRET}@p.corp:3128", "the login of a proxy"),
        (f"* proxy http://p.corp:3128 me:{SECRET}", "a secret is not written here"),
        ("a.example basic file:login", "the whole path"),
        ("a.example cookies env:C", "are in a file"),
        ("* basic file:/x", "needs the name of a host"),
        ("/path* basic file:/x", "needs the name of a host"),
        ("re:a.example basic file:/x", "needs the name of a host"),
        ("com bearer file:/x", "needs the name of a host"),
        ("a.example header Host file:/x", "decides about Host"),
        ("a.example header Cookie file:/x", "cookies file:FILE"),
        ("a.example header User-Agent file:/x", "recognise the crawler"),
        ("a.example header bad(name file:/x", "not the name of a header"),
        ("* proxy socks5h://p:1", "gives the proxy the address"),
        ("* proxy socks4a://p:1", "gives the proxy the address"),
        ("* proxy p.corp:3128", "not the URL of a proxy"),
        ("* proxy http://p.corp", "not the URL of a proxy"),
        ("a.example basik file:/x", "did you mean basic"),
        ("a.example", "that is no rule"),
        ("a.example certificate file:/x plain-http", "for https"),
        ("host:a.example:443 basic file:/x", "leave out :443"),
        ("a.example:http basic file:/x", "no port"),
    ],
)
def test_what_is_no_rule_is_refused_without_repeating_it(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="line 1: ") as caught:
        check_profile_rules((text,))
    assert said in str(caught.value) and SECRET not in str(caught.value)


def test_no_message_of_settings_repeats_a_value(tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    file.write_text(f'[requests]\nrules = ["a.example basic {SECRET}"]\n')
    pair = f"requests.rules=a.example basic {SECRET}"
    for given_file, pairs, environ in (
        (file, (), {}),
        (None, (pair,), {}),
        (None, (), {"LYCOSA_REQUESTS__RULES": pair.partition("=")[2]}),
    ):
        with pytest.raises(SettingsError) as caught:
            load_settings(given_file, environ, pairs, {})
        assert "requests.rules" in str(caught.value) and SECRET not in str(caught.value)


def test_a_secret_needs_a_certificate_that_is_checked() -> None:
    flags = {"fetch.verify_tls": False}
    rules = ("requests.rules=a.example basic file:/x",)
    with pytest.raises(SettingsError, match="whose certificate is valid"):
        load_settings(None, {}, rules, flags)
    load_settings(None, {}, ("requests.rules=* proxy http://p:1",), flags)


# -- options


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({"auth": ["file:/x"]}, ["host:a.example:8080 basic file:/x"]),
        ({"auth": ["b.example env:L"]}, ["b.example basic env:L"]),
        ({"auth": ["b.example /in/* env:L"]}, ["b.example /in/* basic env:L"]),
        ({"header": ["X-Key: env:K"]}, ["host:a.example:8080 header X-Key: env:K"]),
        ({"header": ["b.example X-Key: env:K"]}, ["b.example header X-Key: env:K"]),
        ({"cookies_from": ["/c.txt"]}, ["host:a.example:8080 cookies file:/c.txt"]),
        ({"cookies_from": ["b.example /c.txt"]}, ["b.example cookies file:/c.txt"]),
        ({"client_cert": ["file:/c.pem"]}, ["host:a.example:8080 certificate file:/c.pem"]),
        ({"proxy": ["http://p:1"]}, ["* proxy http://p:1"]),
        ({"proxy": ["b.example http://p:1 file:/l"]}, ["b.example proxy http://p:1 file:/l"]),
    ],
)
def test_options_are_rules_for_the_host_of_the_seeds(
    options: dict[str, list[str]], rules: list[str]
) -> None:
    assert list(rules_given(options, ("http://A.example:8080/x", "a.example:8080"))) == rules


def test_a_relative_file_gets_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (rule,) = rules_given({"auth": ["file:login"]}, ("a.example",))
    assert rule == f"host:a.example basic file:{tmp_path}/login"


@pytest.mark.parametrize("seeds", [(), ("a.example", "b.example")])
def test_a_secret_is_for_one_host(seeds: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter, match="host"):
        rules_given({"auth": ["file:/x"]}, seeds)


def test_a_value_on_the_command_line_is_refused_and_not_repeated() -> None:
    for name, text in (("auth", f"me:{SECRET}"), ("header", f"X-Key: {SECRET}")):
        with pytest.raises(click.BadParameter) as caught:
            rules_given({name: [text]}, ("a.example",))
        assert SECRET not in caught.value.message


# -- secrets


@pytest.mark.parametrize(
    ("kind", "content", "mode", "said"),
    [
        ("basic", SECRET, 0o600, "has no colon"),
        ("basic", f"me:{SECRET}", 0o604, "other users"),
        ("basic", f"me:{SECRET}\nInjected: header", 0o600, "not one line"),
        ("bearer", f"Bearer {SECRET}", 0o600, "leave out the word Bearer"),
        ("bearer", "", 0o600, "is empty"),
        ("cookies", f"session={SECRET}", 0o600, "no cookie in Netscape's format"),
        ("cookies", f"a.example\tFALSE\t/\tTRUE\t1\tsession\t{SECRET}\n", 0o600, "expired"),
        ("certificate", SECRET, 0o600, "not a PEM file"),
    ],
)
def test_a_secret_that_cannot_be_used_is_told_but_not_shown(
    tmp_path: Path, kind: str, content: str, mode: int, said: str
) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(mode)
    section = RequestsSection(rules=(f"a.example {kind} file:{path}",))
    with pytest.raises(SecretError, match=r"requests\.rules, line 1: ") as caught:
        RequestProfiles(section, Sites().site_of)
    assert said in str(caught.value) and SECRET not in str(caught.value)


def test_a_missing_secret_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZK_NONE", raising=False)
    for place, said in ((f"file:{tmp_path}/none", "there is no file"), ("env:ZK_NONE", "not set")):
        section = RequestsSection(rules=(f"a.example bearer {place}",))
        with pytest.raises(SecretError, match=said):
            RequestProfiles(section, str)


def test_cookies_of_a_file_expire(tmp_path: Path) -> None:
    path, now = tmp_path / "cookies", int(time.time())
    path.write_text(
        f"a.example\tFALSE\t/\tTRUE\t{now - 9}\told\tx\n"
        f"#HttpOnly_.a.example\tTRUE\t/\tTRUE\t{now + 900}\tnew\tx\n"
    )
    path.chmod(0o600)
    section = RequestsSection(rules=(f"a.example cookies file:{path}",))
    ((_, (loaded,)),) = RequestProfiles(section, Sites().site_of)._groups
    assert loaded.jars is not None and loaded.jars.snapshot().cookies == 1


# -- hiding

_names = st.sampled_from([b"Authorization", b"X-Key", b"Accept", b"cookie"])
_values = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b""))


@given(st.lists(st.tuples(_names, _values), max_size=8))
def test_only_the_named_values_are_replaced_by_their_length(
    fields: list[tuple[bytes, bytes]],
) -> None:
    hidden = frozenset({b"authorization", b"x-key", b"cookie"})
    block = b"GET / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % field for field in fields) + b"\r\n"
    lines = hide_values(block, hidden).split(b"\r\n")
    assert lines[0] == b"GET / HTTP/1.1" and lines[-2:] == [b"", b""]
    for (name, value), line in zip(fields, lines[1:], strict=False):
        shown = value if name == b"Accept" else b"[%d bytes]" % len(value.strip())
        assert line == b"%b: %b" % (name, shown)


def test_cookies_of_an_answer_are_hidden_in_any_spelling() -> None:
    block = b"HTTP/1.1 200 OK\r\nsEt-CoOkIe: a=b\r\nX: cookie\r\n\r\n"
    hidden = b"HTTP/1.1 200 OK\r\nsEt-CoOkIe: [3 bytes]\r\nX: cookie\r\n\r\n"
    assert hide_cookies(block) == hidden


def test_private_urls_are_those_of_rules_with_secrets() -> None:
    private = PrivateUrls(("a.example basic file:/x", "* proxy http://p:1"))
    assert "https://www.a.example/x" in private and "https://b.example/" not in private
    assert "https://a.example/" not in PrivateUrls(())


def test_a_page_of_another_site_is_rendered_without_private_captures() -> None:
    config = Config(requests=RequestsSection(rules=("in.example basic file:/x",)))
    addressing = PartitionFinder(config, Sites())
    assert addressing.may_show("https://www.in.example/a", "in.example")
    assert not addressing.may_show("https://www.in.example/a", "other.example")
    assert addressing.may_show("https://other.example/a", "in.example")


def test_a_proxy_is_silent_until_something_is_answered() -> None:
    proxies = ProxySilence()
    assert proxies.reason(0.0) == ""
    proxies.note_failure("refused", 10.0)
    proxies.note_failure("refused", 100.0)
    assert (proxies.outage_s(130.0), proxies.reason(130.0)) == (120.0, "refused")
    assert proxies.reason(300.0) == ""  # nothing was tried for long
    proxies.note_failure("refused", 400.0)
    assert proxies.outage_s(400.0) == 1.0
    proxies.note_answer()
    assert proxies.reason(400.0) == ""


def profiles_of(folder: Path, *texts: str) -> RequestProfiles:
    """Profiles of rules whose secrets are in this folder."""
    login = folder / "login"
    login.write_text("hedda:" + SECRET)
    login.chmod(0o600)
    issued = trustme.CA().issue_cert("crawler.test")
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "client"))
    (folder / "client").chmod(0o600)
    rules = tuple(each.replace("file:", f"file:{folder}/") for each in texts)
    return RequestProfiles(RequestsSection(rules=rules), Sites().site_of)


def test_a_certificate_is_for_the_port_of_its_rule(tmp_path: Path) -> None:
    profiles = profiles_of(
        tmp_path, "a.example certificate file:client", "b.example:8443 certificate file:client"
    )

    def has(url: str) -> bool:
        return bool(profiles.profile_of(FetchRequest(url, "192.0.2.1")).certificate)

    assert has("https://a.example/") and has("https://www.a.example/")
    assert not has("https://a.example:8443/") and not has("https://www.a.example:8443/")
    assert has("https://b.example:8443/") and not has("http://b.example:8443/")


def test_a_rule_without_a_port_hides_none_with_a_port(tmp_path: Path) -> None:
    rules = ["bücher.example basic file:login", "bücher.example:8443 bearer file:token"]
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o600)
    for texts in (rules, rules[::-1]):
        profiles = profiles_of(tmp_path, *texts)

        def sent(url: str, profiles: RequestProfiles = profiles) -> list[bytes]:
            lines = profiles.profile_of(FetchRequest(url, "192.0.2.1")).lines
            return [line.split()[1] for line in lines]

        assert sent("https://www.xn--bcher-kva.example/") == [b"Basic"]
        assert sent("https://xn--bcher-kva.example:8443/") == [b"Bearer"]
        assert sent("https://xn--bcher-kva.example:9443/") == []


def test_a_loopback_address_behind_a_proxy_is_another_machine(tmp_path: Path) -> None:
    profiles = profiles_of(
        tmp_path,
        "host:a.example basic file:login",
        "host:b.example basic file:login",
        "host:c.example basic file:login",
        "host:a.example proxy http://192.0.2.7:3128",
        "host:b.example proxy http://localhost:3128",
    )

    def is_private(host: str) -> bool:
        request = FetchRequest(f"http://{host}/", "127.0.0.1")
        return profiles.profile_of(request).privacy is Privacy.PRIVATE

    assert not is_private("a.example")
    assert is_private("b.example") and is_private("c.example")
