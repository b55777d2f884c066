"""The synthetic web is a function of its plan: same bytes everywhere, and sketches that say what
the bytes say.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections import Counter
from urllib.parse import urldefrag, urljoin

import msgspec
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.synthetic import Hosts, OracleRules, RobotsVariant, SyntheticWeb, WebPlan, host_name
from lycosa.synthetic.synthetic_pages import Species

AT = 1_750_000_000.0
RICH = WebPlan(
    seed=5,
    hosts=12,
    pages=40,
    distribution="lognormal",
    variants=0.05,
    gone=0.03,
    duplicates=0.05,
    near_duplicates=0.05,
    changes_per_day=2,
    robots=0.5,
    sitemaps=True,
    feeds=True,
    misbehaviours={"redirect-chain": 0.05, "base-href": 0.05},
)
_FINGERPRINT = """
import hashlib, msgspec, sys
from lycosa.synthetic import SyntheticWeb, WebPlan
web = SyntheticWeb(msgspec.json.decode(sys.argv[1], type=WebPlan))
total = hashlib.sha256()
for url in sorted(web.survey([web.seed_url()]).requested):
    response = web.respond(url, 1_750_000_000.0, {"accept-encoding": "gzip"})
    total.update(repr((url, response.status, response.headers, response.latency_s)).encode() + response.body)
