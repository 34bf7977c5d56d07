"""A TrainJob with its runtime as a job of kubeflow.org: the way back, and for TrainJobs that were never anything else."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobcommon.api.job import RestartPolicy
from jobcommon.api.kueue import MULTIKUEUE
from jobcommon.cli.convert.finding import ConvertError, Finding, Notes
from jobcommon.cli.migrate.grouping import INDEX, INDEX_ENV
from jobcommon.cli.migrate.trainjob import (
    ANCESTOR,
    CONTAINER,
    MPI_KIND,
    ORIGIN,
    OWN_FIELDS,
    REPLICAS,
    Migration,
    planned_pods,
    to_trainjob,
)
from jobcommon.framework import Framework
from jobcommon.reconcile import read_job

Json = dict[str, Any]
_UNLIMITED = 2**31 - 1
_WITHOUT = "has no counterpart in a job of kubeflow.org"
# The replicated Job of the trainers, in Trainer's own runtimes and in migrated ones.
_NODES = ("node", "trainer-node", "worker")
_TRAINER = ("image", "command", "args")


def to_v1(train_job: Mapping[str, Any], runtime: Mapping[str, Any], frameworks: Sequence[Framework]) -> Migration:
    """Raises ConvertError when no kind of `frameworks` runs such pods."""
    notes = Notes()
    spec, policy = dict(train_job.get("spec") or {}), dict((runtime.get("spec") or {}).get("mlPolicy") or {})
    framework, version = _kind(runtime, policy, frameworks)
    job_set = dict((((runtime.get("spec") or {}).get("template") or {}).get("spec")) or {})
    written = train_job.get("metadata") or {}
    metadata = {key: written[key] for key in ("name", "namespace", "labels", "annotations") if written.get(key)}
    trainer = dict(spec.get("trainer") or {})
    replicas, run_policy = _replicas(framework, job_set, policy, trainer, notes)
    run_policy |= {name: job_set[name] for name in ("ttlSecondsAfterFinished",) if job_set.get(name) is not None}
    if spec.get("suspend") is not None:
        run_policy["suspend"] = spec["suspend"]
    if spec.get("activeDeadlineSeconds"):
        run_policy["activeDeadlineSeconds"] = spec["activeDeadlineSeconds"]
    if spec.get("managedBy") == MULTIKUEUE:
        run_policy["managedBy"] = MULTIKUEUE
    body: Json = {"runPolicy": run_policy} if run_policy else {}
    body |= {**_written_fields(runtime), **_own_fields(framework, policy, trainer)}
    body[framework.replica_specs] = replicas
    _note_rest(spec, runtime.get("spec") or {}, job_set, notes)
    _note_jobs(framework, job_set, body, notes)
    manifest = {
        "apiVersion": f"{framework.group}/{version}", "kind": framework.kind, "metadata": metadata, "spec": body,
    }  # fmt: skip
    notes.errors += [Finding(error.path, error.message) for error in read_job(framework, manifest).errors]
    notes.check()
    dropped = _drop_own_variables(framework, manifest, replicas)
    _note_dropped(framework, manifest, dropped, notes)
    return Migration((manifest,), tuple(dict.fromkeys(notes.warnings)))


def _kind(runtime: Mapping[str, Any], policy: Mapping[str, Any], frameworks: Sequence[Framework]) -> tuple[Framework, str]:
    """The framework and the version: those it came from, or what the runtime's policy is for."""
    origin = str(((runtime.get("metadata") or {}).get("annotations") or {}).get(ORIGIN, ""))
    kind, _, version = origin.partition(".")
    if not kind:
        kind = MPI_KIND if "mpi" in policy else "PyTorchJob" if "torch" in policy else ""
    framework = next((one for one in frameworks if one.kind == kind), None)
    if framework is None:
        where = "spec.mlPolicy"
        text = (
            f"annotation {ORIGIN}: there is no framework for {origin}"
            if origin
            else (
                "is neither torch nor mpi, so the kind is not known; say it in the runtime's annotation "
                f'{ORIGIN}, as in "TFJob.v1"'
            )
        )
        raise ConvertError((Finding(where, text),))
    return framework, version or framework.storage_version


