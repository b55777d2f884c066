"""Errands: requests for the redirect target of another host's robots.txt.

When a robots.txt redirects to another URL, the owner of that URL's host is asked to request it, in
a turn of that host:

    a robots.txt redirects -> question (in the asking host's record) -> errand -> the owner's
    partition: queue of its host -> one request in the host's turn -> answer -> the question is
    closed: the file is known, or the next redirect is asked for

Both ends are rows of the partitions' tables, which change in the commit of what caused them.
Between partitions of different workers errands and answers travel in parcels, so a crash of either
side loses neither. Between hosts of one worker they take the same way without parcels. The asking
host holds no slot meanwhile. It is snoozed or on the workbench, and the answer recalls it. An
errand waits only for the rest of its host. It does not wait for the host's own robots.txt, so two
hosts whose files redirect to each other both get their answer.

**Bounds.** At most ``MAX_WAITING`` askers wait at one host. All others are refused at once: their
robots.txt counts as unreachable and they ask again later. A host runs an errand at most every
second turn while it also has URLs to fetch. A question has a deadline.
"""

from __future__ import annotations

from functools import partial

import msgspec

from lycosa.base.model.fetched import Fetched
from lycosa.base.model.parcel_items import MAX_URL_CHARS, Answer, Asker, Errand, Question
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of, robots_url
from lycosa.stages.frontier.errand_queue import (
    MAX_WAITING,
    drop_question,
    find_errand,
    find_question,
    has_question,
    is_for_key,
    put_question,
    with_asker,
)
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState, VisitState
from lycosa.stages.politeness.robots_cache import RobotsAnswer
from lycosa.stages.schedule.fetch_outcome import REDIRECTS
from lycosa.worker.intake.intake import LINKS_AT_ONCE
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.request_slots import Slot
from lycosa.worker.visit.host_robots import Learned, Robots, robots_capture
from lycosa.worker.visit.pacing import HostRest
from lycosa.worker.visit.robots_reader import earlier
from lycosa.worker.visit.set_aside import snooze
from lycosa.worker.visit.worker_stages import Stages

MAX_HOPS = 5
"""Maximum number of redirects of one robots.txt that are followed (RFC 9309 §2.3.1.2)."""
PATIENCE_S = 120.0
"""Time after which an origin with an open question counts as unreachable.

So does an origin whose answer is known to take longer.
"""
LATE_S = 2 * 86_400.0
"""Time for which a late answer is still accepted."""

_WAITS = frozenset({Reason.ROBOTS_ELSEWHERE, Reason.ROBOTS_UNREACHABLE})


