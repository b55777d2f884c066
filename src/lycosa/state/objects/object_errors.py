"""The errors of object stores, by cause.

Every message names the store, says what went wrong in one line, and what to do. A store's own text
is not repeated as a whole: it may contain access keys and signed headers.
"""

from __future__ import annotations

import re
from enum import Enum

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]+)</Code>")
_CONNECT = re.compile(r"kind: (?:Connect|Timeout|Interrupted|Request|Decode|Body|Unknown)")
_WHY = re.compile(r'message: "([^"]{1,100})"')
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is one, AWS_SESSION_TOKEN"
    " (files such as ~/.aws/credentials are not read)",
    "gs": "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS, the path of a key file",
    "az": "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY",
}
# servers that keep no ACL answer 404 to a key that they do not know
_BAD_CREDENTIALS = {
    "AuthenticationFailed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "XAdminUserNotFound",
}
_NO_BUCKET = {"ContainerNotFound", "NoSuchBucket"}
_FULL = {"QuotaExceeded", "StorageFull", "XMinioStorageFull", "XMinioStorageQuotaExceeded"}
# The codes of 409 for a request that came while another one for the key was in flight. Nothing was
# stored, and the client repeats it: S3, "Error responses". Azure's 409 BlobAlreadyExists is final.
_CONFLICTS = {"ConditionalRequestConflict", "OperationAborted"}
_METADATA = ("169.254.169.254", "metadata.google", "169.254.170.2")


class ErrorCause(Enum):
    """Whose fault an error is."""

    OURS = "ours"  # a URL, a setting or a package that is missing
    THEIRS = "theirs"  # the store answered, and refused or failed
    NETWORK = "network"  # the store was not reached
    TIME = "time"  # no answer came in time


class ObjectError(Exception):
    """A call to a store failed. ``is_passing``: the same call may succeed later without anybody
    changing anything.
    """

    cause = ErrorCause.THEIRS
    is_passing = False


class StoreUnusable(ObjectError):
    """The URL, an option or the program's installation does not allow to speak to a store."""

    cause = ErrorCause.OURS


class ObjectExists(ObjectError):
    """There is an object where a new one was to be created."""


class ObjectMissing(ObjectError):
    """There is no object of that key."""


class RangeBeyondEnd(ObjectError):
    """An object ends before the bytes that were asked for."""


class StoreRefused(ObjectError):
    """The store answered and will answer the same again: credentials, permissions, no bucket."""


class StoreFull(ObjectError):
    """The store has no room, or a quota is reached."""

    is_passing = True


class StoreFailed(ObjectError):
    """The store answered that it cannot now (5xx, 429, a conflict of two requests)."""

    is_passing = True


class StoreUnreachable(ObjectError):
    """No connection to the store, or one that broke."""

    cause = ErrorCause.NETWORK
    is_passing = True


class StoreTimeout(ObjectError):
    """The store took too long."""

    cause = ErrorCause.TIME
    is_passing = True


def store_error(url: str, what: str, kind: str, text: str) -> ObjectError:
    """The error that a client's exception means. ``kind`` is its class, ``text`` its message,
    ``what`` was being done, with the key.
    """
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    code = found[1] if (found := _CODE.search(text)) else ""
    said = " ".join(filter(None, (str(status or ""), code))) or kind
    scheme = url.partition(":")[0]
    # Without credentials the client asks the metadata service of a cloud, which other machines do
    # not have; its time-out would look like one of the store.
    if any(host in text for host in _METADATA):
        return StoreRefused(
            f"{url}: no credentials were given, and this machine has none; set"
            f" {_CREDENTIALS[scheme]}"
        )
    # Before the statuses: stores answer 403 for a wrong key as well as for a missing permission,
    # and only the code tells them apart.
    if code in _BAD_CREDENTIALS or kind == "UnauthenticatedError" or status == 401:
        return StoreRefused(
            f"{url}: the store does not accept the credentials ({said}); check"
            f" {_CREDENTIALS[scheme]}"
        )
    if code in _NO_BUCKET:
        return StoreRefused(
            f"{url}: there is no such bucket ({said}); create it, or check the URL and the endpoint"
        )
    if code in _FULL or status == 507:
        return StoreFull(
            f"{url}: the store has no room left ({said}); make room or raise its quota"
        )
    # 409 of a conditional put says that another one was in flight, not that there is an object.
    if code in _CONFLICTS:
        return StoreFailed(
            f"{url}: another request for the same object was in flight ({said}): {what}; nothing"
            " was stored, it is tried again"
        )
    if kind in ("AlreadyExistsError", "PreconditionError"):
        return ObjectExists(f"{url}: there is an object already: {what}")
    if kind == "PermissionDeniedError" or status == 403:
        return StoreRefused(
            f"{url}: {what} is not permitted ({said}); give these credentials the permission to"
            " list, read and write there, or take others"
        )
    return _by_status(url, what, kind, text, status, said)


def unusable(url: str, text: str) -> StoreUnusable:
    """The error when a client cannot even be made."""
    first = text.partition("\n")[0].rstrip(".")[:200]
    return StoreUnusable(
        f"{url}: {first}; check upload.options, and in the environment"
        f" {_CREDENTIALS[url.partition(':')[0]]}"
    )


def _by_status(url: str, what: str, kind: str, text: str, status: int, said: str) -> ObjectError:
    if kind in ("FileNotFoundError", "NotFoundError") or status == 404:
        return ObjectMissing(f"{url}: there is no such object: {what}")
    if status == 416:
        return RangeBeyondEnd(f"{url}: {what}: the object ends before")
    if status in (408, 429) or status >= 500:
        return StoreFailed(
            f"{url}: the store failed ({said}): {what}; its own log says why, it is tried again"
        )
    if status:
        return StoreRefused(
            f"{url}: the store refuses {what} ({said}); check endpoint, region and the other"
            " upload.options"
        )
    why = f" ({found[1]})" if (found := _WHY.search(text)) else ""
    # No status: there was no answer. The client has one class for all of these, so its text
    # decides.
    if "kind: Timeout" in text or "timed out" in text:
        return StoreTimeout(f"{url}: the store did not answer in time: {what}")
    if "kind: Builder" in text or "builder error" in text:
        return StoreUnusable(
            f"{url}: the endpoint cannot be used{why}; write it as https://HOST:PORT"
        )
    if _CONNECT.search(text) or "error sending request" in text:
        return StoreUnreachable(
            f"{url}: the store cannot be reached{why}: {what}; check the endpoint and the network"
        )
    first = text.partition("\n")[0][:200]
    return StoreRefused(f"{url}: {what} failed: {first}")
