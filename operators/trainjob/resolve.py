"""A TrainJob and its runtime become one: the order in which what they say is merged is that of Trainer 2.3.

Pure, and total over any two JSON objects: a runtime may come from a copy that its user can write.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from jobcommon import FieldError, RestartPolicy, mapping_of, mappings_in, merge_template, parse_quantity
from jobcommon.operators.trainjob.kinds import STEP_LABEL, read
from jobcommon.operators.trainjob.policies import run_policy
from jobcommon.operators.trainjob.resolved import (
    Claim,
    Dependency,
    Json,
    MLFramework,
    MLPolicy,
    Resolved,
    Role,
    Step,
    Success,
)

NODE, LAUNCHER = "node", "launcher"
_JOBSET = "spec.template.spec"
_ROLES = f"{_JOBSET}.replicatedJobs"
_POD = "template.spec.template.spec"
_STEPS = {step.value: step for step in Step}
_CONTAINERS = {Step.TRAINER: NODE, Step.DATASET: Step.DATASET.value, Step.MODEL: Step.MODEL.value}
_OPEN_MPI = ("orte_default_hostfile", "plm_rsh_args", "orte_keep_fqdn_hostnames", "orte_set_default_slots")
_RESERVED = {
    MLFramework.TORCH: ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    MLFramework.XGBOOST: ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
    MLFramework.MPI: tuple(f"OMPI_MCA_{name}" for name in _OPEN_MPI),
    MLFramework.TENSORFLOW: ("TF_CONFIG",),
}
_IGNORED = {
    "podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy",
    "activeDeadlineSeconds", "ttlSecondsAfterFinished",
}  # fmt: skip
_MAX_PODS = 10_000
_MAX_NAME = 63
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def resolve(job: Json, runtime: Json) -> Resolved | tuple[FieldError, ...]:
    """What the job runs by that runtime, or what is wrong with the two; paths are those of the job.

    The runtime's own errors stand at ``spec.runtimeRef``.
    """
    # Those of the runtime have their paths in it.
    errors, wrong = list[FieldError](), list[FieldError]()
    spec = read("TrainJob", job.get("spec"), "spec", errors)
    given = read("Runtime", runtime.get("spec"), "spec", wrong)
    if not (errors or wrong):
        patched = _patched(spec, given, errors)
        jobset = read("Runtime", patched, _JOBSET, wrong, "template", "spec")
        if not (errors or wrong):
            found = _Merge(job, spec, given, jobset, errors, wrong).result()
            if not (errors or wrong):
                return found
    name = f"{runtime.get('kind') or 'runtime'} {mapping_of(runtime.get('metadata')).get('name') or ''}"
    return (*errors, *(FieldError("spec.runtimeRef", f"{name}: {error}"[:1024]) for error in wrong))


class _Merge:
    """One pair of job and runtime, each of the form that its schema says."""

    def __init__(
        self, job: Json, spec: Json, given: Json, jobset: Json, errors: list[FieldError], wrong: list[FieldError]
    ) -> None:
        self.raw, self.spec, self.given, self.jobset, self.errors, self._wrong = job, spec, given, jobset, errors, wrong
        self.name = str(mapping_of(job.get("metadata")).get("name") or "")
        self.ml, self.trainer = mapping_of(given.get("mlPolicy")), mapping_of(spec.get("trainer"))
        self.mpi = mapping_of(self.ml.get("mpi"))
        self.framework = next((one for one in MLFramework if one in self.ml), MLFramework.PLAIN)
        self.claims = tuple(self._claims())
        self.ignored: list[str] = []

    def wrong(self, path: str, message: str) -> None:
        self._wrong.append(FieldError(path, message))

    def result(self) -> Resolved:
        roles = self._roles()
        self._check(roles)
        gang = mapping_of(self.given.get("podGroupPolicy"))
        policy = run_policy(self.raw, self.spec, self.jobset, gang, roles, self.errors)
        network, success = (mapping_of(self.jobset.get(name)) for name in ("network", "successPolicy"))
        subdomain = network.get("subdomain") or self.name
        if not _LABEL.fullmatch(subdomain) or len(subdomain) > _MAX_NAME:
            self.wrong(f"{_JOBSET}.network.subdomain", "must be the name of a Service")
        names = [role.name for role in roles]
        targets = tuple(success.get("targetReplicatedJobs", ()))
        if unknown := [name for name in targets if name not in names]:
            self.wrong(f"{_JOBSET}.successPolicy", f"there is no replicated job {unknown[0][:80]}")
        own = mapping_of(_below(self.given, "template", "metadata"))
        added = [_below(patch, "trainingRuntimeSpec", "template", "metadata") for patch in self.spec.get("runtimePatches", ())]
        at = mapping_of(self.jobset.get("coordinator"))
        host = f"{self.name}-{at.get('replicatedJob')}-{at.get('jobIndex', 0)}-{at.get('podIndex', 0)}.{subdomain}"
        return Resolved(
            name=self.name,
            roles=policy.roles,
            policy=self._ml_policy(roles),
            success=Success(targets or tuple(names), success.get("operator") == "Any"),
            run_policy=policy.fields,
            subdomain=subdomain,
            publish_not_ready=network.get("publishNotReadyAddresses") is not False,
            claims=self.claims,
            gang=next(iter(gang), ""),
            labels=_merged([own, *added], "labels"),
            annotations=_merged([own, *added], "annotations"),
            coordinator=host if at else "",
            ignored=(*self.ignored, *policy.ignored),
        )

    def _roles(self) -> tuple[Role, ...]:
        roles: list[Role] = []
        for index, given in enumerate(self.jobset.get("replicatedJobs", ())):
            roles.append(self._role(given, f"{_ROLES}[{index}]", roles))
        if not roles:
            self.wrong(_ROLES, "Required value: there is nothing to run")
        pods = [f"{self.name}-{one.name}-{max(one.jobs, 1) - 1}-{max(one.pods, 1) - 1}" for one in roles]
        if len(longest := max(pods, key=len, default="")) > _MAX_NAME:
            text = (
                f"Too long: the name of its pod {longest[:80]} would have {len(longest)} characters, and may have {_MAX_NAME}"
            )
            self.errors.append(FieldError("metadata.name", text))
        if sum(role.jobs * role.pods for role in roles) > _MAX_PODS:
            self.errors.append(FieldError("spec.trainer.numNodes", f"must not make more than {_MAX_PODS} pods in all"))
        return tuple(roles)

    def _role(self, given: Json, path: str, before: Sequence[Role]) -> Role:
        name, jobs, template, earlier = given["name"], given.get("replicas", 1), given["template"], [one.name for one in before]
        labels, batch = mapping_of(_below(template, "metadata", "labels")), mapping_of(template.get("spec"))
        step = _STEPS.get(labels.get(STEP_LABEL, ""))
        depends = [(one["name"], Dependency(one["status"])) for one in given.get("dependsOn", ())]
        if mapping_of(self.jobset.get("startupPolicy")).get("startupPolicyOrder") == "InOrder" and before:
            depends.append((earlier[-1], Dependency.READY))
        limit, pod = batch.get("backoffLimit", 6), mapping_of(batch.get("template"))
        policy = mapping_of(pod.get("spec")).get("restartPolicy") or "OnFailure"
        if step is not None and jobs != 1:
            self.wrong(f"{path}.replicas", f"must be 1 for the {step}")
        if not _LABEL.fullmatch(name):
            self.wrong(f"{path}.name", "must be lower case letters, digits and '-'")
        if name in earlier:
            self.wrong(f"{path}.name", "Duplicate value")
        for other, _ in depends:
            if other not in earlier:
                self.wrong(f"{path}.dependsOn", f"{other[:80]} is no replicated job before this one")
        if policy not in ("OnFailure", "Never"):
            self.wrong(f"{path}.{_POD}.restartPolicy", "must be OnFailure or Never")
        self.ignored += [f"{path}.template.spec.{key}" for key in batch if key in _IGNORED]
        return Role(
            name=name,
            jobs=jobs,
            pods=self._pods(name, step, max(batch.get("parallelism", 1), 1)),
            template=self._template(pod, name, step, path),
            step=step,
            depends_on=tuple(depends),
            restart_policy=RestartPolicy.ON_FAILURE if limit else RestartPolicy.NEVER,
            retries=policy == "Never" and limit > 0,
            backoff_limit=limit,
            group=given.get("groupName") or "default",
            labels=labels,
            annotations=mapping_of(_below(template, "metadata", "annotations")),
        )

    def _pods(self, name: str, step: Step | None, own: int) -> int:
        nodes = self.trainer.get("numNodes")
        if self.framework is MLFramework.MPI:
            if name != NODE or nodes is None:
                return own
            return max(nodes - 1, 1) if self.mpi.get("runLauncherAsNode") else int(nodes)
        if step is not Step.TRAINER:
            return own
        return max(self.ml.get("numNodes") or 1, 1) if nodes is None else int(nodes)

    def _template(self, template: Json, name: str, step: Step | None, path: str) -> Json:
        """The pod template with what the job says of that role; the main container is the first."""
        spec = dict(mapping_of(template.get("spec")))
        containers = list(mappings_in(spec.get("containers")))
        # The workers of MPI have what each node has, too, where the launcher is one.
        is_node = step is Step.TRAINER or (name == NODE and bool(self.mpi.get("runLauncherAsNode")))
        main = NODE if is_node else _CONTAINERS[step] if step is not None else containers[0].get("name") if containers else None
        first = next((container for container in containers if main and container.get("name") == main), None)
        if first is None:
            self.wrong(f"{path}.{_POD}.containers", f"needs one named {main or 'at all'}")
            return template
        if is_node:
            own = {key: self.trainer[key] for key in ("image", "command", "args") if key in self.trainer}
            changed = self._with_resources({**first, **(own if step is Step.TRAINER else {})})
            changed = _with_env(changed, self.trainer.get("env"))
        else:
            sources = mapping_of(self.spec.get("initializer"))
            changed = _initializer(first, sources.get("dataset" if step is Step.DATASET else "model") if step else None)
        spec["containers"] = [changed, *(container for container in containers if container is not first)]
        mounted = [mount.get("name") for one in _all_containers(spec) for mount in mappings_in(one.get("volumeMounts"))]
        names = [one.name.removesuffix(f"-{self.name}") for one in self.claims]
        claimed = [
            {"name": name, "persistentVolumeClaim": {"claimName": claim.name}}
            for name, claim in zip(names, self.claims, strict=True)
            if name in mounted
        ]
        if claimed:
            spec["volumes"] = [*mappings_in(spec.get("volumes")), *claimed]
        return {**template, "spec": spec}

    def _with_resources(self, container: Json) -> Json:
        added = mapping_of(self.trainer.get("resourcesPerNode"))
        return {**container, "resources": merge_template(mapping_of(container.get("resources")), added)} if added else container

    def _ml_policy(self, roles: Sequence[Role]) -> MLPolicy:
        trainer = next((role for role in roles if role.step is Step.TRAINER), None)
        targets: dict[str, frozenset[str]] = {}
        for target in _below(self.ml, "torch", "envInjection").get("targets", ()):
            role = next((role for role in roles if role.name == target["jobName"]), None)
            known = [one.get("name") for one in _all_containers(mapping_of(role.template.get("spec")))] if role else []
            if missing := [name for name in target["containerNames"] if name not in known]:
                text = f"there is no container {missing[0]} of replicated job {target['jobName'][:80]}"
                self.wrong("spec.mlPolicy.torch.envInjection.targets", text)
            targets[target["jobName"]] = frozenset(target["containerNames"])
        path = self.mpi.get("sshAuthMountPath") or "/root/.ssh"
        return MLPolicy(self.framework, self._processes(trainer), targets, path, bool(self.mpi.get("runLauncherAsNode")))

    def _processes(self, role: Role | None) -> int | None:
        """Processes on each node: as the job says, else by its devices, else for torch by its CPUs."""
        own = self.trainer.get("numProcPerNode")
        main = next(mappings_in(mapping_of(role.template.get("spec")).get("containers")), {}) if role is not None else {}
        gpus = _amount(main, lambda name: "gpu" in name.lower())
        match self.framework:
            case MLFramework.TORCH:
                return own or (None if gpus else max(1, _amount(main, lambda name: name == "cpu")))
            case MLFramework.XGBOOST:
                return gpus or 1
            case MLFramework.MPI:
                slots = self.mpi.get("numProcPerNode") or 1
                return own or (gpus if slots == 1 and gpus > 1 else slots)
        return 1

    def _check(self, roles: Sequence[Role]) -> None:
        """What the two cannot do together."""
        steps, names = {role.step for role in roles}, {role.name for role in roles}
        found: list[tuple[str, str]] = [
            (f"spec.initializer.{name}", f"Forbidden: the runtime has no {step}")
            for name, step in (("dataset", Step.DATASET), ("model", Step.MODEL))
            if name in mapping_of(self.spec.get("initializer")) and step not in steps
        ]
        if "trainer" in self.spec and Step.TRAINER not in steps:
            found.append(("spec.trainer", f"Forbidden: the runtime has no job labelled {STEP_LABEL}: trainer"))
        found += [
            (f"spec.trainer.env[{index}]", f"Forbidden: {one['name']} is set by the operator for {self.framework} runtimes")
            for index, one in enumerate(mappings_in(self.trainer.get("env")))
            if one.get("name") in _RESERVED.get(self.framework, ())
        ]
        if self.framework is MLFramework.TORCH and self.trainer.get("command") == ["tune", "run"]:
            text = "Unsupported value: torchtune's command is not completed by this operator; write it whole, with its recipe"
            found.append(("spec.trainer.command", text))
        self.errors += [FieldError(*one) for one in found]
        if "flux" in self.ml:
            self.wrong("spec.mlPolicy.flux", "Flux is not supported by this operator; use mpi")
        if self.framework is MLFramework.MPI and not {NODE, LAUNCHER} <= names:
            self.wrong(_ROLES, f"mpi needs replicated jobs named {LAUNCHER} and {NODE}")

    def _claims(self) -> Iterator[Claim]:
        for policy in self.jobset.get("volumeClaimPolicies", ()):
            retained = _below(policy, "retentionPolicy").get("whenDeleted") == "Retain"
            for template in policy.get("templates", ()):
                own = mapping_of(template.get("metadata"))
                metadata = {key: own[key] for key in ("labels", "annotations") if own.get(key)}
                manifest = {"metadata": metadata, "spec": mapping_of(template.get("spec"))}
                yield Claim(f"{own.get('name') or ''}-{self.name}", manifest, retained)


def _patched(spec: Json, given: Json, errors: list[FieldError]) -> Json:
    """The runtime's JobSetSpec as the patches leave it, in the runtime's order."""
    base = _below(given, "template", "spec")
    roles = {one["name"]: one for one in base.get("replicatedJobs", ())}
    for number, patch in enumerate(spec.get("runtimePatches", ())):
        jobs = _below(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs", ())
        for index, one in enumerate(jobs):
            path = f"spec.runtimePatches[{number}].trainingRuntimeSpec.template.spec.replicatedJobs[{index}]"
            if one["name"] not in roles:
                errors.append(FieldError(f"{path}.name", f"there is no replicated job {one['name'][:80]}"))
            else:
                pod = _below(roles[one["name"]], *_POD.split("."))
                errors += _patch_errors(_below(one, *_POD.split(".")), pod, f"{path}.{_POD}")
        if jobs and not errors:
            base = merge_template(base, {"replicatedJobs": jobs})
    return base


def _patch_errors(patch: Json, pod: Json, path: str) -> Iterator[FieldError]:
    known = [container.get("name") for container in _all_containers(pod)]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(patch.get(field, ())):
            if container["name"] not in known:
                yield FieldError(f"{path}.{field}[{index}].name", f"there is no container {container['name'][:80]}")
            elif container.get("env") and container["name"] in _CONTAINERS.values():
                yield FieldError(f"{path}.{field}[{index}].env", "Forbidden: set spec.trainer.env, or that of the initializer")


def _initializer(container: Json, source: Json | None) -> Json:
    if source is None:
        return container
    uri = [{"name": "STORAGE_URI", "value": source["storageUri"]}] if "storageUri" in source else []
    found = _with_env(container, [*uri, *mappings_in(source.get("env"))])
    if "secretRef" not in source:
        return found
    secret = {"secretRef": {"name": source["secretRef"].get("name", "")}}
    return {**found, "envFrom": [*mappings_in(found.get("envFrom")), secret]}


def _with_env(container: Json, variables: object) -> Json:
    """The container with these variables; those of the same names are replaced, in their places."""
    new = {str(one.get("name")): one for one in mappings_in(variables)}
    if not new:
        return container
    kept = [new.pop(str(one.get("name")), one) for one in mappings_in(container.get("env"))]
    return {**container, "env": [*kept, *new.values()]}


def _amount(container: Json, wanted: Callable[[str], bool]) -> int:
    """The whole number of the first such resource that is requested, or else limited."""
    for part in ("requests", "limits"):
        for name, amount in mapping_of(mapping_of(container.get("resources")).get(part)).items():
            with suppress(ValueError):
                if wanted(str(name)) and (found := -(-parse_quantity(amount).nanos // 10**9)) > 0:
                    return found
    return 0


def _all_containers(pod: Json) -> list[Json]:
    return [*mappings_in(pod.get("containers")), *mappings_in(pod.get("initContainers"))]


def _merged(parts: Sequence[Json], field: str) -> dict[str, Any]:
    return {key: value for part in parts for key, value in mapping_of(part.get(field)).items()}


def _below(value: Json, *names: str) -> Json:
    for name in names:
        value = mapping_of(value.get(name))
    return value
