"""The promises of the features, each as an oracle that looks at what was done and not at how it was decided."""

from collections.abc import Iterator

from jobcommon.api import labels
from jobcommon.api.replica import parse_indexes
from jobcommon.api.status import JOB_CONDITIONS, ConditionType
from jobcommon.framework import FINALIZER
from jobcommon.reconcile.slots import is_spare
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.invariants import ENDS
from jobcommon.testutil.members import Members

SLACK = 15.0
CONFIRM = 15.0
LONGEST_DELAY = 60.0
START_SECONDS = 900.0
_SHOWN = {ConditionType.SUSPENDED: "Suspended", ConditionType.SUCCEEDED: "Complete", ConditionType.FAILED: "Failed"}


class Oracles:
    """All of them, for one history. `look` is called whenever the world has come to rest."""

    def __init__(self, world: ClusterModel) -> None:
        self.world, self.uid, self.members = world, world.job.uid, Members(world)
        self.since: dict[str, float] = {}
        self.ended = ""
        self.succeeded: tuple[int | None, dict[str, frozenset[int]]] = (None, {})
        self.final: list[tuple[str, str, str | None]] = []
        self.best = 0
        self.incidents_then = 0

    def look(self) -> Iterator[str]:
        """What is broken now."""
        if self.world.job.uid != self.uid:
            self.__init__(self.world)  # type: ignore[misc]
        yield from self.safe()
        yield from self._vacancies()
        yield from self._progress()
        yield from self._pending()
        yield from self._lost_pods()
        yield from self._quota()
        yield from self._sizes()
        yield from self._as_read_by_others()
        yield from self.members.look()
        if self.world.truth.permanent and not self.world.job.status.finished:
            yield f"permanent: a replica has failed for good, and the job is {self.world.current}"

    def safe(self) -> Iterator[str]:
        """What is broken although it must hold at every moment."""
        yield from self._counts()
        yield from self._always()
        yield from self._successes()
        yield from self._final()
        yield from self.members.safe()

    @property
    def _idle(self) -> bool:
        """Whether the job is not to have pods."""
        job = self.world.job
        return job.status.finished or job.suspended or job.status.has(ConditionType.SUSPENDED)

    def _lasts(self, what: str, holds: bool) -> float:
        """For how many seconds that has been so."""
        if not holds:
            self.since.pop(what, None)
            return 0.0
        return self.world.now - self.since.setdefault(what, self.world.now)

    def _counts(self) -> Iterator[str]:
        status, truth = self.world.job.status, self.world.truth
        if (status.disruptions or 0) > truth.by_others:
            yield f"own-deletion: {status.disruptions} disruptions, but others ended {truth.by_others} pods"
        deadlines = self.world.job.run_policy.stall_action or self.world.job.run_policy.pending_deadline_action
        charged = sum(replicas.charged for replicas in status.replica_statuses.values())
        if charged > truth.failed_runs and not deadlines:
            yield f"charged: {charged} failed runs are charged, {truth.failed_runs} were"
        if status.progress is not None and (status.progress.highest_step or 0) > self.best:
            self.best, self.incidents_then = status.progress.highest_step or 0, truth.incidents
        if self.world.current == ConditionType.FAILED and self.world.reason == "NoProgress":
            since = truth.incidents - self.incidents_then
            if since <= 3:
                yield f"no-progress: failed after {since} incidents without progress, 3 are allowed"

    def _vacancies(self) -> Iterator[str]:
        world, job = self.world, self.world.job
        done = {kind: parse_indexes(s.succeeded_indexes, 100) for kind, s in job.status.replica_statuses.items()}
        vacant = [r for r in job.replicas if job.pod_name(r) not in world.pods and r.index not in done.get(r.type, ())]
        ending = any((pod.view.deletion_time or 0.0) > world.now for pod in world.pods.values())
        seconds = self._lasts("vacant", bool(vacant) and not self._idle and not ending)
        if seconds > LONGEST_DELAY + SLACK:
            message = job.status.conditions[-1].message if job.status.conditions else ""
            if not any(word in message for word in ("wait", "quota", "refused")):
                yield f"vacancy: {vacant[0]} has had no pod for {seconds:.0f} s, and the condition says: {message}"

    def _progress(self) -> Iterator[str]:
        world, program = self.world, self.world.program
        policy, status = world.job.run_policy, world.job.status
        if not world.reports or status.finished or not status.has(ConditionType.RUNNING):
            if status.finished and world.reason == "Stalled" and not self.ended:
                self.ended = "stalled"
                if program.hung_since is None and world.trains:
                    yield "false-stall: failed for a stall while the program works"
            return
        stalled = status.has(ConditionType.STALLED)
        if stalled and program.hung_since is None and world.trains and world.now < program.loaded_at + START_SECONDS:
            yield f"false-stall: Stalled while the program works; it was loaded at +{program.loaded_at - world.now:.0f}"
        if program.hung_since is not None and world.trains and program.reports_in_run > 2:
            late = world.now - (program.hung_since + (policy.progress_deadline_seconds or 0)) - SLACK
            if late > 0 and not stalled:
                yield f"stall: not noticed {late:.0f} s after the deadline"
            if late > CONFIRM + SLACK and policy.stall_action not in (None, "None") and not world.refused:
                yield f"stall-action: {policy.stall_action} has not happened {late:.0f} s after the deadline"

    def _pending(self) -> Iterator[str]:
        world, job = self.world, self.world.job
        seconds = job.run_policy.pending_deadline_seconds
        waiting = [p.view for p in world.pods.values() if not p.view.scheduled and p.view.deletion_time is None]
        births = [pod.creation_time or 0.0 for pod in waiting if not is_spare(pod)]
        if seconds is None or self._idle or not births or world.refused:
            self.since.pop("pending", None)
            return
        self.since["pending"] = since = max(*births, self.since.get("pending", 0.0))
        if world.now > since + seconds + SLACK:
            yield f"pending-deadline: pods have had no node for {world.now - since:.0f} s, pendingDeadlineSeconds is {seconds}"

    def _lost_pods(self) -> Iterator[str]:
        world = self.world
        seconds = world.job.run_policy.node_loss_seconds
        if seconds is None:
            return
        for name, pod in world.pods.items():
            due = pod.view.deletion_time
            if pod.view.owner is not None and pod.view.owner.uid != self.uid:
                continue
            harmless = pod.view.annotations.get(labels.SAFE_TO_DELETE) == "true"
            if due is None or pod.view.uid not in world.silent or not harmless or world.refused:
                continue
            if world.now > due + max(seconds, 10) + SLACK:
                phase = world.current
                yield f"lost-node: {name} is still there {world.now - due:.0f} s after its grace period; the job is {phase}"

    def _quota(self) -> Iterator[str]:
        world = self.world
        living = [p for p in world.pods.values() if p.raw["status"]["phase"] in ("Pending", "Running")]
        if living or not (world.job.status.finished or world.job.suspended):
            return
        for (kind, _), found in world.others.items():
            status = found.get("status") or {}
            finished = any(c["type"] == "Finished" and c["status"] == "True" for c in status.get("conditions") or ())
            if kind == "Workload" and "admission" in status and not finished and str(found["apiVersion"]).startswith("kueue"):
                yield f"quota: a job that is {world.current} keeps its quota without a pod"

    def _sizes(self) -> Iterator[str]:
        world, job = self.world, self.world.job
        scaled = world.framework.scaled_type
        size, asked = job.status.attempt_replicas.get(scaled), job.asked_of(scaled)
        differs = size not in (None, asked) and job.run_policy.elastic is None
        if self._lasts("size", differs and not self._idle) > SLACK and not world.refused:
            yield f"resize: {size} workers, {asked} are asked for"

    def _successes(self) -> Iterator[str]:
        """What is on record as succeeded stays so until the job begins another attempt or is suspended."""
        status = self.world.job.status
        done = {kind: parse_indexes(s.succeeded_indexes, 100) for kind, s in status.replica_statuses.items()}
        attempt, before = self.succeeded
        lost = {kind: sorted(before[kind] - done.get(kind, frozenset())) for kind in before}
        if status.attempt == attempt and any(lost.values()):
            yield f"successes: {lost} are not on record any more; the job is {self.world.current}"
        self.succeeded = status.attempt, done

    def _final(self) -> Iterator[str]:
        """An end is never revised."""
        status = self.world.job.status
        held = [condition for condition in status.conditions if condition.type in ENDS and condition.is_true]
        ends = [(condition.type, condition.reason, status.completion_time) for condition in held]
        if self.final and ends != self.final:
            yield f"final: {self.final} became {ends}"
        self.final = ends

    def _as_read_by_others(self) -> Iterator[str]:
        """A TrainJob's conditions are those of the record, and it is active, so that it keeps its quota, while it has a pod."""
        world, status = self.world, self.world.job.status
        if JOB_CONDITIONS not in world.status:
            return
        held = {one["type"] for one in world.status["conditions"] if one["status"] == "True"}
        if held != (wanted := {shown for kind, shown in _SHOWN.items() if status.has(kind)}):
            yield f"conditions: {held} for {wanted}"
        owned = [pod for pod in world.pods.values() if pod.view.owner is not None and pod.view.owner.uid == self.uid]
        living = any(pod.view.phase in ("Pending", "Running") for pod in owned)
        active = any(one["active"] for one in world.status["jobsStatus"])
        if active != living:
            yield f"active: {world.status['jobsStatus']} is read of pods {sorted(pod.name for pod in owned)}; {world.current}"

    def _always(self) -> Iterator[str]:
        job = self.world.job
        for kind, spec in job.replica_specs.items():
            status = job.status.replica_statuses.get(kind)
            served = spec.restart_policy == "Always" and self.world.framework.serves(kind) and not job.status.finished
            if served and status is not None and status.succeeded:
                yield f"always: {kind} is on record as succeeded although its restartPolicy is Always"

    def at_end(self) -> Iterator[str]:
        """What is broken once every obstacle is out of the way and the programs end."""
        world = self.world
        if any(spec.restart_policy == "Always" for spec in world.job.replica_specs.values()):
            return  # Its programs never end.
        if world.current not in ("Succeeded", "Failed"):
            yield f"end: the job is {world.current}: {world.job.status.conditions[-1].message}"
            return
        held = [name for name, pod in world.pods.items() if FINALIZER in pod.raw["metadata"].get("finalizers", ())]
        ended = [n for n in held if world.pods[n].raw["status"]["phase"] in ("Succeeded", "Failed")]
        if ended:
            yield f"released: {ended} have ended and keep our finalizer"
