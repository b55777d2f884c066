"""User code over one page, without a crawl: what a function may yield, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lycosa
from lycosa import Document
from lycosa.base.model.item_schema import MAX_ITEM_BYTES, BadSchema
from lycosa.base.model.known_code import CodeError
from lycosa.stages.extract.code_messages import ExtensionAnswer
from lycosa.stages.extract.code_run import MAX_LINKS, run_code
from lycosa.stages.extract.code_source import LoadedCode, load_code
from lycosa.stages.extract.user_code_marks import Marked
from lycosa.stages.extract.user_item import item_schema

URL = "https://shop.example/product/1"
PAGE = b"""<!doctype html><html lang=en><title>Lamp &amp; co</title>
<article class=product><h2> Green
  <b>lamp</b></h2><meta itemprop=price content=3.5><a href="/product/2?b=1&a=2">more</a></article>
<a href="lamps/">lamps</a>"""


class Colour(Enum):
    """A colour of a lamp."""

    GREEN = "green"


class Lamp(lycosa.Item, frozen=True):
    """An item with a field of each type."""

    name: str
    price: float | None = None
    stock: int = 0
    is_new: bool = False
    seen: datetime | None = None
    day: date | None = None
    tags: list[str] = []  # noqa: RUF012 — a struct copies it
    colour: Colour = Colour.GREEN
    size: Literal["small", "large"] = "small"
    extra: dict[str, Any] = {}  # noqa: RUF012


def page(body: bytes = PAGE, url: str = URL) -> Document:
    return lycosa.document(body, url)


def answer(*marked: Marked, body: bytes = PAGE) -> ExtensionAnswer:
    return run_code([LoadedCode("shop.py:it", "", marked)], page(body))


def test_selectors_give_elements_with_folded_text_and_attributes() -> None:
    found = page()
    box = found.select_one("article.product")
    assert box is not None
    heading, price = box.select_one("h2"), box.select_one("[itemprop=price]")
    assert heading is not None and heading.text == "Green lamp"
    assert price is not None and price["content"] == "3.5" and price.get("id") is None
    with pytest.raises(KeyError):
        price["id"]
    assert [each.tag for each in box.select("h2 *")] == ["b"]
    assert found.xpath("//h2/b/text()") == ["lamp"] and found.xpath("count(//a)") == ["2"]
    assert found.title == "Lamp & co" and "<b>lamp</b>" in heading.html
    assert found.select_one("h6") is None
    with pytest.raises(ValueError, match="selector"):
        found.select("h2[")


def test_text_and_type_of_a_document_follow_its_headers() -> None:
    headers = [("Content-Type", "text/html; charset=iso-8859-1")]
    found = lycosa.document(
        b"<p>\xe9", URL, headers=headers, fetched=datetime(2026, 1, 2, tzinfo=UTC)
    )
    assert found.text() == "<p>é" and found.bytes() == b"<p>\xe9"
    assert found.headers["content-TYPE"].startswith("text/html") and found.media_type == "text/html"
    assert found.fetched == datetime(2026, 1, 2, tzinfo=UTC)


def test_links_of_a_document_are_those_of_a_crawl() -> None:
    assert [each.url for each in page().links] == [
        "https://shop.example/product/2?b=1&a=2",
        "https://shop.example/product/lamps/",
    ]


def test_main_content_leaves_the_document_as_it_is() -> None:
    text = "A sentence of running text that is long enough to be content. " * 5
    found = page(f"<nav>menu</nav><article><h1>T</h1><p>{text}</p></article>".encode())
    assert found.main().text.endswith(text.strip()) and "menu" not in found.main().text
    assert found.main().markdown.startswith("# T")
    assert found.select("[data-lycosa-out]") == []


def test_structured_data_is_read() -> None:
    body = b'<script type="application/ld+json">{"@type": "Product"}</script>'
    assert page(body).structured().json_ld == [{"@type": "Product"}]


def test_a_document_that_is_no_markup_has_no_elements() -> None:
    found = lycosa.document(b"%PDF-1.4 <a href=x>", URL)
    assert found.media_type == "application/pdf" and found.select("a") == []


def test_an_item_becomes_a_row_of_json_values() -> None:
    @lycosa.extract(Lamp, version=3)
    def lamps(page: Document) -> Iterator[Lamp]:
        seen = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
        yield Lamp("a", 1, 2, True, seen, date(2026, 1, 2), ["x"], extra={"k": [1, None]})

    assert [each.type for each in lamps.schema.columns] == [
        *("text", "number", "integer", "boolean", "time", "date"),
        *("list[text]", "text", "text", "json"),
    ]
    assert answer(lamps).items == {
        "lamps": [
            [
                "a",
                1.0,
                2,
                True,
                1767323045000006,
                "2026-01-02",
                ["x"],
                "green",
                "small",
                {"k": [1, None]},
            ]
        ]
    }
    assert lamps.schema.version == 3 and next(lamps(page())).name == "a"


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Decimal, "Decimal"), (bytes, "Bytes"), (str | int, "Str | Int"), (list[list[str]], "list")],
)
def test_a_type_that_no_column_has_is_refused_with_field_and_type(kind: Any, said: str) -> None:
    made = type(lycosa.Item)("Odd", (lycosa.Item,), {"__annotations__": {"amount": kind}})
    if said == "list":
        assert item_schema("odd", 1, made).columns[0].type == "json"
        return
    with pytest.raises(BadSchema, match="amount") as refused:
        item_schema("odd", 1, made)
    assert said in str(refused.value)


def test_what_is_no_extractor_is_refused() -> None:
    with pytest.raises(BadSchema, match="lower-case"):
        lycosa.extract(Lamp)(_named("Lamps"))
    with pytest.raises(BadSchema, match="a table or feed has it"):
        lycosa.extract(Lamp)(_named("pages"))
    with pytest.raises(ValueError, match="look-around"):
        lycosa.extract(Lamp, match="(?=x)")(_named("lamps"))
    with pytest.raises(BadSchema, match="ItemClass"):
        lycosa.extract(_named("lamps"))  # type: ignore[type-var]

    async def late(page: Document) -> None:
        return None

    with pytest.raises(TypeError, match="async"):
        lycosa.extract(Lamp)(late)  # type: ignore[arg-type]


def _named(name: str) -> Any:
    def function(page: Document) -> None:
        return None

    function.__name__ = name
    return function


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"name": 5}, "name"),
        ({"name": "x", "price": "3"}, "price"),
        ({"name": "x", "price": float("nan")}, "nan"),
        ({"name": "\ud800"}, "text"),
        ({"name": "x", "stock": 2**70}, "stock"),
    ],
)
def test_a_value_that_does_not_fit_fails_the_extractor_and_names_the_field(
    bad: dict[str, Any], said: str
) -> None:
    @lycosa.extract(Lamp)
    def lamps(page: Document) -> Iterator[Lamp]:
        yield Lamp("good")
        yield Lamp(**bad)

    found = answer(lamps)
    assert found.items == {}
    assert found.failures[0].error.startswith("ItemMisfit") and said in found.failures[0].message


def test_a_function_that_raises_has_no_rows_and_the_others_have_theirs() -> None:
    @lycosa.extract(Lamp)
    def broken(page: Document) -> Iterator[Lamp]:
        yield Lamp("first")
        raise SystemExit(3)

    @lycosa.extract(Lamp)
    def lamps(page: Document) -> list[Lamp]:
        return [Lamp("second")]

    found = answer(broken, lamps)
    assert list(found.items) == ["lamps"] and found.failures[0].kind == "extractor"
    assert found.failures[0].error.startswith("SystemExit (test_code_run.py:")


def test_rows_of_a_page_have_a_limit_over_all_extractors() -> None:
    @lycosa.extract(Lamp)
    def large(page: Document) -> Iterator[Lamp]:
        yield Lamp("x" * (MAX_ITEM_BYTES // 2))

    @lycosa.extract(Lamp)
    def larger(page: Document) -> Iterator[Lamp]:
        while True:
            yield Lamp("y" * 100)

    found = answer(large, larger)
    assert list(found.items) == ["large"]
    assert found.failures[0].error.startswith("TooMuch")
    assert len(json.dumps(found.items)) < MAX_ITEM_BYTES


def test_only_pages_that_match_are_given() -> None:
    @lycosa.extract(Lamp, match=r"/lamp/")
    def lamps(page: Document) -> list[Lamp]:
        raise AssertionError

    assert answer(lamps) == ExtensionAnswer()


def test_links_are_resolved_and_known_ones_left_out() -> None:
    @lycosa.links
    def more(page: Document) -> Iterator[Any]:
        yield "?page=2"
        yield "?page=2#x"
        yield "javascript:void(0)"
        yield from page.select("a[href]")

    found = answer(more).links
    assert [(each.url, each.kind) for each in found] == [
        ("https://shop.example/product/1?page=2", lycosa.LinkKind.CODE)
    ]


def test_links_have_a_limit() -> None:
    @lycosa.links
    def endless(page: Document) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"/{number}"

    found = answer(endless)
    assert found.links == [] and found.failures[0].error.startswith("TooMuch")
    assert str(f"{MAX_LINKS:,}") in found.failures[0].message


@given(st.one_of(st.floats(), st.integers(-2, 2), st.text(), st.none()))
def test_a_score_is_a_number_from_0_to_1_or_none(value: Any) -> None:
    @lycosa.score(version=1)
    def scorer(page: Document, link: lycosa.Link) -> Any:
        return value

    found = answer(scorer)
    if value is None:
        assert found == ExtensionAnswer()
    elif isinstance(value, (int, float)) and 0 <= value <= 1:
        assert set(found.scores.values()) == {round(value * 255)} and not found.failures
    else:
        assert found.failures[0].error.startswith("ValueError") and not found.scores


def test_of_several_scores_the_greatest_counts_also_for_added_links() -> None:
    @lycosa.links
    def more(page: Document) -> list[str]:
        return ["/lamp"]

    @lycosa.score
    def low(page: Document, link: lycosa.Link) -> float:
        return 0.25

    @lycosa.score(version=2)
    def lamp(page: Document, link: lycosa.Link) -> float | None:
        return 1.0 if link.url.endswith("/lamp") else None

    assert sorted(answer(more, low, lamp).scores.values()) == [64, 64, 255]


def _file(folder: Path, text: str) -> Path:
    file = folder / "shop.py"
    file.write_text("import lycosa\n" + text)
    return file


MARKED = """
class Product(lycosa.Item, frozen=True):
    name: str