def _replicas(
    framework: Framework, job_set: Mapping[str, Any], policy: Mapping[str, Any], trainer: Json, notes: Notes
) -> tuple[Json, Json]:
    """The replica specs, and the part of the run policy that the Jobs say."""
    found: Json = {}
    run_policy: Json = {}
    for position, one in enumerate(job_set.get("replicatedJobs") or ()):
        path = f"runtime spec.template.spec.replicatedJobs[{position}]"
        job = one.get("template") or {}
        spec, marks = job.get("spec") or {}, (job.get("metadata") or {}).get("annotations") or {}
        # A TrainJob's trainer is about the step of that label; in runtimes without labels about the nodes.
        node = str(one.get("name")) in _NODES
        template = _template(framework, spec.get("template") or {}, marks, trainer if _is_step(job, node, job_set) else {})
        count = spec.get("parallelism") or 1
        if node or (_is_step(job, node, job_set) and one.get("name") != "launcher"):
            node, count = True, _nodes(policy, trainer, None if REPLICAS in marks else count) or count
        restart, limit = _restart(spec)
        for kind, number in _counts(framework, str(one.get("name")), marks, count, node):
            if not kind:
                notes.warn(path, f"{one.get('name')} is not a replica type of {framework.kind} and is left out")
                continue
            replica = {"replicas": number, "restartPolicy": restart, "template": template}
            if kind not in found:
                found[kind] = replica
            elif found[kind]["template"] == template:
                found[kind]["replicas"] += number
            else:
                _override(found[kind], template, number)
        if limit is not None:
            run_policy["backoffLimit"] = max(limit, run_policy.get("backoffLimit", 0))
        if spec.get("activeDeadlineSeconds"):
            run_policy["activeDeadlineSeconds"] = max(spec["activeDeadlineSeconds"], run_policy.get("activeDeadlineSeconds", 0))
    if not found:
        notes.error("runtime spec.template.spec.replicatedJobs", f"has no replica type of {framework.kind}")
    return found, run_policy


def _is_step(job: Mapping[str, Any], node: bool, job_set: Mapping[str, Any]) -> bool:
    """Whether the TrainJob's trainer is about that Job."""
    jobs = [job, *(one.get("template") or {} for one in job_set.get("replicatedJobs") or ())]
    labelled, *others = (ANCESTOR in ((one.get("metadata") or {}).get("labels") or {}) for one in jobs)
    return labelled if any(others) else node


def _nodes(policy: Mapping[str, Any], trainer: Mapping[str, Any], default: int | None) -> int | None:
    """The number of pods of the trainers; None where the runtime's Job says it."""
    asked: int | None = trainer.get("numNodes") or (None if default is None else policy.get("numNodes") or default)
    if asked is not None and (policy.get("mpi") or {}).get("runLauncherAsNode"):
        return max(asked - 1, 1)
    return asked


def _override(replica: Json, template: Json, number: int) -> None:
    """Further replicas of a type whose template differs: containers, variables and volumes are merged by name."""
    first = replica["replicas"]
    replica.setdefault("overrides", []).append({"indices": list(range(first, first + number)), "template": template})
    replica["replicas"] += number


def _counts(framework: Framework, name: str, marks: Mapping[str, str], count: int, node: bool) -> Iterator[tuple[str, int]]:
    """How many replicas of which types a replicated Job is."""
    types = {kind.name.lower(): kind.name for kind in framework.replica_types}
    if REPLICAS in marks:
        for entry in marks[REPLICAS].split(","):
            kind, _, number = entry.partition("=")
            yield types.get(kind.lower(), ""), int(number) if number.isdecimal() else 0
    else:
        yield types.get(name, types.get("worker", "") if node else ""), count


def _restart(spec: Mapping[str, Any]) -> tuple[str, int | None]:
    """The replica's restart policy, and the job's back-off limit if this says one."""
    policy, limit = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy"), spec.get("backoffLimit")
    if spec.get("podFailurePolicy"):
        restart = RestartPolicy.EXIT_CODE
    elif limit == 0 and policy != "OnFailure":
        return RestartPolicy.NEVER.value, None
    else:
        restart = RestartPolicy.ON_FAILURE
    return restart.value, None if limit == _UNLIMITED else limit


