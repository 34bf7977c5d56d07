"""What the job adds to the cause of a failed run: which host it did not reach, as which user and under which limits it ran."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from jobcommon.api.job import template_for
from jobcommon.api.template import command_line, containers_of, mapping_of, mappings_in
from jobcommon.causes.cause import Cause, listed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.programs import unreachable
from jobcommon.diagnosis.found import Found

_HOST = re.compile(
    r"resolve hostname ([\w.-]+)|connect to host ([\w.-]+) port|(?:network address(?:es)? of|connect to) \(([\w.-]+), \d+\)|"
    r"\(host='([\w.-]+)'|pods \"([\w.-]+)\" (?:not found|is forbidden)|"
    r"Failed to resolve '([\w.-]+)'|translate host name \"([\w.-]+)\"|tcp://([\w.-]+):\d+",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\d.]+|localhost|.*:.*")
_LOOPBACK = re.compile(r"127[\d.]+|localhost")
_OF_MASTER = "make the program take MASTER_ADDR and MASTER_PORT from its environment, where the operator sets them"
# Of a job with one replica such words are those of its own processes.
_COLLECTIVE = re.compile(
    r"c10d|TCPStore|rendezvous|\bDist\w+Error|nccl|gloo|rabit|tracker|collective|\branks?\b|elastic|\bmpi", re.IGNORECASE
)
_HOSTS = "mpirun takes its hosts from the operator's hostfile: leave -H, --host and --hostfile out of the command"
_RDZV_ENDPOINT = re.compile(r"--rdzv[-_]endpoint\b")
_OWN_ENDPOINT = "remove {} from the command and set elasticPolicy, so that the operator sets the endpoint; or correct the host"
_NOT_REACHED = "the Launcher cannot reach a Worker that is not running"
_WAITING_WORKER = (
    "remove command and args of the Workers, so that they wait for mpirun, or end the command with exec sleep infinity (where "
    "mpirun uses SSH: exec /usr/sbin/sshd -De)"
)
_SERVING = "the command of {} must run until the other replicas have ended (in a parameter server: server.join())"
_NO_GPU = re.compile(r"No CUDA GPUs are available|no CUDA-capable device|No visible GPU|CUDA_ERROR_NO_DEVICE")
_REQUEST_GPU = "set nvidia.com/gpu in resources.limits of its container to 1, or to its number of processes"
_DENIED = re.compile(r"denied|not permitted|EACCES|\[Errno 13\]", re.IGNORECASE)


def in_context(cause: Cause, replica: str, found: Found) -> Cause:
    """The cause as it is in this job."""
    if cause.reason == Reason.PEERS_UNREACHABLE:
        return _of_host(cause, replica, found)
    template = template_of(replica, found)
    if cause.reason == Reason.GPU_UNUSABLE and _NO_GPU.search(cause.text) and not _requests(template, "/"):
        others = [kind for kind, spec in found.read.replica_specs.items() if _requests(spec.template, "nvidia.com/")]
        text = f"{cause.text}; the template of {replica} requests no GPU" + (
            f", the template of {listed(others)} does" if others else ""
        )
        return replace(cause, text=text, advice=_REQUEST_GPU) if others or not found.local else cause
    if cause.reason == Reason.OOM_KILLED and (limit := _memory_limit(_pod_of(replica, found))):
        own = _memory_limit(template)
        given = "" if own else ", which the template does not set: a LimitRange of the namespace does, or a webhook"
        advice = f"{'raise' if own else 'set'} resources.limits.memory, or use a smaller batch or fewer data loader workers"
        return replace(cause, text=cause.text.replace("its limit", f"its limit of {limit}{given}", 1), advice=advice)
    denied = cause.reason in (Reason.COMMAND_NOT_EXECUTABLE, Reason.PERMISSION_DENIED) and _DENIED.search(cause.text)
    if denied and (user := _user(template)):
        advice = (
            f"the pod runs as user {user} (securityContext.runAsUser): give this user access to the file and to the "
            "directories above it (on a volume: fsGroup), or run as another user"
        )
        return replace(cause, advice=advice)
    if cause.reason == "SIGTERM" and any("livenessProbe" in one for one in containers_of(template)):
        return replace(cause, advice=f"{cause.advice}, or the kubelet, because its livenessProbe failed")
    return cause


def without_error(replica: str, found: Found) -> Cause:
    """Why a run counts as failed that has ended with exit code 0."""
    kind = replica.rpartition("-")[0]
    if not found.framework.serves(kind):
        text = "its command ended with exit code 0, and restartPolicy Always restarts it"
        return Cause(Reason.ENDED_EARLY, text, "set restartPolicy OnFailure, with which it succeeds")
    mpi = "Launcher" in found.read.replica_specs
    text = "its command ended with exit code 0, and " + (_NOT_REACHED if mpi else "the replicas that it serves need it")
    return Cause(Reason.ENDED_EARLY, text, _WAITING_WORKER if mpi else _SERVING.format(kind))


def _of_host(cause: Cause, replica: str, found: Found) -> Cause:
    job = found.read
    host = host_in(cause.text)
    if _LOOPBACK.fullmatch(host) and replica not in ("", *map(str, islice(job.replicas, 1))) and _COLLECTIVE.search(cause.text):
        return replace(cause, text=f"{cause.text}; {replica} connects to itself", advice=_OF_MASTER, symptom=False)
    if host and not _ADDRESS.fullmatch(host):
        if host.partition(".")[0] == job.service_name or host.startswith(f"{job.name}-"):
            return cause
        made = unreachable(f"{cause.text}; no pod of the job is named {host}", local=found.local)
        if "Launcher" in job.replica_specs:
            return replace(made, advice=_HOSTS)
        if (
            option := _RDZV_ENDPOINT.search(" ".join(command_line(one.template) for one in job.replica_specs.values()))
        ) is not None:
            return replace(made, advice=_OWN_ENDPOINT.format(option[0]))
        mine = "MASTER_ADDR is set by the operator: the program must not change it"
        return replace(made, advice=mine) if _COLLECTIVE.search(cause.text) else made
    if job.total_replicas == 1 and not _COLLECTIVE.search(cause.text):
        made = unreachable(f"{cause.text}; the job has no other replica", local=found.local)
        return replace(made, advice=f"see which address it connects to, and whether a server listens there; {made.advice}")
    return cause


def collective(text: str) -> bool:
    """Whether a message about a connection is of one between ranks."""
    return _COLLECTIVE.search(text) is not None


def host_in(text: str) -> str:
    """The host that a message about a connection names, "" for none."""
    return next((next(filter(None, match.groups())) for match in _HOST.finditer(text)), "").lower()


def template_of(replica: str, found: Found) -> Mapping[str, Any]:
    """The pod template of the replica, empty if it is not known."""
    kind, _, index = replica.rpartition("-")
    spec = found.read.replica_specs.get(kind)
    return template_for(spec, int(index)) if spec is not None and index.isdecimal() else {}


def _pod_of(replica: str, found: Found) -> Mapping[str, Any]:
    """The pod of the replica as the API server has it, or its template if the pod is gone."""
    pod = next((member.raw for member in found.members if member.replica == replica), None)
    return pod if pod is not None else template_of(replica, found)


def _memory_limit(pod: Mapping[str, Any]) -> str:
    """Of its first container, "" if it has none."""
    containers = mappings_in(mapping_of(pod.get("spec")).get("containers"))
    first: Mapping[str, Any] = next(iter(containers), {})
    return str(mapping_of(mapping_of(first.get("resources")).get("limits")).get("memory") or "")


def _requests(template: Mapping[str, Any], device: str) -> bool:
    """Whether a container of the pod requests a device whose name has this part; devices may also be claimed."""
    resources = [mapping_of(one.get("resources")) for one in containers_of(template)]
    names = (name for one in resources for field in ("limits", "requests") for name in mapping_of(one.get(field)))
    return any(device in name for name in names) or any(one.get("claims") for one in resources)


def _user(template: Mapping[str, Any]) -> int | None:
    """The user of the pod's programs, if it is not root."""
    contexts = [mapping_of(one.get("securityContext")) for one in (*containers_of(template), mapping_of(template.get("spec")))]
    return next((user for context in contexts if isinstance(user := context.get("runAsUser"), int)), None) or None
