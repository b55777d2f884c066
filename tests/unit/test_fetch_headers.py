"""Header lines sent and collected, and what libcurl's codes mean."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.sections import FetchSection
from lycosa.base.reasons import Reason
from lycosa.stages.fetch.headers import (
    HeaderBlock,
    build_user_agent,
    common_lines,
    email_of,
    protocol_of,
    request_target,
)
from lycosa.stages.fetch.libcurl import default_ca_file, pycurl
from lycosa.stages.fetch.result_codes import reason_of


@pytest.mark.parametrize(
    ("contact", "agent"),
    [
        ("https://example.org/bot", "lycosa/0.1 (+https://example.org/bot)"),
        (" bot@example.org ", "lycosa/0.1 (+bot@example.org)"),
        ("", "lycosa/0.1"),
    ],
)
def test_the_user_agent_names_product_version_and_contact(contact: str, agent: str) -> None:
    assert build_user_agent("lycosa", "0.1", contact) == agent


@pytest.mark.parametrize("contact", ["a\r\nX: y", "a)", "(a", "caf\u00e9", "a\\b", "a\x00"])
def test_a_contact_that_would_break_the_header_is_refused(contact: str) -> None:
    with pytest.raises(ValueError, match="contact"):
        build_user_agent("lycosa", "0.1", contact)


@pytest.mark.parametrize(
    ("contact", "email"),
    [
        ("bot@example.org", "bot@example.org"),
        ("mailto:bot@example.org", "bot@example.org"),
        ("https://u@example.org/", ""),
        ("x", ""),
        ("", ""),
    ],
)
def test_only_an_email_address_goes_into_from(contact: str, email: str) -> None:
    assert email_of(contact) == email
    lines = common_lines(FetchSection(), "lycosa/0.1", contact)
    assert (f"From: {email}".encode() in lines) == bool(email)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h", "/"),
        ("http://h:80/a/../b?c=/d#e", "/a/../b?c=/d"),
        ("http://h?x", "/?x"),
        ("http://h#x/y", "/"),
        ("https://[::1]:8443//x", "//x"),
        ("", "/"),
    ],
)
def test_the_target_is_cut_out_unchanged(url: str, target: str) -> None:
    assert request_target(url) == target


def collect(block: HeaderBlock, data: bytes) -> Reason:
    reasons = [block.add_line(line) for line in data.splitlines(keepends=True)]
    return max(reasons)


def test_interim_blocks_and_trailers_are_left_out() -> None:
    block = HeaderBlock(1000, 20)
    collect(
        block,
        b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nC: d\r\n\r\nTrailer: x\r\n\r\n",
    )
    assert block.is_complete
    assert block.joined() == b"HTTP/1.1 200 OK\r\nC: d\r\n\r\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r\r\n", b"\r \r\n"])
def test_a_block_ends_where_libcurl_ends_it(end: bytes) -> None:
    block = HeaderBlock(1000, 10)
    for line in (b"HTTP/1.1 103 Early Hints\r\n", end, b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", end):
        assert not block.is_complete
        block.add_line(line)
    assert block.is_complete and block.joined() == b"HTTP/1.1 200 OK\r\nA: b\r\n" + end


def test_a_block_without_its_blank_line_is_not_complete() -> None:
    block = HeaderBlock(1000, 20)
    collect(block, b"HTTP/1.1 200 OK\r\nC: d\r\n")
    assert not block.is_complete


@given(st.integers(1, 50), st.integers(1, 50))
def test_the_line_limit_counts_fields(limit: int, fields: int) -> None:
    reason = collect(
        HeaderBlock(100_000, limit), b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * fields + b"\r\n"
    )
    assert reason is (Reason.NONE if fields <= limit else Reason.HEADERS_TOO_LARGE)


def test_the_byte_limit_counts_every_byte() -> None:
    data = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"
    assert collect(HeaderBlock(len(data), 10), data) is Reason.NONE
    assert collect(HeaderBlock(len(data) - 1, 10), data) is Reason.HEADERS_TOO_LARGE


@pytest.mark.parametrize(
    ("line", "protocol"),
    [
        (b"HTTP/1.0 200", "http/1.0"),
        (b"HTTP/1.1 200", "http/1.1"),
        (b"HTTP/2 200 ", "h2"),
        (b"HTTP/3 200", ""),
        (b"", ""),
    ],
)
def test_the_protocol_is_read_from_the_status_line(line: bytes, protocol: str) -> None:
    assert protocol_of(line) == protocol


@pytest.mark.parametrize(
    ("code", "message", "os_error", "is_sent", "has_answer", "reason"),
    [
        (pycurl.E_COULDNT_CONNECT, "", errno.ECONNREFUSED, False, False, Reason.CONNECT_REFUSED),
        (pycurl.E_COULDNT_CONNECT, "", errno.ENETUNREACH, False, False, Reason.NETWORK_UNREACHABLE),
        (
            pycurl.E_COULDNT_CONNECT,
            "",
            errno.EHOSTUNREACH,
            False,
            False,
            Reason.NETWORK_UNREACHABLE,
        ),
        (pycurl.E_COULDNT_CONNECT, "", errno.ETIMEDOUT, False, False, Reason.CONNECT_TIMEOUT),
        (pycurl.E_COULDNT_CONNECT, "", errno.EMFILE, False, False, Reason.INTERNAL),
        (pycurl.E_OPERATION_TIMEDOUT, "", 0, False, False, Reason.CONNECT_TIMEOUT),
        (pycurl.E_OPERATION_TIMEDOUT, "", 0, True, False, Reason.FIRST_BYTE_TIMEOUT),
        (pycurl.E_OPERATION_TIMEDOUT, "", 0, True, True, Reason.TOTAL_TIMEOUT),
        (pycurl.E_PEER_FAILED_VERIFICATION, "", 0, False, False, Reason.TLS_FAILED),
        (
            pycurl.E_RECV_ERROR,
            "Recv failure: Connection reset by peer",
            errno.ECONNRESET,
            True,
            True,
            Reason.CONNECTION_LOST,
        ),
        (
            pycurl.E_RECV_ERROR,
            "Too large response headers: 307201 > 307200",
            0,
            True,
            True,
            Reason.HEADERS_TOO_LARGE,
        ),
        (pycurl.E_UNSUPPORTED_PROTOCOL, "", 0, False, False, Reason.SCHEME),
        (pycurl.E_UNSUPPORTED_PROTOCOL, "", 0, True, False, Reason.MALFORMED_RESPONSE),
        (-1, "", 0, False, False, Reason.INTERNAL),
    ],
)
def test_each_code_has_its_reason(
    code: int, message: str, os_error: int, is_sent: bool, has_answer: bool, reason: Reason
) -> None:
    assert reason_of(code, message, os_error, is_sent, has_answer) is reason


def test_the_systems_certificates_are_a_file_when_there_are_any() -> None:
    assert default_ca_file() == "" or default_ca_file().startswith("/")


def test_the_systems_openssl_configuration_is_not_read_and_the_environment_is_put_back(
    tmp_path: Path,
) -> None:
    program = "import os; from lycosa.stages.fetch.libcurl import pycurl; print(os.environ.get('OPENSSL_CONF'))"
    environment = {name: value for name, value in os.environ.items() if name != "OPENSSL_CONF"}
    chosen = tmp_path / "openssl.cnf"
    chosen.write_text("")
    for extra, shown in (({}, "None"), ({"OPENSSL_CONF": str(chosen)}, str(chosen))):
        run = subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, **extra},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == shown
