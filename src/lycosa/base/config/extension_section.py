"""The settings of users' code."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lycosa.base.config.setting import setting


class ExtensionSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Users' code: what is active, what may run on this machine, and how long a call may take.

    ``code`` and ``allow`` are not taken from an earlier run: each start names them.
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
