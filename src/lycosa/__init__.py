"""Lycosa: a polite, crash-safe web crawler. The names here are stable; everything else may move.

They are loaded when first asked for: the command line and the parse child import parts of the package and should not pay for all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lycosa.admit.refusal import Refusal
    from lycosa.config import Config
    from lycosa.config_sources import SettingsError, settings
    from lycosa.crawl import Crawl, Report
    from lycosa.model.discovered import Discovered, LinkKind
    from lycosa.model.page import Page
    from lycosa.reasons import Reason
    from lycosa.seed_sources import SeedSource

__all__ = ["Config", "Crawl", "Discovered", "LinkKind", "Page", "Reason", "Refusal", "Report", "SeedSource", "SettingsError", "settings"]

_HOMES = {
    "Config": "lycosa.config",
    "Crawl": "lycosa.crawl",
    "Discovered": "lycosa.model.discovered",
    "LinkKind": "lycosa.model.discovered",
    "Page": "lycosa.model.page",
    "Reason": "lycosa.reasons",
    "Refusal": "lycosa.admit.refusal",
    "Report": "lycosa.crawl",
    "SeedSource": "lycosa.seed_sources",
    "SettingsError": "lycosa.config_sources",
    "settings": "lycosa.config_sources",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lycosa' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
