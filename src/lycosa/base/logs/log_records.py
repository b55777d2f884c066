"""The records of the log and their two forms: one JSON object a line, or one line of text.

``docs/logs.md`` describes them, and the JSON Schemas in ``docs/schemas`` are generated from the
structs here. A record never breaks out of its line: control characters are escaped in both forms.
Secrets are replaced before a record is written: passwords in URLs, values of names like
``password``, and the whole value of header fields like ``Authorization`` and ``Cookie``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from inspect import cleandoc
from typing import Annotated, Any

import msgspec

# Characters of one field. A longer one loses its middle: a traceback says at its end what happened.
_MAX_TEXT = 4000
_USER = re.compile(r"(?<=://)[^/\s'\"]+@")
_NAME = (
    r"pass(?:word|wd|phrase)|pwd|secret|(?:secret|access|api|account|private|sas)[-_]?key|token"
    r"|signature(?=['\"]?=)"
)
# A value in quotation marks ends at the second one, also where both are escaped (JSON in JSON).
_QUOTED = r"\"(?:\\.|[^\"\\])*|'(?:\\.|[^'\\])*|\\+(?P<mark>['\"]).*?(?=(?<!\\)\\+(?P=mark)|$)"
_SECRET = re.compile(
    rf"(?im)(?<![a-z])(?P<name>{_NAME})(?P<is>\\*['\"]?\s*[=:]\s*)"
    rf"(?:{_QUOTED}|(?:[^\s,;&'\"\\]|\\(?!['\"]))+)"
)
# The value of a header field has parts of any form (RFC 9110, 11.4), so all of its line is hidden.
_FIELD = re.compile(
    r"(?im)(?<![a-z0-9])(?P<name>(?:proxy-)?authorization|(?:set-)?cookie2?|x-api-key"
    r"|x-auth-token|x-amz-security-token)"
    rf"(?P<is>\\*['\"]?\s*:\s*)(?:{_QUOTED}|[^\r\n]+)"
)
_SCHEME = re.compile(
    r"(?im)(?<![a-z0-9])(?P<name>authorization)(?P<is>\s*=\s*)"
    r"(?:(?:basic|bearer|digest|negotiate|ntlm|token)\s[^\r\n]*|[^\s,;&'\"]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[a-z0-9._~+/=-]{16,}")
_HINT = re.compile(r"(?i)pass|pwd|secret|key|token|signature|auth|cookie|bearer")
_SECRET_NAME = re.compile(rf"(?i)(?:.*[^a-z])?(?:{_NAME}|authorization|(?:set-)?cookie)")
# Characters that a terminal or a reader of lines would obey.
_OBEYED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_FREE = ("url", "detail", "message", "values")  # texts of others
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class LogLevel(IntEnum):
    """How important a record is. Records below the level of the log are not written."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @property
    def label(self) -> str:
        """The name in records and options."""
        return self.name.lower()


