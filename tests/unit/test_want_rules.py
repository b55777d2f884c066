"""Which requests of a page are fetched, with which headers, and how they travel."""

from __future__ import annotations

import pytest

from lycosa.base.config.sections import FetchSection, ScopeRule, ScopeSection
from lycosa.base.model.capture import Want
from lycosa.base.model.discovered import LinkKind, redirect_kind
from lycosa.base.model.fetched import FetchRequest
from lycosa.base.model.parcel_items import PostedWant, SettledWant, WantingPage
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Sites
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.sitemap_scope import judge_want
from lycosa.stages.fetch.headers import common_lines, wanted_fields, wanted_lines
from lycosa.state.exchange.outbox import Outbox
from lycosa.state.exchange.parcel_rows import ParcelRow, decode_row, encode_row
from lycosa.state.kv.memory_table import MemoryKeyValue

OTHER = "https://cdn.test/lib.js"
PAGE = WantingPage(3, b"host-008", b"page-008")
POSTED = PostedWant(OTHER, "script", PAGE, "https://www.example/", 2)
SETTLED = SettledWant(
    OTHER, (PAGE,), status=200, record_id="urn:uuid:1", loads=(Want(OTHER, "script"),)
)


@pytest.mark.parametrize("destination", ["script", "style", "font", "image"])
def test_a_page_gets_what_pages_load_from_other_sites(destination: str) -> None:
    assert judge_want(OTHER, destination, is_foreign=True) is None


@pytest.mark.parametrize("destination", ["", "document", "iframe", "worker", "media", "track"])
def test_a_page_gets_data_and_documents_from_its_own_site_only(destination: str) -> None:
    assert judge_want(OTHER, destination, is_foreign=False) is None
    refusal = judge_want(OTHER, destination, is_foreign=True)
    assert refusal is not None and refusal.reason is Reason.WANT_ELSEWHERE


def test_other_sites_get_short_queries_only() -> None:
    fits, long = f"{OTHER}?{'q' * 256}", f"{OTHER}?{'q' * 257}"
    assert judge_want(fits, "script", is_foreign=True) is None
    refusal = judge_want(long, "script", is_foreign=True)
    assert refusal is not None and refusal.reason is Reason.WANT_QUERY
    assert judge_want(long, "script", is_foreign=False) is None
    refusal = judge_want(f"{OTHER}?{'q' * 3000}", "script", is_foreign=False)
    assert refusal is not None and refusal.reason is Reason.URL_TOO_LONG


def test_what_pages_need_is_in_scope_anywhere_unless_it_is_excluded() -> None:
    section = ScopeSection(rule=ScopeRule.HOST, exclude=("/ads/",), max_depth=1)
    scope = Scope(section, Sites().site_of)
    scope.add_seed("https://www.example/")
    kind = LinkKind.WANTED
    assert scope.judge_url(OTHER, kind, 2) is None
    assert scope.judge_waiting(OTHER, kind, 2) is None
    reasons = [
        refusal and refusal.reason
        for refusal in (
            scope.judge_url("https://cdn.test/ads/x.js", kind, 2),
            scope.judge_url(OTHER, kind, 3),
            scope.judge_url(OTHER, LinkKind.SCRIPT, 2),
        )
    ]
    assert reasons == [Reason.EXCLUDED, Reason.TOO_DEEP, Reason.REQUISITE]
    assert redirect_kind(kind, scope.is_part(kind)) is kind


@pytest.mark.parametrize(
    ("page", "url", "referer"),
    [
        ("https://a.test/x?y", "https://a.test/z", "https://a.test/x?y"),
        ("https://a.test/x?y", "https://b.test/z", "https://a.test/"),
        ("https://a.test/x?y", "https://a.test:81/z", "https://a.test/"),
        ("http://a.test/x", "https://a.test/z", "http://a.test/"),
        ("https://a.test/x", "http://a.test/z", ""),
    ],
)
def test_the_referer_is_that_of_browsers(page: str, url: str, referer: str) -> None:
    assert wanted_fields("script", page, url) == ("*/*", referer)


def test_the_destination_sets_accept_and_nothing_else_is_changed() -> None:
    common = common_lines(FetchSection(), "lycosa/1", "")
    accept, referer = wanted_fields("style", "https://a.test/p", "https://a.test/s.css")
    request = FetchRequest("https://a.test/s.css", "198.18.0.1", accept=accept, referer=referer)
    lines = wanted_lines(common, request)
    assert set(lines) - set(common) == {
        b"Accept: text/css,*/*;q=0.1",
        b"Referer: https://a.test/p",
    }
    assert [line for line in common if line not in lines] == [
        line for line in common if line.startswith(b"Accept: ")
    ]


def test_wants_and_answers_travel_in_parcels_in_their_order() -> None:
    assert decode_row(encode_row(ParcelRow([], wants=[POSTED], settled=[SETTLED]))) == ParcelRow(
        [], wants=[POSTED], settled=[SETTLED]
    )
    table = MemoryKeyValue()

    class Table:
        get, put, delete = table.get, lambda self, k, v: table.write({k: v}), None

    box = Outbox(0, Table(), table)  # type: ignore[arg-type]
    box.enqueue_errands(5, [POSTED, SETTLED, POSTED])
    (parcel,) = box.pending_parcels(5, 9)
    assert (parcel.wants, parcel.settled) == ([POSTED, POSTED], [SETTLED])
    assert not parcel.errands and not parcel.answers
