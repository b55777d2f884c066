"""Errors of connections between machines."""

from __future__ import annotations


class RefusedConnection(ConnectionError):
    """The peer was reached, or could have been, but one side refuses the other.

    The text says what is wrong and what to do. Trying again helps only after an operator has
    changed something.
    """
