"""The status of a job: conditions, counts per replica type, times, and the first failures.

`read_status` is total: it reads as much as possible of a forged or malformed status and never raises.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, ValidationError

from jobcommon.api.model import ApiModel
from jobcommon.api.text import clean
from jobcommon.api.time_spent import TimeSpent
from jobcommon.api.timestamp import human_duration

MAX_FAILURES = 10
MAX_MESSAGE = 1024
MAX_OUTPUT = 2048
"""Of the last lines of a failed run so many characters are kept, as the kubelet keeps them of a log."""
MAX_METRICS = 256
MAX_ATTEMPT = 999_999
"""The highest number of an attempt; a higher one is not ours, and is ignored. With the pauses between attempts, years away."""
MAX_COUNT = 2**31 - 1
JOB_CONDITIONS = "jobConditions"
"""Where our conditions stand in a kind whose status has `conditions` of another form."""
# Not written: under this name a status that was read has the fields of its kind alone.
_OF_KIND = "fieldsOfKind"
_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
MAX_STEP = 2**63 - 1
"""A higher step counts as this one: tokens and samples are beyond 2^31 soon, and a number of the API has 64 bits."""
_Step = Annotated[int, Field(ge=0)]
_Text = Annotated[str, Field(min_length=1, max_length=64)]


class ConditionType(StrEnum):
    """The types of a job's conditions."""

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    STALLED = "Stalled"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class JobCondition(ApiModel):
    """One condition. The current one is the last in the list and is True."""

    type: str = Field(description="Created, Running, Restarting, Suspended, Stalled, Succeeded or Failed.")
    status: str = Field("True", description="True, False or Unknown: whether it holds now.")
    reason: str = Field("", description="Why, in one word, for programs.")
    message: str = Field("", description="Why, in a sentence.")
    last_update_time: str | None = Field(None, description="When this condition last changed.")
    last_transition_time: str | None = Field(
        None, description="When its status last changed. The end of the job, which sets Running to False, does not change it."
    )

    @property
    def is_true(self) -> bool:
        """Whether the condition holds."""
        return self.status == "True"


class ReplicaStatus(ApiModel):
    """The counts of one replica type."""

    active: int | None = Field(None, description="Pods that run.")
    succeeded: int | None = Field(
        None, description="Replicas that have succeeded; when the job succeeds, running replicas count as well."
    )
    failed: int | None = Field(
        None,
        description="Pods that have failed and still exist; if a limit has ended the job, all that have not succeeded.",
    )
    selector: str | None = Field(None, description="A label selector of this type's pods, for the scale subresource.")
    label_selector: dict[str, Any] | None = Field(None, description="Written by older operators; not set here.")
    succeeded_indexes: str | None = Field(
        None, description="The replicas that succeeded counts, as ranges (0-3,7). They are not run again in the same attempt."
    )
    failed_runs: int | None = Field(
        None,
        description="Failed runs of this type charged to backoffLimit; each but the last was restarted.",
    )
    restarts: int | None = Field(None, description="Former name of failedRuns, not written: read until 1.0.")

    @property
    def charged(self) -> int:
        """The recorded failed runs. An older operator counts only under the former name, and keeps the other as it was."""
        return max(self.restarts or 0, self.failed_runs or 0, 0)


class Failure(ApiModel):
    """One failure of a replica."""

    replica: str = Field(description="Type and index, as in Worker-2.")
    pod: str | None = Field(None, description="The name of its pod.")
    node: str | None = Field(None, description="The node that the pod ran on.")
    reason: str = Field(description="The decoded cause: OOMKilled, Evicted, SIGSEGV, Error, …")
    exit_code: int | None = Field(None, description="The exit code of its main container; unset if it was evicted or lost.")
    message: str | None = Field(None, description="The tail of the termination message.")
    time: str | None = Field(None, description="When it ended.")


class Metric(ApiModel):
    """One metric of a running program."""

    name: _Text = Field(description="Its name, as in loss.")
    value: _Text = Field(description="Its value, as text.")


