"""Reading polyaxonfiles from version 1.0 on: a component, or an operation with its component, whose run is a Kubeflow job.

Every role is a pod template already, so the job is the same thing written another way. Nothing is added to the tasks: the
POLYAXON_* variables of these versions speak of the platform's API, which is not here.
"""

from collections.abc import Mapping
from typing import Any

from jobcommon.cli.convert.draft import BATCH_JOB, MPIJOB_EXEC, MXJOB, PYTORCHJOB, TFJOB, Draft, Kind, Replicas
from jobcommon.cli.convert.finding import Notes
from jobcommon.cli.convert.naming import identity
from jobcommon.cli.convert.params import read_inputs, read_params, substitute
from jobcommon.cli.convert.runpolicy import read_clean_pod_policy, read_scheduling_policy, read_termination
from jobcommon.cli.convert.section import Section, scalar_text
from jobcommon.cli.convert.task import without_nulls

_RESTART_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
# run.kind -> the job's kind, and its roles in the file and in the manifest.
_RUNS: Mapping[str, tuple[Kind, Mapping[str, str]]] = {
    "tfjob": (TFJOB, {"chief": "Chief", "ps": "PS", "worker": "Worker", "evaluator": "Evaluator"}),
    "pytorchjob": (PYTORCHJOB, {"master": "Master", "worker": "Worker"}),
    "mpijob": (MPIJOB_EXEC, {"launcher": "Launcher", "worker": "Worker"}),
    "mxjob": (
        MXJOB,
        {
            "scheduler": "Scheduler",
            "server": "Server",
            "worker": "Worker",
            "tuner_tracker": "TunerTracker",
            "tuner_server": "TunerServer",
            "tuner": "Tuner",
        },
    ),
}
# Fields of the job's spec beyond the roles: name in the file -> name in the manifest.
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "tfjob": {"enable_dynamic_worker": "enableDynamicWorker", "success_policy": "successPolicy"},
    "pytorchjob": {"elastic_policy": "elasticPolicy", "nproc_per_node": "nprocPerNode", "n_proc_per_node": "nprocPerNode"},
    "mpijob": {"slots_per_worker": "slotsPerWorker"},
    "mxjob": {"mode": "jobMode"},
}
_POD_FIELDS = {
    "node_selector": "nodeSelector",
    "affinity": "affinity",
    "tolerations": "tolerations",
    "node_name": "nodeName",
    "service_account_name": "serviceAccountName",
    "host_aliases": "hostAliases",
    "security_context": "securityContext",
    "host_network": "hostNetwork",
    "host_pid": "hostPID",
    "dns_policy": "dnsPolicy",
    "dns_config": "dnsConfig",
    "scheduler_name": "schedulerName",
    "priority_class_name": "priorityClassName",
    "priority": "priority",
}
_PLATFORM = "is a service of the Polyaxon platform, which is not here"
_CONNECTIONS = "needs Polyaxon's catalogue of connections, which is not here: mount a volume or name a Secret instead"
_MANY = "describes many runs; this converts one: write one file each, with its params"
_ELSEWHERE = "names a component that is elsewhere: put it here, under component"


def is_component(body: Mapping[str, Any]) -> bool:
    """Whether the document is of version 1.0 or later, by its shape."""
    run = body.get("run")
    return body.get("kind") in ("component", "operation") or (isinstance(run, Mapping) and isinstance(run.get("kind"), str))


def read_component(body: Mapping[str, Any], notes: Notes, *, name: str | None, image: str | None, fallback: str) -> Draft:
    """The job in the document. What is wrong with it is in `notes`, and may have left the job incomplete."""
    outer = Section(body, "", notes)
    operation = outer.text("kind") == "operation"
    outer.take("version")
    outer.refuse(_ELSEWHERE, "hub_ref", "path_ref", "url_ref", "dag_ref")
    outer.refuse(_MANY, "matrix", "schedule", "joins", "dependencies")
    outer.refuse("is a change to a component: make it there", "run_patch", "template", "patch_strategy")
    given = read_params(outer, "params")
    component = outer.section("component") if operation else outer
    if operation:
        component.take("version")
        component.take("kind")
    params = read_inputs(component, given)
    limits = [read_termination(section.section("termination")) for section in dict.fromkeys((component, outer))]
    path, run = component.at("run"), substitute(component.take("run"), params, component.at("run"), notes)
    who = identity(outer if outer.has("name") else component, name=name, fallback=fallback)
    for section in dict.fromkeys((component, outer)):
        section.cannot(_PLATFORM, "plugins", "hooks", "queue", "cache", "presets", "outputs", "contexts", "events", "cost")
        section.cannot(_PLATFORM, "is_approved", "namespace", "conditions", "skip_on_upstream_skip", "trigger", "build")
        section.take("name")
        section.close()
    if not isinstance(run, Mapping):
        notes.error(path, "is required: a mapping with kind and the roles of the job")
        run = {}
    policy = {key: value for limit in limits for key, value in limit.items()}
    drafted = _draft(Section(run, path, notes), who.name, policy, image)
    return Draft(
        kind=drafted.kind,
        name=who.name,
        replicas=drafted.replicas,
        annotations=who.annotations,
        run_policy=drafted.run_policy,
        spec=drafted.spec,
    )


