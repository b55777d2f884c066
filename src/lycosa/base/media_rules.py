"""Which media types a crawl accepts (``scope.accept``), and how large a body may be by its type.

The type is that of the response: its Content-Type. A server that sends a file as any file
(``application/octet-stream``), or names no type, is judged by the extension of the name in
Content-Disposition, else of the path. Pages and feeds are always accepted, because they have the
links to the rest; so is an answer that says nothing about its type.
"""

from __future__ import annotations

from functools import lru_cache

from lycosa.base.content_disposition import disposition_name

GROUPS: dict[str, tuple[str, ...]] = {
    "image": ("image/*",),
    "video": ("video/*", "application/vnd.apple.mpegurl", "application/dash+xml"),
    "audio": ("audio/*", "application/ogg"),
    "font": ("font/*", "application/font-woff", "application/vnd.ms-fontobject"),
    "pdf": ("application/pdf", "application/x-pdf"),
    "document": (
        "application/pdf",
        "application/x-pdf",
        "application/msword",
        "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint",
        "application/vnd.openxmlformats-officedocument.*",
        "application/vnd.oasis.opendocument.*",
        "application/rtf",
        "application/epub+zip",
        "application/postscript",
    ),
    "text": ("text/*",),
    "archive": ("application/zip", "application/gzip", "application/x-tar", "application/x-7z-*"),
}
"""The words that ``scope.accept`` may have besides media types; ``*`` at the end is any text."""

REQUISITES = ("image/*", "font/*", "text/css", "*javascript", "application/json", "*font-woff")
"""What pages load: accepted too if requisites are fetched."""

_PAGES = frozenset({"text/html", "application/xhtml+xml", "text/xml", "application/xml"})
_ANY_FILE = frozenset({"", "application/octet-stream", "binary/octet-stream", "unknown/unknown"})
_MEDIA = ("image/", "video/", "audio/", "font/")
_EXTENSIONS = {
    **dict.fromkeys(("jpg", "jpeg", "jfif"), "image/jpeg"),
    **{each: f"image/{each}" for each in ("png", "gif", "webp", "avif", "bmp", "tiff")},
    "svg": "image/svg+xml",
    "ico": "image/x-icon",
    "tif": "image/tiff",
    **dict.fromkeys(("mp4", "m4v"), "video/mp4"),
    "webm": "video/webm",
    "mov": "video/quicktime",
    "avi": "video/avi",
    "mkv": "video/matroska",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wave",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "opus": "audio/ogg",
    **{each: f"font/{each}" for each in ("woff", "woff2", "ttf", "otf")},
    "pdf": "application/pdf",
    "doc": "application/msword",
    "rtf": "application/rtf",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    **{
        each: f"application/vnd.openxmlformats-officedocument.{each}"
        for each in ("docx", "xlsx", "pptx")
    },
    **{each: f"application/vnd.oasis.opendocument.{each}" for each in ("odt", "ods", "odp")},
    "epub": "application/epub+zip",
    "ps": "application/postscript",
    "zip": "application/zip",
    "gz": "application/gzip",
    "tgz": "application/gzip",
    "tar": "application/x-tar",
    "txt": "text/plain",
    "csv": "text/csv",
    "htm": "text/html",
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "json": "application/json",
}


def check_accept(words: tuple[str, ...]) -> None:
    """Raises ``ValueError`` for a word that is neither a group nor a media type."""
    for word in words:
        kind, slash, subtype = word.partition("/")
        if word.lower() not in GROUPS and not (kind and slash and subtype and " " not in word):
            raise ValueError(
                f"{word!r} is no media type; write one as image/png or image/*, or a word of:"
                f" {', '.join(GROUPS)}"
            )


@lru_cache(8)
def _patterns(accept: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for word in accept:
        found += GROUPS.get(word.lower(), (word.lower(),))
    return tuple(found)


def accepts(accept: tuple[str, ...], essence: str) -> bool:
    """Whether a type, in lower case and without parameters, is one of these."""
    return any(_matches(pattern, essence) for pattern in _patterns(accept))


def _matches(pattern: str, essence: str) -> bool:
    if pattern.startswith("*"):
        return essence.endswith(pattern[1:])
    return essence.startswith(pattern[:-1]) if pattern.endswith("*") else essence == pattern


def is_media(url: str, content_type: str, disposition: str, accept: tuple[str, ...]) -> bool | None:
    """Whether an answer is an image, a font, audio or video; ``None``: its type is not accepted.

    ``url`` is the requested one; both values are those of its header fields, perhaps empty.
    Without ``accept`` any type is accepted.
    """
    essence = content_type.partition(";")[0].strip().lower()
    if essence in _ANY_FILE:
        essence = _by_name(disposition_name(disposition) or url.partition("?")[0]) or essence
    is_page = essence in _PAGES or essence.endswith("+xml")
    if accept and essence and not is_page and not accepts(accept, essence):
        return None
    return essence.startswith(_MEDIA)


def _by_name(name: str) -> str:
    last = name.rpartition("/")[2]
    return _EXTENSIONS.get(last.rpartition(".")[2].lower(), "") if "." in last else ""
