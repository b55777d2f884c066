"""The decisions of operators about one partition, and crawl-wide actions, in their order.

Each has a row with a number that grows by one (``K number6``), so a list can be continued after any
of them. The newest ``MAX_ACTIONS`` are kept. What a decision changed is in the records that it
changed, so a row that was dropped is missing only in the list.

A caller that gets no answer calls again with the same id. The log knows the ids of its newest rows,
so the second call has no effect. An action of the whole crawl, such as a pause, is in the log of
the first partition. The coordinator tells the latest ones again with each change, so the log keeps
which it was told last (``M told_actions``).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import SEQ_BYTES, action_key, encode_record, meta_key

ACTIONS = b"K"
MAX_ACTIONS = 10_000
_LAST = meta_key("actions")
_TOLD = meta_key("told_actions")
_REMEMBERED = 1000  # calls whose repetition has no effect


class ActionRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A decision in the table, with its caller's id, the operator and the time in microseconds.

    ``action`` is a word: ``pause``, ``resume`` and ``retire`` of a host, ``retry`` and ``drop`` of
    dead letters, ``reparse`` of documents, ``render`` of pages, ``pause_crawl``, ``resume_crawl``,
    ``stop_crawl``, ``set``, ``set_extension`` and ``seed`` of the crawl. ``subject`` is the host,
    or describes the dead letters, documents, pages, settings, code or seeds. ``changed`` counts
    hosts or URLs; of seeds it is the number that was given. ``rest`` says where a decision about
    dead letters continues, and is empty when it is complete.
    """

    call: str
    by: str
    date_us: int
    action: str
    subject: str
    why: str = ""
    changed: int = 0
    rest: str = ""


decode_action = msgspec.msgpack.Decoder(ActionRow).decode
_decode_calls = msgspec.msgpack.Decoder(list[str]).decode


class DecisionLog:
    """Adds decisions to a partition's table."""

    def __init__(self, table: Overlay) -> None:
        self._table = table
        self._last = int(msgspec.msgpack.decode(table.get(_LAST) or b"\0", type=int))
        self._calls: dict[str, int] | None = None  # number of the row, by the caller's id

    def find(self, call: str) -> ActionRow | None:
        """The row of a call that came before; ``None`` for a new call."""
        number = self._remembered().get(call)
        value = self._table.get(action_key(number)) if number is not None else None
        return decode_action(value) if value is not None else None

    def renew(self, row: ActionRow) -> None:
        """Replace the row of a decision that was continued."""
        self._table.put(action_key(self._remembered()[row.call]), encode_record(row))

    def add(self, row: ActionRow) -> None:
        """Add a decision, and drop the oldest one beyond the bound."""
        calls = self._remembered()
        self._last += 1
        self._table.put(action_key(self._last), encode_record(row))
        self._table.put(_LAST, encode_record(self._last))
        if self._last > MAX_ACTIONS:
            self._table.delete(action_key(self._last - MAX_ACTIONS))
        calls[row.call] = self._last
        if len(calls) > _REMEMBERED:
            del calls[next(iter(calls))]

    def add_crawl_actions(self, rows: Sequence[ActionRow]) -> None:
        """Add the actions of the whole crawl that were not among those told before.

        ``rows`` are the latest actions, oldest first; each is told until newer ones displace it.
        """
        value = self._table.get(_TOLD)
        known = set(_decode_calls(value)) if value is not None else set()
        new = [row for row in rows if row.call not in known]
        for row in new:
            self.add(row)
        if new:
            self._table.put(_TOLD, encode_record([row.call for row in rows]))

    def _remembered(self) -> dict[str, int]:
        """The newest calls, read from the table when they are first needed."""
        if self._calls is None:
            start = action_key(max(self._last - _REMEMBERED, 0))
            rows = self._table.scan(start, ACTIONS + b"\xff" * 7)
            self._calls = {decode_action(row).call: action_number(key) for key, row in rows}
        return self._calls


def action_number(key: bytes) -> int:
    """The number of the decision in a row with this key."""
    return int.from_bytes(key[-SEQ_BYTES:], "big")