def _draft(run: Section, name: str, policy: Mapping[str, Any], image: str | None) -> Draft:
    path, kind = run.at("kind"), (run.text("kind") or "").replace("_", "").lower()
    if kind == "job":
        return Draft(BATCH_JOB, name, {"main": _role(run, BATCH_JOB, policy, image)}, run_policy=policy)
    if kind not in _RUNS:
        run.notes.error(path, f'"{kind[:40]}" is not supported: use one of {", ".join((*_RUNS, "job"))}')
        return Draft(BATCH_JOB, name, {})
    target, roles = _RUNS[kind]
    policy = {**policy, **read_clean_pod_policy(run), **read_scheduling_policy(run)}
    if target is MPIJOB_EXEC:
        policy.setdefault("backoffLimit", 0)
    spec = {}
    for key, field in _OPTIONS[kind].items():
        if run.has(key):
            value = without_nulls(run.take(key))
            spec[field] = str(value) if field == "nprocPerNode" else value
    replicas = {role: _role(run.section(key), target, policy, image) for key, role in roles.items() if run.has(key)}
    if not replicas:
        run.notes.error(run.path, f"has no role: name at least one of {', '.join(roles)}")
    run.close()
    return Draft(target, name, replicas, run_policy=policy, spec=spec)


def _role(section: Section, kind: Kind, policy: Mapping[str, Any], image: str | None) -> Replicas:
    notes = section.notes
    count = section.integer("replicas", most=10_000)
    environment = section.section("environment")
    path, restart = environment.at("restart_policy"), environment.text("restart_policy")
    if restart is not None and restart not in _RESTART_POLICIES:
        notes.error(path, f"{restart[:40]} is not supported: use one of {', '.join(_RESTART_POLICIES)}")
    metadata = {key: environment.texts(key) for key in ("labels", "annotations")}
    pod: dict[str, Any] = {}
    for key, field in _POD_FIELDS.items():
        if environment.has(key):
            pod[field] = without_nulls(environment.take(key))
    secrets = environment.words("image_pull_secrets")
    environment.close()
    main = _container(section, kind, image)
    inits = [found for entry in section.sections("init") if (found := _init(entry))]
    sidecars = [without_nulls(sidecar.rest()) for sidecar in section.sections("sidecars")]
    volumes = [without_nulls(volume.rest()) for volume in section.sections("volumes")]
    section.cannot(_CONNECTIONS, "connections")
    section.close()
    lists = {
        "imagePullSecrets": [{"name": name} for name in secrets],
        "volumes": volumes,
        "initContainers": inits,
        "containers": [main, *sidecars],
    }
    spec = {**pod, **{name: entries for name, entries in lists.items() if entries}}
    labels = {key: value for key, value in metadata.items() if value}
    template = {"metadata": labels, "spec": spec} if labels else {"spec": spec}
    retried = "OnFailure" if kind is BATCH_JOB and policy.get("backoffLimit") else "Never"
    return Replicas(template, 1 if count is None else count, restart if restart in _RESTART_POLICIES else retried)


def _container(section: Section, kind: Kind, image: str | None) -> dict[str, Any]:
    path = section.at("container")
    container = section.section("container").rest()
    found = {**without_nulls(container), "name": kind.container, **({"image": image} if image else {})}
    if not isinstance(found.get("image"), str) or not found["image"]:
        section.notes.error(f"{path}.image", "is required: name an image there or with --image")
    for key in ("command", "args"):
        if key in found:
            found[key] = _words(found[key], f"{path}.{key}", section.notes)
    order = ("name", "image", "command", "args")
    return {**{key: found[key] for key in order if key in found}, **{k: v for k, v in found.items() if k not in order}}


def _words(value: object, path: str, notes: Notes) -> list[str]:
    words = [scalar_text(word) for word in (value if isinstance(value, list) else [value])]
    if None in words:
        notes.error(path, "must be a list of words")
    return [word for word in words if word is not None]


def _init(entry: Section) -> dict[str, Any] | None:
    """An init container. What Polyaxon's own init handlers would fetch is not fetched here, so the program would miss it."""
    known = len(entry.notes.errors)
    advice = "is fetched by Polyaxon's own images, which are not here: use a container with an image that fetches it"
    entry.refuse(
        advice, "git", "artifacts", "dockerfile", "file", "lineage_ref", "model_ref", "artifact_ref", "paths", "tensorboard"
    )
    entry.refuse(_CONNECTIONS, "connection")
    entry.cannot("has no meaning without connections", "path")
    container = without_nulls(entry.section("container").rest())
    entry.close()
    if len(entry.notes.errors) > known:
        return None
    if not container.get("image"):
        entry.notes.error(f"{entry.path}.container.image", "is required")
        return None
    return {"name": f"init-{entry.path.rpartition('[')[2].rstrip(']')}", **container}
