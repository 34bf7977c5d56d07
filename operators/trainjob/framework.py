"""TrainJob: what Kubeflow Trainer's kind adds to the common job controller, without Trainer's and JobSet's own.

A TrainJob is read together with its runtime. For each job `specialize` makes a framework of its own, whose replica types are
the jobs that JobSet would make of the runtime's replicated jobs; the common controller takes it as any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from jobcommon import (
    UNBUFFERED,
    Companion,
    CompanionKind,
    EnvVar,
    FieldError,
    Framework,
    Job,
    JobStatus,
    ObjectKey,
    Outcome,
    PodView,
    Replica,
    ReplicaType,
    ScalePaths,
    Tallies,
    Version,
    format_time,
    last_result_cached,
    mapping_of,
    mappings_in,
)
from jobcommon.operators.trainjob import environment
from jobcommon.operators.trainjob.checks import GONE, checks
from jobcommon.operators.trainjob.kinds import API_VERSION, GROUP, OWN_FIELDS, RUNTIMES, TRAINJOB_DEFINITION
from jobcommon.operators.trainjob.labels import job_labels, pod_labels
from jobcommon.operators.trainjob.policies import ANNOTATION, as_annotations
from jobcommon.operators.trainjob.resolve import resolve
from jobcommon.operators.trainjob.resolved import Dependency, MLFramework, Resolved, Role, Step
from jobcommon.operators.trainjob.runtimes import local
from jobcommon.operators.trainjob.snapshot import snapshot, snapshot_key, snapshot_of
from jobcommon.operators.trainjob.status import COMPLETE, FAILED, conditions, jobs_status

TRAINER = f"{GROUP}/trainjob-controller"
"""The value of managedBy for the controller of the cluster, which this is."""
KUEUE = "kueue.x-k8s.io/manager"
"""The manager of Kueue's patch, which its webhook adds to every TrainJob."""
REPLICATED_JOBS = "replicatedJobs"
KINDS = {kind.kind: kind.plural for kind in RUNTIMES}
CLUSTER_WIDE = "ClusterTrainingRuntime"
Json = Mapping[str, Any]


def runtime_key(raw: Json) -> ObjectKey | FieldError:
    """The runtime that a TrainJob refers to."""
    reference = mapping_of(mapping_of(raw.get("spec")).get("runtimeRef"))
    kind, group = reference.get("kind") or CLUSTER_WIDE, reference.get("apiGroup") or GROUP
    if kind not in KINDS or group != GROUP:
        return FieldError("spec.runtimeRef", f"Unsupported value: use a {' or '.join(KINDS)} of {GROUP}")
    namespace = "" if kind == CLUSTER_WIDE else _text(mapping_of(raw.get("metadata")).get("namespace"))
    return ObjectKey(KINDS[kind], namespace, _text(reference.get("name")))


def references(raw: Json) -> Sequence[ObjectKey]:
    """The runtime, and the copy of it that the job was started with."""
    runtime = runtime_key(raw)
    return (snapshot_key(raw), runtime) if isinstance(runtime, ObjectKey) else ()


def specialize(framework: Framework, raw: Json, related: Mapping[ObjectKey, Json]) -> tuple[Framework, Json]:
    """See `Framework`."""
    alone = replace(framework, specialize=None, related=(), references=lambda _: ())
    key = runtime_key(raw)
    takes_reports = framework.options.progress is not None
    if isinstance(key, FieldError):
        return replace(alone, unresolved=(key,)), _manifest(raw, _bare_policy(raw, takes_reports), {})
    kept = snapshot_of(related.get(snapshot_key(raw)), raw)
    live = related.get(key)
    runtime = {**kept, GONE: live is None} if kept is not None else live
    if runtime is None:
        kind = next(kind for kind, plural in KINDS.items() if plural == key.plural)
        error = FieldError("spec.runtimeRef.name", f'Not found: there is no {kind} "{key.name}"')
        return replace(alone, unresolved=(error,), missing=True), _manifest(raw, _bare_policy(raw, takes_reports), {})
    resolved, patches = resolve(raw, runtime), list(mappings_in(mapping_of(raw.get("spec")).get("runtimePatches")))
    if not isinstance(resolved, Resolved):
        return replace(alone, unresolved=resolved), _manifest(raw, _bare_policy(raw, takes_reports), {})
    # Kueue writes the whole job, without the fields that Trainer's kind has not.
    annotations = as_annotations(raw) if any(patch.get("manager") == KUEUE for patch in patches) else {}
    made = _Specialized(resolved, runtime, patches, annotations).framework(alone)
    return made, _canonical(raw, resolved, takes_reports)


