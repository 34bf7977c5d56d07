"""Another container of the pod, such as a sidecar, that explains why the program failed: by its end, its state or its log."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobcommon.api.pod import ContainerView, PodView, Running, Terminated, Waiting
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.causes.cause import Cause, listed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.printed import messages
from jobcommon.causes.programs import NAMED, anywhere, end_of_program, printed, unreachable
from jobcommon.diagnosis.context import collective, template_of
from jobcommon.diagnosis.found import Found, Member
from jobcommon.framework import Framework
from jobcommon.reconcile.ending import EARLY_SECONDS, PATIENCE_SECONDS, containers_beside, decode

Times = tuple[float | None, float | None]
_SIDECAR = "Always"
# What a program that lost a server fails of; of a container that has been started again, only soon after its end.
_LOST, JUST_BEFORE = (Reason.PEERS_UNREACHABLE, Reason.HOST_UNREACHABLE), 60.0
_MEMORY = "the cause of SIGKILL is usually a lack of memory: raise resources.limits.memory of this container"
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_LOCAL = re.compile(r"\b127\.\d+\.\d+\.\d+\b|\blocalhost\b|\b0\.0\.0\.0\b|\[::1?\]")
_WAITED = re.compile(
    r"\btim(?:ed?|ing)[ -]?out|\bwait(?:ed|ing)?\b|\bg[ai]v(?:e|ing) up\b|after \d+ (?:attempts|retries|tries)", re.IGNORECASE
)
_AFTER = (
    "start the program after {}: make that an init container with restartPolicy: Always and a startupProbe (Istio: "
    "holdApplicationUntilProxyStarts), or let the program try again"
)
_UNREAD = "see whether its container {} had failed or was not ready: cleanPodPolicy: None keeps the pod and its logs"
_OF_ACCOUNT = re.compile(
    r"service ?account|permission(?! denied \(publickey)|\bIAM\b|NOT_AUTHORIZED|not authorized|AssumeRole", re.IGNORECASE
)
# Of go-hclog: the lines of a value, and the values after it.
_VALUE = re.compile(r"\s+(?:\| ?|(?=\w+=))")
# What a program that runs has overcome is no error; it stands before so many entries of its log.
_LAST_ENTRIES = 15
_SHOWN = 4


def main_container(framework: Framework, pod: Mapping[str, Any]) -> str:
    """The name of the container of a pod that runs the program."""
    specs = mappings_in(mapping_of(pod.get("spec")).get("containers"))
    return framework.container or next((str(one.get("name", "")) for one in specs), "")


def suspect(pod: PodView, name: str, at: float | None) -> tuple[ContainerView, bool] | None:
    """The container beside container `name`, which failed at that time, that explains it first of all; and whether its log
    is that of the run before its present one.
    """

    def rank(one: ContainerView) -> int:
        if isinstance(one.state, Running):
            return 1 if not one.ready else 2 if one.restart_count else 3
        run = one.state if isinstance(one.state, Terminated) else one.last
        ended_first = run is not None and run.exit_code and (run.finished_at or 0.0) < (at or 0.0)
        return 0 if ended_first or isinstance(one.state, Waiting) else 3

    found = min(containers_beside(pod, name), key=rank, default=None)
    if found is None:
        return None
    # Of a container that waits for its next start, the log is that of its last run.
    last = found.last.finished_at if not isinstance(found.state, Waiting) and found.last is not None else None
    return found, last is not None and at is not None and -1 <= at - last <= JUST_BEFORE


def explained_beside(member: Member, cause: Cause, name: str, run: Times, found: Found) -> Cause | None:
    """The cause with that container of the pod that explains why container `name` failed, which ran from and until then."""
    return _ended_first(member, cause, name, run[1], found) or _still_there(member, cause, name, run, found)


def _ended_first(member: Member, cause: Cause, name: str, at: float | None, found: Found) -> Cause | None:
    """The end of another container that explains why this one lost a connection, and failed at that time."""
    if at is None:
        return None
    address = _ADDRESS.search(cause.text)
    elsewhere = cause.reason not in _LOST or collective(cause.text) or (address and not address[0].startswith("127."))
    pod = member.pod
    read, lines = found.beside.get(pod.name, ("", ()))
    for other in containers_beside(pod, name):
        for run, within in ((other.state, PATIENCE_SECONDS), (other.last, JUST_BEFORE)):
            if not isinstance(run, Terminated) or run.finished_at is None or not -1 <= at - run.finished_at <= within:
                continue
            # The kubelet stops a native sidecar when the program has ended.
            stopped = other.restart_policy == _SIDECAR and run is other.state and at - run.finished_at < 1
            # Only a failure well before may explain another error.
            if stopped or (elsewhere and (not run.exit_code or at - run.finished_at < 1 or run is other.last)):
                continue
            its = end_of_program(
                decode(run), run.exit_code, run.message, lines if read == other.name else (), local=found.local
            )
            if not run.exit_code:
                its = Cause(cause.reason, "exit code 0", "it must run for as long as the program")
            advice = _MEMORY if its.reason in ("SIGKILL", Reason.OOM_KILLED) else its.advice
            text = f"its container {other.name} ended first: {its.text}; then {cause.text}"
            return replace(its, text=text, advice=f"{_see(pod, other)}; {advice}")
    return None


def _still_there(member: Member, cause: Cause, name: str, run: Times, found: Found) -> Cause | None:
    """The container whose state or log explains why this one failed of a connection, or of what it waited for."""
    pod, (read, lines) = member.pod, found.beside.get(member.pod.name, ("", ()))
    other = next((one for one in containers_beside(pod, name) if one.name == read), None)
    if other is None or collective(cause.text):
        return None
    unready = isinstance(other.state, Running) and not other.ready
    early = None not in run and (run[1] or 0.0) - (run[0] or 0.0) <= EARLY_SECONDS
    lost = early and (cause.reason == Reason.HOST_UNREACHABLE or (cause.reason in _LOST and unready))
    points = _LOCAL.search(cause.text) or _WAITED.search(cause.text) or _shared(member, cause, name, read)
    if not (points or lost):
        return None
    its = error_of(lines, member.raw, local=found.local)
    if its is None and not unready:
        return None
    state = " is not ready" if unready else ""
    said = f": {its.text}" if its is not None else ""
    by_proxy = lost and not _LOCAL.search(cause.text) and its is not None and its.reason == Reason.HOST_UNREACHABLE
    order = _AFTER.format(read) if early and (unready or by_proxy) else ""
    advice = "; ".join(filter(None, (order, its.advice if its is not None else cause.advice, _see(pod, other))))
    text = f"{cause.text}; its container {read}{state}{said}"
    known = its is not None and its.reason != Reason.PROGRAM_FAILED
    return replace(cause, reason=its.reason if its and known else cause.reason, text=text, advice=advice, symptom=False)


def with_unread(cause: Cause, replica: str, found: Found) -> Cause:
    """The cause of a failure whose pod is gone, with what to do to see the logs of the containers that may explain it."""
    template = template_of(replica, found)
    spec, main = mapping_of(template.get("spec")), main_container(found.framework, template)
    sidecars = (one for one in mappings_in(spec.get("initContainers")) if one.get("restartPolicy") == _SIDECAR)
    names = [str(one.get("name")) for one in (*mappings_in(spec.get("containers")), *sidecars) if one.get("name") != main]
    points = cause.reason == Reason.HOST_UNREACHABLE or _LOCAL.search(cause.text) or _WAITED.search(cause.text)
    if not names or not points or collective(cause.text):
        return cause
    return replace(cause, advice=f"{_UNREAD.format(listed(names))}; {cause.advice}")


def _see(pod: PodView, other: ContainerView) -> str:
    return f"see container {other.name}: kubectl logs {pod.name} -c {other.name}"


def of_local(cause: Cause, member: Member, found: Found) -> Cause:
    """The cause with what to see where a program that runs does not reach a server in its own pod."""
    beside = containers_beside(member.pod, main_container(found.framework, member.raw))
    if not beside or not _LOCAL.search(cause.text):
        return cause
    return replace(cause, advice="; ".join(_see(member.pod, one) for one in beside))


def _shared(member: Member, cause: Cause, name: str, other: str) -> bool:
    """Whether the cause names a path below a mount of a volume that both containers mount."""
    spec = mapping_of(member.raw.get("spec"))
    specs = [*mappings_in(spec.get("containers")), *mappings_in(spec.get("initContainers"))]
    mounts = {str(one.get("name")): [*mappings_in(one.get("volumeMounts"))] for one in specs}
    theirs = {mount.get("name") for mount in mounts.get(other, ())}
    paths = (str(mount.get("mountPath")) for mount in mounts.get(name, ()) if mount.get("name") in theirs)
    return any(f"{path.rstrip('/')}/" in cause.text for path in paths)


def error_of(lines: Sequence[str], pod: Mapping[str, Any] | None = None, *, local: bool) -> Cause | None:
    """The error that the last entries of a container's log name; with its `pod`, of one before or beside the program."""
    last = [*entries(lines)][-_LAST_ENTRIES:]
    cause = printed(last, local=local)
    if cause is None or cause.advice == NAMED:
        cause = anywhere(messages(last), local=local) or cause
    if cause is not None and cause.reason in _LOST:
        return unreachable(cause.text, local=local)
    return replace(for_account(cause, pod) if pod is not None else cause, symptom=False) if cause is not None else None


