"""What a store's answer means: whose fault, whether to try again, what the operator is told; and
that no secret is in it. The texts are those of ``obstore`` 0.12.1.
"""

from __future__ import annotations

import pytest

from lycosa.state.objects.object_errors import (
    ErrorCause,
    ObjectError,
    ObjectExists,
    ObjectMissing,
    RangeBeyondEnd,
    StoreFailed,
    StoreFull,
    StoreRefused,
    StoreTimeout,
    StoreUnreachable,
    StoreUnusable,
    store_error,
)
from lycosa.state.objects.store_opening import open_store

URL = "s3://crawl/a/b"


def answered(status: int, code: str, more: str = "") -> str:
    return (
        "Generic S3 error: Error performing PUT http://127.0.0.1:4/crawl/a/b/x in 1ms - Server"
        f" returned non-2xx status code: {status} Word: <?xml version='1.0'?>\n"
        f"<Error><Code>{code}</Code><Message>Words</Message>{more}</Error>\n\nDebug source:\n..."
    )


def unanswered(kind: str, message: str = "") -> str:
    return (
        "Generic S3 error: Error performing PUT http://127.0.0.1:1/crawl/a/b/x in 51ms, after 1"
        " retries, max_retries: 1, retry_timeout: 5s  - HTTP error: error sending request\n\nDebug"
        f" source:\n inner: Http(HttpError {{ kind: {kind}, source: Os {{ code: 111, message:"
        f' "{message}" }}'
    )


IMDS = (
    "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1ms - Server"
    " returned non-2xx status code: 403 Forbidden: "
)


@pytest.mark.parametrize(
    ("kind", "text", "error", "told"),
    [
        ("AlreadyExistsError", answered(412, "PreconditionFailed"), ObjectExists, "already"),
        # nothing is stored: S3, "Conditional requests", 409 is to be retried
        ("AlreadyExistsError", answered(409, "ConditionalRequestConflict"), StoreFailed, "again"),
        ("AlreadyExistsError", answered(409, "OperationAborted"), StoreFailed, "409"),
        ("AlreadyExistsError", answered(409, "BlobAlreadyExists"), ObjectExists, "already"),
        ("FileNotFoundError", answered(404, "NoSuchKey"), ObjectMissing, "no such object"),
        ("FileNotFoundError", answered(404, "NoSuchBucket"), StoreRefused, "no such bucket"),
        ("GenericError", answered(404, "NoSuchBucket"), StoreRefused, "create it, or check"),
        ("GenericError", answered(416, "InvalidRange"), RangeBeyondEnd, "ends before"),
        (
            "PermissionDeniedError",
            answered(403, "SignatureDoesNotMatch", "<AWSAccessKeyId>AKIA</AWSAccessKeyId>"),
            StoreRefused,
            "does not accept the credentials (403 SignatureDoesNotMatch); check AWS_ACCESS_KEY_ID",
        ),
        ("FileNotFoundError", answered(404, "XAdminUserNotFound"), StoreRefused, "credentials"),
        ("GenericError", answered(400, "ExpiredToken"), StoreRefused, "credentials"),
        ("PermissionDeniedError", answered(403, "AccessDenied"), StoreRefused, "not permitted"),
        ("GenericError", IMDS, StoreRefused, "no credentials were given"),
        ("GenericError", answered(507, "Whatever"), StoreFull, "no room left"),
        ("GenericError", answered(400, "QuotaExceeded"), StoreFull, "quota"),
        ("GenericError", answered(503, "SlowDown"), StoreFailed, "tried again"),
        ("GenericError", answered(429, "TooManyRequests"), StoreFailed, "429"),
        ("GenericError", answered(400, "AuthorizationHeaderMalformed"), StoreRefused, "region"),
        ("GenericError", unanswered("Timeout"), StoreTimeout, "did not answer in time"),
        (
            "GenericError",
            unanswered("Connect", "Connection refused"),
            StoreUnreachable,
            "cannot be reached (Connection refused)",
        ),
        ("GenericError", "HTTP error: builder error\nkind: Builder", StoreUnusable, "https://"),
    ],
)
def test_an_answer_is_told_by_its_cause(
    kind: str, text: str, error: type[ObjectError], told: str
) -> None:
    found = store_error(URL, "writing warc/x", kind, text)
    assert type(found) is error
    assert told in str(found)
    assert str(found).startswith(f"{URL}: ")
    assert "AKIA" not in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    ("error", "cause", "is_passing"),
    [
        (StoreUnusable, ErrorCause.OURS, False),
        (StoreRefused, ErrorCause.THEIRS, False),
        (StoreFull, ErrorCause.THEIRS, True),
        (StoreFailed, ErrorCause.THEIRS, True),
        (StoreUnreachable, ErrorCause.NETWORK, True),
        (StoreTimeout, ErrorCause.TIME, True),
    ],
)
def test_errors_are_grouped_by_cause(
    error: type[ObjectError], cause: ErrorCause, is_passing: bool
) -> None:
    assert (error.cause, error.is_passing) == (cause, is_passing)


def test_each_kind_of_store_names_its_own_credentials() -> None:
    for url, told in (("gs://b", "GOOGLE_"), ("az://c", "AZURE_STORAGE_")):
        error = store_error(url, "writing x", "UnauthenticatedError", answered(401, "Whatever"))
        assert told in str(error)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket/prefix", ("region=eu-west-1", "endpoint=http://127.0.0.1:1")),
        ("gs://bucket/prefix", ()),
        ("az://container/prefix", ("account_name=acct",)),
        ("file:///tmp", ()),
    ],
)
def test_each_kind_of_url_opens_its_store(url: str, options: tuple[str, ...]) -> None:
    assert url in repr(open_store(url, options))


def test_an_option_of_another_kind_of_store_is_named() -> None:
    with pytest.raises(StoreUnusable, match="account_name"):
        open_store("s3://bucket", ("account_name=x",))


def test_azure_without_an_account_says_so() -> None:
    with pytest.raises(StoreUnusable, match="AZURE_STORAGE_ACCOUNT_NAME"):
        open_store("az://container", (), {})
