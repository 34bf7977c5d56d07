"""Progress, by the reports of the program: when a job is stalled, and when its restarts bring nothing.

`plan_report` records what a program has reported. A run is one life of the program: it begins when the job begins to run, when
a replica restarts, also in place by the kubelet, or with a step below the last one. Its deadline holds from the second distinct
step, because the first report comes before the first step; heartbeats, which repeat a step, are no progress.

The times in the status are of the clocks of several processes, which may be wrong, and a false stall restarts a healthy
training. So a deadline counts from the last sign of life that the process which decides has seen, by its monotonic clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jobcommon.api import labels, reasons
from jobcommon.api.job import MAX_REPLICAS, StallAction
from jobcommon.api.pod import Terminated
from jobcommon.api.progress_summary import summary
from jobcommon.api.replica import Replica, format_indexes, parse_indexes
from jobcommon.api.status import (
    MAX_COUNT,
    MAX_STEP,
    ConditionType,
    EarlyFailures,
    JobProgress,
    JobStatus,
    ReplicaFailures,
    StallRecord,
    TrainerStatus,
)
from jobcommon.api.time_spent import TimeSpent
from jobcommon.api.timestamp import format_moment, format_time, parse_time
from jobcommon.framework import EnvVar, Job
from jobcommon.manifests.children import with_env
from jobcommon.reconcile.accounting import Accounting, restarts_made, runs_in_place
from jobcommon.reconcile.ending import EndType, decode
from jobcommon.reconcile.extension import Extension
from jobcommon.reconcile.limits import Deadline
from jobcommon.reconcile.plan import WARNING, Event, Plan, Urgency
from jobcommon.reconcile.rendering import Sentence, Statement
from jobcommon.reconcile.situation import Situation
from jobcommon.reconcile.slots import Active, Ended, Leaving, Slots, Starting

URL, CA_CERT, TOKEN = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_CA_CERT", "KUBEFLOW_TRAINER_SERVER_TOKEN"
VOLUME = "kubeflow-trainer-token"
DIRECTORY = "/var/run/secrets/kubeflow/trainer"
TOKEN_SECONDS = 3600


def audience(api_version: str, namespace: str, plural: str, name: str) -> str:
    """The audience of the tokens with which the pods of one job report."""
    return f"{api_version}/namespaces/{namespace}/{plural}/{name}/status"


def reports(job: Job) -> bool:
    """Whether the job's programs are asked to report, and this operator takes reports."""
    return bool(job.run_policy.report_progress) and job.options.progress is not None


