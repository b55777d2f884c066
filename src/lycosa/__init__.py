"""Lycosa: a polite, crash-safe web crawler. The names here are stable; all others may change.

They are loaded on first use, because the command line and the parse child import parts of the
package and should not load all of it.
"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.admit.refusal import Refusal
    from lycosa.config.sections import Config
    from lycosa.config.sources import SettingsError, settings
    from lycosa.folder.seed_sources import SeedSource
    from lycosa.model.discovered import Discovered, LinkKind
    from lycosa.model.page import Page
    from lycosa.processes.crawl import Crawl, Report
    from lycosa.reasons import Reason
else:
    __getattr__ = late_names(
        __name__,
        {
            "admit.refusal": "Refusal",
            "config.sections": "Config",
            "config.sources": "SettingsError settings",
            "processes.crawl": "Crawl Report",
            "model.discovered": "Discovered LinkKind",
            "model.page": "Page",
            "reasons": "Reason",
            "folder.seed_sources": "SeedSource",
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
