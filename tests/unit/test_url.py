"""Canonical form, its parts, site and partition."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import (
    BUNDLED_LIST,
    CANONICAL_VERSION,
    Canonicalizer,
    InvalidUrl,
    Sites,
    hash8,
    host_of,
    is_address,
    join_url,
    name_of,
    origin_of,
    partition_of,
    resolve,
    scheme_of,
    target_of,
)

DEFAULT = Canonicalizer(CanonicalSection())
BARE = Canonicalizer(
    CanonicalSection(drop_session_ids=False, drop_tracking=False, drop_empty_query=False)
)
EVERY_RULE = Canonicalizer(
    CanonicalSection(
        sort_query=True, drop_index_files=True, drop_trailing_slash=True, drop_www=True
    ),
)
SITES = Sites()

SESSION = "0123456789abcdef0123456789abcdef"
PIECES = st.sampled_from(
    [
        *"abzAZ09-._~!$&'()*+,;=:@/?%#|\\ \"<>[]^`{}",
        *(
            "/",
            "//",
            "..",
            "./",
            "../",
            "%2e",
            "%2E",
            "%2f",
            "%25",
            "%41",
            "%c3%a4",
            "%",
            "%4",
            "%zz",
            "ä",
            "Ä",
            "\t",
            "\n",
            "\x00",
            "?",
            "&",
        ),
        *(
            "&sid=" + SESSION,
            "&utm_source=x",
            ";jsessionid=" + SESSION,
            "&PHPSESSID=1",
            "index.html",
            "/index.php",
            "www.",
            "a=1",
            "/a/b",
            "\ud800",
        ),
    ]
)
TARGETS = st.lists(PIECES, max_size=12).map("".join)
LABELS = st.sampled_from(
    [
        "a",
        "example",
        "EXAMPLE",
        "www",
        "xn--mnchen-3ya",
        "münchen",
        "xn--a",
        "a--b",
        "1",
        "0x7f",
        "ß",
        "a_b",
        "％41",
        "faß",
        "☕",
        "",
    ]
)
HOSTS = st.one_of(
    st.lists(LABELS, min_size=1, max_size=4).map(".".join),
    st.sampled_from(
        [
            "127.0.0.1",
            "[::1]",
            "0x7f.1",
            "2130706433",
            "example.org.",
            "example.org。",
            "example.org..",
            "www.www.example.org",
        ]
    ),
)
PORTS = st.sampled_from(["", ":", ":80", ":443", ":8080", ":0", ":65536"])
USERS = st.sampled_from(["", "user@", "user:pass@", "a@b@", ":@"])
URLS = st.builds(
    lambda scheme, user, host, port, target: f"{scheme}://{user}{host}{port}{target}",
    st.sampled_from(["http", "https", "HTTP", "hTTps"]),
    USERS,
    HOSTS,
    PORTS,
    TARGETS.map(lambda target: "/" + target) | TARGETS,
)


def canonical_or_none(
    canonicalizer: Canonicalizer, raw: str, base: str | None = None
) -> str | None:
    try:
        return canonicalizer.canonical(raw, base)
    except InvalidUrl:
        return None


@pytest.mark.parametrize(
    "canonicalizer", [DEFAULT, BARE, EVERY_RULE], ids=["default", "bare", "every rule"]
)
@given(raw=URLS)
@settings(deadline=None, max_examples=400)
def test_a_canonical_url_is_its_own_canonical_form(canonicalizer: Canonicalizer, raw: str) -> None:
    url = canonical_or_none(canonicalizer, raw)
    if url is not None:
        assert canonicalizer.canonical(url) == url


@given(raw=URLS)
@settings(deadline=None, max_examples=300)
def test_a_canonical_url_has_the_shape_that_slicing_relies_on(raw: str) -> None:
    url = canonical_or_none(DEFAULT, raw)
    if url is None:
        return
    host, target = host_of(url), target_of(url)
    assert re.fullmatch(r"https?://[^/?#@\s]+/[\x21-\x7e]*", url)
    assert "#" not in url
    assert join_url(scheme_of(url), host, target) == url
    assert origin_of(url) + target == url
    assert not name_of(host).endswith(".")
    assert SITES.site_of(host)


@given(
    raw=URLS,
    base=st.sampled_from(
        [
            "http://example.org/",
            "http://example.org/a/b;jsessionid=5/c",
            "https://x.example.org/a/b/c?d/e",
        ]
    ),
)
@settings(deadline=None, max_examples=300)
def test_without_lossy_rules_the_form_means_what_the_standard_resolves(raw: str, base: str) -> None:
    url = canonical_or_none(BARE, raw, base)
    if url is not None:
        href = resolve(raw, base).partition("#")[0]
        assert url.replace("%", "").lower()[-1] == href.replace("%", "").lower()[-1] or "%" in href
        assert scheme_of(url) == href.partition(":")[0]


REFERENCES = st.lists(
    st.sampled_from(
        [
            "a",
            "B",
            "-",
            ".",
            "..",
            "/",
            "../",
            "?",
            "x=1",
            "&",
            "utm_id=3",
            "#",
            "f",
            ":",
            "@",
            "=",
            "(",
            ";",
            "http://www.a-b.org",
            "sid=2",
            "www.",
        ]
    ),
    max_size=10,
).map("".join)
BASES = st.sampled_from(
    [
        "http://example.org/",
        "http://example.org",
        "http://example.org/a/b/c.html",
        "https://user@example.org:8443/a/../b/?q/x",
        "http://example.org/a;jsessionid=1/b",
        "http://example.org/x/..;jsessionid=1",
        "http://EXAMPLE.org/%7ea/",
        "http://example.org/a/b/c#/d/e",
    ]
)


@given(raw=REFERENCES, base=BASES)
@settings(deadline=None, max_examples=600)
def test_the_short_cut_gives_what_the_long_way_gives(raw: str, base: str) -> None:
    canonicalizer = Canonicalizer(CanonicalSection())
    short = canonical_or_none(canonicalizer, raw, base)
    long = canonical_or_none(canonicalizer, resolve(raw, base)) if short is not None else None
    assert short == (canonical_or_none(canonicalizer, long + "#") if long is not None else None)


@pytest.mark.parametrize(
    "raw", ["x" * 60_000 + ":y", "x" * 70_000 + ":y", "http://[" + "x" * 60_000]
)
def test_what_is_said_of_a_refused_url_is_short(raw: str) -> None:
    with pytest.raises(InvalidUrl) as error:
        DEFAULT.canonical(raw)
    assert len(str(error.value)) < 400


def test_a_reference_without_a_base_does_not_use_the_base_of_the_call_before() -> None:
    canonicalizer = Canonicalizer(CanonicalSection())
    assert canonicalizer.canonical("b", "http://example.org/a/") == "http://example.org/a/b"
    for raw in ("b", "/b", "../b"):
        with pytest.raises(InvalidUrl) as error:
            canonicalizer.canonical(raw)
        assert error.value.reason is Reason.UNPARSABLE
        assert "relative" in error.value.detail


@pytest.mark.parametrize(
    "spelling",
    [
        "HTTP://Example.ORG/a/b",
        "http://example.org:80/a/b",
        "http://example.org:/a/b",
        "http://example.org./a/b",
        "http://user:pass@example.org/a/b",
        "http://example.org/a/b#fragment",
        "http://example.org/a/b?",
        "http://example.org/a/./c/../b",
        "http://example.org/a/%2e/b",
        "http://example.org/%61/%62",
        "  http://example.org/a/b\n",
        "http:\\\\example.org\\a\\b",
        "http://ex\tample.org/a/b",
        "http://ｅｘａｍｐｌｅ．org/a/b",
        "http://example.org/a;jsessionid=6F2A/b",
        "http://example.org/a/b?PHPSESSID=6F2A",
        "http://example.org/a/b?utm_source=x&UTM_Medium=y&gclid=z",
    ],
)
def test_spellings_of_one_resource_meet(spelling: str) -> None:
    assert DEFAULT.canonical(spelling) == "http://example.org/a/b"


@given(path=st.text("abAB019-._~", min_size=1, max_size=8), data=st.data())
@settings(deadline=None, max_examples=200)
def test_encoding_unreserved_characters_changes_nothing(path: str, data: st.DataObject) -> None:
    spelled = "".join(
        data.draw(st.sampled_from([character, f"%{ord(character):02x}", f"%{ord(character):02X}"]))
        for character in path
    )
    assert DEFAULT.canonical(f"http://a.org/x{spelled}") == DEFAULT.canonical(
        f"http://a.org/x{path}"
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("http://example.org/%7e%c3%a4%2f%2F", "http://example.org/~%C3%A4%2F%2F"),
        ("http://example.org/ä b", "http://example.org/%C3%A4%20b"),
        ("http://example.org/?q=a+b%20c", "http://example.org/?q=a+b%20c"),
        ("http://example.org/%2541", "http://example.org/%2541"),
        ("http://example.org/%%341", "http://example.org/%%341"),
        ("http://example.org/%4%31", "http://example.org/%4%31"),
        ("http://example.org/100%", "http://example.org/100%"),
        ("http://example.org/a//b", "http://example.org/a//b"),
        ("http://example.org/\ud800", "http://example.org/%EF%BF%BD"),
        ("http://[2001:DB8:0:0::1]:80/", "http://[2001:db8::1]/"),
    ],
)
def test_percent_encoding_and_paths_follow_rfc_3986_section_6(raw: str, expected: str) -> None:
    assert DEFAULT.canonical(raw) == expected


@pytest.mark.parametrize(
    ("spelling", "host"),
    [
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0177.0.0.1/", "127.0.0.1"),
        ("http://127.1/", "127.0.0.1"),
        ("http://127.0.0.1./", "127.0.0.1"),
        ("http://①②⑦.0.0.1/", "127.0.0.1"),
        ("http://127。0。0。1/", "127.0.0.1"),
        ("http://%31%32%37.0.0.1/", "127.0.0.1"),
        ("http://[::ffff:127.0.0.1]/", "[::ffff:7f00:1]"),
        ("http://[0:0:0:0:0:ffff:7f00:1]/", "[::ffff:7f00:1]"),
        ("http://example.org@127.0.0.1/", "127.0.0.1"),
        ("http://example.org#@127.0.0.1/", "example.org"),
        ("http://example.org\\@127.0.0.1/", "example.org"),
        ("http://example.org./", "example.org"),
        ("http://example.org.:8080/", "example.org:8080"),
        ("http://LOCALHOST./", "localhost"),
    ],
)
def test_disguised_addresses_end_as_the_host_they_mean(spelling: str, host: str) -> None:
    assert host_of(DEFAULT.canonical(spelling)) == host


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("mailto:a@example.org", Reason.SCHEME),
        ("javascript:void(0)", Reason.SCHEME),
        ("data:image/png;base64," + "A" * 100_000, Reason.SCHEME),
        ("ftp://example.org/", Reason.SCHEME),
        ("file:///etc/passwd", Reason.SCHEME),
        ("http://", Reason.UNPARSABLE),
        ("http://a b/", Reason.UNPARSABLE),
        ("http://[::1/", Reason.UNPARSABLE),
        ("http://256.256.256.256/", Reason.UNPARSABLE),
        ("http://./", Reason.UNPARSABLE),
        ("http://example.org../", Reason.UNPARSABLE),
        ("http://example.org:99999/", Reason.UNPARSABLE),
        ("http://example.org/" + "a" * 70_000, Reason.UNPARSABLE),
        ("http://example.org/" + "ä" * 20_000, Reason.UNPARSABLE),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else value.label,
)
def test_what_cannot_be_crawled_is_refused_with_its_reason(raw: str, reason: Reason) -> None:
    with pytest.raises(InvalidUrl) as error:
        DEFAULT.canonical(raw, "http://example.org/")
    assert error.value.reason is reason
    assert error.value.raw == raw
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "query",
    [
        "sid=12",
        "sid=fedcba",
        "session=spring-2024-keynotes",
        "sessionid=4711",
        "sid=engineering-department-head",
        "session=spring2024keynotesession",
        "sid=20240517103000123456",
        "b=2&a=1&b=1",
        "x=%2F%26&y=+",
        "&a&&b=",
        "utmost=1",
        "r=http://x.org/?utm_source=y",
        "gclidx=1",
    ],
)
def test_parameters_that_are_not_sessions_or_tracking_stay_as_they_are(query: str) -> None:
    assert DEFAULT.canonical(f"http://example.org/?{query}") == f"http://example.org/?{query}"


def test_dropping_parameters_keeps_the_others_in_order_and_spelling() -> None:
    raw = f"http://example.org/?z=%2f&utm_source=x&a=&sid={SESSION}&&b=1&fbclid=2&a=+"
    assert DEFAULT.canonical(raw) == "http://example.org/?z=%2F&a=&&b=1&a=+"
    assert BARE.canonical(raw) == raw.replace("%2f", "%2F")


def test_a_dropped_path_parameter_does_not_leave_a_dot_segment() -> None:
    assert DEFAULT.canonical("http://example.org/a/..;jsessionid=1/b") == "http://example.org/b"
    assert (
        DEFAULT.canonical("http://example.org/a;v=1;jsessionid=1;w=2/b")
        == "http://example.org/a;v=1;w=2/b"
    )


@pytest.mark.parametrize(
    ("options", "raw", "expected"),
    [
        (
            CanonicalSection(sort_query=True),
            "http://a.org/?b=2&a=2&b=1&a=1",
            "http://a.org/?a=2&a=1&b=2&b=1",
        ),
        (
            CanonicalSection(drop_index_files=True),
            "http://a.org/x/index.html?y",
            "http://a.org/x/?y",
        ),
        (
            CanonicalSection(drop_index_files=True),
            "http://a.org/x/myindex.html",
            "http://a.org/x/myindex.html",
        ),
        (CanonicalSection(drop_trailing_slash=True), "http://a.org/x//", "http://a.org/x"),
        (CanonicalSection(drop_trailing_slash=True), "http://a.org/", "http://a.org/"),
        (
            CanonicalSection(drop_trailing_slash=True, drop_index_files=True),
            "http://a.org/x/index.php/",
            "http://a.org/x",
        ),
        (CanonicalSection(drop_www=True), "http://www.a.org:81/", "http://a.org:81/"),
        (CanonicalSection(drop_www=True), "http://www.org/", "http://www.org/"),
        (CanonicalSection(drop_empty_query=False), "http://a.org/?", "http://a.org/?"),
        (CanonicalSection(drop_empty_query=False), "http://a.org/?utm_id=1", "http://a.org/"),
        (
            CanonicalSection(drop_session_ids=False),
            "http://a.org/;jsessionid=1?PHPSESSID=2",
            "http://a.org/;jsessionid=1?PHPSESSID=2",
        ),
        (CanonicalSection(drop_tracking=False), "http://a.org/?utm_id=1", "http://a.org/?utm_id=1"),
    ],
)
def test_each_lossy_rule_is_an_option(options: CanonicalSection, raw: str, expected: str) -> None:
    assert Canonicalizer(options).canonical(raw) == expected
    assert Canonicalizer(options).canonical(raw, "http://b.org/") == expected


def test_defaults_keep_order_index_files_slashes_and_www() -> None:
    url = "http://www.example.org/a/index.html?b=1&a=2"
    assert DEFAULT.canonical(url) == url
    assert DEFAULT.canonical("http://example.org/a/") != DEFAULT.canonical("http://example.org/a")


def test_the_identity_names_version_library_and_options() -> None:
    identity = DEFAULT.identity()
    assert identity["version"] == CANONICAL_VERSION
    assert identity["ada_url"]
    assert identity != EVERY_RULE.identity()


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://a/", ("http", "a", "a", "/")),
        ("https://a/", ("https", "a", "a", "/")),
        ("https://example.org:8080/a?b/c", ("https", "example.org:8080", "example.org", "/a?b/c")),
        ("http://[::1]:81/", ("http", "[::1]:81", "::1", "/")),
        ("http://[::1]/x", ("http", "[::1]", "::1", "/x")),
    ],
)
def test_a_url_is_sliced_into_scheme_host_name_and_target(
    url: str, parts: tuple[str, str, str, str]
) -> None:
    assert (scheme_of(url), host_of(url), name_of(host_of(url)), target_of(url)) == parts
    assert join_url(parts[0], parts[1], parts[3]) == url


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("www.example.org", "example.org"),
        ("a.b.example.co.uk:8080", "example.co.uk"),
        ("foo.github.io", "foo.github.io"),
        ("a.foo.github.io", "foo.github.io"),
        ("github.io", "github.io"),
        ("co.uk", "co.uk"),
        ("localhost:8000", "localhost"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("[::1]:81", "::1"),
        ("a.b.unlisted-tld", "b.unlisted-tld"),
        ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("a..example.org", "a..example.org"),
    ],
)
def test_the_site_is_the_registrable_domain_or_the_host_itself(host: str, site: str) -> None:
    assert SITES.site_of(host) == site


def test_sites_by_a_given_list_and_their_version(tmp_path: Path) -> None:
    path = tmp_path / "list.dat"
    path.write_text("org\nexample.org\n", encoding="utf-8")
    sites = Sites(path)
    assert sites.site_of("a.b.example.org") == "b.example.org"
    assert sites.version.startswith("sha256:")
    assert sites.version != SITES.version == Sites(BUNDLED_LIST).version
    assert "UTC sha256:" in SITES.version


def test_the_cache_of_sites_is_counted() -> None:
    sites = Sites()
    assert sites.site_of("a.example.org") == sites.site_of("a.example.org")
    assert sites.snapshot()["hits"] == sites.snapshot()["misses"] == 1


def test_addresses_are_told_from_names() -> None:
    assert [
        name
        for name in ("127.0.0.1", "::1", "a.1b", "a1", "xn--p1ai", "localhost")
        if is_address(name)
    ] == ["127.0.0.1", "::1"]


def test_hashes_and_partitions_are_the_same_everywhere() -> None:
    assert hash8("").hex() == "e3b0c44298fc1c14"  # the SHA-256 of nothing
    assert partition_of("", 1 << 64) == 0xE3B0C44298FC1C14
    assert {partition_of(f"site{number}.org", 16) for number in range(400)} == set(range(16))


def test_the_text_of_an_error_has_no_password() -> None:
    for raw in ("ftp://ada:hunter2@a.example/x", "http://ada:hunter2@a b/", "//ada:hunter2@[/"):
        with pytest.raises(InvalidUrl) as caught:
            Canonicalizer(CanonicalSection()).canonical(raw)
        assert "hunter2" not in str(caught.value) and "***@" in str(caught.value)
