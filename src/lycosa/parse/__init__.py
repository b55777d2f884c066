"""From bytes to values: what a fetched document says, found in a child process that may die of
it.
"""

from __future__ import annotations
