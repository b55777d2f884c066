"""The canonical form of a URL, which is its identity.

Different spellings of one resource get the same canonical form, and the canonical form of a
canonical URL is that URL.

The steps, in this order: resolve against the base and parse by the WHATWG URL standard (ada);
accept only ``http`` and ``https``; drop fragment, userinfo, default port and the trailing dot of an
absolute host name; normalise percent-encoding as in RFC 3986 section 6.2.2 (upper-case hexadecimal,
unreserved characters decoded); then apply the lossy rules that the crawl's options enable. The
identity depends on every step, including ada's tables for international names. Therefore
``CANONICAL_VERSION`` rises whenever an output may change, and ada's version is part of the
identity.

A page has some 190 links, so plain references take a short cut: one regular expression recognises
references that no step would change. Tests compare both paths.
"""

from __future__ import annotations

import re

import ada_url
import msgspec

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.reasons import Reason
from lycosa.base.urls.query_charset import with_charset
from lycosa.base.urls.session_parameters import dropper, without_path_sessions
from lycosa.base.urls.url_parts import host_of

CANONICAL_VERSION = 1
_SHOWN = 50  # maximum characters of a scheme shown in a message
# characters; a longer reference is refused unread, so a reference of a megabyte costs nothing
MAX_LENGTH = 65_536

_INDEX_FILES = ("/index.html", "/index.htm", "/index.php", "/default.asp")
# Percent-encodings that are not in normal form: a lower-case digit, or an unreserved character (RFC
# 3986 section 2.3).
_ABNORMAL = re.compile(
    r"%(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-F]|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])"
)
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]*):")

# A reference that parsing would not change: [origin]/path or ../../path, then a plain query, then
# any fragment. No segment is empty or starts with a dot, nothing is percent-encoded, no colon could
# end a scheme, and no host name needs IDNA or IPv4 parsing.
_SEGMENT = r"[A-Za-z0-9_~!$()*,@=+-][A-Za-z0-9_~!$()*,@=+.-]*"
_PLAIN = re.compile(
    r"(?:(https?://(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,})?/|((?:\.\./)*))"
    rf"((?:{_SEGMENT}/)*(?:{_SEGMENT})?)"
    r"(?:\?([A-Za-z0-9_~!$()*,@=+&/:;.-]+))?(?:#.*)?",
    re.DOTALL,
).fullmatch
_USER = re.compile(r"[/\\]{2}[^/?#\\\s]*@")
_MOST_READ, _MOST_RAW = 10_000, 200  # characters of a reference that an error reads, and repeats


class InvalidUrl(ValueError):
    """A reference that is not a URL which can be crawled.

    ``reason`` is ``UNPARSABLE`` or ``SCHEME``; ``raw`` is the reference as found. The text of the
    error is stored and logged, so it has no password that the reference may have.
    """

    def __init__(self, reason: Reason, raw: str, detail: str) -> None:
        shown = _USER.sub("//***@", raw[:_MOST_READ])[:_MOST_RAW]
        super().__init__(f"{shown!r}: {detail}")
        self.reason, self.raw, self.detail = reason, raw, detail


def resolve(raw: str, base: str | None = None) -> str:
    """Parse ``raw`` against ``base`` by the WHATWG standard, without any step of the crawler.

    The result has any scheme and keeps its fragment and userinfo. Raises ``InvalidUrl``
    (``UNPARSABLE``).
    """
    try:
        return ada_url.normalize_url(raw) if base is None else ada_url.join_url(base, raw)
    except ValueError as error:
        scalar = raw.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if scalar != raw:  # lone surrogates are U+FFFD to a browser (Web IDL, USVString)
            return resolve(scalar, base)
        detail = (
            "not a URL by the WHATWG URL standard"
            if base is not None or _SCHEME.match(raw)
            else "a relative reference without a base"
        )
        raise InvalidUrl(Reason.UNPARSABLE, raw, detail) from error