def for_account(cause: Cause, pod: Mapping[str, Any]) -> Cause:
    """The cause with the ServiceAccount that a service has refused to a container before or beside the program."""
    if cause.reason != Reason.ACCESS_DENIED or not _OF_ACCOUNT.search(cause.text):
        return cause
    return replace(cause, advice=granted(pod, cause.text))


def granted(pod: Mapping[str, Any], text: str) -> str:
    """What to do where a service has refused a container or a driver that acts for the pod, with this text."""
    account = str(mapping_of(pod.get("spec")).get("serviceAccountName") or "default")
    how = "the role of Vault must name it" if "vault" in text.lower() else "by its cloud identity (Workload Identity, IRSA)"
    return f"grant the pod's ServiceAccount {account} what the message says: {how}"


def entries(lines: Sequence[str]) -> Iterator[str]:
    """The entries of a log; one of several lines, as go-hclog prints them, in one."""
    entry = ""
    for line in lines:
        match = _VALUE.match(line) if entry else None
        if match is not None:
            entry = f"{entry.rstrip()} {line[match.end() :].strip()}".rstrip()
            continue
        if entry:
            yield entry
        entry = line
    if entry:
        yield entry


def lines_beside(found: Found, replicas: Sequence[str], sentence: str) -> list[str]:
    """The last lines of the container that the sentence names beside the program of the first replica, labelled."""
    pod = next((member.pod.name for member in found.members if member.replica in replicas[:1]), "")
    name, lines = found.beside.get(pod, ("", ()))
    return (
        [f"[{name}] {entry}" for entry in [*entries(lines)][-_SHOWN:]] if name and f"its container {name}" in sentence else []
    )
