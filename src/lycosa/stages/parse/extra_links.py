"""Reads what else of a page may count as a link (``parse.links``): URLs that the page names without
linking to them, and texts that look like URLs.

The first kind is what a standard calls a URL, and no visitor follows: sources of quotations, long
descriptions, obsolete elements, relations without a meaning for readers, a GET form without fields,
the address of which is a page. A form that is sent by POST is never requested, and neither is the
address of a ``ping`` or of a report: a request there is an event, not a page.

The second kind is a guess, so it is narrow. It is taken from comments, ``data-`` attributes,
contents of metas, strings in scripts (JSON-LD and script files too) and the visible text. It must
begin as a path or a URL does, or end with the extension of a document. ``document`` keeps those of
the same host without a query, because scripts fill queries in, and ``stages.frontier.speculation``
bounds the requests for them.

Nothing here is called for ``parse.links = a``.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

import turbohtml

from lycosa.base.config.sections import LinkRule
from lycosa.base.model.discovered import LinkKind
from lycosa.stages.parse.element_readers import RawPage
from lycosa.stages.parse.markup_values import link_kind

MAX_GUESSES = 1000
"""Texts of one document that are taken for URLs."""

_MAX_LENGTH = 500  # characters of a guess
_BLANKS = " \t\n\f\r"
# Attributes that name a URL, by element. HTML standard 16.2 lists the obsolete ones.
_NAMED = (
    ("blockquote", "cite"),
    ("q", "cite"),
    ("del", "cite"),
    ("ins", "cite"),
    ("img", "longdesc"),
    ("iframe", "longdesc"),
    ("frame", "longdesc"),
    ("head", "profile"),
    ("html", "manifest"),
    ("base", "href"),
    ("applet", "codebase"),
    ("object", "codebase"),
    ("isindex", "action"),
    ("import", "implementation"),
    ("layer", "src"),
    ("ilayer", "src"),
)
_LISTS = (("applet", "archive"), ("object", "archive"))
# Names of parameters of plug-ins that have a URL as value, besides those with valuetype=ref.
_URL_PARAMETERS = frozenset({"ref", "movie", "src", "url", "href", "filename", "file", "data"})
_FIELDS = "input[name],select[name],textarea[name]"
_NOT_SENT = frozenset({"submit", "image", "button", "reset"})
_DOCTYPE = re.compile(
    rb"\s*<!DOCTYPE\s+html\s+(?:PUBLIC\s*(?:\"[^\"]{0,200}\"|'[^']{0,200}')|SYSTEM)\s*[\"']"
    rb"([^\"'<>]{1,500})[\"']",
    re.IGNORECASE,
)

# Each pattern begins where a run of characters of a path begins, and takes a bounded number of
# them: so the time is linear in the text, whatever a page has.
_C = r"[\w.~%!$&*+:@/-]"
_BEFORE = r"(?<![\w.~%!$&*+:@/<>-])"
_EXTENSIONS = (
    "html?|xhtml|php|aspx?|jsp|pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|txt|csv|xml|rss|atom|json"
)
_HOST = r"//[\w.-]{1,255}+(?::\d{1,5}+)?"
_BEGINNING = rf"(?:(?:https?:)?{_HOST}(?:/{_C}{{0,500}}+)?+|\.{{0,2}}/{_C}{{1,500}}+)"
_NAME = rf"[\w~%-]{_C}{{0,300}}\.(?:{_EXTENSIONS})"
_IN_SCRIPTS = re.compile(
    rf"([\"'`])({_BEGINNING}|{_NAME})(?:#[^\"'`\s]{{0,100}})?\1", re.IGNORECASE
)
_IN_MARKUP = re.compile(rf"{_BEFORE}({_BEGINNING}|{_NAME}(?!{_C}))(?![?=])", re.IGNORECASE)
# In a text "and/or" and "/etc" are words: a path begins with dots, or its name has an extension.
_IN_TEXT = re.compile(
    rf"{_BEFORE}(https?:{_HOST}(?:/{_C}{{0,500}}+)?+|\.{{1,2}}/{_C}{{1,500}}+|"
    rf"/{_C}{{0,300}}[\w~%-]\.\w{{2,5}}\.?(?!{_C}))(?![?=])",
    re.IGNORECASE,
)
# In a body a frameset is an error, which a browser ignores with its frames.
_FRAME = re.compile(rb"<frame\s[^>]{0,500}?\bsrc\s*=\s*[\"']?([^\"'\s>]{1,500})", re.IGNORECASE)
_LETTER = re.compile(r"[^\W_]")


def read_extra(tree: turbohtml.Document, page: RawPage, body: bytes, rule: LinkRule) -> list[str]:
    """Add the URLs that the page names without linking to them; return its guesses, if wanted.

    ``body`` is the markup: it has the document type, and frames that are not in the tree. The
    guesses are those of the markup, not of the visible text.
    """
    actions = _read_named(tree, page, body)
    if rule is not LinkRule.ALL:
        return []
    for raw in actions:
        page.links.pop(raw, None)
    return [*actions, *_guesses_in(tree)]


def all_guesses(found: list[str], text: str) -> list[str]:
    """What looks like a URL in the markup of a page, and in its visible text."""
    guesses = list(dict.fromkeys([*found, *_guesses_in_text(text)]))[:MAX_GUESSES]
    # What scripts complete is often relative to the root, not to the page.
    return [*guesses, *("/" + raw.lstrip("./") for raw in guesses if raw.startswith("."))]


def _read_named(tree: turbohtml.Document, page: RawPage, body: bytes) -> list[str]:
    """Add the URLs that the page names, as ``DOCUMENT``.

    Returns the addresses of forms that send something by GET, which are only guesses.
    """
    for tag, attribute in _NAMED:
        for element in tree.select(tag):
            _name(page, element.attr(attribute))
    for tag, attribute in _LISTS:
        for element in tree.select(f"{tag}[{attribute}]"):
            for url in (element.attr(attribute) or "").replace(",", " ").split():
                _name(page, url)
    for element in tree.select("param"):
        is_named = (element.attr("name") or "").lower() in _URL_PARAMETERS
        if is_named or (element.attr("valuetype") or "").lower() == "ref":
            _name(page, element.attr("value"))
    for element in tree.select("link[href][rel]"):
        rels = (element.attr("rel") or "").lower().split()
        if rels and link_kind(rels, element.attr("as") or "") is LinkKind.OTHER:
            _name(page, element.attr("href"))
    if found := _DOCTYPE.match(body):
        _name(page, found[1].decode("ascii", "replace"))
    if b"<frame" in body and not tree.select("frame"):
        for match in _FRAME.finditer(body):
            _name(page, match[1].decode("ascii", "replace"))
    return _read_forms(tree, page)


def _name(page: RawPage, raw: str | None) -> None:
    """Add a URL that the page names, unless it is a link or a requisite already."""
    known = page.links.get((raw or "").partition("#")[0].strip(_BLANKS))
    if raw and (known is None or known.kind is LinkKind.OTHER):
        page.add(raw, LinkKind.DOCUMENT)


def _read_forms(tree: turbohtml.Document, page: RawPage) -> list[str]:
    """Add the addresses of forms that send nothing, which are pages.

    Returns those of other GET forms: they are guesses, because a form without its fields may be
    nothing.
    """
    posted, sent, plain = set[str](), dict[str, None](), dict[str, None]()
    by_id: dict[str, turbohtml.Element] = {}
    fields: dict[str, None] = {}  # ids of forms with fields that are not inside them
    for field in tree.select("[form]"):
        if _is_sent(field):
            fields[field.attr("form") or ""] = None
    for form in tree.select("form"):
        by_id.setdefault(form.attr("id") or "", form)
        if not _is_get(form.attr("method")):
            posted.add(_address(form.attr("action")))
        elif _has_fields(form, fields):
            sent[_address(form.attr("action"))] = None
        else:
            plain[_address(form.attr("action"))] = None
    for button in tree.select("[formaction]"):
        owner = by_id.get(button.attr("form") or "\0") or button.closest("form")
        raw = _address(button.attr("formaction"))
        if owner is None or not _is_get(button.attr("formmethod") or owner.attr("method")):
            posted.add(raw)
        elif button.attr("name") or _has_fields(owner, fields):
            sent[raw] = None
        else:
            plain[raw] = None
    for raw in plain:
        known = page.links.get(raw)
        # A query of the address is replaced by that of the form, which is empty.
        if raw not in posted and (url := raw.partition("?")[0]):
            if known is not None and known.kind is LinkKind.FORM:
                known.kind = LinkKind.DOCUMENT
            page.add(url, LinkKind.DOCUMENT)
    return [raw for raw in sent if raw and raw not in posted]


def _has_fields(form: turbohtml.Element, elsewhere: Container[str]) -> bool:
    """Whether a form sends anything; ``elsewhere`` are ids of forms that have fields outside."""
    return (form.attr("id") or "\0") in elsewhere or any(map(_is_sent, form.select(_FIELDS)))


def _is_get(method: str | None) -> bool:
    return (method or "get").strip().lower() not in ("post", "dialog")


def _is_sent(field: turbohtml.Element) -> bool:
    """Whether a control with a name adds something to what a form sends."""
    return bool(field.attr("name")) and (field.attr("type") or "").lower() not in _NOT_SENT


def guesses_in_script(text: str) -> list[str]:
    """What looks like a URL in a script file: in its strings, and complete ones in comments too."""
    found: dict[str, None] = {}
    text = text.replace("\\/", "/")
    _add(found, _IN_SCRIPTS, 2, (text,))
    _add(found, _IN_TEXT, 1, (text,))
    return list(found)


def _address(raw: str | None) -> str:
    return (raw or "").partition("#")[0].strip(_BLANKS)


def _guesses_in(tree: turbohtml.Document) -> list[str]:
    """What looks like a URL in the markup of a page, in order; not in its visible text."""
    found: dict[str, None] = {}
    _add(found, _IN_MARKUP, 1, (each.data for each in _comments(tree)))
    _add(found, _IN_SCRIPTS, 2, _scripts(tree))
    values = _values(tree, '//@*[starts-with(name(),"data-")]')
    _add(found, _IN_MARKUP, 1, (each.replace("\\/", "/") for each in values))
    metas = tree.select("meta[content][name],meta[content][property]")
    _add(found, _IN_MARKUP, 1, (each.attr("content") or "" for each in metas))
    return list(found)


def _guesses_in_text(text: str) -> list[str]:
    """The parts of a visible text that look like URLs, in order."""
    found: dict[str, None] = {}
    _add(found, _IN_TEXT, 1, (text,))
    return list(found)


def _scripts(tree: turbohtml.Document) -> Iterator[str]:
    for element in tree.select("script"):
        yield element.text.replace("\\/", "/")  # as JSON may write a slash
    yield from _values(tree, '//@*[starts-with(name(),"on")]')
    yield from _values(tree, '//@href[starts-with(.,"javascript:")]')


def _comments(tree: turbohtml.Document) -> list[turbohtml.Comment]:
    found = tree.xpath("//comment()")
    assert isinstance(found, list)
    return [each for each in found if isinstance(each, turbohtml.Comment)]


def _values(tree: turbohtml.Document, path: str) -> list[str]:
    """The values of the attributes that an XPath expression selects."""
    found = tree.xpath(path)
    assert isinstance(found, list)
    return [str(each) for each in found]


def _add(
    found: dict[str, None], pattern: re.Pattern[str], group: int, texts: Iterable[str]
) -> None:
    for text in texts:
        if "/" not in text and "." not in text:
            continue
        for match in pattern.finditer(text):
            if len(found) >= MAX_GUESSES:
                return
            raw = match[group].rstrip(".:,!*")
            if len(raw) <= _MAX_LENGTH and _LETTER.search(raw):
                found[raw] = None
