"""What must hold while a scenario runs: safety, judged at every change of the store (oracle O3 of reliability.md 4.4).

The watchdog sees what is stored, in order, and who wrote it. It knows nothing of the operators' code.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobcommon.api import labels
from jobcommon.api.job import MAX_REPLICAS
from jobcommon.api.replica import parse_indexes
from jobcommon.framework import FINALIZER, Framework
from jobcommon.testutil.builders import START
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.user import attempt_of, failed_runs, main_failed, main_runs, phase_of, size_of
from localcluster.model import ADDED, DELETED, Change, Item, parse_time

Obj = dict[str, Any]
OVER = ("Succeeded", "Failed")
#: How long ago a wish may have been taken back that an operator still acts on: watches may lag by a minute.
STALENESS_SECONDS = 120.0
#: Times are written in whole seconds.
TOLERANCE = 1.0
MAY_END_SECONDS = 60.0
"""How long a replica may go on by itself after the success of a job without a clean-up policy."""
_NOT_JUDGED = ("events", "events.events.k8s.io", "leases.coordination.k8s.io")


@dataclass
class _Job:
    """What is known of one incarnation of a job."""

    framework: Framework
    obj: Obj
    exists: bool = True
    forged: bool = False
    suspended_at: float = float("-inf")
    failed_runs: int = 0
    """Containers that ended in failure by themselves, as far as the store tells: no deletion was under way."""
    ended_early: int = 0
    """Pods that have ended with exit 0 by themselves; of a type that does not run to completion that is a disruption."""
    disrupted: set[str] = field(default_factory=set)
    """UIDs of the pods that others than an operator have stopped, or that vanished."""
    wanted: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """By type in lower case, the wanted numbers with the times until which they held; the current one is the last."""

    @property
    def status(self) -> Obj:
        return self.obj.get("status") or {}

    @property
    def finished(self) -> bool:
        return _ended(self.status) is not None

    @property
    def deleting(self) -> bool:
        return not self.exists or "deletionTimestamp" in self.obj["metadata"]


class Watchdog:
    """Gets every change of the store in order. `violations` says what was not right; `summary` counts changes by operators."""

    def __init__(self, scenario: Scenario) -> None:
        self.violations: list[str] = []
        self.summary: Counter[tuple[str, str, str]] = Counter()
        self._tables = {f"{f.plural}.{f.group}": f for f in scenario.frameworks}
        self._jobs: dict[str, _Job] = {}
        self._pods: dict[str, Item] = {}

    def see(self, at: float, change: Change, writer: str) -> None:
        """Judge one change, made `at` virtual seconds by ``operator-…`` or another client."""
        ours = writer.startswith("operator")
        if ours and change.table not in _NOT_JUDGED:
            self._count(change)
        framework = self._tables.get(change.table)
        if framework is not None:
            self._judge_job(at, framework, change, ours=ours)
        elif change.table == "pods":
            self._judge_pod(at, change, ours=ours)
        elif ours and change.table not in _NOT_JUDGED:
            self._judge_ownership(at, change)

    def _count(self, change: Change) -> None:
        """A deletion counts when it is asked for; who takes the last finalizer off a terminating object is chance."""
        marked, name = change.old is not None and "deletionTimestamp" in change.old.obj["metadata"], change.item.name
        if not marked and "deletionTimestamp" in change.item.obj["metadata"]:
            self.summary[(DELETED, change.table, name)] += 1
        elif change.type != DELETED or not marked:
            self.summary[(change.type, change.table, name)] += 1

    def say(self, at: float, rule: str, what: str) -> None:
        """Record a violation of `rule`."""
        self.violations.append(f"{rule} at {at:.2f}: {what}")

    # -- jobs -------------------------------------------------------------------------------------------------------------

    def _judge_job(self, at: float, framework: Framework, change: Change, *, ours: bool) -> None:
        item, name = change.item, f"{framework.plural}/{change.item.name}"
        if change.type == ADDED:
            if ours:
                self.say(at, "job-created", f"{name} by an operator")
            self._jobs[item.uid] = job = _Job(framework, item.obj)
            self._note_wishes(at, job, None)
            return
        job = self._jobs.setdefault(item.uid, _Job(framework, item.obj))
        before = job.obj
        deleted = change.type == DELETED or "deletionTimestamp" in item.obj["metadata"]
        if ours and deleted and not job.deleting:
            self._judge_expiry(at, name, job)
        if change.type == DELETED:
            job.exists = False
            return
        if ours and before.get("spec") != item.obj.get("spec"):
            self.say(at, "spec-changed", f"{name} by an operator")
        if (item.obj.get("status") or {}) != (before.get("status") or {}):
            if ours:
                self._judge_status(at, name, job, item.obj.get("status") or {})
            else:
                job.forged = True
        job.obj = item.obj
        self._note_wishes(at, job, before)

    def _note_wishes(self, at: float, job: _Job, before: Obj | None) -> None:
        """Remember what was wished and until when, for operators may be a little behind."""
        if _suspended(job.obj) or (before is not None and _suspended(before)):
            job.suspended_at = at
        counts = _counts(job.framework, job.obj)
        for kind in {*counts, *job.wanted}:
            history, wanted = job.wanted.setdefault(kind, []), counts.get(kind, 0)
            # What cannot be read takes no wish back.
            if wanted is not None and (not history or history[-1][1] != wanted):
                if history:
                    history[-1] = (at, history[-1][1])
                history.append((float("inf"), wanted))

    def _judge_expiry(self, at: float, name: str, job: _Job) -> None:
        ttl = _run_policy(job.obj).get("ttlSecondsAfterFinished")
        ttl = ttl if ttl is not None else (job.obj.get("spec") or {}).get("ttlSecondsAfterFinished")
        end = job.status.get("completionTime")
        if ttl is None or not job.finished or end is None:
            self.say(at, "job-deleted", f"{name} has not finished or has no ttlSecondsAfterFinished")
        elif not job.forged and START + at < parse_time(end) + ttl - TOLERANCE:
            self.say(at, "expired-early", f"{name} ended at {end} and is to be kept for {ttl} s")

    def _judge_status(self, at: float, name: str, job: _Job, after: Obj) -> None:
        for rule, what in _status_faults(after):
            self.say(at, rule, f"{name}: {what}")
        if job.forged:
            return
        for rule, what in _faultless(job, after):
            self.say(at, rule, f"{name}: {what}")
        fewest = {kind: min((count for _, count in history), default=0) for kind, history in job.wanted.items()}
        for rule, what in _step_faults(job.status, after, fewest):
            self.say(at, rule, f"{name}: {what}")

    # -- pods -------------------------------------------------------------------------------------------------------------

    def _judge_pod(self, at: float, change: Change, *, ours: bool) -> None:
        item = change.item
        before = self._pods.get(item.uid)
        job = self._jobs.get(owner_of(item))
        if job is not None:
            _note_ends(job, before, change, ours=ours)
            self._judge_attempts(at, change)
        if ours:
            if change.type == ADDED:
                self._judge_creation(at, item, job)
            elif job is None:
                if not _is_released_orphan(change):
                    self.say(at, "stranger-touched", f"pods/{item.name} belongs to no job")
            else:
                self._judge_removal(at, change, before or change.item, job)
        if change.type == DELETED:
            self._pods.pop(item.uid, None)
        else:
            self._pods[item.uid] = item

    def _judge_attempts(self, at: float, change: Change) -> None:
        """No main program of an attempt runs beside that of another one, or beside one that knows of another size."""
        pod = change.item
        if change.type == DELETED or not main_runs(pod):
            return
        peers = (p for p in self._pods.values() if owner_of(p) == owner_of(pod) and p.uid != pod.uid and main_runs(p))
        for peer in peers:
            if attempt_of(peer) != attempt_of(pod):
                self.say(at, "mixed-attempts", f"pods/{pod.name} of {attempt_of(pod)} beside {peer.name} of {attempt_of(peer)}")
                return
            if size_of(peer) != size_of(pod):
                self.say(at, "mixed-sizes", f"pods/{pod.name} of {size_of(pod)} beside {peer.name} of {size_of(peer)}")
                return

    def _judge_creation(self, at: float, pod: Item, job: _Job | None) -> None:
        if job is None:
            self.say(at, "stranger-created", f"pods/{pod.name} has no job for its owner")
            return
        slot = _slot(pod)
        twins = [
            p for p in self._pods.values() if owner_of(p) == owner_of(pod) and _slot(p) == slot and phase_of(p) not in OVER
        ]
        if twins:
            self.say(at, "two-live-pods", f"pods/{pod.name} beside {twins[0].name}")
        if job.forged:
            return
        if slot[1] in _succeeded(job.status).get(slot[0], frozenset()):
            self.say(at, "rerun-after-success", f"pods/{pod.name}")
        if job.finished:
            self.say(at, "pod-for-finished-job", f"pods/{pod.name}")

    def _judge_removal(self, at: float, change: Change, before: Item, job: _Job) -> None:
        pod = change.item
        removed = change.type == DELETED or "deletionTimestamp" in pod.obj["metadata"]
        deleted = removed and "deletionTimestamp" not in before.obj["metadata"]
        if deleted and phase_of(before) not in OVER and not main_failed(before):
            if not self._may_go(at, pod, job):
                self.say(at, "healthy-deleted", f"pods/{pod.name} ({phase_of(before)}) of a job that wants it")
            elif self._may_end_by_itself(at, before, job):
                self.say(at, "stopped-early", f"pods/{pod.name} may end by itself after the success of its job")
        held = FINALIZER in (before.obj["metadata"].get("finalizers") or ())
        let_go = held and (change.type == DELETED or FINALIZER not in (pod.obj["metadata"].get("finalizers") or ()))
        evidence = let_go or (deleted and not held)
        if evidence and phase_of(before) in OVER and not self._on_record(at, before, job):
            self.say(at, "evidence-destroyed", f"pods/{pod.name} ({phase_of(before)}) is not on record")

    def _may_go(self, at: float, pod: Item, job: _Job) -> bool:
        return job.finished or self._is_unwanted(at, pod, job)

    def _is_unwanted(self, at: float, pod: Item, job: _Job) -> bool:
        recently = at - STALENESS_SECONDS
        kind, index = _slot(pod)
        surplus = any(until >= recently and index >= count for until, count in job.wanted.get(kind, [(at, 0)]))
        stopped = _suspended(job.obj) or job.suspended_at >= recently or attempt_of(pod) < (job.status.get("attempt") or 0)
        return job.deleting or job.forged or surplus or stopped

    def _may_end_by_itself(self, at: float, pod: Item, job: _Job) -> bool:
        """Whether the job has just succeeded, its clean-up policy is not set, and the pod has work of its own on a node."""
        end, spec = _ended(job.status), job.obj.get("spec") or {}
        policy = _run_policy(job.obj).get("cleanPodPolicy") or spec.get("cleanPodPolicy")
        serves = any(job.framework.serves(t.name) for t in job.framework.replica_types if t.name.lower() == _slot(pod)[0])
        if end is None or end[0] != "Succeeded" or policy or serves or self._is_unwanted(at, pod, job):
            return False
        if not pod.obj["spec"].get("nodeName") or pod.uid in (job.status.get("countedPods") or ()):
            return False
        ended = parse_time(job.status["completionTime"]) - START
        return at - ended < MAY_END_SECONDS - TOLERANCE

    def _on_record(self, at: float, pod: Item, job: _Job) -> bool:
        if job.deleting or job.finished or job.forged or attempt_of(pod) < (job.status.get("attempt") or 0):
            return True
        kind, index = _slot(pod)
        if any(until >= at - STALENESS_SECONDS and index >= count for until, count in job.wanted.get(kind, [(at, 0)])):
            return True
        return pod.uid in (job.status.get("countedPods") or ()) or index in _succeeded(job.status).get(kind, frozenset())

    def _judge_ownership(self, at: float, change: Change) -> None:
        owner = owner_of(change.old if change.old is not None else change.item)
        if owner not in self._jobs:
            verb = {ADDED: "created", DELETED: "deleted"}.get(change.type, "changed")
            rule = "stranger-created" if change.type == ADDED else "stranger-touched"
            self.say(at, rule, f"{change.table}/{change.item.name} {verb}")


# -- what a job's pods ended by ----------------------------------------------------------------------------------------------


def _note_ends(job: _Job, before: Item | None, change: Change, *, ours: bool) -> None:
    """Take note of what a pod ended by: a failure of its own, or another cause."""
    pod = change.item
    status = pod.obj.get("status") or {}
    marked = "deletionTimestamp" in pod.obj["metadata"]
    was_marked = before is not None and "deletionTimestamp" in before.obj["metadata"]
    disrupted = any(c["type"] == "DisruptionTarget" for c in status.get("conditions") or ())
    vanished = change.type == DELETED and not was_marked
    if disrupted or status.get("reason") or (not ours and (vanished or (marked and not was_marked))):
        job.disrupted.add(pod.uid)
    if marked or disrupted or status.get("reason"):
        return
    job.ended_early += phase_of(pod) == "Succeeded" and (before is None or phase_of(before) != "Succeeded")
    job.failed_runs += max(failed_runs(pod) - (failed_runs(before) if before is not None else 0), 0)


def _faultless(job: _Job, after: Obj) -> Iterator[tuple[str, str]]:
    """What is stopped on purpose is neither a failure nor a disruption, whatever exit code it answers with."""
    restarts, disruptions = after.get("restarts") or 0, after.get("disruptions") or 0
    end = _ended(after)
    failed = end is not None and end[1].endswith(("Failed", "BackoffLimitExceeded"))
    policy = _run_policy(job.obj)
    by_deadline = "Restart" in (policy.get("stallAction"), policy.get("pendingDeadlineAction"))
    if not job.failed_runs and restarts and not by_deadline:
        yield "stopped-on-purpose", f"{restarts} restarts, and no run has failed by itself"
    if not job.failed_runs and not job.disrupted and failed:
        yield "stopped-on-purpose", f"Failed, and no run has failed by itself: {end[2] if end else ''}"
    # What ends with exit 0 before its time, and what loses its exit code, is a disruption, too: few pods do.
    if disruptions > len(job.disrupted) + job.failed_runs + job.ended_early:
        yield "stopped-on-purpose", f"{disruptions} disruptions, and {len(job.disrupted)} pods were stopped by others"


# -- rules on one status, and on a step from one to the next ------------------------------------------------------------------


def _status_faults(status: Obj) -> list[tuple[str, str]]:
    found = []
    conditions = status.get("conditions") or []
    types = [one.get("type") for one in conditions]
    holding = [one.get("type") for one in conditions if one.get("status") == "True"]
    if len(types) != len(set(types)):
        found.append(("conditions-unique", str(types)))
    if conditions and conditions[-1].get("status") != "True":
        found.append(("current-condition", f"{types[-1]} is the last one and does not hold"))
    if {"Running", "Restarting"} <= set(holding):
        found.append(("conditions-exclusive", "Running and Restarting"))
    ends = [kind for kind in OVER if kind in holding]
    if len(ends) > 1:
        found.append(("conditions-exclusive", "Succeeded and Failed"))
    if ends and {"Running", "Restarting"} & set(holding):
        found.append(("conditions-exclusive", f"{ends[0]} and still active"))
    if ends and not status.get("completionTime"):
        found.append(("completion-time", f"{ends[0]} without one"))
    start, end = status.get("startTime"), status.get("completionTime")
    if start and end and parse_time(end) < parse_time(start) - TOLERANCE:
        found.append(("times-ordered", f"ended {end}, before it started {start}"))
    for one in conditions:
        changed, updated = one.get("lastTransitionTime"), one.get("lastUpdateTime")
        if changed and updated and parse_time(updated) < parse_time(changed) - TOLERANCE:
            found.append(("times-ordered", f"{one.get('type')} updated {updated}, before its transition {changed}"))
    return found


def _step_faults(before: Obj, after: Obj, fewest: Mapping[str, int]) -> list[tuple[str, str]]:
    found = []
    end = _ended(before)
    if end is not None:
        if _ended(after) != end:
            found.append(("terminal-for-ever", f"{end[0]} became {(_ended(after) or ('nothing',))[0]}"))
        if before.get("completionTime") and after.get("completionTime") != before.get("completionTime"):
            found.append(("terminal-for-ever", "completionTime moved"))
    shrunk = [c for c in ("restarts", "disruptions") if (after.get(c) or 0) < (before.get(c) or 0)]
    found += [("counters-grow", f"{c} from {before.get(c)} to {after.get(c)}") for c in shrunk]
    attempts = (after.get("attempt") or 0) - (before.get("attempt") or 0)
    charged = sum((after.get(c) or 0) - (before.get(c) or 0) for c in ("restarts", "disruptions"))
    if "attempt" in after and not 0 <= charged <= attempts:
        found.append(("charged-twice", f"{charged} restarts and disruptions in {attempts} new attempts"))
    story = before.get("failures") or []
    if (after.get("failures") or [])[: len(story)] != story:
        found.append(("counters-grow", "a failure was taken back"))
    for kind, indexes in _succeeded(before).items() if not attempts else ():
        # A scale-down takes slots away, and with them what they have done.
        lost = {i for i in indexes - _succeeded(after).get(kind, frozenset()) if i < fewest.get(kind, 0)}
        if lost:
            found.append(("success-durable", f"{kind} {sorted(lost)} taken back"))
    return found


def _ended(status: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The condition with which a job has ended: type, reason and message."""
    for one in status.get("conditions") or ():
        if one.get("type") in OVER and one.get("status") == "True":
            return one["type"], one.get("reason", ""), one.get("message", "")
    return None


