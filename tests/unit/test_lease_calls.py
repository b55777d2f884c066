"""Results of outside fetchers on their way to the owners of partitions."""

from __future__ import annotations

import asyncio

from lycosa.base.calls import (
    MOST_LENT,
    Call,
    CallRefusal,
    CallReply,
    GiveResults,
    OutsideResult,
    ResultsTaken,
    ResultTaken,
    ResultVerdict,
)
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.lease_calls import LeaseCalls
from lycosa.service.api.owner_calls import OwnerCalls


class Owners:
    """Owners that take every result, as many in a call as a worker takes."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.under_way = self.most_under_way = 0

    def shard_of(self, partition: int) -> int:
        return partition

    async def call_owner(self, partition: int, call: Call) -> CallReply:
        assert isinstance(call, GiveResults)
        self.calls.append((partition, len(call.results)))
        if len(call.results) > MOST_LENT:
            return CallRefusal(f"a call may have {MOST_LENT}")
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        taken = [ResultTaken(each.lease, ResultVerdict.TAKEN) for each in call.results]
        return ResultsTaken(taken)


async def test_many_results_of_one_partition_are_given_in_pieces() -> None:
    owners = Owners()
    caller_handler = LeaseCalls(OwnerCalls(owners, ApiLimits()), 4)  # type: ignore[arg-type]
    leases = [f"1-{number}" for number in range(950)] + [f"2-{n}" for n in range(49)] + ["no id"]
    verdicts = await caller_handler.give_results("f", [OutsideResult(each) for each in leases])
    assert [each.lease for each in verdicts] == leases
    assert {each.verdict for each in verdicts[:-1]} == {ResultVerdict.TAKEN}
    assert sorted(owners.calls) == [(1, 50), *[(1, 100)] * 9, (2, 49)]
    assert owners.most_under_way == 2, "the pieces of a partition come one after the other"