class TrainerStatus(ApiModel):
    """What the program reported last, in the form of a TrainJob's status (Kubeflow Trainer's KEP-2779)."""

    progress_percentage: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None, description="How much of the training is done, in percent."
    )
    estimated_remaining_seconds: _Count | None = Field(None, description="The seconds left, by the program's own estimate.")
    metrics: list[Metric] | None = Field(None, max_length=MAX_METRICS, description="Its metrics.")
    last_updated_time: str = Field(description="When the program made the report, by its own clock.")

    def metric(self, name: str) -> str:
        """The value of the metric of that name; "" if it was not reported."""
        return next((metric.value for metric in self.metrics or () if metric.name == name), "")


class JobProgress(ApiModel):
    """Progress derived from reports. A step is the metric `current_step`, or the percentage if there is none."""

    highest_step: _Step | None = Field(None, description="The highest step ever reported.")
    restarts: _Count | None = Field(None, description="How many restarts there had been when highestStep last rose.")
    step: _Step | None = Field(None, description="The highest step of the current run.")
    pod: str | None = Field(None, description="The UID of the pod that has reported it first.")
    other_pod: str | None = Field(None, description="The UID of the pod that has last reported a lower one.")
    other_step: _Step | None = Field(None, description="What that pod has reported.")
    armed: bool | None = Field(None, description="Whether the current run has reported two distinct steps.")
    attempt: _Count | None = Field(None, description="The attempt that the current run belongs to.")
    restart_time: str | None = Field(None, description="The lastRestartTime of the job when the current run first reported.")
    last_progress_time: str | None = Field(None, description="When the step of the current run was first reported.")
    last_report_time: str | None = Field(None, description="When the last recorded report arrived.")
    recorded_time: str | None = Field(None, description="When it was recorded.")
    summary: str | None = Field(None, description="The last report in words, for lists: percentage, steps, and the time left.")


class StallRecord(ApiModel):
    """The current stall: when it was detected and which step is overdue."""

    since: str = Field(description="When the deadline was found to have passed.")
    step: _Step | None = Field(None, description="The last step before the stall; unset if the run has not made two steps.")
    last_progress_time: str = Field(description="When the run first reported that step, or began.")
    seconds: _Count = Field(description="The deadline from then on, including the time for an evaluation.")


class NodeFailures(ApiModel):
    """The pods of the job that have failed or were lost on one node."""

    node: str = Field(description="The name of the node.")
    count: _Count = Field(description="The number of pods. From two on, new pods avoid the node.")


class ReplicaFailures(ApiModel):
    """Replicas of one type of which equally many runs have failed."""

    type: str = Field(description="Their type.")
    indexes: str = Field(description="Their indexes, as ranges (0-3,7).")
    runs: _Count | None = Field(None, description="The failed runs of each that maxRestartsWithoutProgress counts.")
    in_place: _Count | None = Field(None, description="The failed runs in the current pod of each that have been counted.")


