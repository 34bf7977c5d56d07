"""What the programs of a job report of their progress, how they are made to, and what is recorded of it.

A run is one life of the program: it begins when the job begins to run, when a replica restarts, also in place by the kubelet,
or with a step below the last one of the same pod: another pod may be behind. Heartbeats, which repeat a step, are no progress.
"""

from collections.abc import Iterable
from itertools import starmap
from typing import Any, NamedTuple

from jobcommon.api import labels, reasons
from jobcommon.api.replica import Replica
from jobcommon.api.status import (
    MAX_STEP,
    ConditionType,
    JobProgress,
    JobStatus,
    TrainerStatus,
    summary,
)
from jobcommon.api.time_spent import TimeSpent
from jobcommon.api.timestamp import format_moment, format_time, parse_time, trusted
from jobcommon.framework import EnvVar, Job
from jobcommon.manifests.children import with_env
from jobcommon.reconcile.intents import Course
from jobcommon.reconcile.plan import WARNING, Event, Plan, Urgency
from jobcommon.reconcile.view import Lifecycle, PodShape

URL, CA_CERT, TOKEN = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_CA_CERT", "KUBEFLOW_TRAINER_SERVER_TOKEN"
VOLUME = "kubeflow-trainer-token"
DIRECTORY = "/var/run/secrets/kubeflow/trainer"
TOKEN_SECONDS = 3600
RECORD_SECONDS = 10.0
"""At most one report of a job is written in this time, but for a run that has just begun (see `record_seconds`)."""
YOUNG_SECONDS = 1.0
DONE = 100
"""The percentage of a program that is over."""
PHASE = "phase"
_STEP = "current_step"


def audience(api_version: str, namespace: str, plural: str, name: str) -> str:
    """The audience of the tokens with which the pods of one job report."""
    return f"{api_version}/namespaces/{namespace}/{plural}/{name}/status"


def takes_reports(job: Job) -> bool:
    """Whether the job's programs are asked to report, and this operator takes reports."""
    return bool(job.run_policy.report_progress) and job.options.progress is not None


