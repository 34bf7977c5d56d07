"""What the job adds to the cause of a failed run: which host it did not reach, as which user and under which limits it ran."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobcommon.api.job import template_for
from jobcommon.api.template import command_line, containers_of, mapping_of
from jobcommon.causes.cause import Cause
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.programs import unreachable
from jobcommon.diagnosis.found import Found

_HOST = re.compile(
    r"resolve hostname ([\w.-]+)|connect to host ([\w.-]+) port|(?:network address(?:es)? of|connect to) \(([\w.-]+), \d+\)|"
    r"\(host='([\w.-]+)'|"
    r"Failed to resolve '([\w.-]+)'|translate host name \"([\w.-]+)\"|tcp://([\w.-]+):\d+",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\d.]+|localhost|.*:.*")
# Of a job with one replica such words are those of its own processes.
_COLLECTIVE = re.compile(
    r"c10d|TCPStore|rendezvous|\bDist\w+Error|nccl|gloo|rabit|tracker|collective|\branks?\b|elastic|\bmpi", re.IGNORECASE
)
_LIMIT = re.compile(r"\bulimit\s+-[HS]*([a-z])\s+(\d+)")
# By what a limit leads to, the letters of ulimit.
_LIMITED = {
    "SIGKILL": "tvm", "SIGXCPU": "t", "SIGXFSZ": "f", "SIGSEGV": "s", Reason.MEMORY_EXHAUSTED: "vmdls",
    Reason.LIMIT_REACHED: "nuft", Reason.WORKER_PROCESS_KILLED: "tvm",
}  # fmt: skip
_DENIED = re.compile(r"denied|not permitted|EACCES|\[Errno 13\]", re.IGNORECASE)


def in_context(cause: Cause, replica: str, found: Found) -> Cause:
    """The cause as it is in this job."""
    if cause.reason == Reason.PEERS_UNREACHABLE:
        return _of_host(cause, found)
    template = _template(replica, found)
    denied = cause.reason in (Reason.COMMAND_NOT_EXECUTABLE, Reason.PERMISSION_DENIED) and _DENIED.search(cause.text)
    if denied and (user := _user(template)):
        advice = (
            f"the pod runs as user {user} (securityContext.runAsUser): give this user the right to the file and to the "
            "directories above it (of a volume: fsGroup), or run as another user"
        )
        return replace(cause, advice=advice)
    letters = _LIMITED.get(cause.reason, "")
    if limits := [match[0] for match in _LIMIT.finditer(command_line(template)) if match[1] in letters]:
        return replace(cause, advice=f"the command sets {', '.join(limits)}: raise or leave out the limit that it reached")
    return cause


def _of_host(cause: Cause, found: Found) -> Cause:
    job = found.read
    host = host_in(cause.text)
    if host and not _ADDRESS.fullmatch(host):
        if host.partition(".")[0] == job.service_name or host.startswith(f"{job.name}-"):
            return cause
        made = unreachable(f"{cause.text}; no pod of the job is named {host}", local=found.local)
        mine = "; MASTER_ADDR is set by the operator: the program must not change it" if _COLLECTIVE.search(cause.text) else ""
        return replace(made, advice=made.advice + mine)
    if job.total_replicas == 1 and not _COLLECTIVE.search(cause.text):
        made = unreachable(f"{cause.text}; the job has no other replica", local=found.local)
        return replace(made, advice=f"see which address it connects to, and whether a server listens there; {made.advice}")
    return cause


def host_in(text: str) -> str:
    """The host that a message about a connection names, "" for none."""
    return next((next(filter(None, match.groups())) for match in _HOST.finditer(text)), "").lower()


def _template(replica: str, found: Found) -> Mapping[str, Any]:
    kind, _, index = replica.rpartition("-")
    spec = found.read.replica_specs.get(kind)
    return template_for(spec, int(index)) if spec is not None and index.isdecimal() else {}


def _user(template: Mapping[str, Any]) -> int | None:
    """The user of the pod's programs, if it is not root."""
    contexts = [mapping_of(one.get("securityContext")) for one in (*containers_of(template), mapping_of(template.get("spec")))]
    return next((user for context in contexts if isinstance(user := context.get("runAsUser"), int)), None) or None