class Reporting(Extension):
    """What makes the programs of a job report, in one pass."""

    def __init__(self, situation: Situation) -> None:
        self._framework, self._job = situation.framework, situation.job

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Extension`."""
        return bool(job.run_policy.report_progress)

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with the certificate, the token, and the variables by which its program finds the server."""
        framework, job, server = self._framework, self._job, self._job.options.progress
        if server is None or not reports(job):
            return pod
        who = audience(framework.api_version, job.namespace, framework.plural, job.name)
        token = {"audience": who, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
        authority = {"path": "ca.crt", "fieldRef": {"fieldPath": f"metadata.annotations['{labels.PROGRESS_CA}']"}}
        sources = [{"serviceAccountToken": token}, {"downwardAPI": {"items": [authority]}}]
        url = EnvVar(URL, f"{server.url.rstrip('/')}/apis/{who}")
        variables = (url, EnvVar(CA_CERT, f"{DIRECTORY}/ca.crt"), EnvVar(TOKEN, f"{DIRECTORY}/token"))
        metadata, spec = pod["metadata"], pod["spec"]
        main = framework.main_container(job.replica_specs[replica.type], replica.index)
        volumes = [volume for volume in spec.get("volumes") or () if volume.get("name") != VOLUME]
        containers = [
            with_env(_with_mount(container), variables) if container.get("name") == main else container
            for container in spec["containers"]
        ]
        annotations = {**(metadata.get("annotations") or {}), labels.PROGRESS_CA: server.certificate}
        volumes.append({"name": VOLUME, "projected": {"sources": sources}})
        return {
            **pod,
            "metadata": {**metadata, "annotations": annotations},
            "spec": {**spec, "volumes": volumes, "containers": containers},
        }

    def events(self) -> Iterable[Event]:
        """One event if the job asks for reports and the operator takes none."""
        if self._job.options.progress is None:
            text = "reportProgress has no effect: the operator takes no reports"
            yield Event(WARNING, reasons.NO_PROGRESS_SERVER, text, lasting=True)


def _with_mount(container: dict[str, Any]) -> dict[str, Any]:
    kept = [mount for mount in container.get("volumeMounts") or () if mount.get("name") != VOLUME]
    return {**container, "volumeMounts": [*kept, {"name": VOLUME, "mountPath": DIRECTORY, "readOnly": True}]}


RECORD_SECONDS = 10.0
"""At most one report of a job is written in this time."""
# Seconds between setting Stalled and acting; longer than a report can be delayed: after an outage of the API server the report
# that ends the stall comes first.
CONFIRM_SECONDS = 15.0
MAX_RESTARTS = 3
_STEP, _PHASE, _TRAIN = "current_step", "phase", "train"
_DONE = 100


@dataclass(frozen=True, slots=True)
class Stall:
    """A job that is to make progress: when it counts as stalled (seconds since the epoch), and why, as a sentence.

    `record`: what is on record of the stall, or is to be from then on. `deadline`: what follows, once it is on record.
    """

    at: float
    text: str
    record: StallRecord
    deadline: Deadline | None


class ReportedProgress(Extension):
    """The progress of a job, in one pass."""

    fields = ("stall", "early_failures", "failed_replicas", "progress")

    def __init__(self, situation: Situation) -> None:
        self._situation, self._job = situation, situation.job

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Extension`."""
        policy, status = job.run_policy, job.status
        on_record = status.stall or status.has(ConditionType.STALLED) or status.early_failures or status.failed_replicas
        return bool(policy.report_progress or policy.min_uptime_seconds is not None or on_record)

    @cached_property
    def _stall(self) -> Stall | None:
        """When and why the job counts as stalled; None while the kubelet is to restart a program of it."""
        situation, observed = self._situation, self._situation.observed
        if not reports(self._job) or any(
            slot.failed_runs.charged > slot.failed_runs.restarted for slot in situation.slots.living
        ):
            return None
        return stall(self._job, situation.now, observed.same_for, situation.whole, observed.reported, observed.reachable_for)

    @cached_property
    def _early_failures(self) -> EarlyFailures | None:
        return early_failures(self._job, self._situation.accounting, self._situation.slots)

    @cached_property
    def _failed_replicas(self) -> list[ReplicaFailures]:
        situation = self._situation
        return failed_replicas(self._job, situation.accounting, situation.slots, suspended=situation.suspended)

    @property
    def _progress(self) -> JobProgress | None:
        """What is on record. Of its restarts, one of a program that found no node does not count as one without progress."""
        known, overdue = self._job.status.progress, self._situation.overdue
        if known is None or overdue is None or overdue.reason != reasons.PENDING_TOO_LONG:
            return known
        return known.model_copy(update={"restarts": (known.restarts or 0) + 1})

    def statements(self, current: ConditionType) -> Iterable[tuple[Statement, Event | None]]:
        """The condition Stalled, while it holds and once it does not any more."""
        found, job = self._stall, self._job
        was = job.status.has(ConditionType.STALLED)
        if found is not None and self._situation.now >= found.at and current == ConditionType.RUNNING:
            stalled = Statement(ConditionType.STALLED, True, reasons.STALLED, Sentence(found.text))
            yield stalled, None if was else Event(WARNING, reasons.STALLED, found.text)
        elif was:
            over = Sentence(f"{job.kind} {job.key} is not stalled any more")
            yield Statement(ConditionType.STALLED, False, reasons.PROGRESSING, over), None

    def deadlines(self) -> Iterable[Deadline]:
        """What follows from a stall on record."""
        return [self._stall.deadline] if self._stall is not None and self._stall.deadline is not None else []

    def exhausted(self) -> tuple[str, str] | None:
        """Why the job is not restarted any more although backoffLimit allows it."""
        text = in_vain(self._job, self._situation.accounting, self._early_failures, self._failed_replicas, self._progress)
        return (reasons.NO_PROGRESS, text) if text else None

    def record(self, status: JobStatus) -> Mapping[str, Any]:
        """What later passes need of the stall and of the failed runs."""
        stalled = self._stall if status.has(ConditionType.STALLED) else None
        progress = self._progress
        if progress is not None and progress.summary is not None:
            progress = _summarized(status.model_copy(update={"progress": progress}))
        return {
            "stall": stalled.record if stalled is not None else None,
            "early_failures": self._early_failures,
            "failed_replicas": self._failed_replicas,
            "progress": progress,
        }

    def wakes(self) -> Iterable[float]:
        """When the job is to count as stalled."""
        return [self._stall.at] if self._stall is not None and self._stall.at > self._situation.now else []


def plan_report(
    job: Job, report: TrainerStatus, steps: Iterable[tuple[int, float]], arrived: float, now: float, *, at_once: bool = False
) -> Plan:
    """The plan that records `report`, which arrived last, at `arrived`, and `steps` (see `after_reports`): a status alone.

    While the last record is too recent, it has no status and wakes when the next one is due, unless it is to be recorded
    `at_once`. It does nothing for a job that wants no reports, or of which a later one is on record. The last report, 100 %,
    may come after the job has finished.
    """
    known = job.status.progress or JobProgress()
    times = (parse_time(time) or 0.0 for time in (known.last_report_time, known.recorded_time))
    # A time ahead of now is one of a wrong clock.
    last, recorded = (time if time <= now else 0.0 for time in times)
    if job.managed_elsewhere or job.deleting or not job.run_policy.report_progress or last > arrived:
        return Plan(reason="the report is not wanted")
    if now < (due := recorded + RECORD_SECONDS) and not at_once:
        return Plan(wake_at=due, reason="a report was recorded just before")
    # Steps that waited longer than a later report, here or in another replica, would look like another run.
    status = after_reports(job.status, [(step, since) for step, since in steps if since >= last], arrived, now)
    status = status.model_copy(update={"trainer_status": report})
    status = status.model_copy(update={"progress": _summarized(status)})
    return Plan(status=status, urgency=Urgency.COUNTS, reason="progress is reported")


def after_reports(status: JobStatus, steps: Iterable[tuple[int, float]], arrived: float, now: float) -> JobStatus:
    """The status after reports, the last of which arrived at `arrived`, that are recorded together at `now`.

    `steps` are those that were reported, in order, each with the time of its first report (seconds since the epoch).
    """
    before = status.progress.highest_step if status.progress is not None else None
    for step, since in steps:
        changes = {"progress": _after_step(status, step, since), "time_spent": _time_spent(status, step, since)}
        status = status.model_copy(update=changes)
    if status.progress is not None and status.progress.highest_step != before and status.failed_replicas:
        kept = [entry.model_copy(update={"runs": None}) for entry in status.failed_replicas if entry.in_place]
        status = status.model_copy(update={"failed_replicas": kept})
    times = {"last_report_time": format_time(arrived), "recorded_time": format_time(now)}
    return status.model_copy(update={"progress": (status.progress or JobProgress()).model_copy(update=times)})


def _summarized(status: JobStatus) -> JobProgress | None:
    """What is on record, with the words for the last report. What the program has estimated holds while its run goes on."""
    known, report = status.progress, status.trainer_status
    if known is None or report is None:
        return known
    goes_on = status.has(ConditionType.RUNNING) and not status.has(ConditionType.STALLED) and is_of_this_run(status)
    return known.model_copy(update={"summary": summary(report, goes_on=goes_on) or None})


def _time_spent(status: JobStatus, step: int, since: float) -> TimeSpent | None:
    """The time spent, with what the run has done since its last step.

    A program may report 0 before its first step wherever it begins, so a run counts from its first step above 0. A report
    may be recorded when the next run has begun.
    """
    spent, known = status.time_spent, status.progress
    last = parse_time(known.last_progress_time) if known is not None else None
    if spent is None or known is None or last is None or not known.step or step <= known.step:
        return spent
    if last < (parse_time(spent.since) or 0.0) <= since:
        return spent
    made, new = step - known.step, max(step - max(known.highest_step or 0, known.step), 0)
    seconds = max(since - last, 0.0) * new / made
    lost = min((spent.lost_steps or 0) + made - new, MAX_STEP)
    return spent.model_copy(update={"progressing": round((spent.progressing or 0.0) + seconds, 3), "lost_steps": lost or None})


def _after_step(status: JobStatus, step: int, since: float) -> JobProgress:
    known = status.progress or JobProgress()
    changes: dict[str, object] = {}
    if known.highest_step is None or step > known.highest_step:
        changes |= {"highest_step": step, "restarts": status.restarts}
    same_run = is_of_this_run(status) and known.step is not None and step >= known.step
    if not same_run or step != known.step:
        run = {"attempt": status.attempt, "restart_time": status.last_restart_time, "last_progress_time": format_moment(since)}
        changes |= {"step": step, "armed": True if same_run else None, **run}
    return known.model_copy(update=changes)


def signs_of_life(status: JobStatus) -> object:
    """What changes when the program begins, makes progress or evaluates, and when a stall is on record."""
    known, report = status.progress, status.trainer_status
    steps = known and (known.attempt, known.step, known.armed, known.last_progress_time)
    phase = report and report.metric(_PHASE)
    # A run begins when the last of its pods runs.
    active = sum(replicas.active or 0 for replicas in status.replica_statuses.values())
    stalled = status.has(ConditionType.STALLED)
    return steps, phase, _run_began(status), stalled, status.attempt, status.restarts, active


def stall(
    job: Job, now: float, same_for: float | None = None, whole: bool = True, reported: bool = True,
    reachable_for: float | None = None,
) -> Stall | None:  # fmt: skip
    """When the job counts as stalled; None without a deadline or replicas, or while it does not run or has reported 100 %.

    `same_for`, `reported`, `reachable_for`: see `Observed`. `whole`: all replicas run; before the first steps are made they
    must.
    """
    policy, status = job.run_policy, job.status
    began, report = _run_began(status), status.trainer_status
    if job.suspended or began is None or not job.total_replicas:
        return None
    known = status.progress if is_of_this_run(status) else None
    last = parse_time(known.last_progress_time) if known is not None else None
    if known is not None and report is not None and report.progress_percentage == _DONE:
        return None
    who = f"{job.kind} {job.key}"
    if known is not None and last is not None and known.armed:
        seconds, name = policy.progress_deadline_seconds, "progressDeadlineSeconds"
        # A crash may have lost the report that the program evaluates now.
        trains = reported and report is not None and report.metric(_PHASE) == _TRAIN
        allowed = 0 if trains else policy.evaluation_seconds or 0
        plus = f" and evaluationSeconds {allowed}" if allowed else ""
        text = f"{who} has reported no progress since {format_time(last)}, when it was at step {known.step}"
    else:
        last = began if last is None else max(began, last)
        # By a clock that was set back no step is of this run, and yet it may evaluate.
        reported = status.progress is not None and (status.progress.attempt or 0) == (status.attempt or 0)
        allowed, plus = policy.evaluation_seconds or 0 if reported else 0, ""
        seconds, name = policy.progress_start_deadline_seconds, "progressStartDeadlineSeconds"
        text = f"{who} has not reported two different steps since {format_time(last)}"
        seconds = seconds if whole else None
    if seconds is None:
        return None
    seen = now - same_for if same_for is not None else None
    # What was refused before may have been progress.
    reachable = now - reachable_for if reachable_for is not None else 0.0
    text = f"{text}; {name} is {seconds}{plus}"
    step = known.step if known is not None and known.armed else None
    new = StallRecord(
        since=format_moment(now), step=step, last_progress_time=format_moment(last), seconds=min(seconds + allowed, MAX_COUNT)
    )
    if (record := _on_record(status, new, last)) is None:
        if seen is not None:
            # A report is seen when it is recorded, at most so much later.
            last = min(max(last, seen - RECORD_SECONDS), seen)
        return Stall(max(last, reachable) + seconds + allowed, text, new, None)
    since = seen or parse_time(record.since)
    if since is None or policy.stall_action in (None, StallAction.NONE):
        return Stall(now, text, record, None)
    new_attempt = policy.stall_action == StallAction.RESTART
    return Stall(now, text, record, Deadline(max(since, reachable) + CONFIRM_SECONDS, reasons.STALLED, text, text, new_attempt))


def _on_record(status: JobStatus, found: StallRecord, last: float) -> StallRecord | None:
    """The stall on record if it is the one that was `found`: it lasts, whenever this process began to watch."""
    known = status.stall
    if not status.has(ConditionType.STALLED):
        return None
    if known is not None:
        same = (known.step, known.last_progress_time, known.seconds) == (found.step, found.last_progress_time, found.seconds)
        return known if same else None
    # A release without the field has written the condition alone.
    since = parse_time(status.since(ConditionType.STALLED))
    return found.model_copy(update={"since": format_moment(since)}) if since is not None and last <= since else None


def early_failures(job: Job, accounting: Accounting, slots: Slots) -> EarlyFailures | None:
    """The early failures in a row after this pass."""
    if job.run_policy.min_uptime_seconds is None:
        return None
    failed = accounting.having(EndType.RETRYABLE)
    in_place = restarts_made(job, accounting, slots, ends=False) - (job.status.restarts or 0) - len(failed)
    latest = max((run for _, run in runs_in_place(slots)), key=_end, default=None) if in_place > 0 else None
    runs: Iterable[Terminated | None] = (slot.failed_runs.last for slot in failed)
    found = job.status.early_failures
    for run, times in [*((run, 1) for run in runs), *([(latest, in_place)] if latest is not None else [])]:
        found = _one_more(found, run, times, job.run_policy.min_uptime_seconds)
    return found


def failed_replicas(job: Job, accounting: Accounting, slots: Slots, *, suspended: bool) -> list[ReplicaFailures]:
    """The failed runs of each replica since the highest step rose, or of a row of early failures, after this pass.

    Replicas that fail together are one incident: a peer that is lost, or a network that is gone, ends many. So incidents are
    counted as the failed runs of the replica that has most of them, which is the same however often the operator looks.
    """
    policy, status = job.run_policy, job.status
    limited = policy.report_progress or policy.min_uptime_seconds is not None
    if not limited or job.restarts_together or suspended or status.has(ConditionType.SUSPENDED):
        return status.failed_replicas
    counts: dict[Replica, tuple[int, int]] = {}
    over = not policy.report_progress and status.early_failures is None
    for entry in status.failed_replicas:
        runs, seen = 0 if over else entry.runs or 0, entry.in_place or 0
        counts |= {Replica(entry.type, index): (runs, seen) for index in parse_indexes(entry.indexes, MAX_REPLICAS)}
    # A release without the field knows the sum of the failed runs alone, which are taken for those of one replica.
    unknown = not status.failed_replicas
    new, earlier = accounting.charged - (status.restarts or 0), _failed_since(status) if unknown else 0
    entered = {entry.pod.uid for entry in accounting.entries}
    counts |= {replica: (counts[replica][0], 0) for replica in slots.vacant if replica in counts}
    for slot in slots.notable:
        if not isinstance(slot.state, Starting | Active | Leaving | Ended):
            continue
        ended = isinstance(slot.state, Ended) and slot.ending.type == EndType.RETRYABLE
        total = slot.failed_runs.charged + ended
        runs, seen = counts.get(slot.replica) or (earlier, max(total - new, 0) if unknown else 0)
        more = total - seen if total >= seen else total
        counts[slot.replica] = runs + more if more or not unknown else 0, 0 if slot.pod.uid in entered else total
    alike: dict[tuple[str, int, int], set[int]] = {}
    for replica, (runs, seen) in counts.items():
        if runs or seen:
            alike.setdefault((replica.type, runs, seen), set()).add(replica.index)
    return [
        ReplicaFailures(type=kind, indexes=format_indexes(indexes) or "", runs=runs or None, in_place=seen or None)
        for (kind, runs, seen), indexes in sorted(alike.items())
    ]


def _failed_since(status: JobStatus) -> int:
    """The failed runs on record since the highest step rose; of a job without steps, those in a row soon after their start."""
    if status.progress is not None and status.progress.highest_step is not None:
        return max((status.restarts or 0) - (status.progress.restarts or 0), 0)
    return status.early_failures.count if status.early_failures is not None else 0


def in_vain(
    job: Job, accounting: Accounting, early: EarlyFailures | None, failed: Iterable[ReplicaFailures], known: JobProgress | None
) -> str:
    """Why the job is not restarted any more although backoffLimit allows it; "" while it is."""
    policy = job.run_policy
    limit = MAX_RESTARTS if policy.max_restarts_without_progress is None else policy.max_restarts_without_progress
    text = f"Job {job.name} has failed because"
    # Where all replicas are restarted together, one failure of an attempt is charged.
    most = accounting.charged if job.restarts_together else max((entry.runs or 0 for entry in failed), default=0)
    if policy.report_progress and known is not None and known.highest_step is not None:
        times = min(most, accounting.charged - (known.restarts or 0))
        if times > limit:
            steps = f"the highest step has been {known.highest_step} for {times} failed runs"
            return f"{text} its restarts bring no progress: {steps}; maxRestartsWithoutProgress is {limit}"
    times = min(early.count, most) if early is not None else 0
    if early is not None and times > limit:
        seconds = policy.min_uptime_seconds
        runs = f"its last {times} failed runs ended within {seconds} s (minUptimeSeconds), each with {early.exit}"
        return f"{text} {runs}; maxRestartsWithoutProgress is {limit}"
    return ""


def step_of(report: TrainerStatus) -> int | None:
    """The step of a report: its metric current_step, or else its percentage.

    The callback of transformers names no step with the first 0 % of a run and with the last 100 %.
    """
    text, percentage = report.metric(_STEP), report.progress_percentage
    try:
        # A float has no more than 53 bits for it.
        step = int(text) if text.isdecimal() else int(float(text))
    except (ValueError, OverflowError):
        return percentage if percentage != _DONE else None
    return min(max(step, 0), MAX_STEP)


def _job_runs_since(status: JobStatus) -> float | None:
    """When the job began to run, last; None while it does not."""
    return parse_time(status.since(ConditionType.RUNNING))


def _run_began(status: JobStatus) -> float | None:
    """The same, or when a replica was restarted since, which the condition Running may not show."""
    began = _job_runs_since(status)
    return max(began, parse_time(status.last_restart_time) or began) if began is not None else None


def is_of_this_run(status: JobStatus) -> bool:
    """Whether the last progress was made since the job began to run, in its current attempt, and since its last restart."""
    known, began = status.progress, _job_runs_since(status)
    last = parse_time(known.last_progress_time) if known is not None else None
    if known is None or last is None or (known.attempt or 0) != (status.attempt or 0):
        return False
    # The reports have times of another clock than the restarts, so these are not compared.
    return known.restart_time == status.last_restart_time and (began is None or last >= began)


def _end(run: Terminated) -> float:
    return run.finished_at or 0.0


def _one_more(found: EarlyFailures | None, run: Terminated | None, times: int, seconds: int) -> EarlyFailures | None:
    """The early failures after `times` runs that ended as `run` did; None if it was long enough or of unknown length."""
    if run is None or run.started_at is None or run.finished_at is None or run.finished_at - run.started_at >= seconds:
        return None
    how = f"exit code {run.exit_code}" if run.exit_code is not None else decode(run)
    before = found.count if found is not None and found.exit == how else 0
    return EarlyFailures(exit=how, count=before + times)