class Reporting(PodShape, Lifecycle):
    """What makes the programs of a job report, in one pass."""

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Feature`."""
        return bool(job.run_policy.report_progress)

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with the certificate, the token, and the variables by which its program finds the server."""
        framework, job, server = self.framework, self.job, self.job.options.progress
        if server is None or not takes_reports(job):
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

    def act(self, course: Course | None) -> Iterable[Event]:
        """One event if the job asks for reports and the operator takes none."""
        if self.job.options.progress is None:
            text = "reportProgress has no effect: the operator does not accept reports"
            yield Event(WARNING, reasons.NO_PROGRESS_SERVER, text, lasting=True)


def _with_mount(container: dict[str, Any]) -> dict[str, Any]:
    kept = [mount for mount in container.get("volumeMounts") or () if mount.get("name") != VOLUME]
    return {**container, "volumeMounts": [*kept, {"name": VOLUME, "mountPath": DIRECTORY, "readOnly": True}]}


class ReportedStep(NamedTuple):
    """A step, when it was first reported (seconds since the epoch), and by which pod: its UID, "" if that is not known."""

    step: int
    since: float
    pod: str = ""


Steps = Iterable[ReportedStep | tuple[int, float] | tuple[int, float, str]]


def plan_report(job: Job, report: TrainerStatus, steps: Steps, arrived: float, now: float, *, at_once: bool = False) -> Plan:
    """The plan that records `report`, which arrived last, at `arrived`, and `steps` (see `after_reports`): a status alone.

    While the last record is too recent, it has no status and wakes when the next one is due, unless it is to be recorded
    `at_once`. It does nothing for a job that wants no reports, or of which a later one is on record. The last report, 100 %,
    may come after the job has finished.
    """
    known = job.status.progress or JobProgress()
    last, recorded = (trusted(parse_time(time), now) or 0.0 for time in (known.last_report_time, known.recorded_time))
    if job.managed_elsewhere or job.deleting or not job.run_policy.report_progress or last > arrived:
        return Plan(reason="the report is not wanted")
    if now < (due := recorded + record_seconds(job.status, now)) and not at_once:
        return Plan(wake_at=due, reason="a report was recorded just before")
    # Steps that waited longer than a later report, here or in another replica, would look like another run.
    status = after_reports(job.status, [one for one in steps if one[1] >= last], arrived, now)
    status = status.model_copy(update={"trainer_status": report})
    status = status.model_copy(update={"progress": summarized(status)})
    return Plan(status=status, urgency=Urgency.COUNTS, reason="progress is reported")


def record_seconds(status: JobStatus, now: float) -> float:
    """How long the last record of a report is good enough: a tenth of the time that the job has run, from 1 s to 10 s."""
    began = run_began(status)
    return min(max((now - began) / 10, YOUNG_SECONDS), RECORD_SECONDS) if began is not None else RECORD_SECONDS


def after_reports(status: JobStatus, steps: Steps, arrived: float, now: float) -> JobStatus:
    """The status after reports, the last of which arrived at `arrived`, that are recorded together at `now`.

    `steps` are those that were reported, in order.
    """
    before = status.progress.highest_step if status.progress is not None else None
    for one in starmap(ReportedStep, steps):
        changes = {"progress": _after_step(status, one), "time_spent": _time_spent(status, one.step, one.since)}
        status = status.model_copy(update=changes)
    if status.progress is not None and status.progress.highest_step != before and status.failed_replicas:
        kept = [entry.model_copy(update={"runs": None}) for entry in status.failed_replicas if entry.in_place]
        status = status.model_copy(update={"failed_replicas": kept})
    times = {"last_report_time": format_time(arrived), "recorded_time": format_time(now)}
    return status.model_copy(update={"progress": (status.progress or JobProgress()).model_copy(update=times)})


def summarized(status: JobStatus) -> JobProgress | None:
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


def _after_step(status: JobStatus, reported: ReportedStep) -> JobProgress:
    known, (step, since, pod) = status.progress or JobProgress(), reported
    changes: dict[str, object] = {}
    if known.highest_step is None or step > known.highest_step:
        changes |= {"highest_step": step, "restarts": status.restarts}
    behind = known.step is not None and step < known.step
    same_run = is_of_this_run(status) and known.step is not None and not (behind and pod and pod == known.pod)
    time = {"last_progress_time": format_moment(since)}
    if same_run and behind:
        moves = pod and pod == known.other_pod and step != known.other_step
        changes |= {"other_pod": pod or None, "other_step": step, **(time if moves else {})}
    elif not same_run or step != known.step:
        changes |= {"step": step, "armed": True if same_run else None, "pod": pod or None, **time}
        changes |= {"attempt": status.attempt, "restart_time": status.last_restart_time}
        if not same_run or pod != known.pod:
            other = (known.pod, known.step) if same_run else (None, None)
            changes |= {"other_pod": other[0], "other_step": other[1]}
    return known.model_copy(update=changes)


def signs_of_life(status: JobStatus) -> object:
    """What changes when the program begins, makes progress or evaluates, and when a stall is on record."""
    known, report = status.progress, status.trainer_status
    steps = known and (known.attempt, known.step, known.armed, known.last_progress_time)
    phase = report and report.metric(PHASE)
    # A run begins when the last of its pods runs.
    active = sum(replicas.active or 0 for replicas in status.replica_statuses.values())
    stalled = status.has(ConditionType.STALLED)
    return steps, phase, run_began(status), stalled, status.attempt, status.restarts, active


def step_of(report: TrainerStatus) -> int | None:
    """The step of a report: its metric current_step, or else its percentage.

    The callback of transformers names no step with the first 0 % of a run and with the last 100 %.
    """
    text, percentage = report.metric(_STEP), report.progress_percentage
    try:
        # A float has no more than 53 bits for it.
        step = int(text) if text.isdecimal() else int(float(text))
    except (ValueError, OverflowError):
        return percentage if percentage != DONE else None
    return min(max(step, 0), MAX_STEP)


def _job_runs_since(status: JobStatus) -> float | None:
    """When the job began to run, last; None while it does not."""
    return parse_time(status.since(ConditionType.RUNNING))


def run_began(status: JobStatus) -> float | None:
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
