"""Checks of valid jobs: settings that do not do what their user expects, for warnings by the operator and the commands.

A check reads the spec alone and costs no request. Those of one kind are in its framework's `checks`.
"""

from collections.abc import Iterable, Iterator

from jobcommon.api.job import RestartPolicy
from jobcommon.api.replica import Replica, replica_count
from jobcommon.api.template import containers_of, mapping_of, mappings_in
from jobcommon.framework import Check, Framework, Job
from jobcommon.manifests.children import ATTEMPT_VARIABLE, pod_restart_policy
from jobcommon.reconcile.slots import Slots, tally

# What hides all devices, as the operator does by "".
_NO_DEVICES = ("none", "void")


def warnings(framework: Framework, job: Job) -> tuple[str, ...]:
    """What the checks find in a valid job, in the order of docs/checks.md."""
    found = (check.warning(framework, job) for check in (*CHECKS, *framework.checks))
    return tuple(dict.fromkeys(text for text in found if text is not None))


def _replaced_variables(framework: Framework, job: Job) -> str | None:
    names: dict[str, None] = {}
    types = []
    for kind, spec in job.replica_specs.items():
        replaced = list(_replaced(framework, job, kind)) if replica_count(spec) else []
        names |= dict.fromkeys(replaced)
        types += [kind] if replaced else []
    if not names:
        return None
    has, them = ("has", "it") if len(names) == 1 else ("have", "them")
    ports = framework.port_name and any(name.endswith("_PORT") for name in names)
    port = f"; a port is the containerPort named {framework.port_name}" if ports else ""
    return (
        f"{_and(names)} in the template of {_and(types)} {has} no effect, because the operator sets {them}: remove {them}{port}"
    )


def _replaced(framework: Framework, job: Job, kind: str) -> Iterator[str]:
    spec = job.replica_specs[kind]
    main = framework.main_container(spec)
    containers = [one for one in containers_of(spec.template) if one.get("name") == main or not framework.env_in_main_only]
    own = [(one.get("name") == main, entry) for one in containers for entry in mappings_in(one.get("env"))]
    ours = {one.name: one.value for one in framework.env(job, Replica(kind, 0)) if not one.default} if own else {}
    for in_main, entry in own:
        name, value = str(entry.get("name")), entry.get("value")
        hides_devices = name in ours and not ours[name] and value in _NO_DEVICES
        if name in ours and value != ours[name] and not hides_devices:
            yield name
        if name == ATTEMPT_VARIABLE and in_main and job.restarts_together:
            yield name
    pod, names = (
        mapping_of(spec.template.get("spec")),
        {"hostname": job.pod_name(Replica(kind, 0)), "subdomain": job.service_name},
    )
    yield from (name for name, value in names.items() if pod.get(name) not in (None, "", value))


def _never_succeeds(framework: Framework, job: Job) -> str | None:
    # Where all replicas are restarted together, no kubelet restarts one that has succeeded.
    always = (
        [] if job.restarts_together else [k for k, s in job.replica_specs.items() if s.restart_policy == RestartPolicy.ALWAYS]
    )
    done = {kind: frozenset(job.indexes(kind)) for kind in job.replica_specs}
    endless = [
        kind
        for kind in always
        if job.count(kind) and not framework.decide(job, tally(job, Slots({}, ()), {**done, kind: frozenset()})).succeeded
    ]
    if not endless:
        return None
    return f"restartPolicy Always restarts {_and(endless)} after exit 0, so the job never succeeds: set OnFailure"


def _probes_end_well(framework: Framework, job: Job) -> str | None:
    kinds = []
    for kind, spec in job.replica_specs.items():
        pod, main = mapping_of(spec.template.get("spec")), framework.main_container(spec)
        probed = any(one.get("livenessProbe") and one.get("name") == main for one in containers_of(spec.template))
        never = pod_restart_policy(job, spec.restart_policy or RestartPolicy.NEVER, pod) == "Never"
        kinds += [kind] if probed and never and job.count(kind) and framework.runs_to_completion(kind) else []
    if not kinds:
        return None
    text = f"a program that its livenessProbe ends by SIGTERM, and that then exits with 0, counts as succeeded in {_and(kinds)}"
    return f"{text}: make it exit with another code, or set progressDeadlineSeconds instead"


def _and(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


CHECKS = (
    Check(
        "VariablesReplaced",
        "`env` of a template sets a variable of the cluster, such as `MASTER_ADDR`, `WORLD_SIZE` or `TF_CONFIG`, to a value "
        "that the operator replaces, or the template sets `hostname` or `subdomain`, which make the addresses of replicas",
        _replaced_variables,
    ),
    Check(
        "NeverSucceeds",
        "a replica on which success depends has `restartPolicy: Always` with `restartScope: Pod`: the kubelet restarts it "
        "after exit 0",
        _never_succeeds,
    ),
    Check(
        "ProbeMaySucceed",
        "the main container has a `livenessProbe`, and the kubelet starts no container again in its pod (`restartPolicy` Never "
        "or ExitCode, or `restartScope: Job` without `restartMethod: Auto`)",
        _probes_end_well,
    ),
)
"""The checks of all kinds."""
