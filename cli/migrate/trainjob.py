"""A job as a TrainJob of Kubeflow Trainer v2, with the TrainingRuntime that runs the same pods.

The runtime has everything, the TrainJob hardly more than its name: this holds for every v1alpha1 of Trainer, whose TrainJob
changed from release to release.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from jobcommon.api import labels
from jobcommon.api.job import RestartPolicy
from jobcommon.api.kueue import MULTIKUEUE
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.cli.convert.finding import Finding, Notes
from jobcommon.cli.migrate.fields import note_fields
from jobcommon.cli.migrate.grouping import Group, arranged, groups_of
from jobcommon.framework import FINALIZER, Framework, Job, Tally
from jobcommon.reconcile import Create, plan

API_VERSION = "trainer.kubeflow.org/v1alpha1"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
MPI_KIND = "MPIJob"
NODE = "node"
MAX_LABEL = 63
# How many replicas of which types a replicated Job holds.
REPLICAS = f"{labels.PREFIX}migrated-replicas"
# Trainer mounts these itself.
_OF_TRAINER = ("ssh-auth", "mpi-job-config")
_UNLIMITED = 2**31 - 1
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Migration:
    """The objects to apply, in order, and what they do not carry."""

    objects: tuple[Json, ...]
    findings: tuple[Finding, ...]


def to_trainjob(framework: Framework, manifest: Mapping[str, Any], job: Job) -> Migration:
    """`job` is the job in `manifest`, without errors. Raises ConvertError when no TrainJob runs such pods."""
    notes = Notes()
    note_fields(framework, manifest, notes)
    mpi = framework.kind == MPI_KIND
    if mpi:
        _check_mpi(job, notes)
    notes.check()
    pods = planned_pods(framework, job)
    groups = _mpi_groups(job, pods, notes) if mpi else groups_of(job, pods)
    _check_name(job, groups, notes)
    if len(groups) > len(job.replica_specs):
        text = "each replica is a replicated Job of its own, because they differ in more than their index"
        notes.warn(f"spec.{framework.replica_specs}", text)
    runtime_spec: Json = {"template": {"spec": _job_set(framework, manifest, job, groups, notes)}}
    runtime_spec = {"mlPolicy": _ml_policy(job) if mpi else {"numNodes": len(groups[-1].replicas)}, **runtime_spec}
    written = manifest.get("metadata") or {}
    metadata = {key: dict(written[key]) for key in ("labels", "annotations") if written.get(key)}
    if "annotations" in metadata:
        metadata["annotations"].pop(_LAST_APPLIED, None)
    place = {"name": job.name, **({"namespace": job.namespace} if job.namespace else {})}
    runtime = {"apiVersion": API_VERSION, "kind": "TrainingRuntime", "metadata": place, "spec": runtime_spec}
    spec: Json = {"runtimeRef": {"apiGroup": API_VERSION.partition("/")[0], "kind": "TrainingRuntime", "name": job.name}}
    if job.run_policy.suspend is not None:
        spec["suspend"] = job.run_policy.suspend
    if job.run_policy.managed_by == MULTIKUEUE:
        spec["managedBy"] = MULTIKUEUE
    train_job = {"apiVersion": API_VERSION, "kind": "TrainJob", "metadata": {**place, **metadata}, "spec": spec}
    notes.check()
    return Migration((runtime, train_job), tuple(notes.warnings))


def _check_name(job: Job, groups: list[Group], notes: Notes) -> None:
    """JobSet refuses pods whose names would be no DNS labels; a Job's controller appends five letters to them."""
    longest = max(len(f"-{group.name}-0-{len(group.replicas) - 1}-abcde") for group in groups)
    if len(job.name) + longest > MAX_LABEL:
        text = (
            f"JobSet's pods would have names of more than {MAX_LABEL} characters: use up to {MAX_LABEL - longest} for the job's"
        )
        notes.error("metadata.name", text)


def planned_pods(framework: Framework, job: Job) -> dict[Replica, Json]:
    """What the operator would create: labels, annotations and spec of the pod of each replica, without marks of its own."""
    policy = job.run_policy.model_copy(update={"suspend": False, "managed_by": None, "elastic": None})
    begun = replace(job, spec=job.spec.model_copy(update={"run_policy": policy}), uid=job.uid or "unknown")
    # Every replica is created, whatever it would wait for.
    decision = plan(replace(framework, may_create=lambda *_: True), begun, Observed(), 0.0)
    made = {
        one.name: msgspec.to_builtins(one.manifest)
        for one in decision.actions
        if isinstance(one, Create) and one.plural == "pods"
    }
    return {replica: _bare(made[job.pod_name(replica)]) for replica in job.replicas}


