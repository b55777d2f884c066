"""Histories in which workers cannot run on some machines for a while, for reasons of these machines:
an address is away, a disk fails, there are too many open files.
"""

from __future__ import annotations

import asyncio
import errno
import os

from lycosa.base.messages.worker_messages import Failed
from lycosa.processes.failures import failure_of
from nodes.history import NodesHistory

_REASONS = (errno.EADDRNOTAVAIL, errno.ENOSPC, errno.EIO, errno.EMFILE, errno.ENETDOWN)


class ShakyHistory(NodesHistory):
    """Up to all machines at once lack something; those that have it take the shards."""

    async def _trouble(self) -> None:
        breaking = self.world.spawn(self._break())
        await super()._trouble()
        breaking.cancel()
        for machine in self.world.living():
            machine.lacks = 0

    async def _break(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(5.0, 30.0))
            machine = self._any()
            if machine is None or machine.lacks or machine.hangs:
                continue
            machine.lacks = self.chance.choice(_REASONS)
            self._tell(f"break {machine.name}: {errno.errorcode[machine.lacks]}")
            for shard in list(machine.processes):
                if self.chance.random() < 0.5:
                    machine.fail(shard, lack_of(machine.lacks))
            seconds = self.chance.choice((3.0, 30.0, 120.0))
            asyncio.get_running_loop().call_later(seconds, setattr, machine, "lacks", 0)

    def judge(self) -> None:
        super().judge()
        assert self.world.faults["break"], "no machine lacked anything"


def lack_of(number: int) -> Failed:
    """How a worker ends on a machine that lacks something."""
    return failure_of(OSError(number, os.strerror(number)), is_on_cluster=True)