class JobStatus(ApiModel):
    """The whole status."""

    conditions: list[JobCondition] = Field(
        default_factory=list,
        description="The job's conditions, oldest first. The last one is the current state (STATE in kubectl get).",
    )
    replica_statuses: dict[str, ReplicaStatus] = Field(default_factory=dict, description="The counts by replica type.")
    start_time: str | None = Field(None, description="When the job was started or last resumed.")
    completion_time: str | None = Field(None, description="When it succeeded or failed.")
    last_reconcile_time: str | None = Field(None, description="Written by other operators; not set here.")
    restarts: int | None = Field(None, description="Restarts after failed runs, in place or by a new pod, over all types.")
    disruptions: int | None = Field(
        None, description="Replicas replaced after evictions, lost nodes or deletions; not charged to backoffLimit."
    )
    attempt: int | None = Field(
        None,
        description="The current attempt of a job with restartScope Job, from 0: how often all its replicas were restarted.",
    )
    attempt_replicas: dict[str, int] = Field(
        default_factory=dict,
        description="With restartScope Job, the replicas of each type in the current attempt: the size of the world that its "
        "programs know of. Another number in the spec begins a new attempt.",
    )
    left_out: dict[str, str] = Field(
        default_factory=dict,
        description="With runPolicy.elastic, the replicas of each type without a node that the current attempt leaves out, as "
        "ranges (3,7-9).",
    )
    gathering_since: str | None = Field(
        None,
        description="With runPolicy.elastic, since when the current attempt waits for nodes. Its programs start together, and "
        "attemptReplicas has its size, when all replicas have a node or shrinkAfterSeconds have passed. Unset once they start.",
    )
    last_resize_time: str | None = Field(None, description="When the job was last resized.")
    awaited_checkpoint: str | None = Field(None, description="The last reported checkpoint. The job grows after the next one.")
    service_name: str | None = Field(
        None, description="The name of the job's headless Service, if another owner's Service has the name of the job."
    )
    last_restart_time: str | None = Field(
        None, description="When a restart, in place or by a new pod, a disruption or a new attempt was last recorded."
    )
    last_restart_cause: str | None = Field(None, description="Why the job last restarted.")
    trainer_status: TrainerStatus | None = Field(None, description="The last report of the program, if reportProgress is set.")
    progress: JobProgress | None = Field(None, description="Progress derived from the reports.")
    stall: StallRecord | None = Field(None, description="The stall of a job that is Stalled.")
    time_spent: TimeSpent | None = Field(None, description="Where its time went, in seconds.")
    failed_replicas: list[ReplicaFailures] = Field(
        default_factory=list,
        description="The replicas with failed runs since highestStep last rose, with reportProgress.",
    )
    node_failures: list[NodeFailures] = Field(
        default_factory=list,
        description="How many pods have failed or were lost on each node, if avoidFailedNodes; the last 10 that are avoided, "
        "and the last 10 others.",
    )
    features: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="What features of third parties have recorded, by their name."
    )
    failures: list[Failure] = Field(default_factory=list, description="The first failures, oldest first; at most 10.")
    counted_pods: list[str] = Field(
        default_factory=list,
        description="UIDs of pods whose end is recorded, counted or not, and that may still exist. For the operator's use.",
    )
    stopped_pods: list[str] = Field(
        default_factory=list,
        description="The pods of countedPods that the operator stopped; the others ended by themselves.",
    )

    def condition(self, kind: ConditionType) -> JobCondition | None:
        """The condition of that type, if there is one; of several, which only a forged list has, the last."""
        for condition in reversed(self.conditions):
            if condition.type == kind:
                return condition
        return None

    def has(self, kind: ConditionType) -> bool:
        """Whether the condition of that type is True."""
        condition = self.condition(kind)
        return condition is not None and condition.is_true

    @property
    def reported_progress(self) -> str:
        """What the program reported last, in words; "" if it has not."""
        return (self.progress.summary or "") if self.progress is not None else ""

    @property
    def has_run(self) -> bool:
        """Whether the job has run or been suspended before, as far as is recorded."""
        kinds = (ConditionType.RUNNING, ConditionType.RESTARTING, ConditionType.SUSPENDED)
        return any(condition.type in kinds for condition in self.conditions)

    @property
    def resizing(self) -> bool:
        """Whether it is Restarting because the new attempt has another size."""
        at = self.last_resize_time
        return at is not None and at == self.last_restart_time and self.has(ConditionType.RESTARTING)

    def since(self, *kinds: ConditionType) -> str | None:
        """Since when the last condition of those types that is True has been True; without types, the current one."""
        found = (c.last_transition_time for c in reversed(self.conditions) if c.is_true and (c.type in kinds or not kinds))
        return next(found, None)

    def reason(self, kind: ConditionType) -> str:
        """The reason of the condition of that type; "" without one."""
        condition = self.condition(kind)
        return condition.reason if condition is not None else ""

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed, for good."""
        return self.has(ConditionType.SUCCEEDED) or self.has(ConditionType.FAILED)

    @property
    def of_kind(self) -> Mapping[str, Any]:
        """The fields that its kind has beside ours. The conditions of the kind are among them if ours stand elsewhere."""
        found: Mapping[str, Any] = (self.model_extra or {}).get(_OF_KIND, {})
        return found

    def with_fields_of_kind(self, fields: Mapping[str, Any]) -> "JobStatus":
        """The status with those `of_kind`."""
        return self.model_copy(update={_OF_KIND: {**fields}}) if fields else self

    def to_json(self) -> dict[str, Any]:
        """The status as it is written: absent and empty fields are left out, but `conditions` and `replicaStatuses`."""
        data = self.model_dump(by_alias=True, exclude_none=True, mode="json")
        kept = ("conditions", "replicaStatuses")
        data = {key: value for key, value in data.items() if key in kept or value not in ({}, [])}
        of_kind = data.pop(_OF_KIND, {})
        if "conditions" in of_kind:
            data[JOB_CONDITIONS] = data["conditions"]
        return {**data, **of_kind}


def read_status(raw: object) -> JobStatus:
    """The status in `raw`, keeping each field and each list entry that can be read and dropping the rest."""
    if not isinstance(raw, Mapping):
        return JobStatus()
    if _OF_KIND in raw or JOB_CONDITIONS in raw:
        raw = {name: value for name, value in raw.items() if name != _OF_KIND}
        ours = raw.pop(JOB_CONDITIONS, None)
        raw |= {"conditions": ours, _OF_KIND: {"conditions": raw.get("conditions")}} if ours is not None else {}
    try:
        return _checked(raw)
    except (ValueError, RecursionError):
        pass
    readable: dict[str, Any] = {}
    readable.update({_OF_KIND: raw[_OF_KIND]} if _OF_KIND in raw else {})
    for key, value in raw.items():
        for candidate in (value, _readable_entries(key, value)):
            try:
                _checked({key: candidate})
            except (ValueError, RecursionError, TypeError):
                continue
            readable[key] = candidate
            break
    return JobStatus.model_validate(readable)


def _checked(raw: Mapping[str, Any]) -> JobStatus:
    """The status, if it can be written again, too: fields we do not know may be nested more deeply than pydantic goes."""
    status = JobStatus.model_validate(dict(raw))
    status.to_json()
    return status


_ENTRIES: Mapping[str, type[ApiModel]] = {
    "conditions": JobCondition,
    "failures": Failure,
    "failedReplicas": ReplicaFailures,
    "nodeFailures": NodeFailures,
    "replicaStatuses": ReplicaStatus,
}


def _readable_entries(key: object, value: object) -> object:
    """The entries of a list or map of models that can be read."""
    model = _ENTRIES.get(str(key))
    if model is None:
        return None
    if isinstance(value, list):
        return [entry for entry in value if _reads(model, entry)]
    if isinstance(value, Mapping):
        return {name: entry for name, entry in value.items() if isinstance(name, str) and _reads(model, entry)}
    return None


def _reads(model: type[ApiModel], entry: object) -> bool:
    try:
        model.model_validate(entry)
    except (ValidationError, RecursionError):
        return False
    return True


CELLS = 10


def summary(report: TrainerStatus, *, goes_on: bool) -> str:
    """``████░░░░░░ 47% (940/2000), 12m left``, as far as it is reported; how long it takes only while it `goes_on`."""
    percentage, step, total = report.progress_percentage, report.metric("current_step"), report.metric("total_steps")
    full = (percentage or 0) * CELLS // 100
    bar = f"{'█' * full}{'░' * (CELLS - full)} {percentage}%" if percentage is not None else ""
    parts = [
        f"{bar} ({step}/{total})" if bar and step and total else bar,
        f"step {step}" if step and not (bar and total) else "",
    ]
    if any(parts) and goes_on and report.estimated_remaining_seconds is not None and percentage != 100:
        parts.append(f"{human_duration(report.estimated_remaining_seconds)} left")
    return clean(", ".join(filter(None, parts)))
