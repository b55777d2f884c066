"""The settings of parsing, users' code, cold files, earlier crawls and webhooks."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from lycosa.base.config.setting import setting


class LinkRule(Enum):
    """What of a document counts as a link; each contains the one before it."""

    A = "a"
    DOCUMENT = "document"
    ALL = "all"


class ParseSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on parsing, which happens in a child process."""

    max_bytes: Annotated[
        int, setting("Maximum number of decoded bytes that are parsed.", ge=1024)
    ] = 10_000_000
    max_ratio: Annotated[
        int,
        setting(
            "Maximum number of decoded bytes per received byte, beyond the first megabyte.", ge=10
        ),
    ] = 1000
    deadline_s: Annotated[
        float,
        setting(
            "Maximum processor time of the parse child for one document; after it the child is"
            " killed. A child that does not answer for 20 times as long is killed as well.",
            gt=0,
        ),
    ] = 10.0
    memory_bytes: Annotated[
        int, setting("Maximum address space of a parse child; 0 is no limit.", ge=0)
    ] = 2_000_000_000
    recycle_documents: Annotated[
        int, setting("Documents after which a parse child is replaced.", ge=1)
    ] = 20_000
    max_links: Annotated[int, setting("Maximum number of outlinks of one document.", ge=1)] = 50_000
    max_text: Annotated[
        int, setting("Maximum number of characters of visible text that are kept.", ge=0)
    ] = 1_000_000
    language: Annotated[bool, setting("Identify the language of the text.")] = True
    pdf: Annotated[
        bool,
        setting("Read text, title and links of PDF files, in a separate parse child."),
    ] = True
    office: Annotated[
        bool,
        setting(
            "Read text, title and links of office documents (Word, PowerPoint, spreadsheets,"
            " OpenDocument, EPUB, RTF), in the same child; needs the extra office."
        ),
    ] = False
    links: Annotated[
        LinkRule,
        setting(
            "What counts as a link: a (what visitors follow), document (also other URLs that a"
            " document names), or all (also texts that look like URLs of the same host) (--links)."
        ),
    ] = LinkRule.A


class ExtensionSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Users' code: what is active, what may run on this machine, and how long a call may take.

    ``code`` and ``allow`` are not taken from an earlier run: the command that starts a crawl names
    them.
    """

    code: Annotated[
        tuple[str, ...],
        setting(
            "Extractors, link finders and scorers that run on fetched pages, as FILE.py:NAME, "
            "FOLDER:NAME (a package) or module:NAME (--extension)."
        ),
    ] = ()
    allow: Annotated[
        tuple[str, ...],
        setting(
            "SHA-256 of code that this run may get from the crawl's own copies; machines of a "
            "cluster have theirs in cluster.toml."
        ),
    ] = ()
    rules: Annotated[
        tuple[str, ...],
        setting(
            "Scope rules of installed packages that are active, by the names of their entry points "
            "(lycosa.scope_rules), or PACKAGE/NAME."
        ),
    ] = ()
    sinks: Annotated[
        tuple[str, ...],
        setting(
            "Page sinks of installed packages that are active, by the names of their entry points "
            "(lycosa.page_sinks), or PACKAGE/NAME."
        ),
    ] = ()
    rule_s: Annotated[
        float,
        setting("Seconds after which a call of a rule is broken off; the URL is refused.", gt=0),
    ] = 1.0
    sink_s: Annotated[
        float,
        setting("Seconds after which a page is stored without waiting longer for the sinks.", gt=0),
    ] = 30.0
    page_s: Annotated[
        float,
        setting(
            "Processor time of all user code for one page; after it the process of user code is"
            " replaced. One that does not answer for 10 times as long is replaced as well.",
            gt=0,
        ),
    ] = 5.0
    memory_bytes: Annotated[
        int, setting("Maximum address space of a process of user code; 0 is no limit.", ge=0)
    ] = 1_000_000_000
    max_links: Annotated[
        int, setting("Maximum number of links that link finders may add to a page.", ge=0)
    ] = 1000
    environment: Annotated[
        tuple[str, ...],
        setting("Environment variables that the process of user code gets, by name."),
    ] = ()


class ColdSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Records of URLs that are not fetched for long, which leave the tables for files."""

    after_s: Annotated[
        float,
        setting(
            "Time since a URL was found and fetched last after which its record goes to a cold"
            " file, if no fetch of it is due for as long; 0 keeps all records in the tables.",
            ge=0,
        ),
    ] = 0.0
    return_after_s: Annotated[
        float,
        setting(
            "Time for which a URL must be cold before a link to it brings it back to be fetched.",
            ge=0,
        ),
    ] = 7776000.0
    least_records: Annotated[
        int,
        setting(
            "Minimum number of records in a cold file; fewer of a partition stay in its table.",
            ge=1,
            le=8192,
        ),
    ] = 1000


class EarlierSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Earlier crawls, whose bodies are not stored again (docs/earlier-crawls.md)."""

    archives: Annotated[
        tuple[str, ...],
        setting(
            "Crawl folders, CDXJ files and folders of these, at most 64: a body that they have is"
            " stored as a revisit of their record."
        ),
    ] = ()
    warcs: Annotated[
        tuple[str, ...],
        setting(
            "Folders in which the WARC files of these indexes are, or in their warc/ or archive/;"
            " those of a crawl folder, and files next to an index, are found without it."
        ),
    ] = ()
    check_every: Annotated[
        int,
        setting(
            "One of so many bodies that an archive has is compared with the archive's, byte by"
            " byte; 0 compares none.",
            ge=0,
        ),
    ] = 100
    outbackcdx: Annotated[
        str,
        setting(
            "URL of a collection of OutbackCDX that is asked for earlier captures of each page, as"
            " http://cdx.example:8080/web; empty asks none."
        ),
    ] = ""
    push: Annotated[
        str,
        setting(
            "URL of a collection of OutbackCDX that gets the index lines of each segment when it"
            " is closed; empty pushes none."
        ),
    ] = ""
    timeout_s: Annotated[float, setting("Time for one question to OutbackCDX.", gt=0, le=60)] = 2.0
    allow_addresses: Annotated[
        tuple[str, ...],
        setting(
            "Special-purpose address ranges (CIDR) at which these services may be, as 10.0.0.0/8;"
            " without them only public addresses."
        ),
    ] = ()


class WebhookSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """URLs that get the list of pages that are new, changed, gone or back (docs/exporters.md)."""

    urls: Annotated[
        tuple[str, ...],
        setting("https URLs that get what changed, each all of it, in order; at most 16."),
    ] = ()
    secret_file: Annotated[
        str,
        setting(
            "File with the secret that requests are signed with: `whsec_` and base64, or at least"
            " 24 characters of text. In a settings file it is relative to that file's folder."
        ),
    ] = ""
    kinds: Annotated[
        tuple[str, ...],
        setting("Only these changes: new, changed, gone, back; empty sends all."),
    ] = ()
    batch: Annotated[int, setting("Maximum number of changes in a request.", ge=1, le=1000)] = 100
    timeout_s: Annotated[float, setting("Time for one request.", gt=0, le=300)] = 15.0
    max_wait_s: Annotated[
        float,
        setting("Longest wait after a failure; the first is 1 s, each further one twice it.", ge=1),
    ] = 3600.0
    allow_addresses: Annotated[
        tuple[str, ...],
        setting(
            "Special-purpose address ranges (CIDR) that requests may go to, as 10.0.0.0/8; without"
            " them only public addresses."
        ),
    ] = ()
    allow_http: Annotated[
        bool,
        setting("Allow http URLs of loopback addresses, for tests and programs on this machine."),
    ] = False
