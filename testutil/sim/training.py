"""Programs that train together and report their progress, as those of a scenario with `training` do.

The ranks make their steps together, so none is made unless the main programs of all pods run, and all wait for one that hangs.
The leader reports like the callback of transformers: 0 % when it starts, then its step every few seconds, while it makes any,
and 100 % in the end. A new run begins at the last checkpoint; one is written before each evaluation, and some between. What
really happened is known here, so here a stall that is none is noticed (oracle false-stall).
"""

from collections.abc import Callable, Mapping, Sequence

from jobcommon.api.status import Metric, TrainerStatus
from jobcommon.framework import Framework
from jobcommon.runtime.account_tokens import BoundPod
from jobcommon.runtime.report_server import ReportedJob
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.kubelet import Kubelet
from jobcommon.testutil.sim.scenario import Scenario, Training
from localcluster import ApiServer
from localcluster.model import Change, Item, format_time

TRAINED = "trained"
"""The word that is given when the last step is made."""
LOAD_SECONDS = (2.0, 8.0)
STEP_SECONDS = (0.5, 3.0)
SAVE_EVERY, SAVE_SECONDS = 7, (0.0, 10.0)
REPORT_SECONDS = 5.0
Deliver = Callable[[ReportedJob, BoundPod, TrainerStatus], None]


class Programs:
    """The training of a scenario's one job; reports are given to `deliver`, and what is wrong to `say`."""

    def __init__(
        self,
        server: ApiServer,
        scenario: Scenario,
        training: Training,
        kubelet: Kubelet,
        deliver: Deliver,
        faults: Sequence[Fault],
    ) -> None:
        self._server = server
        self._framework: Framework = scenario.frameworks[0]
        self._job = str(scenario.jobs[0]["metadata"]["name"])
        self._training = training
        self._kubelet = kubelet
        self._draw = kubelet.draw
        # A report that is written late may come after the condition, but never after what follows from it. One that an older
        # definition drops does not come at all.
        self._judged = ("Stalled", "Restarting", "Failed")[any(fault.seconds for fault in faults) :]
        if any(fault.kind == "schema-prunes" for fault in faults):
            self._judged = ()
        self._deliver = deliver
        self._runs: tuple[int, ...] = ()
        self._next_at = self._reported_at = 0.0
        self._step = self._checkpoint = 0
        self._has_hung = False
        self._tells = training.phases and kubelet.draw("phases", 0.0, 1.0) < 0.5
        self.hung_at: float | None = None
        """When the present run began to hang."""
        self.violations: list[str] = []

    def step(self) -> float | None:
        """Do what the programs have done by now."""
        now = self._server.env.now()
        runs = tuple(map(self._kubelet.run_of, self._training.pods))
        if not all(runs):
            self._runs, self.hung_at = (), None
            return None
        if runs != self._runs:
            self._begin(runs, now)
        while self.hung_at is None and self._next_at <= now and self._step < self._training.steps:
            self._make_step(self._next_at)
        return None if self.hung_at is not None or self._step == self._training.steps else self._next_at

    def _begin(self, runs: tuple[int, ...], now: float) -> None:
        self._runs, self._step, self.hung_at = runs, self._checkpoint, None
        self._next_at = now + self._draw(f"load/{runs}", *LOAD_SECONDS)
        self._report(now, 100 if self._step == self._training.steps else 0)

    def _make_step(self, at: float) -> None:
        training = self._training
        self._step += 1
        pause = 0.0
        if self._step == training.hangs and not self._has_hung:
            self._has_hung, self.hung_at = True, at
        elif self._step == training.steps:
            self._checkpoint = self._step
            self._report(at, 100)
            user.tell(TRAINED)(self._server)
            return
        elif self._step % training.every == 0:
            self._checkpoint = self._step
            pause = self._draw(f"evaluation/{self._runs}/{self._step}", training.evaluation / 2, training.evaluation)
            if self._tells:
                self._report(at, 100 * self._step // training.steps, self._step, "evaluate")
        elif self._step % SAVE_EVERY == 0:
            self._checkpoint = self._step
            pause = self._draw(f"save/{self._runs}/{self._step}", *SAVE_SECONDS)
        if at >= self._reported_at + REPORT_SECONDS:
            self._report(at, 100 * self._step // training.steps, self._step)
        self._next_at = at + pause + self._draw(f"step/{self._runs}/{self._step}", *STEP_SECONDS)

    def _report(self, at: float, percentage: int, step: int | None = None, phase: str = "train") -> None:
        self._reported_at = at
        metrics = [] if step is None else [Metric(name="current_step", value=str(step))]
        metrics += [Metric(name="phase", value=phase)] if self._tells else []
        leader = self._server.storage.table("pods").get(user.NAMESPACE, self._training.pods[0])
        if leader is not None:
            report = TrainerStatus(progress_percentage=percentage, metrics=metrics or None, last_updated_time=format_time(at))
            pod = BoundPod(leader.namespace, leader.name, leader.uid)
            self._deliver(ReportedJob(self._framework, leader.namespace, self._job), pod, report)

    def see(self, at: float, change: Change) -> None:
        """Judge a change of the store: whatever is said to have made no progress must hang."""
        if change.table != f"{self._framework.plural}.{self._framework.group}" or self.hung_at is not None:
            return
        before = _holding(change.old) if change.old is not None else {}
        for kind, message in _holding(change.item).items():
            if kind in self._judged and kind not in before and "reported" in message:
                self.violations.append(f"false-stall at {at:.2f}: {kind}, and step {self._step} was made")


def _holding(job: Item) -> Mapping[str, str]:
    """The conditions that hold, with their messages."""
    conditions = (job.obj.get("status") or {}).get("conditions") or ()
    return {one["type"]: one["message"] for one in conditions if one["status"] == "True"}
