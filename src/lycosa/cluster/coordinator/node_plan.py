"""What a node does: which workers it starts, stops and restarts, and what it reports.

It is pure; the caller manages the processes:

    STARTING -> RUNNING -> ENDED            the crawl is over
        |         |-> STOPPING -> (gone)    the shard is no longer this node's
        |         |-> WAITING -> STARTING   its process died, or cannot run here: restart, by the
        |         |                         rules below
        |         |-> ASKING -> STARTING    fenced, or an append of unknown outcome: restart under
        |         |                         a greater assignment number
        `---------`-> FAILED                a restart would not help

A node obeys the coordinator with the greatest number that it has received, tells others of that
number, and follows that coordinator's newest list. Without a coordinator it keeps running what it
runs. A death is a process that ended without a reason, or for lack of memory or threads. Only a
death may make URLs suspects. After the first death the process is restarted at once, after later
ones following a pause that doubles while no commit is made in between. After ten such deaths in a
row the worker has failed.

A worker that cannot run for a reason of this machine is started again without end, after pauses
that double to half a minute. The report says so, and the coordinator takes the shard away when
another node can have it. The same is said of a worker that died too often.
"""

from __future__ import annotations

from lycosa.base.messages.coordinator_messages import (
    Assignments,
    NodeReport,
    Relay,
    Said,
    ShardReport,
    ShardState,
    Superseded,
    ToNode,
)
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import (
    AllowedCode,
    Ended,
    Failed,
    FromWorker,
    Stop,
    WorkerStatus,
)
from lycosa.base.model.code_version import CodeVersion, code_refusal
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.base.model.end import End
from lycosa.cluster.coordinator.node_acts import (
    Died,
    GiveUp,
    Machine,
    NodeAct,
    Note,
    Reply,
    ShardRun,
    StartWorker,
    TellCoordinator,
    TellWorker,
)

MAX_DEATHS = 10
"""Maximum number of deaths in a row without a commit in between."""
CAREFUL_DEATHS = 3
"""After that many such deaths the next process starts carefully."""
REPORT_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0  # before a restart after a death without a commit
_UNABLE_SKIPS = 2  # the pauses that are too short for a machine that lacks something
_OURS = "lycosa.state.commit."
_NO_DEATH = ("Fenced", "OutcomeUnknown")
_ALIVE = (ShardState.STARTING, ShardState.RUNNING, ShardState.STOPPING)