def _bare(pod: Json) -> Json:
    metadata: Json = {}
    own = {key: value for key, value in (pod["metadata"].get("labels") or {}).items() if not key.startswith(labels.PREFIX)}
    if own:
        metadata["labels"] = own
    if annotations := pod["metadata"].get("annotations"):
        metadata["annotations"] = dict(annotations)
    if finalizers := [name for name in pod["metadata"].get("finalizers") or () if name != FINALIZER]:
        metadata["finalizers"] = finalizers
    spec = {key: value for key, value in pod["spec"].items() if key not in ("hostname", "subdomain")}
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


# -- the JobSet ------------------------------------------------------------------------------------------------------------


def _job_set(framework: Framework, manifest: Mapping[str, Any], job: Job, groups: list[Group], notes: Notes) -> Json:
    spec: Json = {}
    names, rule = [], None
    if (deciding := _deciding(framework, job)) is not None:
        kind, rule = deciding
        names = [group.name for group in groups if any(replica.type == kind for replica in group.replicas)]
        operator = "Any" if len(names) > 1 and rule and "succeededCount" in rule else "All"
        if len(names) > 1 and rule and operator == "All":
            # The first replica alone decides.
            names = names[:1]
        elif len(names) == 1:
            rule = _among(kind, rule, next(group for group in groups if group.name == names[0]))
        spec["successPolicy"] = {"operator": operator, "targetReplicatedJobs": names}
    # A manifest without it may be limited, too: by what its version means.
    if (manifest["spec"].get("runPolicy") or manifest["spec"]).get("backoffLimit") and len(groups) > 1:
        notes.warn("spec.runPolicy.backoffLimit", "each replicated Job has its own count")
    spec["replicatedJobs"] = [
        {
            "name": group.name,
            "replicas": 1,
            **(
                {"dependsOn": [{"name": "node", "status": "Ready"}]}
                if group is not groups[0] and group.name == "launcher" and _waits(job)
                else {}
            ),
            "template": _job(framework, job, group, rule if group.name in names else None, group is groups[-1], notes),
        }
        for group in groups
    ]
    if job.run_policy.ttl_seconds_after_finished is not None:
        spec["ttlSecondsAfterFinished"] = job.run_policy.ttl_seconds_after_finished
    return spec


def _among(kind: str, rule: Json | None, group: Group) -> Json | None:
    """The rule for the replicas of a type in a group that may have other types as well."""
    indexes = [index for index, replica in enumerate(group.replicas) if replica.type == kind]
    if len(indexes) == len(group.replicas):
        return rule
    if rule is not None and "succeededIndexes" in rule:
        indexes = indexes[:1]
    text = str(indexes[0]) if len(indexes) == 1 else f"{indexes[0]}-{indexes[-1]}"
    return {"succeededIndexes": text, **({"succeededCount": 1} if rule and "succeededCount" in rule else {})}


def _job(framework: Framework, job: Job, group: Group, rule: Json | None, trainer: bool, notes: Notes) -> Json:
    """The batch Job of a group."""
    count, kind = len(group.replicas), group.replicas[0].type
    specification = job.replica_specs[kind]
    template = {**group.template, "spec": dict(group.template["spec"])}
    limit = job.run_policy.backoff_limit
    spec: Json = {"completionMode": "Indexed", "parallelism": count, "completions": count}
    policy = specification.restart_policy
    if template["spec"].get("restartPolicy") not in ("Never", "OnFailure"):
        notes.warn(
            f"spec.{framework.replica_specs}.{kind}.restartPolicy", "a pod of a Job cannot have Always; it gets OnFailure"
        )
        template["spec"]["restartPolicy"] = "OnFailure"
    spec["backoffLimit"] = 0 if policy == RestartPolicy.NEVER else _UNLIMITED if limit is None else limit
    main = framework.main_container(specification)
    is_node = trainer or framework.kind == MPI_KIND
    if is_node:
        path = f"spec.{framework.replica_specs}.{kind}.template.spec.containers"
        template["spec"]["containers"] = _with_node(template["spec"], main, path, notes)
    if policy == RestartPolicy.EXIT_CODE:
        codes = {"operator": "In", "values": list(range(1, 128)), "containerName": NODE if is_node else main}
        spec["podFailurePolicy"] = {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailJob", "onExitCodes": codes},
            ]
        }
    if job.run_policy.active_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = job.run_policy.active_deadline_seconds
    if rule is not None and count > 1:
        spec["successPolicy"] = {"rules": [rule]}
    spec["template"] = template
    counts: dict[str, int] = {}
    for replica in group.replicas:
        counts[replica.type] = counts.get(replica.type, 0) + 1
    metadata: Json = {"annotations": {REPLICAS: ",".join(f"{name}={number}" for name, number in counts.items())}}
    # The step that fields of a TrainJob's trainer are about.
    if trainer:
        metadata["labels"] = {ANCESTOR: "trainer"}
    return {"metadata": metadata, "spec": spec}


