"""Of a replica that lost others, or waited for them: what is known of these, and which of them did not come."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from jobcommon.api import reasons
from jobcommon.api.job import template_for
from jobcommon.api.pod import Running, Waiting
from jobcommon.api.replica import Replica
from jobcommon.api.status import Failure
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import Cause, in_short, listed, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.printed import telling
from jobcommon.diagnosis.diagnosis import Diagnosis
from jobcommon.diagnosis.found import EventView, Found, Member
from jobcommon.diagnosis.pods import CALM, cause_of
from jobcommon.diagnosis.scheduling import unschedulable
from jobcommon.diagnosis.starting import not_prepared, not_started
from jobcommon.reconcile.ending import STOPPED
from jobcommon.reconcile.rendering import SAYS_WAITING, said_after

_LOST = (Reason.PEERS_UNREACHABLE, Reason.COLLECTIVE_TIMEOUT)
_MOST = 200
_BEFORE_START = (
    "FailedScheduling",
    "Failed",
    "BackOff",
    "FailedMount",
    "FailedAttachVolume",
    "FailedCreatePodSandBox",
    "Pulling",
)
# What a condition says that a replica waits for: the reason and the message.
_WAITED = r"(?:^|, |; ){}(?:, [\w-]+)*(?: and \d+ more)?: (\w+): (.*?)(?:; [A-Z]\w*-\d+(?:, [\w-]+)*: |$)"


@dataclass(frozen=True, slots=True)
class Other:
    """A replica, what is known of it, as a part of a sentence, why it has not started, and its last lines."""

    replica: str
    text: str
    runs: bool = False
    cause: Cause | None = None
    node: str = ""
    lines: Sequence[str] = ()


def meanwhile(found: Found, cause: Cause, without: Collection[str], now: float, at: float | None = None) -> str:
    """Of a replica that lost others or waited for them, until `at`, what is known of these; a part of a sentence."""
    if not cause.symptom and cause.reason != Reason.COLLECTIVE_TIMEOUT:
        return ""
    known = sorted(_others(found, without, now, at), key=lambda other: other.runs)
    facts = [f"{other.replica} {other.text}" for other in known]
    return f"; {listed(facts, 2)}" if facts else ""


def absent(found: Found, failure: Failure, cause: Cause, now: float) -> Sequence[Other]:
    """The replicas that had not started when the one that `failure` is of lost the others, or waited for them in vain."""
    if not cause.symptom or cause.reason not in _LOST:
        return ()
    known = _others(found, (failure.replica,), now, parse_time(failure.time))
    return [other for other in known if other.cause is not None and other.cause.reason not in CALM]


def never_started(found: Found) -> Iterator[Other]:
    """The replicas whose pods are gone and had not started, with the reason."""
    past = (_of_the_past(found, replica, None) for replica in found.read.replicas)
    return (other for other in past if other is not None and other.cause is not None)


def led_by_absent(made: Diagnosis, late: Sequence[Other], waited: str) -> Diagnosis:
    """That diagnosis of a replica which waited for others, led by those that had not started."""
    first, names = late[0], [other.replica for other in late]
    if first.cause is None:
        return made
    alike = [other.replica for other in late if other.cause == first.cause]
    return replace(
        made,
        reason=first.cause.reason,
        sentence=f"{listed(alike)} {first.text}; {waited}",
        advice=first.cause.advice,
        replicas=(*names, *(name for name in made.replicas if name not in names)),
        node=first.node,
        exit_code=None,
        lines=tuple(first.lines),
    )


def _others(found: Found, without: Collection[str], now: float, at: float | None) -> list[Other]:
    """Those of which something is known."""
    there = {m.replica: m for m in found.members if m.pod.deletion_time is None or cause_of(m, found, now) is not None}
    replicas = [replica for replica in found.read.replicas if str(replica) not in without]
    known = (
        _of_member(there[name], found, now, at) if (name := str(replica)) in there else _of_the_past(found, replica, at)
        for replica in replicas
    )
    return [other for other in known if other is not None]


def _of_member(member: Member, found: Found, now: float, at: float | None) -> Other | None:
    pod, name = member.pod, member.replica
    cause = cause_of(member, found, now)
    if cause is not None:
        why = cause if pod.phase == "Pending" or cause.reason == Reason.NODE_DOES_NOT_ANSWER else None
        runs, text = pod.phase == "Running", f"({pod.phase}): {in_short(cause.text, _MOST)}"
        return Other(name, text, runs, why, pod.node_name) if not cause.symptom else None
    if pod.phase == "Running":
        starts = [c.state.started_at for c in pod.containers if isinstance(c.state, Running) and c.state.started_at is not None]
        if at is not None and starts and min(starts) > at:
            return Other(name, f"started {span(min(starts) - at)} later", runs=True, node=pod.node_name)
        line = found.last_lines.get(pod.name, "")
        text = "is still running" + (f", its last line: {in_short(line, _MOST)}" if line else "")
        return Other(name, text, runs=True, node=pod.node_name, lines=found.tails.get(pod.name, (line,) if line else ()))
    return Other(name, "has ended with exit code 0", node=pod.node_name) if pod.phase == "Succeeded" else None


def _of_the_past(found: Found, replica: Replica, at: float | None) -> Other | None:
    """What the record and the events until then tell of a replica whose pod is gone."""
    name, pod = str(replica), found.read.pod_name(replica)
    events = found.events_of(pod)
    stop = next((f for f in found.status.failures if f.pod == pod and f.reason == STOPPED), None)
    if stop is not None:
        lines = telling((stop.message or "").splitlines())
        last = f", its last line: {in_short(lines[-1], _MOST)}" if lines else ""
        return Other(name, f"was running when the job ended{last}", node=stop.node or "", lines=lines)
    if any(event.reason == "Started" and (at is None or event.at <= at) for event in events):
        return None
    cause = _before_start(found, replica, events)
    return Other(name, f"had not started: {in_short(cause.text, _MOST)}", cause=cause) if cause is not None else None


def _before_start(found: Found, replica: Replica, events: Sequence[EventView]) -> Cause | None:
    """Why a pod that is gone had not started, by the latest of its events that says so."""
    pod = template_for(found.read.replica_specs[replica.type], replica.index)
    last = next((event for event in events if event.reason in _BEFORE_START), None)
    if last is None:
        # Events go after an hour.
        said = (said_after(condition.message, SAYS_WAITING) for condition in reversed(found.status.conditions))
        waited = next(filter(None, (re.search(_WAITED.format(replica), text) for text in said)), None)
        if waited is None:
            return None
        scheduled = waited[1] != reasons.UNSCHEDULABLE
        return not_started(Waiting(*waited.groups()), ()) if scheduled else unschedulable(waited[2], pod, found.nodes)
    if last.reason == "FailedScheduling":
        return unschedulable(last.message, pod, found.nodes)
    if last.reason in ("Failed", "BackOff"):
        reason = "ImagePullBackOff" if "pull" in last.message.lower() else "CreateContainerConfigError"
        return not_started(Waiting(reason, "" if "Pull" in reason else last.message.removeprefix("Error: ")), events)
    return not_prepared(events)