class NodePlan:
    """The plan of one node.

    ``began`` is when its program started, by its wall clock; it identifies this run of the program.
    It runs at most ``most_shards`` shards at the same time (0 = any number).
    """

    def __init__(self, began: float, most_shards: int = 0) -> None:
        self.coordinator = 0
        self.deaths = 0
        self.end: Stop | None = None
        self.is_abandoned = self.is_leaving = False
        self.is_over = False
        """The coordinator said that all shards of the crawl have ended."""
        self.protocol = PROTOCOL
        self.code: dict[str, CodeVersion] = {}
        """The user code that the crawl runs, as the coordinator told last."""
        self.allowed: tuple[str, ...] = ()
        """The digests of user code that this machine allows and has; see ``allow``."""
        self._began = began
        self._max_shards = most_shards
        self._serial = 0
        self._left = 0  # the serial of the report that nothing runs any more
        self._obeyed = 0
        self._upon = 0
        self._notice = ""
        self._wanted: dict[int, int] = {}
        # the greatest assignment numbers received; no lower one is followed
        self._greatest: dict[int, int] = {}
        self._processes: dict[int, int] = {}  # the number of processes started, by shard
        self._runs: dict[int, ShardRun] = {}
        self._machine: Machine | None = None
        self._next_report = 0.0
        self._is_changed = False
        self._echo = (0.0, 0.0)  # ``Assignments.at``, and when the message came

    def __repr__(self) -> str:
        return (
            f"<NodePlan {self._began:.0f} coordinator={self.coordinator}"
            f" { ({s: r.state.value for s, r in self._runs.items()}) }>"
        )

    @property
    def alive(self) -> list[int]:
        """Shards that have a process."""
        return [shard for shard, run in self._runs.items() if run.state in _ALIVE]

    @property
    def not_running(self) -> list[int]:
        """Shards that were given to this node and neither run nor have ended with the crawl."""
        good = (ShardState.RUNNING, ShardState.ENDED)
        given = {shard for shard in self._wanted if self._wanted_now(shard)}
        runs = {shard for shard, run in self._runs.items() if run.state in good}
        return sorted(given - runs)

    def has_shard(self, shard: int) -> bool:
        return shard in self._runs

    def greeting(self, shard: int) -> Stop | None:
        """The message for a new process of the shard after its job."""
        run = self._runs[shard]
        return Stop(End.STOPPED.value) if run.state is ShardState.STOPPING else self.end

    def allow(self, digests: tuple[str, ...], now: float) -> list[NodeAct]:
        """Allow exactly this user code from now on; workers and coordinator get them."""
        if digests == self.allowed:
            return []
        self.allowed, self._is_changed = digests, True
        told: list[NodeAct] = [TellWorker(shard, AllowedCode(digests)) for shard in self.alive]
        return told + self._report_change(now)

    @property
    def code_objection(self) -> str:
        """Why no worker may start here: this machine lacks code that the crawl runs."""
        return code_refusal(self.code, self.allowed)

    def abandon(self, now: float) -> list[NodeAct]:
        """Restart nothing from now on: the processes are about to be killed."""
        self.is_abandoned = self._is_changed = True
        for run in self._runs.values():
            if run.state in (ShardState.WAITING, ShardState.ASKING):
                self._over(run, End.STOPPED.value)
        return self._report_change(now)

    def leave(self, now: float) -> list[NodeAct]:
        """Stop all workers in order, so that other nodes can run their shards without a hold.

        Nothing is started from now on. ``has_left`` says when the node may end.
        """
        self.is_leaving = self._is_changed = True
        acts: list[NodeAct] = []
        for shard, run in list(self._runs.items()):
            if run.state in (ShardState.STARTING, ShardState.RUNNING):
                run.state = ShardState.STOPPING
                acts.append(TellWorker(shard, Stop(End.STOPPED.value)))
            elif run.state is not ShardState.STOPPING:
                del self._runs[shard]
        return acts + self._report_change(now)

    @property
    def has_left(self) -> bool:
        """Whether the node runs nothing and the coordinator has answered a report that says so."""
        return 0 < self._left <= self._upon

    # -- the coordinator

    def handle_message(self, message: ToNode, now: float) -> list[NodeAct]:
        # A coordinator that does not know yet that it has a successor.
        if message.coordinator < self.coordinator:
            return [Reply(Superseded(self.coordinator))]
        if message.coordinator > self.coordinator:
            self.coordinator, self._obeyed, self._upon = message.coordinator, 0, 0
            self._echo = (0.0, 0.0)
        if isinstance(message, Relay):
            run = self._runs.get(message.shard)
            # Meant for another owner: a permit or a setting of an earlier term must not reach this
            # one.
            if run is None or run.term != message.term or run.state is not ShardState.RUNNING:
                return []
            return [TellWorker(message.shard, message.message)]
        return self._follow(message, now)

    def _follow(self, message: Assignments, now: float) -> list[NodeAct]:
        # Overtaken on the way by a newer list.
        if (message.version, message.upon) < (self._obeyed, self._upon):
            return []
        self._is_changed = self._is_changed or message.version > self._obeyed
        self._echo = (message.at, now)
        self._obeyed, self._upon, self._wanted = message.version, message.upon, dict(message.shards)
        self.is_over, self.code = message.is_over, message.code
        acts = self._receive_notice(message.notice)
        end = Stop(message.end, message.at_once) if message.end else None
        if end is not None and end != self.end:
            acts += [
                TellWorker(shard, end)
                for shard, run in self._runs.items()
                if run.state in (ShardState.STARTING, ShardState.RUNNING)
            ]
        self.end = end
        for shard in sorted({*self._wanted, *self._runs}):
            acts += self._settle(shard, now)
        return acts + self._report_change(now)

    def _receive_notice(self, notice: str) -> list[NodeAct]:
        """Tell the operator why the node gets no shards, when the reason changes."""
        before, self._notice = self._notice, notice
        if self.is_leaving or _without_numbers(notice) == _without_numbers(before):
            return []
        if notice:
            return [Note(f"this node gets no shards: {notice}")]
        return [Note("this node may have shards again")]

    def _settle(self, shard: int, now: float) -> list[NodeAct]:
        """Bring one shard to the state that the list demands."""
        run, wanted = self._runs.get(shard), self._wanted_now(shard)
        if run is None:
            if not wanted:
                return []
            run = self._runs[shard] = ShardRun()
            return [self._start(shard, run, wanted)]
        if wanted == run.assignment:
            return []
        if not wanted and not (run.known_since and run.known_since <= self._upon):
            return []  # the coordinator did not yet know that the shard is here
        if run.state in (ShardState.STARTING, ShardState.RUNNING):
            run.state, self._is_changed = ShardState.STOPPING, True
            return [TellWorker(shard, Stop(End.STOPPED.value))]
        # Its process is ending; ``_leave`` decides when it has ended.
        if run.state is ShardState.STOPPING:
            return []
        if not wanted:
            del self._runs[shard]
            self._is_changed = True
            return []
        if now < run.due:  # it is restarted after the pause
            self._number(run, shard, wanted)
            run.state = ShardState.WAITING
            return []
        return [self._start(shard, run, wanted)]

    def _wanted_now(self, shard: int) -> int:
        """The assignment under which the shard is this node's, 0 if it is not.

        A list may be older than the assignments received since.
        """
        if self.is_leaving:
            return 0
        wanted = self._wanted.get(shard, 0)
        # An assignment below one that was obeyed is of a list from before; the shard may run
        # elsewhere.
        return wanted if wanted >= self._greatest.get(shard, 0) else 0

    def _start(self, shard: int, run: ShardRun, assignment: int) -> StartWorker:
        self._number(run, shard, assignment)
        run.state, run.term, run.end, run.why = ShardState.STARTING, -1, "", ""
        run.is_local = False
        process = self._processes[shard] = self._processes.get(shard, 0) + 1
        return StartWorker(shard, assignment, process, run.fruitless >= CAREFUL_DEATHS)

    def _number(self, run: ShardRun, shard: int, assignment: int) -> None:
        if assignment != run.assignment:
            run.known_since = 0
        run.assignment = assignment
        self._greatest[shard] = max(assignment, self._greatest.get(shard, 0))
        self._is_changed = True

    # -- workers

    def handle_worker_message(self, shard: int, message: FromWorker, now: float) -> list[NodeAct]:
        """Handle a message of the shard's running process."""
        run = self._runs[shard]
        if isinstance(message, Ended | Failed):
            return []  # handled by ``handle_worker_end``
        if isinstance(message, WorkerStatus) and run.term != message.term:
            run.term, self._is_changed = message.term, True
            run.state = ShardState.RUNNING if run.state is ShardState.STARTING else run.state
        if isinstance(message, Progress):
            # a process that still opens its shard does not know its commits
            run.commits = max(run.commits, message.commits)
        if run.term < 0:
            return []  # a process sends its status first, so this is not from a known owner
        return [
            TellCoordinator(Said(shard, run.assignment, run.term, message)),
            *self._report_change(now),
        ]

    def handle_worker_end(
        self, shard: int, ending: Ended | Failed | Died, now: float
    ) -> list[NodeAct]:
        """Handle the end of the shard's process."""
        run = self._runs[shard]
        self._is_changed = True
        last: list[NodeAct] = []
        if isinstance(ending, Ended) and ending.progress.has_counts and run.term >= 0:
            # Before the report of its end: what it counted since its last report, such as a segment
            # that was damaged when it was sealed, belongs to the summary of the crawl.
            last = [TellCoordinator(Said(shard, run.assignment, run.term, ending.progress))]
        was_stopping = run.state is ShardState.STOPPING
        if self.is_abandoned:
            acts = self._over(run, End.STOPPED.value)
        # Something of this machine, such as its disk: another node may be able to.
        elif isinstance(ending, Failed) and ending.is_local and not ending.is_passing:
            acts = (
                self._leave(shard, run) if was_stopping else self._unable(shard, run, ending, now)
            )
        elif isinstance(ending, Failed) and not ending.is_passing and not _is_no_death(ending):
            run.state, run.why = ShardState.FAILED, ending.text
            acts = [GiveUp(shard, ending)]
        elif was_stopping:
            acts = self._leave(shard, run)
        elif isinstance(ending, Ended):
            acts = self._over(run, ending.end)
        elif isinstance(ending, Failed) and not ending.is_passing:
            acts = self._ask(shard, run, ending, now)
        else:
            acts = self._died(
                shard, run, ending.text if isinstance(ending, Failed) else ending.how, now
            )
        return last + acts + self._report_change(now)

    def _over(self, run: ShardRun, end: str) -> list[NodeAct]:
        run.state, run.end = ShardState.ENDED, end
        return []

    def _leave(self, shard: int, run: ShardRun) -> list[NodeAct]:
        """Release a shard that was stopped for another node, or restart it if it is ours again."""
        if wanted := self._wanted_now(shard):
            return [self._start(shard, run, wanted)]
        del self._runs[shard]
        return []

    def _ask(self, shard: int, run: ShardRun, failed: Failed, now: float) -> list[NodeAct]:
        """Wait for the coordinator's decision after fencing or an append of unknown outcome."""
        run.state, run.why = ShardState.ASKING, failed.text
        run.asked = self._in_row(run, run.asked)
        run.due = now + _pause_s(run.asked)
        return [
            Note(
                f"worker {shard} ended ({failed.text}); it is restarted when the coordinator"
                " assigns the shard again"
            )
        ]

    def _unable(self, shard: int, run: ShardRun, failed: Failed, now: float) -> list[NodeAct]:
        """Try again, after a longer pause each time, unless another node takes the shard."""
        run.state, run.why, run.is_local = ShardState.WAITING, failed.text, True
        run.unable = self._in_row(run, run.unable)
        run.due = now + _pause_s(run.unable + _UNABLE_SKIPS)
        if run.unable > 1:
            return []
        return [
            Note(
                f"shard {shard} cannot run here: {failed.text}; it is tried again, until another"
                " node can take it"
            )
        ]

    def _died(self, shard: int, run: ShardRun, how: str, now: float) -> list[NodeAct]:
        self.deaths += 1
        run.fruitless = self._in_row(run, run.fruitless)
        run.due = now + _pause_s(run.fruitless)
        # No commit in between, so each start met the same cause, and another one would as well.
        if run.fruitless > MAX_DEATHS:
            text = f"worker {shard} died {run.fruitless} times in a row without committing anything"
            text = f"{text} (the last time: {how})" if how else text
            run.state, run.why, run.is_local = ShardState.FAILED, text, True
            return [GiveUp(shard, Failed("WorkerDied", text, ""))]
        run.state, run.why = ShardState.WAITING, how
        note = Note(f"worker {shard} died ({how}); recovering and starting another one")
        return [note, *self._start_when_due(shard, run, now)]

    @staticmethod
    def _in_row(run: ShardRun, before: int) -> int:
        """The number of such ends in a row without a commit in between."""
        # A commit in between shows that the worker got on, so the next death is a new series.
        number = before + 1 if run.commits <= run.last_commits else 1
        run.last_commits = run.commits
        return number

    def _start_when_due(self, shard: int, run: ShardRun, now: float) -> list[NodeAct]:
        if run.state is not ShardState.WAITING or now < run.due or self.is_abandoned:
            return []
        return [self._start(shard, run, run.assignment)]

    # -- time

    def tick(self, now: float, machine: Machine) -> list[NodeAct]:
        """Advance the time; call it several times a second."""
        self._machine = machine
        acts: list[NodeAct] = []
        for shard, run in sorted(self._runs.items()):
            acts += self._start_when_due(shard, run, now)
        if now >= self._next_report:
            self._is_changed = True
        return acts + self._report_change(now)

    def _report_change(self, now: float) -> list[NodeAct]:
        """The report, if something in it is new."""
        if not self._is_changed or self._machine is None:
            return []
        self._is_changed = False
        self._next_report = now + REPORT_S
        self._serial += 1
        for run in self._runs.values():
            # From this report on the coordinator knows the run; an order that answers an earlier
            # one is not about it.
            run.known_since = run.known_since or self._serial
        if self.is_leaving and not self.alive:
            self._left = self._left or self._serial
        shards = [
            ShardReport(shard, run.assignment, run.term, run.state, run.end, run.why, run.is_local)
            for shard, run in sorted(self._runs.items())
        ]
        machine = self._machine
        report = NodeReport(
            self._began,
            self._serial,
            self.coordinator,
            self._obeyed,
            machine.wall,
            machine.free_disk,
            machine.free_memory,
            shards,
            self.protocol,
            self._max_shards,
            is_leaving=self.is_leaving,
            deaths=self.deaths,
            memory=machine.memory,
            # By the time that came and went, the coordinator bounds how far this node's clock is
            # ahead.
            echo=self._echo[0],
            echo_age_s=now - self._echo[1],
            code=self.allowed,
        )
        return [TellCoordinator(report)]


def _pause_s(ends: int) -> float:
    """The pause before a restart after so many ends in a row.

    The cause may pass, as a lack of memory does.
    """
    return min(_FIRST_PAUSE_S * 2.0 ** (ends - 2), _LONGEST_PAUSE_S) if ends > 1 else 0.0


def _without_numbers(text: str) -> str:
    """The text by which two notices are the same, although a measured value differs."""
    return "".join(each for each in text if not each.isdigit())


def _is_no_death(failed: Failed) -> bool:
    """Whether the worker ended because it was fenced, or for an append of unknown outcome.

    Both are correct ends and not deaths.
    """
    return failed.kind.startswith(_OURS) and failed.kind.rpartition(".")[2] in _NO_DEATH