def _with_node(spec: Json, main: str, path: str, notes: Notes) -> list[Json]:
    """The containers of a pod; the main one has the name by which Trainer's webhook and plugins know it."""
    others = [one["name"] for one in (*spec["containers"], *(spec.get("initContainers") or ())) if one["name"] != main]
    if NODE in others:
        notes.error(path, f"Trainer wants the main container to be named {NODE}, but another one has that name: rename it")
    return [{**one, "name": NODE} if one["name"] == main else one for one in spec["containers"]]


def _deciding(framework: Framework, job: Job) -> tuple[str, Json | None] | None:
    """The type whose success is the job's, and the rule of a Job's successPolicy if not all of its pods must succeed."""
    wanted = {kind: Tally(wanted=job.count(kind)) for kind in job.replica_specs}

    def succeeds(kind: str, *indexes: int) -> bool:
        tally = replace(wanted[kind], succeeded=len(indexes), succeeded_indexes=frozenset(indexes))
        return framework.decide(job, {**wanted, kind: tally}).succeeded

    for kind in job.replica_specs:
        count = job.count(kind)
        if not count or not succeeds(kind, *range(count)):
            continue
        if count > 1 and succeeds(kind, 0):
            return kind, {"succeededCount": 1} if succeeds(kind, 1) else {"succeededIndexes": "0"}
        return kind, None
    return None


# -- MPI -------------------------------------------------------------------------------------------------------------------


def _check_mpi(job: Job, notes: Notes) -> None:
    said = job.spec.model_dump(by_alias=True, mode="json")
    if said.get("transport") == "Exec":
        notes.error("spec.transport", "Trainer does not support kubectl exec: use transport SSH and images with sshd")
    if said.get("mpiImplementation") not in (None, "OpenMPI"):
        notes.error("spec.mpiImplementation", f"Trainer supports OpenMPI only, not {said['mpiImplementation']}")
    if said.get("runLauncherAsWorker"):
        notes.warn("spec.runLauncherAsWorker", "becomes runLauncherAsNode; numNodes counts the launcher")


def _waits(job: Job) -> bool:
    return job.spec.model_dump(by_alias=True, mode="json").get("launcherCreationPolicy") == "WaitForWorkersReady"


def _mpi_groups(job: Job, pods: Mapping[Replica, Json], notes: Notes) -> list[Group]:
    """The workers as `node`, then the launcher, with the names that Trainer's MPI plugin looks for."""
    ours = {replica: _without_keys(pod) for replica, pod in pods.items()}
    of_type = {"node": "Worker", "launcher": "Launcher"}
    members = {name: [replica for replica in ours if replica.type == kind] for name, kind in of_type.items()}
    found = arranged(job, ours, {name: replicas for name, replicas in members.items() if replicas})
    if found is None:
        notes.error("spec.mpiReplicaSpecs.Worker.overrides", "Trainer has one template for all MPI workers: remove them")
        notes.check()
    return found or []


def _without_keys(pod: Json) -> Json:
    """The pod without the volumes that Trainer adds itself."""
    spec = dict(pod["spec"])
    kept = [volume for volume in spec.get("volumes") or () if volume["name"] not in _OF_TRAINER]
    spec.pop("volumes", None)
    if kept:
        spec["volumes"] = kept
    containers = []
    for container in spec["containers"]:
        mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in _OF_TRAINER]
        rest = {key: value for key, value in container.items() if key != "volumeMounts"}
        containers.append({**rest, **({"volumeMounts": mounts} if mounts else {})})
    return {**pod, "spec": {**spec, "containers": containers}}


def _ml_policy(job: Job) -> Json:
    said = job.spec.model_dump(by_alias=True, mode="json")
    as_node = bool(said.get("runLauncherAsWorker"))
    workers = job.count("Worker")
    return {
        "numNodes": workers + 1 if as_node else workers,
        "mpi": {
            "numProcPerNode": said.get("slotsPerWorker") or 1,
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": said.get("sshAuthMountPath") or "/root/.ssh",
            "runLauncherAsNode": as_node,
        },
    }
