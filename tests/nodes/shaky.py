"""Workers cannot run on some machines for a while, for reasons of these machines: an address is away,
a disk fails, there are too many open files.
"""

from __future__ import annotations

import asyncio
import errno
import os

from lycosa.base.messages.worker_messages import Failed
from lycosa.processes.failures import failure_of
from nodes.plugin import Plugin

_REASONS = (errno.EADDRNOTAVAIL, errno.ENOSPC, errno.EIO, errno.EMFILE, errno.ENETDOWN)


class Shaky(Plugin):
    """Up to all machines at once lack something; those that have it take the shards."""

    async def disturb(self) -> None:
        history = self.history
        while True:
            await asyncio.sleep(history.chance.uniform(5.0, 30.0))
            machine = history.any_machine()
            if machine is None or machine.lacks or machine.hangs:
                continue
            machine.lacks = history.chance.choice(_REASONS)
            history.tell(f"break {machine.name}: {errno.errorcode[machine.lacks]}")
            for shard in list(machine.processes):
                if history.chance.random() < 0.5:
                    machine.fail(shard, lack_of(machine.lacks))
            seconds = history.chance.choice((3.0, 30.0, 120.0))
            asyncio.get_running_loop().call_later(seconds, setattr, machine, "lacks", 0)

    async def repair(self) -> None:
        for machine in self.world.living():
            machine.lacks = 0

    def judge(self) -> None:
        assert self.world.faults["break"], "no machine lacked anything"


def lack_of(number: int) -> Failed:
    """How a worker ends on a machine that lacks something."""
    return failure_of(OSError(number, os.strerror(number)), is_on_cluster=True)
