"""The log of decisions: one row for a decision, however many owners logged a part of it."""

from __future__ import annotations

import pytest

from lycosa.base.calls import ActionsQuery
from lycosa.service.api.actions_list import listed_actions
from lycosa.service.api.answers import MergedList


class Log:
    """The rows of all owners, newest first, in pieces of at most ``piece``."""

    def __init__(self, rows: list[tuple[str, float, int]], piece: int = 500) -> None:
        self.rows = [
            {"call": call, "date": date, "changed": changed, "partition": number}
            | {"subject": f"{changed} URLs"}
            for number, (call, date, changed) in enumerate(rows)
        ]
        self.piece, self.reads = piece, 0

    async def read(self, query: ActionsQuery) -> MergedList:
        self.reads += 1
        start = int(query.after) + 1 if query.after else 0
        end = min(start + min(query.most, self.piece), len(self.rows))
        marks = [str(number) for number in range(start, end)]
        cursor = marks[-1] if end < len(self.rows) else ""
        return MergedList(self.rows[start:end], cursor, marks=marks)

    async def pages(self, most: int) -> list[list[tuple[str, int, int]]]:
        found, after = [], ""
        while True:
            page = await listed_actions(self.read, ActionsQuery(after, most))
            found.append([(r["call"], r["changed"], r["partitions"]) for r in page.rows])
            after = page.cursor
            if not after:
                return found


BULK = [("bulk", 100.0 - number / 10, number) for number in range(16)]


@pytest.mark.parametrize("piece", [1, 3, 500])
async def test_a_decision_in_many_partitions_is_one_row_with_the_sum(piece: int) -> None:
    pages = await Log([("new", 101.0, 1), *BULK, ("old", 90.0, 1)], piece).pages(10)
    rows = [row for page in pages for row in page]
    assert [call for call, _, _ in rows] == ["new", "bulk", "old"]
    if piece > 1:  # otherwise the reads of a page end before the parts do
        assert rows == [("new", 1, 1), ("bulk", 120, 16), ("old", 1, 1)]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
async def test_pages_have_each_decision_once_also_among_the_parts_of_others(most: int) -> None:
    mixed: list[tuple[str, float, int]] = []
    for number, part in enumerate(BULK):
        mixed += [part, (f"host {number}", part[1] - 0.01, 1)]
        if number % 4 == 3:
            mixed.append(("second bulk", part[1] - 0.02, 5))
    pages = await Log(mixed).pages(most)
    assert all(len(page) == most for page in pages[:-1])
    rows = [row for page in pages for row in page]
    assert len(rows) == len({call for call, _, _ in rows}) == 18
    assert {("bulk", 120, 16), ("second bulk", 20, 4)} <= set(rows)


async def test_the_pieces_of_a_decision_by_the_command_line_are_one_row() -> None:
    one, other = "0123456789abcdef" * 2, "f123456789abcdef" * 2
    rows = [(f"{one}-{number}", 100.0 - number / 10, 1000 - number) for number in range(3)]
    log = Log([*rows, (f"{other}-0", 90.0, 7), ("a-client's-own-1", 80.0, 1)])
    page = await listed_actions(log.read, ActionsQuery("", 10))
    assert [(r["changed"], r["partitions"], r["subject"]) for r in page.rows] == [
        (2997, 3, "chosen URLs"),
        (7, 1, "7 URLs"),
        (1, 1, "1 URLs"),
    ]
