"""What requests carry by rules, over real sockets: to whom it is sent, through which proxy, and
that no secret is in what is stored.
"""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path

import pytest
import trustme

from logging_proxy import logging_proxy
from lycosa.base.config.sections import RequestsSection
from lycosa.base.model.fetched import Fetched, FetchKind, FetchRequest, Limits, Privacy
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Sites
from lycosa.stages.fetch.cookies import CookieJars
from lycosa.stages.fetch.http_client import RequestHooks
from lycosa.stages.fetch.request_profiles import RequestProfiles
from raw_server import PATIENCE_S, PATIENT, RawServer, World, always, dripping, saying
from tls_server import AUTHORITY, server_tls

LOGIN, TOKEN, KEY, COOKIE = "hedda:Zk7-login", "Zk7-token", "Zk7 key", "Zk7-cookie"
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
_BASIC = b"Authorization: Basic " + base64.b64encode(LOGIN.encode())


class Rules:
    """Files with secrets, and profiles of rules that name them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        soon = int(time.time()) + 3600
        cookies = f"# Netscape\n.example.org\tTRUE\t/\tTRUE\t{soon}\tsession\t{COOKIE}\n"
        cookies += f"#HttpOnly_other.test\tFALSE\t/\tFALSE\t0\tsession\t{COOKIE}-other\n"
        secrets = {"login": LOGIN + "\n", "token": TOKEN, "key": KEY, "cookies": cookies}
        for name, text in secrets.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def hooks(self, *rules: str, share: bool = False, cookies: bool = False) -> RequestHooks:
        texts = tuple(rule.replace("file:", f"file:{self.folder}/") for rule in rules)
        section, site_of = RequestsSection(rules=texts, share=share), Sites().site_of
        jars = CookieJars(site_of, 1_000_000) if cookies else None
        return RequestHooks(jars, profiles=RequestProfiles(section, site_of, keeps_cookies=cookies))


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    return Rules(tmp_path)


async def get(
    world: World,
    server: RawServer,
    hooks: RequestHooks,
    host: str = "www.example.org",
    scheme: str = "http",
    address: str = "127.0.0.1",
    limits: Limits = PATIENT,
    **settings: object,
) -> Fetched:
    fetcher = world.fetcher(hooks=hooks, ca_file=str(world.folder / "ca.pem"), **settings)
    url = f"{scheme}://{host}:{server.port}/a"
    return await asyncio.wait_for(
        fetcher.fetch(FetchRequest(url, address, limits=limits)), PATIENCE_S
    )


@pytest.fixture(autouse=True)
def authority(tmp_path: Path) -> None:
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.pem"))


async def tls_world(world: World, *names: str) -> RawServer:
    issued = AUTHORITY.issue_cert(*(names or ("www.example.org",)))
    return await world.serve(always(_OK), tls=server_tls(issued))


# -- headers


async def test_the_secrets_are_sent_and_their_sizes_are_stored(world: World, rules: Rules) -> None:
    server = await tls_world(world)
    hooks = rules.hooks(
        f"host:www.example.org:{server.port} basic file:login",
        f"host:www.example.org:{server.port} header X-Key file:key",
        f"host:www.example.org:{server.port} cookies file:cookies",
    )
    fetched = await get(world, server, hooks, scheme="https", http2=False)
    sent = server.requests[-1]
    assert _BASIC in sent and b"X-Key: Zk7 key" in sent and b"session=Zk7-cookie" in sent
    assert fetched.privacy is Privacy.PRIVATE
    stored = fetched.request_block
    assert b"Authorization: [%d bytes]" % (len(_BASIC) - len("Authorization: ")) in stored
    assert b"X-Key: [7 bytes]" in stored and b"Cookie: [18 bytes]" in stored
    assert b"Zk7" not in stored
    # All else is as it was sent.
    hidden = (b"Authorization", b"Cookie", b"X-Key")
    kept = [line for line in sent.split(b"\r\n") if not line.startswith(hidden)]
    assert kept == [line for line in stored.split(b"\r\n") if not line.startswith(hidden)]


async def test_a_bearer_token_is_sent_as_one(world: World, rules: Rules) -> None:
    server = await world.serve(always(_OK))
    hooks = rules.hooks(f"host:www.example.org:{server.port} bearer file:token")
    fetched = await get(world, server, hooks)
    assert b"Authorization: Bearer Zk7-token\r\n" in server.requests[-1]
    assert b"Authorization: [16 bytes]\r\n" in fetched.request_block


@pytest.mark.parametrize(
    ("rule", "host"),
    [
        ("host:www.example.org:{port} basic file:login", "other.example.org"),
        ("host:www.example.org:{port} basic file:login", "www.example.org.evil.test"),
        ("example.org:{port} basic file:login", "notexample.org"),
        ("example.org basic file:login", "www.example.org"),  # another port
        ("example.org:{port} /b* basic file:login", "www.example.org"),
        ("example.org:{port} cookies file:cookies", "example.net"),
    ],
)
async def test_no_other_host_port_or_path_gets_them(
    world: World, rules: Rules, rule: str, host: str
) -> None:
    server = await world.serve(always(_OK))
    fetched = await get(world, server, rules.hooks(rule.format(port=server.port)), host)
    assert b"Authorization" not in server.requests[-1] and b"Cookie" not in server.requests[-1]
    assert fetched.privacy is Privacy.PUBLIC and fetched.request_block == server.requests[-1]


async def test_only_a_loopback_address_gets_them_without_encryption(
    world: World, rules: Rules
) -> None:
    profiles = rules.hooks(
        "host:www.example.org basic file:login", "host:b.example.org basic file:login plain-http"
    ).profiles
    assert profiles is not None

    def is_private(url: str, address: str) -> bool:
        return profiles.profile_of(FetchRequest(url, address)).privacy is not Privacy.PUBLIC

    assert is_private("http://www.example.org/", "127.0.0.9")
    assert is_private("http://www.example.org/", "::1")
    assert not is_private("http://www.example.org/", "192.0.2.1")
    assert is_private("https://www.example.org/", "192.0.2.1")
    assert is_private("http://b.example.org/", "192.0.2.1")


async def test_robots_requests_carry_what_their_url_has(world: World, rules: Rules) -> None:
    """A host that asks everyone for a login answers 401, which would mean that it has no rules."""
    server = await world.serve(always(_OK))
    hooks = rules.hooks(f"host:www.example.org:{server.port} basic file:login")
    url = f"http://www.example.org:{server.port}/robots.txt"
    fetcher = world.fetcher(hooks=hooks)
    await fetcher.fetch(FetchRequest(url, "127.0.0.1", FetchKind.ROBOTS, limits=PATIENT))
    assert _BASIC in server.requests[-1]


async def test_of_each_kind_the_first_rule_counts(world: World, rules: Rules) -> None:
    server = await world.serve(always(_OK))
    port = server.port
    hooks = rules.hooks(
        f"example.org:{port} /a* bearer file:token",
        f"example.org:{port} basic file:login",
        f"example.org:{port} header X-Key file:key",
        f"example.org:{port} header x-key file:token",
    )
    await get(world, server, hooks)
    sent = server.requests[-1]
    assert sent.count(b"Authorization: ") == 1 and b"Bearer Zk7-token" in sent
    assert sent.lower().count(b"x-key") == 1 and b"Zk7 key" in sent


# -- cookies


async def test_cookies_that_an_answer_sets_are_used_and_their_sizes_stored(
    world: World, rules: Rules
) -> None:
    renewed = b"Set-Cookie: session=Zk7-renewed; Path=/\r\n"
    head = b"HTTP/1.1 200 OK\r\n" + renewed + b"Content-Length: 0\r\n\r\n"
    server = await world.serve(saying(head, _OK))
    rules.write("plain", f"www.example.org\tFALSE\t/\tFALSE\t0\tsession\t{COOKIE}\n")
    hooks = rules.hooks(f"host:www.example.org:{server.port} cookies file:plain")
    fetcher = world.fetcher(hooks=hooks)
    url = f"http://www.example.org:{server.port}/"
    request = FetchRequest(url, "127.0.0.1", limits=PATIENT)
    first, _ = await fetcher.fetch(request), await fetcher.fetch(request)
    assert b"session=Zk7-cookie" in server.requests[0]
    assert b"session=Zk7-renewed" in server.requests[1]
    assert b"Set-Cookie: [27 bytes]\r\n" in first.header_block and b"Zk7" not in first.header_block


async def test_a_session_with_credentials_is_not_continued_without(
    world: World, rules: Rules
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: s=1; Path=/\r\nContent-Length: 0\r\n\r\n"
    server = await world.serve(always(answer))
    hooks = rules.hooks(f"host:www.example.org:{server.port} /in* basic file:login", cookies=True)
    fetcher = world.fetcher(hooks=hooks)
    for path in ("in", "in", "out", "out"):
        url = f"http://www.example.org:{server.port}/{path}"
        await fetcher.fetch(FetchRequest(url, "127.0.0.1", limits=PATIENT))
    assert [b"Cookie: s=1" in sent for sent in server.requests] == [False, True, False, True]


# -- certificates


async def test_a_client_certificate_is_shown_to_its_host_alone(world: World, rules: Rules) -> None:
    clients = trustme.CA()
    tls = server_tls(AUTHORITY.issue_cert("www.example.org", "b.example.org"))
    clients.configure_trust(tls)
    tls.verify_mode = 2  # required
    server = await world.serve(always(_OK), tls=tls)
    issued = clients.issue_cert("crawler.test")
    issued.private_key_and_cert_chain_pem.write_to_path(str(rules.folder / "client"))
    (rules.folder / "client").chmod(0o600)
    hooks = rules.hooks(f"host:www.example.org:{server.port} certificate file:client")
    fetcher = world.fetcher(hooks=hooks, ca_file=str(world.folder / "ca.pem"))
    fetched = {}
    for host in ("www.example.org", "b.example.org", "www.example.org"):
        url = f"https://{host}:{server.port}/"
        fetched[host] = await fetcher.fetch(FetchRequest(url, "127.0.0.1", limits=PATIENT))
    assert fetched["www.example.org"].status == 200
    assert fetched["www.example.org"].privacy is Privacy.PRIVATE
    assert fetched["b.example.org"].status == 0
    assert fetched["b.example.org"].privacy is Privacy.PUBLIC


async def test_a_connection_with_a_certificate_serves_no_request_without(
    world: World, rules: Rules
) -> None:
    tls, clients, shown = server_tls(AUTHORITY.issue_cert("www.example.org")), trustme.CA(), []
    clients.configure_trust(tls)
    tls.verify_mode = 1  # optional

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            await server.read_request(reader)
            shown.append(bool(writer.get_extra_info("ssl_object").getpeercert()))
            writer.write(_OK)

    server = await world.serve(talk, tls=tls)
    issued = clients.issue_cert("crawler.test")
    issued.private_key_and_cert_chain_pem.write_to_path(str(rules.folder / "client"))
    (rules.folder / "client").chmod(0o600)
    hooks = rules.hooks(f"host:www.example.org:{server.port} /in* certificate file:client")
    fetcher = world.fetcher(hooks=hooks, ca_file=str(world.folder / "ca.pem"))
    for path in ("out", "in", "out", "in", "out"):
        url = f"https://www.example.org:{server.port}/{path}"
        await fetcher.fetch(FetchRequest(url, "127.0.0.1", limits=PATIENT))
    assert shown == [False, True, False, True, False] and server.connections == 2


async def test_a_connection_through_a_proxy_serves_no_request_of_another(
    world: World, rules: Rules
) -> None:
    server = await world.serve(always(_OK))
    rules.write("other", "other:login")
    with logging_proxy(login=LOGIN) as first, logging_proxy(login="other:login") as second:
        host = f"host:www.example.org:{server.port}"
        texts = (
            f"{host} /a* proxy {first.url} file:login",
            f"{host} /b* proxy {second.url} file:other",
            f"{host} /c* proxy {first.url} file:other",
        )
        fetcher = world.fetcher(hooks=rules.hooks(*texts))
        found = []
        for path in "adbadbc":
            url = f"http://www.example.org:{server.port}/{path}"
            fetched = await fetcher.fetch(FetchRequest(url, "127.0.0.1", limits=PATIENT))
            found.append(fetched.status)
        assert found == [200] * 6 + [0]  # a connection with another login is none of ours
        assert (len(first.asked), len(second.asked), server.connections) == (2, 1, 3)


# -- proxies


@pytest.mark.parametrize("is_socks", [False, True])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_is_given_the_address_and_the_target_counts(
    world: World, rules: Rules, is_socks: bool, scheme: str
) -> None:
    server = await (tls_world(world) if scheme == "https" else world.serve(always(_OK)))
    with logging_proxy(is_socks=is_socks, login=LOGIN) as proxy:
        hooks = rules.hooks(
            f"* proxy {proxy.url} file:login",
            f"host:www.example.org:{server.port} header X-Key file:key",
        )
        # An address that the proxy does not have, so that it cannot be mistaken for the target's.
        fetched = await get(world, server, hooks, scheme=scheme, address="127.0.0.1")
        assert (fetched.status, fetched.body, fetched.address) == (200, b"hello", "127.0.0.1")
        assert proxy.asked == [f"127.0.0.1:{server.port}"]  # no name
        assert b"X-Proxy" not in fetched.header_block
        # The tunnel has nothing of the request, and the request nothing of the tunnel.
        assert not any(b"X-Key" in head or b"example" in head for head in proxy.heads)
        assert fetched.request_block.startswith(b"GET /a ")
        assert b"Proxy" not in fetched.request_block and b"Zk7" not in fetched.request_block
        assert b"Host: www.example.org" in server.requests[-1]


async def test_the_address_of_a_target_is_judged_before_the_proxy_is_asked(
    world: World, rules: Rules
) -> None:
    server = await world.serve(always(_OK))
    with logging_proxy() as proxy:
        hooks = rules.hooks(f"* proxy {proxy.url}")
        fetched = await get(world, server, hooks, address="169.254.169.254")
        assert fetched.reason is Reason.ADDRESS_FORBIDDEN and not proxy.asked


async def test_a_handle_that_had_a_proxy_is_not_used_without(world: World, rules: Rules) -> None:
    server = await world.serve(always(_OK))
    with logging_proxy() as proxy:
        fetcher = world.fetcher(hooks=rules.hooks(f"a.example.org proxy {proxy.url}"))
        a, b = f"http://a.example.org:{server.port}/", f"http://b.example.org:{server.port}/"
        asked = []
        for url in (a, b, f"{a}\ud800", b):
            await fetcher.fetch(FetchRequest(url, "127.0.0.1", limits=PATIENT))
            asked.append(len(proxy.asked))
        assert asked == [1, 1, 1, 1]


async def test_hosts_without_a_proxy_are_requested_directly(world: World, rules: Rules) -> None:
    server = await world.serve(always(_OK))
    with logging_proxy() as proxy:
        hooks = rules.hooks(f"host:www.example.org:{server.port} direct", f"* proxy {proxy.url}")
        assert (await get(world, server, hooks)).status == 200
        assert not proxy.asked


@pytest.mark.parametrize(
    ("how", "reason", "said"),
    [
        ({"status": 403}, Reason.PROXY_FAILED, "403"),
        ({"login": "other:login"}, Reason.PROXY_FAILED, "407"),
        ({"status": 0}, Reason.PROXY_FAILED, ""),
        ({"status": 502}, Reason.NETWORK_UNREACHABLE, "502"),
        ({"status": 504}, Reason.CONNECT_TIMEOUT, "504"),
        ({"is_socks": True, "reply": 2}, Reason.PROXY_FAILED, "answered 2"),
        ({"is_socks": True, "reply": 5}, Reason.CONNECT_REFUSED, "answered 5"),
    ],
)
async def test_what_a_proxy_says_is_the_proxys_or_the_hosts(
    world: World, rules: Rules, how: dict[str, object], reason: Reason, said: str
) -> None:
    server = await world.serve(always(_OK))
    with logging_proxy(**{"login": LOGIN, **how}) as proxy:
        fetched = await get(world, server, rules.hooks(f"* proxy {proxy.url} file:login"))
    assert fetched.reason is reason and said in fetched.detail
    assert not fetched.status and not fetched.header_block and not server.requests
    assert "Zk7" not in fetched.detail


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"\x00\xff\r\n\r\n",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_answers_nonsense_is_no_failure_of_the_host(
    world: World, rules: Rules, scheme: str, answer: bytes
) -> None:
    server, proxy = await world.serve(always(_OK)), await world.serve(saying(answer))
    hooks = rules.hooks(f"* proxy http://127.0.0.1:{proxy.port} file:login", cookies=True)
    fetched = await get(world, server, hooks, scheme=scheme)
    assert fetched.reason is Reason.PROXY_FAILED and not fetched.header_block
    assert not server.requests and len(proxy.requests) == 1 and "Zk7" not in fetched.detail


async def test_a_proxy_that_never_ends_its_answer_is_given_up(world: World, rules: Rules) -> None:
    server = await world.serve(always(_OK))
    proxy = await world.serve(dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"))
    limits = Limits(connect_s=0.5, first_byte_s=0.5, total_s=1.0, min_bytes_per_s=0)
    hooks = rules.hooks(f"* proxy http://127.0.0.1:{proxy.port}")
    fetched = await get(world, server, hooks, limits=limits)
    assert fetched.reason in (Reason.PROXY_FAILED, Reason.CONNECT_TIMEOUT), fetched
    assert not server.requests


async def test_a_proxy_that_is_not_there_is_no_failure_of_the_host(
    world: World, rules: Rules
) -> None:
    server = await world.serve(always(_OK))
    with logging_proxy() as proxy:
        url = proxy.url
    fetched = await get(world, server, rules.hooks(f"* proxy {url}"))
    assert fetched.reason is Reason.PROXY_FAILED and "no connection" in fetched.detail