class Errands:
    """One per worker.

    Errands and answers for partitions of other workers leave by ``outgoing``.
    """

    def __init__(self, stages: Stages, robots: Robots, outgoing: OutgoingParcels) -> None:
        self._robots, self._outgoing = robots, outgoing
        self._frontier, self._intake, self._store = stages.frontier, stages.intake, stages.store
        self._pacing, self._slices = stages.pacing, stages.slices
        self._clock, self._time = stages.clock, stages.clock.time

    @property
    def asking(self) -> int:
        """Number of open questions of this worker's hosts."""
        return sum(partition.counters.asking for partition in self._frontier.partitions.values())

    def deliver_item(self, destination: int, item: Errand | Answer) -> None:
        """Deliver an errand to a host of an owned partition, or an answer to a host that asked."""
        partition = self._frontier.partitions[destination]
        if isinstance(item, Errand):
            self._receive_errand(partition, item)
        else:
            self._receive_answer(partition, item)

    def _post(self, source: Partition, destination: int, item: Errand | Answer) -> None:
        if destination in self._frontier.partitions:
            self.deliver_item(destination, item)
        else:
            self._outgoing.post_errand(source.number, destination, item)

    # -- the host that asks

    def open_question(self, host: VisitState, secure: bool) -> Question | None:
        """The question whose answer an origin waits for.

        ``None`` if there is none or its deadline has passed.
        """
        question = find_question(host.record.questions, secure)
        return None if question is None or question.is_late else question

    def follow_redirect(
        self, host: VisitState, secure: bool, answer: Fetched | Answer, hops: int = 0
    ) -> RobotsAnswer | None:
        """Ask for the target of a robots.txt redirect, the one after ``hops`` others.

        Returns what the redirect means instead when it cannot be followed.
        """
        if hops >= MAX_HOPS:
            return RobotsAnswer(answer.status, reason=Reason.TOO_MANY_REDIRECTS)
        try:
            url = self._intake.canonical(answer.location, answer.url) if answer.location else ""
        except InvalidUrl as error:
            return RobotsAnswer(answer.status, reason=Reason.BAD_REDIRECT, detail=str(error))
        if not url or len(url) > MAX_URL_CHARS:
            return RobotsAnswer(
                answer.status,
                reason=Reason.BAD_REDIRECT,
                detail="longer than an errand may be" if url else "",
            )
        partition = self._frontier.partitions[host.partition]
        partition.counters.asked += 1
        # The number tells a late answer to an earlier question from one to this question.
        question = Question(
            secure, partition.counters.asked, url, hops + 1, self._time() + PATIENCE_S
        )
        put_question(partition, host, question)
        # Before the errand is posted: a host of this worker may answer within that call.
        self.wait_for_answer(host, question)
        asker = Asker(partition.number, host.host8, secure, question.number)
        self._post(partition, self._intake.partition_of_host(host_of(url)), Errand(url, (asker,)))
        return None

    def wait_for_answer(self, host: VisitState, question: Question) -> None:
        """Let the host wait for an answer."""
        detail = f"robots.txt redirects to {question.url}, which waits for its turn"
        self._set_wait(host, question.deadline, Reason.ROBOTS_ELSEWHERE, detail)

    def _receive_answer(self, partition: Partition, answer: Answer) -> None:
        """Handle an answer.

        A further redirect is asked for at once. The host's next turn takes in anything else.
        """
        for asker in answer.askers:
            host = partition.visits.find_host(asker.host8)
            question = (
                find_question(host.record.questions, asker.secure) if host is not None else None
            )
            if host is None or question is None or question.number != asker.number:
                continue  # it was answered already, or the origin has asked another question
            # Times ahead of ours would look as if our clock had been set back. Times behind ours
            # are harmless: the file expires earlier.
            ahead_s = max(answer.time - self._time(), 0.0)
            until = answer.until - ahead_s if answer.until else 0.0
            heard = msgspec.structs.replace(answer, askers=(), robots=b"", until=until)
            if answer.robots:
                robots = earlier(answer.robots, ahead_s) if ahead_s else answer.robots
                self._robots.adopt_file(partition, host, asker.secure, robots)
            elif answer.status in REDIRECTS:
                means = self.follow_redirect(host, asker.secure, answer, question.hops)
                if means is None:
                    continue
                heard = msgspec.structs.replace(
                    heard, status=means.status, reason=means.reason, detail=means.detail
                )
            put_question(
                partition, host, msgspec.structs.replace(question, heard=heard, is_late=True)
            )
            # A host that waits for another reason, as a pause or a retry, keeps that wait.
            if host.record.state is HostState.SNOOZED and host.record.reason in _WAITS:
                self._set_wait(host, 0.0)

    async def take_in_answer(self, host: VisitState) -> None:
        """Take in the answers to the host's questions, and close questions past their deadline.

        This is the first step of a host's turn.
        """
        partition = self._frontier.partitions[host.partition]
        for question in host.record.questions:
            if question.heard is not None:
                await self._take_in(partition, host, question, question.heard)
            # A deadline further ahead than any that we set comes from a clock that was wrong.
            elif (
                0 < question.deadline - self._time() <= (LATE_S if question.is_late else PATIENCE_S)
            ):
                continue
            elif question.is_late:
                drop_question(partition, host, question.secure)
            else:
                detail = f"{question.url}: no answer within {PATIENCE_S:.0f} s"
                await self._give_up(partition, host, question, detail)

    async def _take_in(
        self, partition: Partition, host: VisitState, question: Question, heard: Answer
    ) -> None:
        secure = question.secure
        if heard.until:
            await self._give_up(
                partition, host, question, f"{question.url}: its host rests", heard.until
            )
            return
        learned: Learned | None
        if heard.reason or heard.status in REDIRECTS:
            means = RobotsAnswer(heard.status, reason=heard.reason, detail=heard.detail)
            learned = await self._robots.judge_failure(partition, host, secure, means)
        else:
            learned = await self._robots.adopted_file(partition, host, secure)
        # The lines before awaited, and the question may have been answered or replaced meanwhile.
        if not has_question(host, question):
            return
        drop_question(partition, host, secure)
        if learned is not None:
            self._robots.keep_learned(partition, host, secure, learned)
            self._pacing.apply_crawl_delay(host)
            await self._take_sitemaps(host, secure, learned)

    async def _give_up(
        self,
        partition: Partition,
        host: VisitState,
        question: Question,
        detail: str,
        until: float = 0.0,
    ) -> None:
        """Treat the origin as unreachable for now, because the answer takes too long."""
        answer = RobotsAnswer(0, reason=Reason.TOTAL_TIMEOUT, detail=detail)
        learned = await self._robots.judge_failure(partition, host, question.secure, answer, until)
        # The line before awaited, and an answer may have arrived meanwhile.
        if has_question(host, question):
            # The question stays open: an answer that arrives late still ends the unreachable state
            # early.
            late = msgspec.structs.replace(
                question, is_late=True, deadline=self._time() + LATE_S, heard=None
            )
            put_question(partition, host, late)
            self._robots.keep_learned(partition, host, question.secure, learned)

    async def _take_sitemaps(self, host: VisitState, secure: bool, learned: Learned) -> None:
        """Discover the sitemaps that the file names."""
        url = robots_url(host.name, secure)
        start = partial(self._intake.sitemap_steps, host, learned.sitemaps, url)
        await self._slices.take(url, start, is_long=len(learned.sitemaps) > LINKS_AT_ONCE)

    def _set_wait(
        self, host: VisitState, until: float, reason: Reason = Reason.NONE, detail: str = ""
    ) -> None:
        """Let the host's own URLs wait until a crawl time, or only for the host's rest (0)."""
        partition, record = self._frontier.partitions[host.partition], host.record
        if not host.may_wait:
            return
        # The earlier wait was for this question, so only the pause after a request remains.
        record.next_at, host.next_time = record.rests_until, host.rest_time
        if until:
            snooze(partition, host, until, (reason, detail), self._clock)
        else:
            partition.set_aside_hosts.wake(host)
        partition.visits.mark_changed(host)
        self._frontier.recall_host(host)

    # -- the host that is asked

    def _receive_errand(self, partition: Partition, errand: Errand) -> None:
        host8, time = hash8(host_of(errand.url)), self._time()
        host = partition.visits.find_host(host8)
        stored = (
            self._robots.fresh_answer(partition, host, errand.url) if host is not None else None
        )
        if stored is not None:
            self._reply(partition, errand, Answer((), errand.url, robots=stored))
            return
        # The host may be unknown and out of scope: the errand does not depend on the scope.
        host = host or partition.find_or_add_host(host8, errand.url)
        for asker in errand.askers:
            waiting = with_asker(host.record.errands, errand.url, asker)
            if waiting is None:
                detail = f"{MAX_WAITING} requests for other hosts wait at {host.name}"
                self._reply(
                    partition,
                    Errand(errand.url, (asker,)),
                    Answer((), errand.url, reason=Reason.ERRAND_LIMIT, detail=detail),
                )
                continue
            host.record.errands = waiting
            # The asker would wait in vain for its whole patience, so it learns of the rest at once.
            if host.record.rests_until - time > PATIENCE_S:
                self._reply(
                    partition,
                    Errand(errand.url, (asker,)),
                    Answer((), errand.url, until=host.record.rests_until),
                )
        partition.visits.mark_changed(host)
        # The host may wait for a later time, and the errand is due now.
        self._frontier.recall_host(host)

    async def next_errand(self, host: VisitState) -> Errand | None:
        """The next errand of the host that needs a request.

        Errands whose file has become known meanwhile are answered without a request.
        """
        partition = self._frontier.partitions[host.partition]
        for errand in host.record.errands:
            if is_for_key(errand):
                continue
            secure = errand.url.startswith("https:")
            if errand.url == robots_url(host.name, secure):
                await self._robots.load_origin(partition, host, secure)
            stored = self._robots.fresh_answer(partition, host, errand.url)
            if stored is None:
                return errand
            self.answer_askers(host, Answer((), errand.url, robots=stored))
        return None

    async def run_errand(
        self, host: VisitState, errand: Errand, slot: Slot, rest: HostRest
    ) -> bool:
        """Send one request, store its record, and answer all askers. ``slot`` must be taken.

        Returns false when the request was not sent; the errand then stays queued.
        """
        partition, url = self._frontier.partitions[host.partition], errand.url
        fetched = await self._robots.fetch_file(url, slot, rest)
        if fetched.reason is Reason.LEASE_EXPIRED:
            # The next owner of the shard sends the request; the errand is in its table.
            return False
        answer = Answer((), url, fetched.status, fetched.reason, fetched.detail, fetched.location)
        learned = None
        secure = url.startswith("https:")
        if fetched.status and fetched.status not in REDIRECTS:
            record, stored = await self._robots.read_foreign(fetched)
            if record.failures:
                answer = msgspec.structs.replace(answer, reason=record.error, detail=record.detail)
            else:
                answer = msgspec.structs.replace(answer, reason=Reason.NONE, robots=stored)
                if url == robots_url(host.name, secure):  # it is this host's own file as well
                    learned = await self._robots.read_response(partition, host, secure, fetched)
        # No await from here to the answer, so that the record, what it tells about the origin and
        # the answer are in one commit.
        if fetched.status:
            capture = msgspec.structs.replace(
                robots_capture(fetched), site=self._intake.site_of(host.name)
            )
            answer = msgspec.structs.replace(
                answer, record_id=self._store.append_capture(capture).record_id
            )
        if learned is not None:
            self._robots.keep_learned(partition, host, secure, learned)
            rest.decide_delay()
        self.answer_askers(host, answer)
        if learned is not None:
            # After the answer, because many sitemaps are taken in slices, between which others run.
            await self._take_sitemaps(host, secure, learned)
        return True

    def end_key_errand(self, host: VisitState, url: str) -> None:
        """End an errand for a key file; a robots.txt that redirects there asks again later."""
        detail = "it was requested as a key file of its host"
        self.answer_askers(host, Answer((), url, reason=Reason.ERRAND_LIMIT, detail=detail))

    def answer_askers(self, host: VisitState, answer: Answer) -> None:
        """End the errand for ``answer.url``: send the answer to all askers."""
        errand = find_errand(host.record.errands, answer.url)
        if errand is None:
            return  # its askers have asked another question since
        host.record.errands = tuple(each for each in host.record.errands if each is not errand)
        partition = self._frontier.partitions[host.partition]
        partition.visits.mark_changed(host)
        self._reply(partition, errand, answer)

    def _reply(self, partition: Partition, errand: Errand, answer: Answer) -> None:
        for number in sorted({asker.partition for asker in errand.askers}):
            askers = tuple(asker for asker in errand.askers if asker.partition == number)
            self._post(
                partition, number, msgspec.structs.replace(answer, askers=askers, time=self._time())
            )