print(total.hexdigest())
"""


def links_of(url: str, body: bytes) -> set[str]:
    """Every followed reference of a page, by regular expressions: not the code that wrote them."""
    text = re.sub(r"<!--.*?-->", "", body.decode("utf-8", "replace"), flags=re.S)
    base = re.search(r'<base href="([^"]*)"', text)
    start = urljoin(url, base[1]) if base else url
    written = re.findall(r'<a [^>]*?href="([^"]*)"', text)
    written += re.findall(r'<link rel="(?:canonical|alternate)"[^>]*? href="([^"]*)"', text)
    return {urldefrag(urljoin(start, reference.replace("&amp;", "&"))).url for reference in written}


def test_the_same_plan_gives_the_same_bytes_in_another_process() -> None:
    argument = msgspec.json.encode(RICH).decode()
    runs = [
        subprocess.run(
            [sys.executable, "-c", _FINGERPRINT, argument],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": salt},
        ).stdout
        for salt in ("1", "2")
    ]
    assert runs[0] == runs[1] and len(runs[0].strip()) == 64


def test_another_seed_gives_another_web() -> None:
    one, two = SyntheticWeb(WebPlan(seed=1)), SyntheticWeb(WebPlan(seed=2))
    assert one.respond(one.seed_url(), AT, {}).body != two.respond(two.seed_url(), AT, {}).body


def test_the_bytes_of_a_page_have_exactly_the_links_of_its_sketch() -> None:
    web = SyntheticWeb(RICH)
    truth = web.survey([web.seed_url(port=8080)])
    assert len(truth.pages) > 200
    for url in truth.pages:
        body = web.respond(url, AT, {}).body
        assert links_of(url, body) == {link.url for link in web.sketch(url).links}, url


def test_status_and_location_are_those_of_the_sketch() -> None:
    web = SyntheticWeb(RICH)
    for url in web.survey([web.seed_url()]).requested:
        sketch, response = web.sketch(url), web.respond(url, AT, {})
        assert (response.status, urljoin(url, dict(response.headers).get("Location", ""))) == (
            sketch.status,
            sketch.location or url,
        )


@given(index=st.integers(0, 10**9))
@settings(deadline=None)
def test_a_host_name_leads_back_to_its_number(index: int) -> None:
    hosts = Hosts(WebPlan(hosts=10**9 + 1))
    assert hosts.find(host_name(index)) == index


def test_names_that_are_not_of_this_web_are_not_found() -> None:
    web = SyntheticWeb(WebPlan(hosts=3))
    for name in (
        "example",
        "h000003.site000002.example",
        "h000000.site000001.example",
        "h0.site0.example",
        "h000000.site000000.test",
    ):
        assert web.hosts.find(name) is None
        assert web.respond(f"http://{name}/", AT, {}).status == 404


def test_some_sites_have_several_hosts() -> None:
    sites = Counter(host_name(index).partition(".")[2] for index in range(80))
    assert set(sites.values()) == {1, 2, 3}


@pytest.mark.parametrize("distribution", ["fixed", "zipf", "lognormal"])
def test_the_mean_number_of_pages_is_the_plans(distribution: str) -> None:
    hosts = Hosts(
        msgspec.convert({"hosts": 20_000, "pages": 30, "distribution": distribution}, WebPlan)
    )
    counts = [hosts.page_count(index) for index in range(20_000)]
    assert 20 <= sum(counts) / len(counts) <= 40
    assert min(counts) >= 1 and (distribution == "fixed" or max(counts) > 300)


def test_explicit_page_counts_come_first() -> None:
    hosts = Hosts(WebPlan(page_counts=(3, 1000), pages=7))
    assert [hosts.page_count(index) for index in range(3)] == [3, 1000, 7]


def test_species_have_their_shares_and_every_path_leads_back_to_its_page() -> None:
    web = SyntheticWeb(WebPlan(page_counts=(20_000,), redirects=0.1, gone=0.05, duplicates=0.2))
    found = Counter(web.pages.species(0, page) for page in range(20_000))
    for species, part in ((Species.REDIRECT, 0.1), (Species.GONE, 0.05), (Species.DUPLICATE, 0.2)):
        assert abs(found[species] / 20_000 - part) < 0.01
    assert all(web.pages.find(0, web.pages.path(0, page)) == page for page in range(0, 20_000, 7))


def test_the_port_is_carried_into_every_link() -> None:
    web = SyntheticWeb(WebPlan(hosts=30, cross_links=0.5))
    assert all(
        ":8081/" in link.url
        for url in web.reachable([web.seed_url(port=8081)])
        for link in web.sketch(url).links
    )


def simhash(text: str) -> int:
    sums = [0] * 64
    for word, times in Counter(re.findall(r"\w+", text.lower())).items():
        value = xxhash.xxh3_64_intdigest(word.encode())
        for bit in range(64):
            sums[bit] += times if value >> bit & 1 else -times
    return sum(1 << bit for bit in range(64) if sums[bit] > 0)


def test_duplicates_are_exact_near_duplicates_are_near_and_others_are_far() -> None:
    web = SyntheticWeb(WebPlan(page_counts=(300,), duplicates=0.2, near_duplicates=0.2))
    bodies = {}
    for page in range(300):
        bodies[page] = web.respond(web.seed_url() + web.pages.path(0, page)[1:], AT, {}).body
    prints = {
        page: simhash(re.sub(r"(?s)<[^>]*>", " ", body.decode())) for page, body in bodies.items()
    }
    near = []
    for page in range(1, 300):
        original = web.pages.original(0, page)
        if web.pages.species(0, page) is Species.DUPLICATE:
            assert bodies[page] == bodies[original]
        elif web.pages.species(0, page) is Species.NEAR_DUPLICATE:
            assert bodies[page] != bodies[original]
            near.append((prints[page] ^ prints[original]).bit_count())
        elif web.pages.species(0, page) is Species.ORDINARY:
            assert (prints[page] ^ prints[original]).bit_count() > 3
    assert len(near) > 30 and sum(distance <= 3 for distance in near) >= 0.95 * len(near)


def test_a_page_changes_at_its_rate_and_its_validators_with_it() -> None:
    web = SyntheticWeb(
        WebPlan(page_counts=(40,), page_bytes=900, links=3, changes_per_day=4, redirects=0)
    )
    urls = sorted(web.reachable([web.seed_url()]))
    days, versions = 10, 0
    for url in urls:
        seen = {
            hashlib.sha1(web.respond(url, AT + step * 10_800, {}).body).digest()
            for step in range(8 * days)
        }
        versions += len(seen)
    assert 2 * days < versions / len(urls) < 8 * days


def test_a_page_that_did_not_change_answers_304_and_one_that_did_does_not() -> None:
    web = SyntheticWeb(WebPlan(page_counts=(30,), changes_per_day=1, redirects=0))
    checked = 0
    for url in web.reachable([web.seed_url()]):
        fields = dict(web.respond(url, AT, {}).headers)
        if "ETag" not in fields:
            continue
        checked += 1
        assert web.respond(url, AT + 1, {"if-none-match": f'"x", W/{fields["ETag"]}'}).status == 304
        assert (
            web.respond(url, AT + 1, {"if-modified-since": fields["Last-Modified"]}).status == 304
        )
        assert (
            web.respond(
                url, AT + 1, {"if-none-match": '"x"', "if-modified-since": fields["Last-Modified"]}
            ).status
            == 200
        )
        assert (
            web.respond(url, AT + 1, {"if-modified-since": "Mon, 01 Jan 1990 00:00:00 GMT"}).status
            == 200
        )
        assert web.respond(url, AT + 1, {"if-modified-since": "nonsense"}).status == 200
        later = web.respond(url, AT + 30 * 86400, {"if-none-match": fields["ETag"]})
        assert later.status == 200 and dict(later.headers)["ETag"] != fields["ETag"]
    assert checked > 15


def test_passing_errors_are_over_at_the_third_request() -> None:
    web = SyntheticWeb(WebPlan(page_counts=(200,), error_rate=0.5, redirects=0))
    statuses = [
        [web.respond(url, AT, {}).status for _ in range(3)]
        for url in web.reachable([web.seed_url()])
    ]
    assert all(row[2] == 200 for row in statuses)
    assert 0.35 < sum(row[0] == 503 for row in statuses) / len(statuses) < 0.65


def test_what_is_no_page_is_not_found() -> None:
    web = SyntheticWeb(WebPlan())
    page = web.seed_url() + web.pages.path(0, 5)[1:]
    for url in (
        page + "?x=1",
        page + "x",
        web.seed_url() + "bad/no-such",
        web.seed_url() + "sitemap.xml",
        web.seed_url() + "news/x-99999.html",
    ):
        assert web.respond(url, AT, {}).status == 404, url
        assert web.sketch(url).status == 404, url


@pytest.mark.parametrize("variant", RobotsVariant)
def test_every_robots_variant_answers_as_its_verdicts_say(variant: RobotsVariant) -> None:
    web = SyntheticWeb(
        WebPlan(
            robots=1.0,
            robots_variants=(variant.value,),
            page_counts=(60,),
            sitemaps=True,
            redirects=0.0,
        )
    )
    url, hops = web.seed_url() + "robots.txt", 0
    while (response := web.respond(url, AT, {})).status == 302 and hops < 5:
        url, hops = urljoin(url, dict(response.headers)["Location"]), hops + 1
    if response.status == 503:
        response = web.respond(url, AT, {})
    truth = web.survey([web.seed_url()])
    if not variant.is_reachable:
        assert (
            truth.pages == set()
            and truth.unreachable
            and (response.status >= 500 or response.behaviour)
        )
    elif b"Disallow: /" in response.body:
        assert truth.disallowed, variant
    else:
        assert not truth.disallowed and not truth.unreachable
    assert (b"Sitemap:" in response.body) == (web.sitemap_of(url) != "")


@pytest.mark.parametrize(
    "fault",
    [
        {"hosts": 0},
        {"cross_links": 1.5},
        {"redirects": 0.9, "gone": 0.2},
        {"misbehaviours": {"no-such": 0.1}},
        {"robots_variants": ("no-such",)},
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(fault: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        SyntheticWeb(WebPlan(**fault))  # type: ignore[arg-type]


def test_depth_and_scope_bound_the_truth() -> None:
    web = SyntheticWeb(WebPlan(hosts=6, pages=30, cross_links=0.3))
    seed = web.seed_url()
    everything = web.survey([seed])
    shallow = web.survey([seed], OracleRules(max_depth=1))
    home = web.survey([seed], OracleRules(scope=lambda url: url.startswith(seed)))
    assert shallow.requested == {url for url, depth in everything.depth.items() if depth <= 1}
    assert shallow.too_deep and max(shallow.depth.values()) == 1
    assert (
        home.pages < everything.pages
        and home.out_of_scope
        and all(url.startswith(seed) for url in home.requested)
    )


def test_a_chain_of_redirects_beyond_the_limit_is_not_followed_to_its_end() -> None:
    web = SyntheticWeb(WebPlan())
    chain = web.seed_url() + "bad/redirect-chain/"
    assert chain + "0" in web.reachable([chain + "5"])
    truth = web.survey([chain + "6"])
    assert truth.pages == set() and truth.too_many_hops == {chain + "0"}
