"""A TrainJob and its runtime become one: the order in which what they say is merged is that of Trainer 2.3.

Pure, and total over any two JSON objects: a runtime may come from a copy that its user can write.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from jobcommon import FieldError, RestartPolicy, mapping_of, mappings_in, merge_template, model_errors, parse_quantity
from jobcommon.operators.trainjob.models import DEFAULT_SSH_PATH, STEP_LABEL, Initializer, Source, Trainer, TrainJobSpec
from jobcommon.operators.trainjob.policies import run_policy
from jobcommon.operators.trainjob.resolved import (
    Claim,
    Dependency,
    Json,
    MLFramework,
    MLPolicy,
    PodGroup,
    Resolved,
    Role,
    Step,
    Success,
)
from jobcommon.operators.trainjob.runtime_models import (
    JobSetSpec,
    MLPolicySpec,
    PodGroupPolicy,
    ReplicatedJob,
    TrainingRuntimeSpec,
)

M = TypeVar("M", bound=BaseModel)
NODE, LAUNCHER = "node", "launcher"
_ROLES = "spec.template.spec.replicatedJobs"
_STEPS = {step.value: step for step in Step}
_CONTAINERS = {Step.TRAINER: NODE, Step.DATASET: Step.DATASET.value, Step.MODEL: Step.MODEL.value}
_RESERVED = {
    MLFramework.TORCH: ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    MLFramework.XGBOOST: ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
    MLFramework.MPI: (
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
    ),
    MLFramework.TENSORFLOW: ("TF_CONFIG",),
}
_TUNE = ["tune", "run"]
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
    errors: list[FieldError] = []
    spec = _read(TrainJobSpec, job.get("spec"), "spec", errors)
    found: list[FieldError] = []
    given = _read(TrainingRuntimeSpec, runtime.get("spec"), "spec", found)
    if spec is None or given is None:
        return (*errors, *_of_runtime(runtime, found))
    merged = _patched(job, runtime, errors)
    template = None if merged is None else _read(JobSetSpec, merged, _ROLES.rpartition(".")[0], found)
    if merged is None or template is None or found or errors:
        return (*errors, *_of_runtime(runtime, found))
    return _Merge(job, spec, given, template, merged).result(runtime)


class _Merge:
    """One pair of job and runtime, both of which could be read."""

    def __init__(self, job: Json, spec: TrainJobSpec, given: TrainingRuntimeSpec, jobset: JobSetSpec, merged: Json) -> None:
        self.raw, self.spec, self.jobset, self.merged = job, spec, jobset, merged
        self.name = str(mapping_of(job.get("metadata")).get("name") or "")
        self.metadata = given.template.metadata if given.template is not None else None
        self.ml = given.ml_policy or MLPolicySpec()
        self.group = given.pod_group_policy
        self.trainer = spec.trainer or Trainer()
        self.framework = next((one for one in MLFramework if getattr(self.ml, one, None) is not None), MLFramework.PLAIN)
        self.errors: list[FieldError] = []
        # Those of the runtime, whose paths are in it.
        self.wrong: list[FieldError] = []
        self.ignored: list[str] = []

    def result(self, runtime: Json) -> Resolved | tuple[FieldError, ...]:
        roles = self._roles()
        self._check(roles)
        policy = run_policy(self.raw, self.spec, self.jobset, roles, self.errors)
        subdomain = (self.jobset.network.subdomain if self.jobset.network else None) or self.name
        if not _LABEL.fullmatch(subdomain) or len(subdomain) > _MAX_NAME:
            self.wrong.append(FieldError("spec.template.spec.network.subdomain", "must be the name of a Service"))
        success = self.jobset.success_policy
        names = {role.name for role in roles}
        targets = tuple(success.target_replicated_jobs) if success is not None else ()
        if unknown := [name for name in targets if name not in names]:
            self.wrong.append(FieldError("spec.template.spec.successPolicy", f"there is no replicated job {unknown[0][:80]}"))
        ml_policy = self._ml_policy(roles)
        claims = tuple(self._claims())
        if self.errors or self.wrong:
            return (*self.errors, *_of_runtime(runtime, self.wrong))
        patches = [mapping_of(_below(patch, "template", "metadata")) for patch in _patches(self.raw)]
        own = self.metadata.model_dump(exclude_none=True) if self.metadata is not None else {}
        return Resolved(
            name=self.name,
            roles=policy.roles,
            policy=ml_policy,
            success=Success(targets or tuple(role.name for role in roles), success is not None and success.operator == "Any"),
            run_policy=policy.fields,
            subdomain=subdomain,
            publish_not_ready=self.jobset.network is None or self.jobset.network.publish_not_ready_addresses is not False,
            claims=claims,
            pod_group=_pod_group(self.group),
            labels=_merged(own, patches, "labels"),
            annotations=_merged(own, patches, "annotations"),
            coordinator=self._coordinator(subdomain),
            ignored=(*self.ignored, *policy.ignored),
        )

    def _roles(self) -> tuple[Role, ...]:
        raw = list(mappings_in(self.merged.get("replicatedJobs")))
        roles: list[Role] = []
        in_order = self.jobset.startup_policy is not None and (self.jobset.startup_policy.startup_policy_order == "InOrder")
        for index, (given, whole) in enumerate(zip(self.jobset.replicated_jobs, raw, strict=True)):
            path = f"{_ROLES}[{index}]"
            labels = (given.template.metadata.labels if given.template.metadata else None) or {}
            step = _STEPS.get(labels.get(STEP_LABEL, ""))
            jobs = 1 if given.replicas is None else given.replicas
            if step is not None and jobs != 1:
                self.wrong.append(FieldError(f"{path}.replicas", f"must be 1 for the {step}"))
            if not _LABEL.fullmatch(given.name):
                self.wrong.append(FieldError(f"{path}.name", "must be lower case letters, digits and '-'"))
            if given.name in {role.name for role in roles}:
                self.wrong.append(FieldError(f"{path}.name", "Duplicate value"))
            depends = [(one.name, Dependency(one.status)) for one in given.depends_on]
            if in_order and roles:
                depends.append((roles[-1].name, Dependency.READY))
            for name, _ in depends:
                if name not in {role.name for role in roles}:
                    self.wrong.append(FieldError(f"{path}.dependsOn", f"{name[:80]} is no replicated job before this one"))
            batch = given.template.spec
            template = _below(whole, "template", "spec", "template")
            limit = 6 if batch is None or batch.backoff_limit is None else batch.backoff_limit
            policy = mapping_of(template.get("spec")).get("restartPolicy") or "OnFailure"
            if policy not in ("OnFailure", "Never"):
                self.wrong.append(FieldError(f"{path}.template.spec.template.spec.restartPolicy", "must be OnFailure or Never"))
            self.ignored += [f"{path}.template.spec.{key}" for key in _below(whole, "template", "spec") if key in _IGNORED]
            roles.append(
                Role(
                    name=given.name,
                    jobs=jobs,
                    pods=self._pods(given, step),
                    template=self._template(template, given.name, step, path),
                    step=step,
                    depends_on=tuple(depends),
                    restart_policy=RestartPolicy.ON_FAILURE if limit else RestartPolicy.NEVER,
                    retries=policy == "Never" and limit > 0,
                    backoff_limit=limit,
                    group=given.group_name or "default",
                    labels=labels,
                    annotations=(given.template.metadata.annotations if given.template.metadata else None) or {},
                )
            )
        if not roles:
            self.wrong.append(FieldError(_ROLES, "Required value: there is nothing to run"))
        longest = max(
            (f"{self.name}-{one.name}-{max(one.jobs, 1) - 1}-{max(one.pods, 1) - 1}" for one in roles), key=len, default=""
        )
        if len(longest) > _MAX_NAME:
            text = (
                f"Too long: the name of its pod {longest[:80]} would have {len(longest)} characters, and may have {_MAX_NAME}"
            )
            self.errors.append(FieldError("metadata.name", text))
        if sum(role.jobs * role.pods for role in roles) > _MAX_PODS:
            self.errors.append(FieldError("spec.trainer.numNodes", f"must not make more than {_MAX_PODS} pods in all"))
        return tuple(roles)

    def _pods(self, given: ReplicatedJob, step: Step | None) -> int:
        nodes, default = self.trainer.num_nodes, self.ml.num_nodes or 1
        own = max((given.template.spec.parallelism if given.template.spec else None) or 1, 1)
        if self.framework is MLFramework.MPI:
            if given.name == NODE and nodes is not None:
                return max(nodes - 1, 1) if self.ml.mpi is not None and self.ml.mpi.run_launcher_as_node else nodes
            return own
        if step is not Step.TRAINER:
            return own
        return max(default, 1) if nodes is None else nodes

    def _template(self, template: Json, name: str, step: Step | None, path: str) -> Json:
        """The pod template with what the job says of that role; the main container is the first."""
        spec = dict(mapping_of(template.get("spec")))
        containers = list(mappings_in(spec.get("containers")))
        main = _CONTAINERS[step] if step is not None else NODE if self._also_node(name) else ""
        if not main and containers:
            main = str(containers[0].get("name"))
        if main not in [container.get("name") for container in containers]:
            self.wrong.append(
                FieldError(f"{path}.template.spec.template.spec.containers", f"needs one named {main or 'at all'}")
            )
            return template
        first = next(container for container in containers if container.get("name") == main)
        others = [container for container in containers if container is not first]
        if step is Step.TRAINER or self._also_node(name):
            first = self._node(first, whole=step is Step.TRAINER)
        elif step is not None:
            given = self.spec.initializer or Initializer()
            first = _initializer(first, given.dataset if step is Step.DATASET else given.model)
        spec["containers"] = [first, *others]
        mounted = [mount.get("name") for one in _all_containers(spec) for mount in mappings_in(one.get("volumeMounts"))]
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": self._claim_name(claim)}}
            for claim in self._claim_names()
            if claim in mounted
        ]
        if volumes:
            spec["volumes"] = [*mappings_in(spec.get("volumes")), *volumes]
        return {**template, "spec": spec}

    def _also_node(self, name: str) -> bool:
        """The workers of MPI have the numbers of nodes, too, where the launcher is one."""
        return name == NODE and self.ml.mpi is not None and bool(self.ml.mpi.run_launcher_as_node)

    def _node(self, container: Json, *, whole: bool) -> Json:
        trainer, found = self.trainer, dict(container)
        if trainer.resources_per_node is not None:
            found["resources"] = merge_template(mapping_of(found.get("resources")), trainer.resources_per_node)
        if whole:
            own = {"image": trainer.image, "command": trainer.command, "args": trainer.args}
            found |= {key: value for key, value in own.items() if value is not None}
        return _with_env(found, trainer.env)

    def _ml_policy(self, roles: Sequence[Role]) -> MLPolicy:
        trainer = next((role for role in roles if role.step is Step.TRAINER), None)
        processes = self._processes(trainer)
        targets: dict[str, frozenset[str]] = {}
        injection = self.ml.torch.env_injection if self.ml.torch is not None else None
        for target in injection.targets if injection is not None else ():
            role = next((role for role in roles if role.name == target.job_name), None)
            known = [one.get("name") for one in _all_containers(mapping_of(role.template.get("spec")))] if role else []
            if missing := [name for name in target.container_names if name not in known]:
                text = f"there is no container {missing[0]} of replicated job {target.job_name[:80]}"
                self.wrong.append(FieldError("spec.mlPolicy.torch.envInjection.targets", text))
            targets[target.job_name] = frozenset(target.container_names)
        mpi = self.ml.mpi
        return MLPolicy(
            self.framework,
            processes,
            targets,
            ssh_path=(mpi.ssh_auth_mount_path or DEFAULT_SSH_PATH) if mpi is not None else "",
            launcher_is_node=mpi is not None and bool(mpi.run_launcher_as_node),
        )

    def _processes(self, role: Role | None) -> int | None:
        """Processes on each node: as the job says, else by its devices, else for torch by its CPUs."""
        own = self.trainer.num_proc_per_node
        main = next(mappings_in(mapping_of(role.template.get("spec")).get("containers")), {}) if role is not None else {}
        gpus = _amount(main, lambda name: "gpu" in name.lower())
        match self.framework:
            case MLFramework.TORCH:
                return own or (None if gpus else max(1, _amount(main, lambda name: name == "cpu")))
            case MLFramework.XGBOOST:
                return gpus or 1
            case MLFramework.MPI:
                slots = (self.ml.mpi.num_proc_per_node if self.ml.mpi is not None else None) or 1
                return own or (gpus if slots == 1 and gpus > 1 else slots)
        return 1

    def _check(self, roles: Sequence[Role]) -> None:
        """What the two cannot do together."""
        steps = {role.step for role in roles}
        for name, source, step in (
            ("dataset", self.spec.initializer and self.spec.initializer.dataset, Step.DATASET),
            ("model", self.spec.initializer and self.spec.initializer.model, Step.MODEL),
        ):
            if source is not None and step not in steps:
                self.errors.append(FieldError(f"spec.initializer.{name}", f"Forbidden: the runtime has no {step}"))
        if self.spec.trainer is not None and Step.TRAINER not in steps:
            self.errors.append(FieldError("spec.trainer", f"Forbidden: the runtime has no job labelled {STEP_LABEL}: trainer"))
        for index, variable in enumerate(self.trainer.env):
            if variable.get("name") in _RESERVED.get(self.framework, ()):
                text = f"Forbidden: {variable['name']} is set by the operator for {self.framework} runtimes"
                self.errors.append(FieldError(f"spec.trainer.env[{index}]", text))
        if self.ml.flux is not None:
            self.wrong.append(FieldError("spec.mlPolicy.flux", "Flux is not supported by this operator; use mpi"))
        if self.framework is MLFramework.TORCH and self.trainer.command == _TUNE:
            text = "Unsupported value: torchtune's command is not completed by this operator; write it whole, with its recipe"
            self.errors.append(FieldError("spec.trainer.command", text))
        names = {role.name for role in roles}
        if self.framework is MLFramework.MPI and not {NODE, LAUNCHER} <= names:
            self.wrong.append(FieldError(_ROLES, f"mpi needs replicated jobs named {LAUNCHER} and {NODE}"))

    def _claims(self) -> Iterator[Claim]:
        for policy in self.jobset.volume_claim_policies:
            retention = policy.retention_policy.when_deleted if policy.retention_policy is not None else None
            for template in policy.templates:
                own = template.metadata.model_dump(exclude_none=True) if template.metadata is not None else {}
                metadata = {key: own[key] for key in ("labels", "annotations") if own.get(key)}
                name = self._claim_name(own.get("name") or "")
                yield Claim(name, {"metadata": metadata, "spec": template.spec or {}}, retention == "Retain")

    def _claim_names(self) -> list[str]:
        templates = (template for policy in self.jobset.volume_claim_policies for template in policy.templates)
        return [one.metadata.name for one in templates if one.metadata is not None and one.metadata.name]

    def _claim_name(self, name: str) -> str:
        return f"{name}-{self.name}"

    def _coordinator(self, subdomain: str) -> str:
        at = self.jobset.coordinator
        return f"{self.name}-{at.replicated_job}-{at.job_index or 0}-{at.pod_index or 0}.{subdomain}" if at is not None else ""


def _patched(job: Json, runtime: Json, errors: list[FieldError]) -> Json | None:
    """The runtime's JobSetSpec as the patches leave it, in the runtime's order."""
    base = _below(runtime, "spec", "template", "spec")
    names = [one.get("name") for one in mappings_in(base.get("replicatedJobs"))]
    for number, patch in enumerate(_patches(job)):
        path = f"spec.runtimePatches[{number}].trainingRuntimeSpec.template.spec.replicatedJobs"
        jobs = list(mappings_in(_below(patch, "template", "spec").get("replicatedJobs")))
        for index, one in enumerate(jobs):
            pod = _below(one, "template", "spec", "template", "spec")
            if one.get("name") not in names:
                errors.append(FieldError(f"{path}[{index}].name", f"there is no replicated job {str(one.get('name'))[:80]}"))
                continue
            role = next(role for role in mappings_in(base.get("replicatedJobs")) if role.get("name") == one.get("name"))
            errors += _patch_errors(pod, _below(role, "template", "spec", "template", "spec"), f"{path}[{index}]")
        if jobs and not errors:
            base = merge_template(base, {"replicatedJobs": jobs})
    return None if errors else base


def _patch_errors(patch: Json, pod: Json, path: str) -> Iterator[FieldError]:
    known = [container.get("name") for container in _all_containers(pod)]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(mappings_in(patch.get(field))):
            where = f"{path}.template.spec.template.spec.{field}[{index}]"
            if container.get("name") not in known:
                yield FieldError(f"{where}.name", f"there is no container {str(container.get('name'))[:80]}")
            elif container.get("env") and container.get("name") in _CONTAINERS.values():
                yield FieldError(f"{where}.env", "Forbidden: set spec.trainer.env, or that of the initializer")


def _patches(job: Json) -> list[Json]:
    """The trainingRuntimeSpec of each patch; an empty one has none."""
    patches = mappings_in(mapping_of(job.get("spec")).get("runtimePatches"))
    return [mapping_of(patch.get("trainingRuntimeSpec")) for patch in patches]


def _initializer(container: Json, source: Source | None) -> Json:
    if source is None:
        return container
    uri = [] if source.storage_uri is None else [{"name": "STORAGE_URI", "value": source.storage_uri}]
    found = _with_env(container, [*uri, *source.env])
    if source.secret_ref is None:
        return found
    secret = {"secretRef": {"name": source.secret_ref.name or ""}}
    return {**found, "envFrom": [*mappings_in(found.get("envFrom")), secret]}


def _with_env(container: Json, variables: Sequence[Json]) -> Json:
    """The container with these variables; those of the same names are replaced, in their places."""
    if not variables:
        return container
    new = {str(one.get("name")): one for one in variables}
    kept = [new.pop(str(one.get("name")), one) for one in mappings_in(container.get("env"))]
    return {**container, "env": [*kept, *new.values()]}


def _amount(container: Json, wanted: Callable[[str], bool]) -> int:
    """The whole number of the first such resource that is requested, or else limited."""
    for part in ("requests", "limits"):
        amounts = mapping_of(mapping_of(container.get("resources")).get(part))
        for name, amount in amounts.items():
            with suppress(ValueError):
                if wanted(str(name)) and (found := -(-parse_quantity(amount).nanos // 10**9)) > 0:
                    return found
    return 0


def _pod_group(policy: PodGroupPolicy | None) -> PodGroup | None:
    if policy is not None and policy.coscheduling is not None:
        return PodGroup("coscheduling", policy.coscheduling.schedule_timeout_seconds or 60)
    if policy is not None and policy.volcano is not None:
        return PodGroup("volcano", network_topology=policy.volcano.network_topology)
    return None


def _all_containers(pod: Json) -> list[Json]:
    return [*mappings_in(pod.get("containers")), *mappings_in(pod.get("initContainers"))]


def _merged(own: Json, patches: Sequence[Json], field: str) -> Json:
    found = dict(mapping_of(own.get(field)))
    for patch in patches:
        found |= mapping_of(patch.get(field))
    return found


def _below(value: Json, *names: str) -> Json:
    for name in names:
        value = mapping_of(value.get(name))
    return value


def _read(model: type[M], value: object, path: str, errors: list[FieldError]) -> M | None:
    try:
        return model.model_validate(dict(mapping_of(value)))
    except ValidationError as error:
        errors += model_errors(error, path)
    except RecursionError:
        errors.append(FieldError(path, "is nested too deeply"))
    return None


def _of_runtime(runtime: Json, errors: Sequence[FieldError]) -> Iterator[FieldError]:
    name = str(mapping_of(runtime.get("metadata")).get("name") or "")
    kind = str(runtime.get("kind") or "runtime")
    return (FieldError("spec.runtimeRef", f"{kind} {name}: {error}"[:1024]) for error in errors)
