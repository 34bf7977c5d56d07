"""What the job adds to the cause of a failed run: which host it did not reach, as which user and under which limits it ran."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from jobcommon.api.job import template_for
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.causes.cause import Cause
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
_OF_MASTER = "the operator sets the address of rank 0 in MASTER_ADDR: program and options of torchrun must name no other"
# Of a job with one replica such words are those of its own processes.
_COLLECTIVE = re.compile(
    r"c10d|TCPStore|rendezvous|\bDist\w+Error|nccl|gloo|rabit|tracker|collective|\branks?\b|elastic|\bmpi", re.IGNORECASE
)
_HOSTS = "mpirun takes its hosts from the operator's hostfile: leave -H, --host and --hostfile out of the command"
_NOT_REACHED = "the Launcher cannot reach a Worker that is not running"
_WAITING_WORKER = (
    "remove command and args of the Workers, so that they wait for mpirun, or end the command with exec sleep infinity (where "
    "mpirun uses SSH: exec /usr/sbin/sshd -De)"
)
_SERVING = "the command of {} must run until the other replicas have ended (in a parameter server: server.join())"


def in_context(cause: Cause, replica: str, found: Found, container: str = "") -> Cause:
    """The cause as it is in this job; of the main container unless another is named."""
    if cause.reason == Reason.PEERS_UNREACHABLE:
        return _of_host(cause, replica, found)
    template = template_of(replica, found)
    if cause.reason == Reason.OOM_KILLED and (limit := _memory_limit(_pod_of(replica, found), container)):
        own = _memory_limit(template, container)
        given = "" if own else ", which the template does not set: a LimitRange of the namespace does, or a webhook"
        advice = f"{'raise' if own else 'set'} resources.limits.memory, or use a smaller batch or fewer data loader workers"
        return replace(cause, text=cause.text.replace("its limit", f"its limit of {limit}{given}", 1), advice=advice)
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
        return replace(cause, advice=_OF_MASTER, symptom=False)
    if host and not _ADDRESS.fullmatch(host):
        if host.partition(".")[0] == job.service_name or host.startswith(f"{job.name}-"):
            return cause
        made = unreachable(f"{cause.text}; no pod of the job is named {host}", local=found.local)
        if "Launcher" in job.replica_specs:
            return replace(made, advice=_HOSTS)
        return replace(made, advice=_OF_MASTER) if _COLLECTIVE.search(cause.text) else made
    if job.total_replicas == 1 and not _COLLECTIVE.search(cause.text):
        made = unreachable(f"{cause.text}; the job has no other replica", local=found.local)
        return replace(made, advice=f"see which address it connects to, and whether a server listens there; {made.advice}")
    return cause


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


def _memory_limit(pod: Mapping[str, Any], container: str) -> str:
    """Of the container, "" for the first; "" if it has none."""
    spec = mapping_of(pod.get("spec"))
    containers = [one for name in ("containers", "initContainers") for one in mappings_in(spec.get(name))]
    first: Mapping[str, Any] = next((one for one in containers if container in ("", one.get("name"))), {})
    return str(mapping_of(mapping_of(first.get("resources")).get("limits")).get("memory") or "")
