"""Lycosa: a polite, crash-safe web crawler. The names here are stable; all others may change.

They are loaded on first use, because the command line and the parse child import parts of the
package and should not load all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lycosa.base.config.sections import Config
    from lycosa.base.config.sources import SettingsError, settings
    from lycosa.base.messages.progress import Progress
    from lycosa.base.model.code_failure import CodeFailure, FailureNote
    from lycosa.base.model.discovered import Discovered, LinkKind
    from lycosa.base.model.end import End
    from lycosa.base.model.fetched import FetchKind
    from lycosa.base.model.known_code import CodeError
    from lycosa.base.model.parsed import Link
    from lycosa.base.model.remark import Remark
    from lycosa.base.reasons import Reason
    from lycosa.base.signing.signing_key import KeyFileError
    from lycosa.feeds.stored_pages import OpenedCrawl, open
    from lycosa.processes.embedded_crawl import Crawl, Report
    from lycosa.processes.worker_handle import WorkerFailed
    from lycosa.stages.admit.refusal import Refusal
    from lycosa.stages.extract.stored_document import (
        Article,
        Document,
        Element,
        Headers,
        StructuredData,
        document,
    )
    from lycosa.stages.extract.user_code_marks import (
        ItemExtractor,
        LinkFinder,
        LinkScorer,
        extract,
        links,
        score,
    )
    from lycosa.stages.extract.user_item import Item
    from lycosa.stages.parse.page import Page
    from lycosa.state.commit import LogDamaged
    from lycosa.state.folder.lock import CrawlInUse
    from lycosa.state.folder.manifest import IdentityChanged, ManifestError, NewerFormat, NotACrawl
    from lycosa.state.folder.seed_sources import SeedSource
    from lycosa.state.folder.start_check import CommittedDataMissing
    from lycosa.state.kv.kv_port import TableLocked
    from lycosa.state.objects.object_errors import ObjectError
    from lycosa.state.store.damage import StoreDamaged
    from lycosa.state.store.journal import JournalError
    from lycosa.state.store.stored_data import RecordError
else:
    _HOMES = {
        "base.config.sections": "Config",
        "base.config.sources": "SettingsError settings",
        "base.messages.progress": "Progress",
        "base.model.code_failure": "CodeFailure FailureNote",
        "base.model.discovered": "Discovered LinkKind",
        "base.model.end": "End",
        "base.model.fetched": "FetchKind",
        "base.model.known_code": "CodeError",
        "base.model.parsed": "Link",
        "base.model.remark": "Remark",
        "base.reasons": "Reason",
        "base.signing.signing_key": "KeyFileError",
        "feeds.stored_pages": "OpenedCrawl open",
        "processes.embedded_crawl": "Crawl Report",
        "processes.worker_handle": "WorkerFailed",
        "stages.admit.refusal": "Refusal",
        "stages.extract.stored_document": (
            "Article Document Element Headers StructuredData document"
        ),
        "stages.extract.user_code_marks": (
            "ItemExtractor LinkFinder LinkScorer extract links score"
        ),
        "stages.extract.user_item": "Item",
        "stages.parse.page": "Page",
        "state.commit": "LogDamaged",
        "state.folder.lock": "CrawlInUse",
        "state.folder.manifest": "IdentityChanged ManifestError NewerFormat NotACrawl",
        "state.folder.seed_sources": "SeedSource",
        "state.folder.start_check": "CommittedDataMissing",
        "state.kv.kv_port": "TableLocked",
        "state.objects.object_errors": "ObjectError",
        "state.store.damage": "StoreDamaged",
        "state.store.journal": "JournalError",
        "state.store.stored_data": "RecordError",
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


__all__ = [
    "Article",
    "CodeError",
    "CodeFailure",
    "CommittedDataMissing",
    "Config",
    "Crawl",
    "CrawlInUse",
    "Discovered",
    "Document",
    "Element",
    "End",
    "FailureNote",
    "FetchKind",
    "Headers",
    "IdentityChanged",
    "Item",
    "ItemExtractor",
    "JournalError",
    "KeyFileError",
    "Link",
    "LinkFinder",
    "LinkKind",
    "LinkScorer",
    "LogDamaged",
    "ManifestError",
    "NewerFormat",
    "NotACrawl",
    "ObjectError",
    "OpenedCrawl",
    "Page",
    "Progress",
    "Reason",
    "RecordError",
    "Refusal",
    "Remark",
    "Report",
    "SeedSource",
    "SettingsError",
    "StoreDamaged",
    "StructuredData",
    "TableLocked",
    "WorkerFailed",
    "document",
    "extract",
    "links",
    "open",
    "score",
    "settings",
]