def _field(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class FetchRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt: a request for a page, a robots.txt or a sitemap, with its answer.

    Fields with their default are left out.
    """

    time: Annotated[str, _field("when the attempt ended, UTC, RFC 3339 with milliseconds")]
    level: Annotated[str, _field("info; warning when the attempt failed")]
    event: Annotated[str, _field("fetch")]
    process: Annotated[str, _field("the process, for example worker 0")]
    url: Annotated[str, _field("canonical URL that was requested")]
    kind: Annotated[str, _field("page, robots or sitemap")]
    host: Annotated[str, _field("host, with the port unless it is the default")]
    address: Annotated[str, _field("IP address that was connected to")] = ""
    status: Annotated[int, _field("HTTP status; 0 without a response")] = 0
    reason: Annotated[str, _field("why it failed or was cut, for example connect_timeout")] = ""
    detail: Annotated[str, _field("what is known beyond the reason")] = ""
    protocol: Annotated[str, _field("http/1.0, http/1.1 or h2")] = ""
    tls: Annotated[str, _field("TLS version")] = ""
    bytes: Annotated[int, _field("bytes of the body as received")] = 0
    duration_s: Annotated[float, _field("seconds from the start to the last byte")] = 0.0
    first_byte_s: Annotated[float, _field("seconds from the start to the first byte")] = 0.0
    sent_s: Annotated[float, _field("seconds from the start until the request was sent")] = 0.0
    delay_s: Annotated[float, _field("seconds that the host rests after it")] = 0.0


class EventRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Anything else that happened. Fields with their default are left out.

    A burst of equal records is limited: after some records of one kind about one host within a
    minute, the others are counted, and a record with ``count`` follows.
    """

    time: Annotated[str, _field("UTC, RFC 3339 with milliseconds")]
    level: Annotated[str, _field("debug, info, warning or error")]
    event: Annotated[str, _field("what happened, for example note, worker_ended, suppressed")]
    process: Annotated[str, _field("the process, for example worker 0")]
    message: Annotated[str, _field("one line for people")] = ""
    host: Annotated[str, _field("the host that it is about")] = ""
    count: Annotated[int, _field("number of records that were not written")] = 0
    values: Annotated[dict[str, Any], _field("numbers and names, by the kind of event")] = {}


LogRecord = FetchRecord | EventRecord


def encode_json(record: LogRecord) -> str:
    """The record as one JSON object on one line, in ASCII."""
    values = msgspec.to_builtins(record)
    for name in _FREE:
        if name in values:
            values[name] = _redacted(values[name])
    return json.dumps(values, ensure_ascii=True, separators=(",", ":"))


def encode_text(record: LogRecord) -> str:
    """The record as one line for people."""
    head = f"{record.time} {record.level:<7} {record.process}"
    if isinstance(record, FetchRecord):
        said = f"{record.status or '-'} {record.url} {record.bytes} B {record.duration_s:.3f} s"
        if record.kind != "page":
            said = f"{record.kind} {said}"
        if record.reason:
            said += f" ({record.reason}{f': {record.detail}' if record.detail else ''})"
        return one_line(f"{head} fetch {said}")
    values = " ".join(f"{name}={value}" for name, value in _redacted(record.values).items())
    words = (head, record.event, record.host, record.message, values)
    return one_line(" ".join(filter(None, words)))


def one_line(text: str) -> str:
    """Text with escaped control characters and without passwords."""
    text = without_secrets(text)
    if _OBEYED.search(text):
        text = _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text


def without_secrets(text: str) -> str:
    """Text whose passwords are replaced, and which is not longer than a field may be."""
    if "@" in text:
        text = _USER.sub("***@", text)
    if _HINT.search(text):  # most texts have none, and this is the cheaper search
        for pattern in (_FIELD, _SCHEME, _SECRET):
            text = pattern.sub(_hidden, text)
        text = _BEARER.sub(r"\1***", text)
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT // 2]} … {text[-_MAX_TEXT // 2 :]}"
    return text


def _hidden(found: re.Match[str]) -> str:
    """The name and what is between it and its value, quotation marks included."""
    value = found[0][found.end("is") - found.start() :]
    mark = re.match(r"\\*['\"]", value)
    return f"{found['name']}{found['is']}{mark[0] if mark else ''}***"


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {
            name: "***" if _SECRET_NAME.fullmatch(str(name)) else _redacted(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(each) for each in value]
    return value


def shown_time(wall: float) -> str:
    """``2026-11-22T13:40:02.123Z``."""
    second = int(wall)
    return f"{_shown_second(second)}.{int((wall - second) * 1000):03d}Z"


@lru_cache(maxsize=4)
def _shown_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def log_schema(kind: str) -> Mapping[str, Any]:
    """The JSON Schema of the records of a fetch (``fetch``) or of other events (``event``)."""
    record = FetchRecord if kind == "fetch" else EventRecord
    found = msgspec.json.schema(record)
    found["$defs"][record.__name__]["description"] = cleandoc(record.__doc__ or "")
    return {"$schema": _DIALECT, "title": f"a record of the log: {kind}", **found}