def _template(framework: Framework, template: Mapping[str, Any], marks: Mapping[str, str], trainer: Json) -> Json:
    """The pod template with what the TrainJob says of its trainer, its main container named as the operator expects."""
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key != "restartPolicy"}
    containers = [dict(container) for container in spec.get("containers") or ()]
    known = ("node", "trainer", framework.container)
    main = next((one for one in containers if one.get("name") in known), containers[0] if containers else None)
    if main is not None:
        main["name"] = marks.get(CONTAINER) or framework.container or main.get("name")
        main |= {name: trainer[name] for name in _TRAINER if trainer.get(name) is not None}
        if trainer.get("resourcesPerNode"):
            main["resources"] = trainer["resourcesPerNode"]
        if own := trainer.get("env"):
            names = {one["name"] for one in own}
            main["env"] = [*(one for one in main.get("env") or () if one["name"] not in names), *own]
    metadata = template.get("metadata")
    return {**({"metadata": metadata} if metadata else {}), "spec": {**spec, "containers": containers}}


def _written_fields(runtime: Mapping[str, Any]) -> Json:
    """The framework's own fields as they were before the job was migrated. Raises ConvertError."""
    text = ((runtime.get("metadata") or {}).get("annotations") or {}).get(OWN_FIELDS, "{}")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        where = f"runtime metadata.annotations[{OWN_FIELDS}]"
        raise ConvertError((Finding(where, "must be a JSON object, as `jobcommon migrate` has written it"),))
    return found


def _own_fields(framework: Framework, policy: Mapping[str, Any], trainer: Mapping[str, Any]) -> Json:
    """The fields of the framework's own that the runtime's policy says."""
    if framework.kind == MPI_KIND:
        mpi = policy.get("mpi") or {}
        said = {
            "slotsPerWorker": trainer.get("numProcPerNode") or mpi.get("numProcPerNode"),
            "sshAuthMountPath": mpi.get("sshAuthMountPath"),
            "runLauncherAsWorker": mpi.get("runLauncherAsNode") or None,
        }
        return {key: value for key, value in said.items() if value is not None} | {"transport": "SSH"}
    if "torch" in policy and framework.kind == "PyTorchJob":
        return {"nprocPerNode": str(trainer.get("numProcPerNode") or policy["torch"].get("numProcPerNode") or "auto")}
    return {}


def _drop_own_variables(framework: Framework, manifest: Json, replicas: Json) -> list[Json]:
    """Remove the variables that the operator sets itself, and return them."""
    job = read_job(framework, manifest)
    names = _own_variables(framework, manifest)
    defaults = {one.name for replica in job.replicas for one in framework.env(job, replica) if one.default}
    dropped = []
    for replica in replicas.values():
        for template in (replica["template"], *(one["template"] for one in replica.get("overrides", ()))):
            _drop_search(template["spec"], f"{job.name}.")
            for container in _containers(template["spec"]):
                variables = container.pop("env", None) or ()
                # A default that refers to the index of a Job was written on the way there.
                indexed = {one["name"] for one in variables if f"$({INDEX})" in str(one.get("value"))}
                own = [one for one in variables if one["name"] in names | (defaults & indexed)]
                dropped += own
                if kept := [one for one in variables if one not in own and one != INDEX_ENV]:
                    container["env"] = kept
    return dropped


def _own_variables(framework: Framework, manifest: Json) -> set[str]:
    """The names of the variables that the operator gives to the job's pods, but for those that give way to the user's."""
    bare = json.loads(json.dumps(manifest))
    for replica in bare["spec"][framework.replica_specs].values():
        for template in (replica["template"], *(one["template"] for one in replica.get("overrides", ()))):
            for container in _containers(template["spec"]):
                container.pop("env", None)
    job = read_job(framework, bare)
    given = {
        variable["name"]
        for pod in planned_pods(framework, job).values()
        for container in _containers(pod["spec"])
        for variable in container.get("env") or ()
    }
    return given - {one.name for replica in job.replicas for one in framework.env(job, replica) if one.default}


def _containers(spec: Mapping[str, Any]) -> Iterator[Json]:
    for key in ("containers", "initContainers"):
        yield from spec.get(key) or ()


def _drop_search(spec: Json, prefix: str) -> None:
    """Remove the search domain of the job's Service, which the operator adds to pods."""
    searches = (spec.get("dnsConfig") or {}).get("searches") or ()
    kept = [domain for domain in searches if not domain.startswith(prefix)]
    if len(kept) < len(searches):
        rest = {key: value for key, value in spec.pop("dnsConfig").items() if key != "searches"}
        if rest or kept:
            spec["dnsConfig"] = {**rest, **({"searches": kept} if kept else {})}


