"""A run over a crawl folder that carries out an operator's decision about a host.

It fetches nothing.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lycosa.base.calls import CallRefusal, DecisionAnswer, HostDecision, decode_reply, encode_call
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl
from lycosa.processes.idle_run import idle_worker


async def decide_host(folder: Path, decision: HostDecision) -> DecisionAnswer:
    """Carry out the decision and commit it.

    Raises ``InvalidUrl`` when the host is none, the errors of ``Session``, and ``ManifestError``
    when the folder is not a crawl.
    """
    async with idle_worker(folder) as assembled:
        host = assembled.intake.host_named(decision.host)
        partition = assembled.intake.partition_of_host(host)
        answering = asyncio.create_task(
            assembled.calls.answer_call(partition, encode_call(decision))
        )
        await asyncio.sleep(0)
        while not answering.done():
            await assembled.worker.committer.commit()
            await asyncio.wait([answering], timeout=0.05)
        await assembled.worker.committer.finish()
        reply = decode_reply(answering.result())
        if isinstance(reply, CallRefusal):
            raise InvalidUrl(Reason.UNPARSABLE, decision.host, reply.reason)
        assert isinstance(reply, DecisionAnswer)
        return reply
