"""From the bytes of a robots.txt to the rules for our agent, as tolerant as Google's parser.

Source: RFC 9309 §2.1 and §2.2. The promise: any bytes give rules, never an error, in time
proportional to at most ``max_bytes``. Tolerated errors are data (the tables below), so they can be
compared with the standard.

Where other parsers differ:

* Only Allow and Disallow end a run of User-agent lines. Crawl-delay, Sitemap or an unknown line
  between two of them does not (§2.2.4: other records must not interfere). crawler-commons agrees;
  protego ends the group at a Crawl-delay or Sitemap.
* A Crawl-delay applies to the agents of its group that are named after the previous Crawl-delay,
  because that is what the sequence agent, delay, agent, delay means. The longest one for us counts.
  Units or markup after the number are ignored.
* A Content-Usage or Content-Signal line is a rule (draft-ietf-aipref-attach-05 section 3), so for
  such lines it ends a run of User-agent lines. For Allow and Disallow it does not, because a
  statement about use must not change what may be fetched.
* A user-agent value is read up to its first character outside ``[A-Za-z_-]`` and must then be the
  whole product token (§2.2.1). protego and older parsers match a part of it.
* A line that the size limit cuts is dropped: half of ``Disallow: /private`` could be ``Disallow:
  /``.
"""

from __future__ import annotations

import codecs
import re
from operator import itemgetter

from lycosa.base.preferences.preference_model import MAX_STATEMENT_CHARACTERS
from lycosa.base.urls.path_patterns import normal_pattern
from lycosa.stages.politeness.robots_rules import RobotsRule, RobotsRules
from lycosa.stages.politeness.usage_rules import MAX_LICENSES, UsageLines

MAX_BYTES = 512_000
"""RFC 9309 §2.5: at least 500 KiB are parsed."""

MAX_LINE_BYTES = 2083 * 8 - 1
"""Google's limit: eight times the longest URL of an old browser; the rest is ignored."""

