"""Lycosa: a polite, crash-safe web crawler. The names here are stable; all others may change.

They are loaded on first use, because the command line and the parse child import parts of the
package and should not load all of it.
"""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.base.config.sections import Config
    from lycosa.base.config.sources import SettingsError, settings
    from lycosa.base.model.discovered import Discovered, LinkKind
    from lycosa.base.reasons import Reason
    from lycosa.processes.embedded_crawl import Crawl, Report
    from lycosa.stages.admit.refusal import Refusal
    from lycosa.stages.parse.page import Page
    from lycosa.state.folder.seed_sources import SeedSource
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "stages.admit.refusal": "Refusal",
            "base.config.sections": "Config",
            "base.config.sources": "SettingsError settings",
            "processes.embedded_crawl": "Crawl Report",
            "base.model.discovered": "Discovered LinkKind",
            "stages.parse.page": "Page",
            "base.reasons": "Reason",
            "state.folder.seed_sources": "SeedSource",
        },
    )

__all__ = [
    "Config",
    "Crawl",
    "Discovered",
    "LinkKind",
    "Page",
    "Reason",
    "Refusal",
    "Report",
    "SeedSource",
    "SettingsError",
    "settings",
]
