"""The objects a job owns, as manifests: its pods, its Services, and the owner reference on each."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from string import ascii_letters, digits
from typing import Any

from jobcommon.api import labels
from jobcommon.api.job import RestartPolicy, template_for
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.template import mapping_of
from jobcommon.framework import FINALIZER, SERVICE_PER_REPLICA, EnvVar, Framework, Job
from jobcommon.manifests.size import size_text

CORE = "v1"
HEADLESS = "None"
ATTEMPT_VARIABLE = "JOBCOMMON_RESTART_ATTEMPT"
# The kubelet reads it at each start of the container, so it is right after a restart in place, too.
_ATTEMPT_ENV = {
    "name": ATTEMPT_VARIABLE,
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{labels.ATTEMPT}']"}},
}
MAX_LABEL = 63
# Of the 256 KiB that the annotations of a pod may have, what the program's variables may take.
MAX_VARIABLES = 96 * 1024
DEFAULT_DOMAIN = "cluster.local"
# The API server takes no more of dnsConfig.searches.
MAX_SEARCHES, MAX_SEARCH_CHARACTERS = 32, 2048
_NAME = frozenset("-." + ascii_letters + digits)
_IN_PLACE = {RestartPolicy.ALWAYS: "Always", RestartPolicy.ON_FAILURE: "OnFailure"}


def owner_reference(job: Job) -> dict[str, Any]:
    """The reference by which the garbage collector, and we ourselves, know the job's children."""
    return {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(job: Job, name: str, own_labels: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of an object of the job."""
    return {"name": name, "namespace": job.namespace, "labels": dict(own_labels), "ownerReferences": [owner_reference(job)]}


def job_selector(framework: Framework, job: Job) -> dict[str, str]:
    """The labels of all objects of the job."""
    return {labels.OPERATOR_NAME: framework.operator_name, labels.JOB_NAME: job.name.replace("/", "-")}


def replica_labels(framework: Framework, job: Job, replica: Replica) -> dict[str, str]:
    """The labels of one replica's pod, without its role."""
    return {
        **job_selector(framework, job),
        labels.REPLICA_TYPE: replica.type.lower(),
        labels.REPLICA_INDEX: str(job.index_label(replica)),
    }


def selectors(framework: Framework, job: Job) -> dict[str, str]:
    """By type, the selector of its pods, which the scale subresource hands to autoscalers."""
    found = {}
    for kind in job.replica_specs:
        pairs = replica_labels(framework, job, Replica(kind, 0))
        kept = sorted((key, value) for key, value in pairs.items() if key != labels.REPLICA_INDEX)
        found[kind] = ",".join(f"{key}={value}" for key, value in kept)
    return found


def pod_manifest(framework: Framework, job: Job, replica: Replica) -> dict[str, Any]:
    """The pod of one replica.

    Of the template's metadata only labels and annotations count (attack case S3: no namespace, owner references or
    finalizers come from a user); our labels win over the user's. Its address is hostname + subdomain, which the job's
    one headless Service makes resolvable.
    """
    spec = job.replica_specs[replica.type]
    template, main = template_for(spec, replica.index), framework.main_container(spec, replica.index)
    metadata, given = template.get("metadata") or {}, template.get("spec") or {}
    variables = _variables(framework, job, replica)
    pod_spec = {
        **given,
        **_host(job, replica, given),
        "restartPolicy": pod_restart_policy(job, spec.restart_policy or RestartPolicy.NEVER, given),
        "containers": [
            _main_container(framework, job, container, variables)
            if container.get("name") == main
            else with_env(container, () if framework.env_in_main_only else variables)
            for container in map(_with_message, given.get("containers") or ())
        ],
    }
    if given.get("initContainers"):
        pod_spec["initContainers"] = [*map(_with_message, given["initContainers"])]
    if given.get("hostNetwork") and not given.get("dnsPolicy"):
        pod_spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    roles = {labels.JOB_ROLE: "master"} if framework.is_master(job, replica) else {}
    own_labels = {**replica_labels(framework, job, replica), **roles}
    metadata_of_pod = owned(job, job.pod_name(replica), {**labels.of_template(metadata.get("labels")), **own_labels})
    attempt = {labels.ATTEMPT: str(job.attempt)} if job.restarts_together or job.attempt else {}
    attempt |= _world(framework, job, variables)
    if annotations := {**labels.of_template(metadata.get("annotations")), **attempt}:
        metadata_of_pod["annotations"] = annotations
    if job.options.tracking_finalizer:
        metadata_of_pod["finalizers"] = [FINALIZER]
    pod = {"apiVersion": CORE, "kind": "Pod", "metadata": metadata_of_pod, "spec": pod_spec}
    return framework.shape_pod(job, replica, pod)


def world(framework: Framework, job: Job, replica: Replica) -> dict[str, str]:
    """The annotations of a pod with what it knows of the others: the size of the attempt, and the variables that follow it."""
    return _world(framework, job, _variables(framework, job, replica))


class _Annotated(EnvVar):
    """A variable that the kubelet reads from an annotation at each start of the container.

    After a restart in place the program so knows of another number of peers. References to other variables are not expanded.
    """

    __slots__ = ()


def _variables(framework: Framework, job: Job, replica: Replica) -> Collection[EnvVar]:
    """The framework's variables for one pod, with its host name in place of its own address.

    The kubelet writes the host name into the pod's /etc/hosts, so it resolves before DNS has a record of the pod, and torch and
    others know themselves by it. Peers that are handed that name find it by the search domain (see `_host`). On the host's
    network both are the node's.
    """
    variables, own, name = framework.env(job, replica), job.address(replica), job.pod_name(replica)
    template = mapping_of(template_for(job.replica_specs[replica.type], replica.index).get("spec"))
    if not (template.get("hostNetwork") or template.get("hostnameOverride") or len(name) > MAX_LABEL):
        # dataclasses.replace takes three times as long, and this is done for every pod.
        variables = [EnvVar(v.name, _renamed(v.value, own, name), v.default) if own in v.value else v for v in variables]
    if not job.starts_by_image or sum(len(v.name) + len(v.value.encode()) for v in variables) > MAX_VARIABLES:
        return variables
    return [
        _Annotated(v.name, v.value, v.default) if "$" not in v.value and len(v.name) + len("env.") <= MAX_LABEL else v
        for v in variables
    ]


def _renamed(text: str, address: str, name: str) -> str:
    before, _, after = text.partition(address)
    # Not in a longer name that a user has written.
    return text if _NAME.intersection(before[-1:] + after[:1]) else f"{before}{name}{after}"


def _world(framework: Framework, job: Job, variables: Collection[EnvVar]) -> dict[str, str]:
    if not job.restarts_together:
        return {}
    annotated = {f"{labels.VARIABLE}{v.name}": v.value for v in variables if isinstance(v, _Annotated)}
    return {labels.SIZE: size_text(framework, job), **annotated}


def overruled_policies(framework: Framework, job: Job) -> Iterator[str]:
    """The restart policies in pod templates that have no effect, because the replica spec's counts."""
    for kind, spec in job.replica_specs.items():
        own = mapping_of(spec.template.get("spec")).get("restartPolicy")
        counts = spec.restart_policy or RestartPolicy.NEVER
        if own and own != counts and (own, counts) != (RestartPolicy.NEVER, RestartPolicy.EXIT_CODE):
            where = f"spec.{framework.replica_specs}[{kind}].restartPolicy"
            yield f"restartPolicy {own} in the pod template of {kind} has no effect: set {where}, which is {counts}"


def service_manifests(framework: Framework, job: Job) -> list[dict[str, Any]]:
    """The Services the job needs: one headless one, and on request one per replica as in the reference.

    publishNotReadyAddresses lets replicas find each other before they are ready, so that no resolver caches a "no such
    name" during start-up (the reference needed an init container for that).
    """
    services = [_service(job, job.service_name, job_selector(framework, job), [])]
    if job.service_per_replica:
        ports = [{"name": framework.port_name, "port": framework.port}] if framework.port_name else []
        services += [
            _service(job, job.pod_name(replica), replica_labels(framework, job, replica), ports) for replica in job.replicas
        ]
    return services


def other_service_name(job: Job) -> str:
    """The name of the job's headless Service where the job's own name is taken."""
    return f"{job.name[: MAX_LABEL - 9].rstrip('-.')}-{sha256(job.uid.encode()).hexdigest()[:8]}"


def as_addressed(job: Job, observed: Observed) -> Job:
    """The job with the names by which its pods know each other.

    Its headless Service has another name than the job if that is on record or exists, or if the job's own is taken and no pod
    has an address with it. And a job with one Service per replica asks for these: the reference's jobs have them, and as their
    pods have no hostname and subdomain, no other name resolves to them.
    """
    other = other_service_name(job)
    recorded = job.status.service_name == other or any(service.name == other for service in observed.services)
    if recorded or (job.service_name in observed.taken_services and not observed.pods):
        job = replace(job, service=other)
    inherited = any(labels.REPLICA_INDEX in s.labels and not s.deleting for s in observed.services)
    if not inherited or job.service_per_replica:
        return job
    return replace(job, annotations={**job.annotations, SERVICE_PER_REPLICA: "true"})


def with_env(container: dict[str, Any], variables: Collection[EnvVar]) -> dict[str, Any]:
    """The container with `variables` and its own; each name occurs once (see `EnvVar` for the precedence).

    The container's own come last, because the kubelet replaces $(NAME) only in what stands after that variable. One that refers
    to a variable of the container, as a field of the job's may, comes after them.
    """
    if not variables:
        return container
    own = [entry for entry in container.get("env") or () if isinstance(entry, dict)]
    set_by_user = {entry.get("name") for entry in own}
    added = [v for v in variables if not (v.default and v.name in set_by_user)]
    names = {v.name for v in added}
    kept = [entry for entry in own if entry.get("name") not in names]
    late = {v.name for v in added if "$(" in v.value and any(f"$({entry.get('name')})" in v.value for entry in kept)}
    ours = [_entry(v) for v in added]
    first, last = ([entry for entry in ours if (entry["name"] in late) is after] for after in (False, True))
    return {**container, "env": [*first, *kept, *last]}


def _entry(variable: EnvVar) -> dict[str, Any]:
    if not isinstance(variable, _Annotated):
        return {"name": variable.name, "value": variable.value}
    path = f"metadata.annotations['{labels.VARIABLE}{variable.name}']"
    return {"name": variable.name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _host(job: Job, replica: Replica, template: Mapping[str, Any]) -> dict[str, Any]:
    """What makes the pod's address, and its peers known by their plain names, which programs for the reference's Services use.

    A name of more than 63 characters, which only an inherited job has, is no host name; with kubectl exec its pods reach each
    other all the same.
    """
    name = job.pod_name(replica)
    if len(name) > MAX_LABEL:
        return {}
    config = template.get("dnsConfig") or {}
    cluster = job.options.cluster_domain or job.options.search_domain or DEFAULT_DOMAIN
    domain = f"{job.service_name}.{job.namespace}.svc.{cluster}"
    searches = [*(config.get("searches") or ())]
    if domain not in searches and len(searches) < MAX_SEARCHES and len(" ".join([*searches, domain])) <= MAX_SEARCH_CHARACTERS:
        searches.append(domain)
    return {"hostname": name, "subdomain": job.service_name, "dnsConfig": {**config, "searches": searches}}


def pod_restart_policy(job: Job, policy: RestartPolicy, template: Mapping[str, Any]) -> str:
    """The restart policy of a pod with that spec in its `template`, of a replica of that `policy`."""
    # The kubelet's first restart is immediate, before the operator sees the failure: with a limit of 0 it must be ruled out.
    # Where all replicas are restarted together, a container must not start again by itself, unless it is restarted in place:
    # in a pod whose policy is Never, a container that is stopped ends the pod.
    if job.restarts_in_place and policy != RestartPolicy.NEVER and job.run_policy.backoff_limit != 0:
        return "OnFailure" if len(template.get("containers") or ()) == 1 else "Never"
    if job.restarts_together or (policy == RestartPolicy.ON_FAILURE and job.run_policy.backoff_limit == 0):
        return "Never"
    return _IN_PLACE.get(policy, "Never")


def _with_message(container: dict[str, Any]) -> dict[str, Any]:
    """The container whose termination message is the end of its log if it fails, so that the pod's status says why."""
    if container.get("terminationMessagePolicy"):
        return container
    return {**container, "terminationMessagePolicy": "FallbackToLogsOnError"}


def _main_container(framework: Framework, job: Job, container: dict[str, Any], variables: Collection[EnvVar]) -> dict[str, Any]:
    """The container whose exit code counts, with the framework's port and the program's environment."""
    ports = container.get("ports") or []
    if framework.port_name and not any(port.get("name") == framework.port_name for port in ports):
        container = {**container, "ports": [*ports, {"name": framework.port_name, "containerPort": framework.port}]}
    container = with_env(container, variables)
    if not job.restarts_together:
        return container
    kept = [entry for entry in container.get("env") or () if entry.get("name") != ATTEMPT_VARIABLE]
    return {**container, "env": [_ATTEMPT_ENV, *kept]}


def _service(job: Job, name: str, selector: dict[str, str], ports: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = {"clusterIP": HEADLESS, "selector": selector, "publishNotReadyAddresses": True}
    if ports:
        spec["ports"] = ports
    return {"apiVersion": CORE, "kind": "Service", "metadata": owned(job, name, selector), "spec": spec}