# Names of lines, matched as prefixes of the text before the colon, in Google's order.
_FIELDS: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("agent", (b"user-agent", b"useragent", b"user agent")),
    ("allow", (b"allow",)),
    ("disallow", (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")),
    ("sitemap", (b"sitemap", b"site-map")),
    ("delay", (b"crawl-delay", b"crawldelay", b"crawl delay")),
    ("usage", (b"content-usage",)),
    ("signal", (b"content-signal",)),
    ("license", (b"license",)),
)
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_TOKEN = re.compile(rb"[A-Za-z_-]*")
_EVERYONE = re.compile(rb"\*(?:\s|$)")  # Google: ``*`` with any text after a blank still matches
_NUMBER = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")
# Nearly every line of a long file: a correctly spelled rule whose pattern is already in normal
# form. Read with one match.
_USUAL = re.compile(rb"((?i:dis)?)(?i:allow): ?([!$&-;=?-\[\]_a-z~]{1,2000})")


def parse_robots(body: bytes, product: str, max_bytes: int = MAX_BYTES) -> RobotsRules:
    """The rules of ``body`` for the agent with the product token ``product``.

    All groups that name it are merged. If there are none, the groups for ``*`` apply. If there are
    none of these either, everything is allowed and ``group`` is empty.
    """
    file = _File(product)
    fields: dict[bytes, str] = {}
    for number, line in enumerate(_lines(body, max_bytes), 1):
        if usual := _USUAL.fullmatch(line):
            dis, pattern = usual.groups()
            file.add_rule(not dis, pattern, number)
            continue
        name, value = _split(line)
        if not name:
            continue
        field = fields.get(name)
        if field is None:
            field = _field(name)
            if len(fields) < 1000:
                fields[name] = field
        if field:
            file.take_line(field, value, number)
    return file.rules()


class _Group:
    """The merged content of all groups for one agent."""

    __slots__ = ("allowed", "crawl_delay_s", "disallowed", "name", "usage")

    def __init__(self) -> None:
        self.name = ""
        # The first line of each pattern. Two tables of octets cost a third less than one with
        # (kind, text) as key, and only the patterns of the group that applies are decoded.
        self.allowed: dict[bytes, int] = {}
        self.disallowed: dict[bytes, int] = {}
        self.crawl_delay_s = -1.0
        self.usage = UsageLines()

    def rules(self) -> list[RobotsRule]:
        """In the order of the file."""
        rules = [(False, str(pattern, "ascii"), n) for pattern, n in self.disallowed.items()]
        rules += [(True, str(pattern, "ascii"), n) for pattern, n in self.allowed.items()]
        rules.sort(key=itemgetter(2))
        return rules


class _File:
    """Reads the lines in order and collects the groups for us and for ``*``."""

    __slots__ = (
        "_current",
        "_delay_for",
        "_delay_said",
        "_everyone",
        "_licenses",
        "_ours",
        "_product",
        "_run_ended",
        "_sitemaps",
        "_usage_for",
        "_usage_said",
    )

    def __init__(self, product: str) -> None:
        self._product = product.lower().encode("utf-8", "surrogatepass")
        self._ours, self._everyone = _Group(), _Group()
        # the group that the next rules belong to, ``None`` if it is another agent's
        self._current: _Group | None = None
        self._run_ended = False
        # the group that a Crawl-delay applies to: named after the previous Crawl-delay
        self._delay_for: _Group | None = None
        self._delay_said = False
        # the group that a Content-Usage or Content-Signal line belongs to
        self._usage_for: _Group | None = None
        self._usage_said = False
        self._sitemaps: dict[str, None] = {}
        self._licenses: dict[str, int] = {}

    def take_line(self, field: str, value: bytes, number: int) -> None:
        if field == "agent":
            self._agent(value)
        elif field == "sitemap":
            self._sitemaps.setdefault(value.decode("utf-8", "replace"))
        elif field == "delay":
            self._delay_said = True
            if self._delay_for is not None:
                self._delay_for.crawl_delay_s = max(self._delay_for.crawl_delay_s, _seconds(value))
        elif field == "license":
            if len(self._licenses) < MAX_LICENSES and len(value) <= MAX_STATEMENT_CHARACTERS:
                self._licenses.setdefault(value.decode("utf-8", "replace"), number)
        elif field in ("usage", "signal"):
            self._usage_said = True
            if self._usage_for is not None:
                self._usage_for.usage.add_line(field == "signal", value, number)
        else:
            self.add_rule(field == "allow", normal_pattern(value).encode("ascii"), number)

    def add_rule(self, allow: bool, pattern: bytes, number: int) -> None:
        """Add a rule whose pattern is in normal form."""
        self._run_ended = True
        if self._current is not None and pattern:  # an empty pattern matches nothing
            rules = self._current.allowed if allow else self._current.disallowed
            rules.setdefault(pattern, number)

    def rules(self) -> RobotsRules:
        group = self._ours if self._ours.name else self._everyone
        return RobotsRules(
            group.rules(),
            group.name,
            group.crawl_delay_s,
            [url for url in self._sitemaps if url],
            group.usage.rules([(url, line) for url, line in self._licenses.items() if url]),
        )

    def _agent(self, value: bytes) -> None:
        if self._run_ended:
            self._current = None
        if self._run_ended or self._delay_said:
            self._delay_for = None
        if self._run_ended or self._usage_said:
            self._usage_for = None
        self._run_ended = self._delay_said = self._usage_said = False
        if _EVERYONE.match(value):
            self._everyone.name = "*"
            self._current = self._current or self._everyone
            self._delay_for = self._delay_for or self._everyone
            self._usage_for = self._usage_for or self._everyone
        elif self._is_us(value):
            self._ours.name = self._ours.name or value.decode("utf-8", "replace") or "(empty)"
            self._current = self._delay_for = self._usage_for = self._ours

    def _is_us(self, value: bytes) -> bool:
        token = _TOKEN.match(value)
        return token is not None and token[0].lower() == self._product


def _lines(body: bytes, max_bytes: int) -> list[bytes]:
    encoding = _UTF16.get(body[:2])
    cut = len(body) > max_bytes
    body = body[:max_bytes]
    if encoding:
        body = body.decode(encoding, "replace").encode("utf-8", "replace")
    # Google skips the part of a UTF-8 byte order mark that is present, even an incomplete one.
    for octet in codecs.BOM_UTF8:
        if body[:1] != bytes((octet,)):
            break
        body = body[1:]
    lines = body.splitlines()
    if cut and not body.endswith((b"\n", b"\r")):
        del lines[-1:]
    return lines


def _split(line: bytes) -> tuple[bytes, bytes]:
    """Name (lower case) and value of a line; an empty name when it is not ``name: value``."""
    line = line[:MAX_LINE_BYTES].partition(b"#")[0].partition(b"\0")[0].strip()
    name, colon, value = line.partition(b":")
    if not colon:
        # Google: if there are exactly two words, the blank counts as a forgotten colon.
        words = line.split()
        return (words[0].lower(), words[1]) if len(words) == 2 else (b"", b"")
    return name.strip().lower(), value.strip()


def _field(name: bytes) -> str:
    return next((field for field, prefixes in _FIELDS if name.startswith(prefixes)), "")


def _seconds(value: bytes) -> float:
    found = _NUMBER.match(value)
    return float(found[0]) if found else -1.0