def _succeeded(status: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    """By type in lower case, the slots on record as succeeded."""
    statuses = status.get("replicaStatuses") or {}
    return {kind.lower(): parse_indexes(one.get("succeededIndexes"), MAX_REPLICAS) for kind, one in statuses.items()}


def _counts(framework: Framework, job: Obj) -> dict[str, int | None]:
    """By type in lower case, the wanted number; None if the spec does not tell."""
    specs = (job.get("spec") or {}).get(framework.replica_specs)
    known = {one.name.lower() for one in framework.replica_types}
    if not isinstance(specs, dict) or not {kind.lower() for kind in specs} <= known:
        return dict.fromkeys(known)
    counts: dict[str, int | None] = {}
    for kind, spec in specs.items():
        wanted = spec.get("replicas", 1) if isinstance(spec, dict) else None
        counts[kind.lower()] = wanted if isinstance(wanted, int) and 0 <= wanted <= MAX_REPLICAS else None
    return counts


def _suspended(job: Obj) -> bool:
    return bool(_run_policy(job).get("suspend") or (job.get("spec") or {}).get("suspend"))


def _run_policy(job: Obj) -> Obj:
    policy = (job.get("spec") or {}).get("runPolicy")
    return policy if isinstance(policy, dict) else {}


def _is_released_orphan(change: Change) -> bool:
    """Whether our finalizer, and nothing else, was taken off a pod that no job owns, as an orphaning deletion leaves it."""
    if change.old is None:
        return False
    before, after = change.old.obj["metadata"], change.item.obj["metadata"]
    left = [name for name in before.get("finalizers") or () if name != FINALIZER]
    # A deletion is over with the last finalizer, and shows the state before.
    remaining = [] if change.type == DELETED and "deletionTimestamp" in before else after.get("finalizers") or []
    return not before.get("ownerReferences") and left == remaining != before.get("finalizers")


def owner_of(item: Item) -> str:
    """The UID of the object's controller; "" without one."""
    references = item.obj["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in references if one.get("controller")), "")


def _slot(pod: Item) -> tuple[str, int]:
    marks = pod.obj["metadata"].get("labels") or {}
    index = marks.get(labels.REPLICA_INDEX, "")
    return marks.get(labels.REPLICA_TYPE, ""), int(index) if index.isdecimal() else -1
