"""The name and version of this program, as stored data and requests to coordinators name it.

It is a separate module, because reading the version imports a library that most processes of a
crawl do without.
"""

from __future__ import annotations

from importlib.metadata import version

SOFTWARE = f"lycosa/{version('lycosa')}"