@lycosa.extract(Product)
def products(page):
    return [Product(page.url)]
"""


def test_code_is_loaded_by_file_and_by_module_with_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _file(tmp_path, MARKED + "several = [products]\nplain = 3\n")
    code = load_code(f"{file}:products")
    assert len(code.digest) == 64 and code.path == str(file)
    assert run_code([code], page()).items == {"products": [[URL]]}
    assert load_code(f"{file}:several", digest=code.digest).digest == code.digest
    monkeypatch.syspath_prepend(tmp_path)
    assert load_code("shop:products").digest == code.digest
    stored = tmp_path / "stored"
    stored.write_bytes(file.read_bytes())
    assert load_code("./elsewhere/shop.py:products", stored, code.digest).digest == code.digest


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("FILE:missing", MARKED, "there is no missing; it has products"),
        ("FILE:Product", MARKED, "has no decorator"),
        ("FILE", MARKED, "is not FILE.py:NAME"),
        ("FILE:x", "x = []", "is empty"),
        ("FILE:x", "raise SystemExit(1)", "importing it raised SystemExit (shop.py:2)"),
        ("FILE:x", "def (", "SyntaxError"),
        ("no_such_module_at_all:x", "", "there is no module"),
        ("./no_such.py:x", "", "cannot be read: No such file"),
    ],
)
def test_code_that_cannot_be_loaded_is_named_with_the_reason(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    file = _file(tmp_path, text)
    with pytest.raises(CodeError) as refused:
        load_code(name.replace("FILE", str(file)))
    assert said in str(refused.value)


def test_changed_source_is_refused(tmp_path: Path) -> None:
    file = _file(tmp_path, MARKED)
    with pytest.raises(CodeError, match="has changed"):
        load_code(f"{file}:products", digest="0" * 64)


def test_a_page_has_the_selectors_of_scrapy() -> None:
    page = lycosa.document(
        b'<h1>Lamp</h1><a href="/next?a=1&amp;b=2">More</a>', url="https://shop.example/lamp"
    )
    assert page.selector.css("h1::text").get() == "Lamp"
    assert page.selector.css("a::attr(href)").re(r"a=(\d)") == ["1"]
    feed = lycosa.document(b"<rss><channel><title>News</title></channel></rss>", url=page.url)
    assert feed.selector.xpath("//title/text()").getall() == ["News"]