def _note_dropped(framework: Framework, manifest: Json, dropped: Sequence[Json], notes: Notes) -> None:
    """Warn of a removed variable unless the operator gives it the value that it had."""
    job = read_job(framework, manifest)
    again = json.dumps(to_trainjob(framework, manifest, job).objects[0])
    name = re.escape(job.name)
    for address in sorted(set(re.findall(rf"\b{name}-[a-z0-9-]+-0-\d+\.{name}\b", json.dumps(manifest)))):
        notes.warn("spec", f"names {address}, the address of a pod of the TrainJob, which the job will not have")
    for variable in dropped:
        if json.dumps(variable) not in again:
            value = str(variable.get("value", "a reference"))[:60]
            notes.warn(f"env {variable['name']}", f"is set by the operator itself, and not to {value}")


def _note_rest(spec: Mapping[str, Any], runtime: Mapping[str, Any], job_set: Mapping[str, Any], notes: Notes) -> None:
    """Warn of what was not read."""
    known = {"runtimeRef", "suspend", "activeDeadlineSeconds", "managedBy", "trainer"}
    for key in spec.keys() - known:
        notes.warn(f"spec.{key}", _WITHOUT)
    for key in (spec.get("trainer") or {}).keys() - {*_TRAINER, "env", "numNodes", "numProcPerNode", "resourcesPerNode"}:
        notes.warn(f"spec.trainer.{key}", _WITHOUT)
    if "podGroupPolicy" in runtime:
        notes.warn("runtime spec.podGroupPolicy", "the operator's option --gang-scheduler-name says which scheduler is used")
    known_policy = {"numNodes", "mpi", "torch"}
    policy = runtime.get("mlPolicy") or {}
    for key in policy.keys() - known_policy:
        notes.warn(f"runtime spec.mlPolicy.{key}", _WITHOUT)
    for key in (policy.get("torch") or {}).keys() - {"numProcPerNode"}:
        notes.warn(f"runtime spec.mlPolicy.torch.{key}", _WITHOUT)
    if (policy.get("mpi") or {}).get("mpiImplementation") not in (None, "OpenMPI"):
        notes.warn("runtime spec.mlPolicy.mpi.mpiImplementation", "set mpiImplementation of the MPIJob")
    for key in (runtime.get("template") or {}).keys() - {"spec"}:
        notes.warn(f"runtime spec.template.{key}", _WITHOUT)
    for key in (job_set.get("network") or {}).keys() - {"publishNotReadyAddresses", "enableDNSHostnames"}:
        notes.warn(f"runtime spec.template.spec.network.{key}", _WITHOUT)
    for key in job_set.keys() - {"network", "successPolicy", "replicatedJobs", "ttlSecondsAfterFinished"}:
        notes.warn(f"runtime spec.template.spec.{key}", _WITHOUT)


def _note_jobs(framework: Framework, job_set: Mapping[str, Any], body: Json, notes: Notes) -> None:
    """Warn of what a replicated Job says beyond its pods; and take over that a launcher waits."""
    known = {"completionMode", "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "template"}
    for position, one in enumerate(job_set.get("replicatedJobs") or ()):
        path, job = f"runtime spec.template.spec.replicatedJobs[{position}]", one.get("template") or {}
        if one.get("dependsOn") and framework.kind == MPI_KIND and one.get("name") == "launcher":
            body["launcherCreationPolicy"] = "WaitForWorkersReady"
        elif one.get("dependsOn"):
            notes.warn(f"{path}.dependsOn", "all replicas start at once")
        for key in one.keys() - {"name", "replicas", "template", "dependsOn"}:
            notes.warn(f"{path}.{key}", _WITHOUT)
        ours = REPLICAS in ((job.get("metadata") or {}).get("annotations") or {})
        for key in (job.get("spec") or {}).keys() - known:
            if key not in ("successPolicy", "podFailurePolicy"):
                notes.warn(f"{path}.template.spec.{key}", _WITHOUT)
            elif not ours:
                rule = (
                    "ExitCode ends the job at 1 to 127" if key == "podFailurePolicy" else f"a {framework.kind}'s own rule holds"
                )
                notes.warn(f"{path}.template.spec.{key}", rule)