class Canonicalizer:
    """Canonical form by one set of options. Caches only the last base."""

    def __init__(self, options: CanonicalSection) -> None:
        self._options = options
        self._drops = dropper(options.drop_session_ids, options.drop_tracking)
        self._shortens_paths = options.drop_index_files or options.drop_trailing_slash
        self._always_long = self._shortens_paths or options.drop_www
        self._base: str | None = None
        self._folders: list[str] = []
        self._origin = ""

    def identity(self) -> dict[str, object]:
        """Everything that the form depends on: our version, ada's version and the options.

        The crawl's manifest stores it.
        """
        from importlib.metadata import version  # slow to import; needed once per crawl

        options = msgspec.to_builtins(self._options)
        return {"version": CANONICAL_VERSION, "ada_url": version("ada-url"), "options": options}

    def host_named(self, text: str) -> str:
        """The host that an operator means by a URL of it, or by its name and port.

        Raises ``InvalidUrl``.
        """
        raw = text.strip()
        try:
            return host_of(self.canonical(raw if "://" in raw else f"http://{raw}/"))
        except InvalidUrl as error:
            why = error.detail or "not a host name by the WHATWG URL standard"
            raise InvalidUrl(
                error.reason, text, f"neither a host nor a URL of one: {why}"
            ) from None

    def canonical(self, raw: str, base: str | None = None, charset: str = "utf-8") -> str:
        """The canonical form of ``raw``, found on a page in ``charset`` whose base URL is ``base``.

        Raises ``InvalidUrl``.
        """
        if len(raw) > MAX_LENGTH:
            raise _too_long(raw)
        if charset != "utf-8" and not raw.isascii():
            raw = with_charset(raw, charset)
        if base is not None and base != self._base:
            self._remember(base)
        plain = _PLAIN(raw)
        url = (
            self._short_cut(plain, base is not None) if plain is not None else None
        ) or self._from_href(resolve(raw, base), raw)
        if len(url) > MAX_LENGTH:
            raise _too_long(raw)
        return url

    def _remember(self, base: str) -> None:
        """Prepare the short cut for a base that is in canonical form.

        Stores its origin and its folders, innermost first.
        """
        self._base, self._folders, self._origin = base, [], ""
        if self._always_long:
            return
        try:
            href = self._from_href(resolve(base), base)
        except InvalidUrl:
            # A base that cannot be parsed: every reference is resolved the long way.
            return
        # The short cut copies the base's path as written. If a canonical step changed that path,
        # only full parsing gives the right result.
        path_end = len(href.partition("?")[0])
        if base[:path_end] != href[:path_end] or base[path_end : path_end + 1] not in (
            "",
            "?",
            "#",
        ):
            return
        root = href.index("/", 8)
        self._origin = href[:root]
        end = href.rindex("/", 0, path_end)
        while end > root:
            self._folders.append(href[: end + 1])
            end = href.rindex("/", 0, end)
        self._folders.append(href[: root + 1])

    def _short_cut(self, plain: re.Match[str], has_base: bool) -> str | None:
        """The canonical form of a plain reference, or ``None`` when it needs full parsing."""
        origin, ups, path, query = plain.groups()
        if self._always_long or (has_base and not self._folders) or not (has_base or origin):
            return None
        if ups is None:
            url = f"{origin or self._origin}/{path}"
        elif path or ups:
            url = self._folders[min(len(ups) // 3, len(self._folders) - 1)] + path
        else:
            return None
        if query is None:
            return url
        query = self._query(query)
        return f"{url}?{query}" if query else url

    def _from_href(self, href: str, raw: str) -> str:
        """All steps after the WHATWG parser."""
        if not href.startswith(("https://", "http://")):
            raise InvalidUrl(
                Reason.SCHEME, raw, f"the scheme {href.partition(':')[0][:_SHOWN]!r} is not crawled"
            )
        if (fragment := href.find("#")) >= 0:
            href = href[:fragment]
        root = href.index("/", 8)
        origin, target = self._authority(href[:root], raw), href[root:]
        if "%" in target:
            target = _ABNORMAL.sub(_normal, target)
        path, question, query = target.partition("?")
        if self._options.drop_session_ids and ";" in path:
            path = _without_sessions(path)
        if self._shortens_paths:
            path = self._shorten(path)
        if not question:
            return origin + path
        kept = self._query(query)
        if kept or (not query and not self._options.drop_empty_query):
            return f"{origin}{path}?{kept}"
        return origin + path

    def _authority(self, origin: str, raw: str) -> str:
        scheme, _, host = origin.partition("://")
        if "@" in host:
            host = host[host.rindex("@") + 1 :]
        name, colon, port = host.partition(":") if host[0] != "[" else (host, "", "")
        if name.endswith("."):
            name = name[:-1]
            if not name or name.endswith("."):
                raise InvalidUrl(Reason.UNPARSABLE, raw, "the host name ends with empty labels")
        if self._options.drop_www:
            while name.startswith("www.") and "." in name[4:]:
                name = name[4:]
        origin = f"{scheme}://{name}{colon}{port}"
        if ("xn--" in name or self._options.drop_www) and not _stands(origin):
            raise InvalidUrl(
                Reason.UNPARSABLE, raw, "the host name is not valid in its own canonical form"
            )
        return origin

    def _query(self, query: str) -> str:
        """Apply the options to a query.

        The remaining parameters keep their spelling and, unless sorted, their order.
        """
        parts = query.split("&")
        if any(map(self._drops, parts)):
            parts = [part for part in parts if not self._drops(part)]
        if self._options.sort_query and len(parts) > 1:
            parts.sort(key=lambda part: part.partition("=")[0])
        return "&".join(parts)

    def _shorten(self, path: str) -> str:
        """Drop index file and trailing slash until neither rule applies.

        So ``/a/index.html/`` becomes ``/a``.
        """
        before = ""
        while path != before:
            before = path
            if self._options.drop_trailing_slash:
                path = path.rstrip("/") or "/"
            if self._options.drop_index_files and path.endswith(_INDEX_FILES):
                path = path[: path.rindex("/") + 1]
        return path


def _too_long(raw: str) -> InvalidUrl:
    scheme = _SCHEME.match(raw[:100])
    if scheme and scheme[1].lower() not in ("http", "https"):
        return InvalidUrl(
            Reason.SCHEME, raw, f"the scheme {scheme[1].lower()[:_SHOWN]!r} is not crawled"
        )
    return InvalidUrl(Reason.UNPARSABLE, raw, f"longer than {MAX_LENGTH} characters")


def _normal(found: re.Match[str]) -> str:
    """Normal form of one percent-encoding.

    The WHATWG standard leaves a lone ``%`` or ``%4`` as it is. A decoded digit after one of them
    would complete a new encoding, so there the digit stays encoded.
    """
    start, text = found.start(), found.string
    character = chr(int(found[0][1:], 16))
    if character in _UNRESERVED and not (
        text[start - 1] == "%"
        or (text[start - 2] == "%" and text[start - 1] in "0123456789abcdefABCDEF")
    ):
        return character
    return found[0].upper()


def _without_sessions(path: str) -> str:
    """A path without session parameters.

    A segment such as ``..;jsessionid=1`` becomes ``..`` and is resolved by the standard again.
    """
    kept = without_path_sessions(path)
    if kept != path and "/." in kept:
        kept = ada_url.normalize_url(f"http://a{kept}")[8:]
    return kept


def _stands(origin: str) -> bool:
    """Whether an origin parses to itself.

    ada's decoder refuses some ``xn--`` labels that its encoder writes.
    """
    try:
        return ada_url.normalize_url(origin) == f"{origin}/"
    except ValueError:
        return False
