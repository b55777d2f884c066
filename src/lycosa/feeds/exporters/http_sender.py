"""Sends requests to the services that an operator named: one connection that is kept, no redirects.

It is not the crawl's fetcher: there are no pages here, no robots.txt and no politeness. An answer
is bounded, and an address can be refused after the connection is made and before anything is sent.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lycosa.feeds.export_port import TargetAway
from lycosa.stages.fetch.libcurl import default_ca_file, pycurl

_MAX_ANSWER = 32_000_000


class HttpAnswer(NamedTuple):
    """A status and a body, of which no more than some bytes were read."""

    status: int
    body: bytes


class AddressRefused(Exception):
    """The connection is to an address to which nothing may be sent; the message names it."""


class HttpSender:
    """A client of one service. Calls block.

    ``refusal`` judges the address of a connection and says why nothing may be sent there.
    ``is_direct`` ignores proxies in the environment, behind which no address could be judged.
    ``user`` is ``NAME:PASSWORD`` for HTTP basic authentication.
    """

    def __init__(
        self,
        timeout_s: float = 60.0,
        refusal: Callable[[str], str | None] = lambda address: None,
        is_direct: bool = False,
        user: str = "",
        max_answer: int = _MAX_ANSWER,
    ) -> None:
        self._refusal, self._refused = refusal, ""
        self._body, self._max_answer = io.BytesIO(), max_answer
        self._curl = curl = pycurl.Curl()
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(min(timeout_s, 10.0) * 1000))
        curl.setopt(pycurl.TIMEOUT_MS, int(timeout_s * 1000))
        curl.setopt(pycurl.PREREQFUNCTION, self._on_connected)
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        curl.setopt(pycurl.USERAGENT, "lycosa")
        if is_direct:
            curl.setopt(pycurl.PROXY, "")
        if user:
            curl.setopt(pycurl.HTTPAUTH, pycurl.HTTPAUTH_BASIC)
            curl.setopt(pycurl.USERPWD, user)
        if ca := default_ca_file():
            curl.setopt(pycurl.CAINFO, ca)

    def send(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> HttpAnswer:
        """The answer to a request. Raises ``TargetAway`` or ``AddressRefused``."""
        curl = self._curl
        self._body, self._refused = io.BytesIO(), ""
        curl.setopt(pycurl.URL, url)
        if body is None:
            curl.setopt(pycurl.HTTPGET, 1)
        else:
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))
            curl.setopt(pycurl.COPYPOSTFIELDS, body)
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(
            pycurl.HTTPHEADER, ["Expect:", *(f"{name}: {value}" for name, value in headers.items())]
        )
        try:
            curl.perform()
        except pycurl.error as error:
            if self._refused:
                raise AddressRefused(self._refused) from None
            # a body that is longer than what is read is an answer all the same
            if not (error.args[0] == pycurl.E_WRITE_ERROR and curl.getinfo(pycurl.RESPONSE_CODE)):
                raise TargetAway(_meaning(error)) from None
        return HttpAnswer(int(curl.getinfo(pycurl.RESPONSE_CODE)), self._body.getvalue())

    def close(self) -> None:
        """Close the connection; no request may follow."""
        self._curl.close()

    def _on_connected(self, address: str, _own: str, _port: int, _own_port: int) -> int:
        if refusal := self._refusal(address):
            self._refused = f"{address} is {refusal}"
            return int(pycurl.PREREQFUNC_ABORT)
        return int(pycurl.PREREQFUNC_OK)

    def _on_body(self, data: bytes) -> int | None:
        if self._body.tell() + len(data) > self._max_answer:
            return 0  # libcurl breaks the transfer off
        self._body.write(data)
        return None


def _meaning(error: Exception) -> str:
    """The text of an error of libcurl."""
    return str(error.args[1]) if len(error.args) > 1 else str(error)