@dataclass(frozen=True)
class _Specialized:
    """The functions of the framework of one job."""

    resolved: Resolved
    runtime: Json
    patches: Sequence[Json]
    annotations: Json

    def framework(self, base: Framework) -> Framework:
        trainer = self.resolved.trainer
        return replace(
            base,
            replica_types=tuple(_type(role, number) for role in self.resolved.roles for number in range(role.jobs)),
            subdomain=self.resolved.subdomain,
            env=self.env,
            outcome=self.outcome,
            is_master=self.is_master,
            retries=lambda _, replica: self.role_of(replica.type).retries,
            may_create=self.may_create,
            shape_pod=self.shape_pod,
            companions=self.companions,
            status_fields=self.status_fields,
            corrections=self.corrections,
            checks=checks(self.resolved, self.runtime),
            scale=ScalePaths.of_type(REPLICATED_JOBS, self.types[trainer.name][0]) if trainer is not None else None,
        )

    @cached_property
    def types(self) -> Mapping[str, Sequence[str]]:
        """By role, the replica types that its jobs are."""
        return {role.name: [_type_name(role, number) for number in range(role.jobs)] for role in self.resolved.roles}

    @cached_property
    def places(self) -> Mapping[str, tuple[Role, int]]:
        """By replica type, the role and the index of the job in it."""
        return {_type_name(role, number): (role, number) for role in self.resolved.roles for number in range(role.jobs)}

    @cached_property
    def addresses(self) -> Any:
        """Of a job: by role, the addresses of its pods in order of rank."""
        return last_result_cached(
            lambda job: {
                name: [job.address(replica) for kind in kinds for replica in job.replicas_of(kind)]
                for name, kinds in self.types.items()
            }
        )

    def role_of(self, kind: str) -> Role:
        return self.places[kind][0]

    def rank(self, job: Job, replica: Replica) -> int:
        """The number of a pod among those of its role."""
        role, number = self.places[replica.type]
        return sum(job.count(kind) for kind in self.types[role.name][:number]) + job.rank_of(replica)

    def env(self, job: Job, replica: Replica) -> Sequence[EnvVar]:
        role = self.role_of(replica.type)
        own = environment.environment(self.resolved, role, self.rank(job, replica), self.addresses(job))
        # Ranks of MPI share an output.
        return own if self.resolved.policy.framework is MLFramework.MPI else (UNBUFFERED, *own)

    def outcome(self, _job: Job, tallies: Tallies) -> Outcome:
        """By the runtime's success policy; the job runs while a pod that trains does."""
        success, trainer = self.resolved.success, self.resolved.trainer
        ends = [tallies[kind].complete for role in success.roles for kind in self.types[role] if kind in tallies]
        leading = self.types[trainer.name] if trainer is not None else list(tallies)
        running = any(tallies[kind].active for kind in leading if kind in tallies)
        return Outcome(running=running, succeeded=any(ends) if success.any_of_them else bool(ends) and all(ends))

    def is_master(self, _job: Job, replica: Replica) -> bool:
        return self.role_of(replica.type).step is Step.TRAINER and replica == Replica(replica.type, 0)

    def may_create(self, _job: Job, replica: Replica, tallies: Tallies) -> bool:
        """Once the roles that it depends on are ready, or have succeeded."""
        for name, condition in self.role_of(replica.type).depends_on:
            for tally in (tallies[kind] for kind in self.types.get(name, ()) if kind in tallies):
                ready = tally.ready + tally.succeeded >= tally.wanted
                if not (ready if condition is Dependency.READY else tally.complete):
                    return False
        return True

    def shape_pod(self, job: Job, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with what the policy mounts, and with JobSet's labels and annotations."""
        role, number = self.places[replica.type]
        pod = environment.shape_pod(self.resolved, role, self.rank(job, replica), self.addresses(job), pod)
        whose: dict[str, Any] = {"namespace": job.namespace, "uid": job.uid, "attempt": job.attempt}
        own = pod_labels(self.resolved, role, number, replica.index, **whose)
        for field in ("labels", "annotations"):
            pod["metadata"][field] = {**pod["metadata"].get(field, {}), **own}
        pod["metadata"]["labels"] |= job_labels(self.resolved, role, number)
        return pod

    def corrections(self, _job: Job, now: float) -> Mapping[str, Any]:
        """The times of patches that have none; and, as annotations, a runPolicy that Kueue is going to drop."""
        found: dict[str, Any] = {"metadata": {"annotations": self.annotations}} if self.annotations else {}
        if not all(patch.get("time") for patch in self.patches):
            dated = [patch if patch.get("time") else {**patch, "time": format_time(now)} for patch in self.patches]
            found["spec"] = {"runtimePatches": dated}
        return found

    def companions(self, job: Job, _pods: Sequence[PodView]) -> Sequence[Companion]:
        """The copy of the runtime, the claims, and what the policy needs."""
        claims = [
            Companion(
                "v1",
                "PersistentVolumeClaim",
                "persistentvolumeclaims",
                one.name,
                one.manifest,
                owned_fields=(),
                kept=one.retained,
            )
            for one in self.resolved.claims
        ]
        running = not (job.status.finished or job.suspended)
        of_policy = environment.companions(self.resolved, self.addresses(job), running=running)
        return [snapshot(job, self.runtime), *claims, *of_policy]

    def status_fields(
        self, job: Job, status: JobStatus, pods: Sequence[PodView], created: Any, now: float
    ) -> Mapping[str, Any]:
        return {"conditions": conditions(job, status, now), "jobsStatus": jobs_status(job, status, self.types, pods, created)}


def status_fields(job: Job, status: JobStatus, _pods: object, _created: object, now: float) -> Mapping[str, Any]:
    """Those of a job of which it is not known what it runs."""
    return {"conditions": conditions(job, status, now)}


def _type_name(role: Role, number: int) -> str:
    return role.name if role.jobs == 1 else f"{role.name}.{number}"


def _type(role: Role, number: int) -> ReplicaType:
    return ReplicaType(_type_name(role, number), role.restart_policy, pods=f"{role.name}-{number}")


def _canonical(raw: Json, resolved: Resolved, takes_reports: bool) -> Json:
    specs = {
        _type_name(role, number): {"replicas": role.pods, "restartPolicy": role.restart_policy, "template": role.template}
        for role in resolved.roles
        for number in range(role.jobs)
    }
    # It is set by default.
    dropped = () if takes_reports or _asks_for_reports(raw) else ("reportProgress",)
    return _manifest(raw, {name: value for name, value in resolved.run_policy.items() if name not in dropped}, specs)


def _asks_for_reports(raw: Json) -> bool:
    own = mapping_of(mapping_of(raw.get("spec")).get("runPolicy"))
    return "reportProgress" in own or f"{ANNOTATION}reportProgress" in mapping_of(
        mapping_of(raw.get("metadata")).get("annotations")
    )


def _bare_policy(raw: Json, takes_reports: bool) -> Json:
    """What is known of a job whose runtime is not."""
    spec = mapping_of(raw.get("spec"))
    own = {name: spec[name] for name in OWN_FIELDS if name in spec and spec[name] != TRAINER}
    return {**own, "reportProgress": True} if takes_reports else own


def _manifest(raw: Json, policy: Json, specs: Json) -> Json:
    if _is_of_trainer(mapping_of(raw.get("status"))):
        policy = {**policy, "managedBy": TRAINER}
    return {**raw, "spec": {"runPolicy": policy, REPLICATED_JOBS: specs}}


def _is_of_trainer(status: Json) -> bool:
    """Whether Trainer has started the job, and its pods run or it is over: ours would run beside them, or once more."""
    if "jobConditions" in status:
        return False
    over = (
        one.get("type") in (COMPLETE, FAILED) and one.get("status") == "True" for one in mappings_in(status.get("conditions"))
    )
    return any(job.get("active") for job in mappings_in(status.get("jobsStatus"))) or any(over)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


TRAINJOB = Framework(
    kind="TrainJob",
    plural="trainjobs",
    name="trainjob",
    group=GROUP,
    versions=(Version(API_VERSION.rpartition("/")[2], storage=True),),
    replica_specs=REPLICATED_JOBS,
    # The roles of the SDK, for a job whose runtime is not known.
    replica_types=tuple(ReplicaType(name) for name in ("dataset-initializer", "model-initializer", "launcher", "node")),
    container="",
    port_name="",
    port=0,
    env_in_main_only=True,
    companion_kinds=(
        # The copies of runtimes are read with the jobs.
        CompanionKind("v1", "ConfigMap", "configmaps"),
        CompanionKind("v1", "Secret", "secrets", watched=False),
        CompanionKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", watched=False),
    ),
    checks=checks(),
    definition=TRAINJOB_DEFINITION,
    related=RUNTIMES,
    references=references,
    specialize=specialize,
    shipped=cache(local),
    status_fields=status_fields,
    corrections=lambda _job, _now: {},
    rival=GROUP,
    suspend_at=("suspend",),
    queued_by_kueue=True,
)
