"""A job that makes no progress: which of its replicas differs from the others, by what they have printed last."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobcommon.causes.cause import in_short, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.stacks import telling
from jobcommon.diagnosis.diagnosis import Diagnosis
from jobcommon.diagnosis.failures import first_failure
from jobcommon.diagnosis.found import Found, Member
from jobcommon.reconcile.ending import STOPPED

_NUMBER = re.compile(r"\d+")


def without_progress(found: Found, text: str, now: float) -> Diagnosis:
    """The diagnosis of a job whose pods all run; `text` says since when it has reported nothing."""
    made = Diagnosis(Reason.STALLED, text, advice="check what its ranks wait for: py-spy dump, or their logs")
    there = {m.replica: m for m in found.members if m.pod.name in found.printed_at and found.last_lines.get(m.pod.name)}
    tails = {name: found.tails.get(member.pod.name, ()) for name, member in there.items()}
    name = _odd(tails, {name: found.printed_at[member.pod.name] for name, member in there.items()})
    if not name:
        return made
    member = there.pop(name)
    return replace(
        made,
        sentence=f"{text}; {_printed_last(member, found, now)}",
        evidence=tuple(_printed_last(other, found, now) for other in [*there.values()][:2]),
        lines=tuple(tails[name]),
        replicas=(name,),
        node=member.pod.node_name,
        advice=f"check what {name} waits for: kubectl exec {member.pod.name} -- py-spy dump --pid 1 shows where",
    )


def stopped_by_stall(found: Found, message: str) -> Diagnosis:
    """A job that has failed for want of progress, by what its replicas printed until then."""
    stopped = {f.replica: f for f in found.status.failures if f.reason == STOPPED}
    tails = {name: (failure.message or "").splitlines() for name, failure in stopped.items()}
    name = _odd(tails, {})
    line = f"; the last line of {name}: {in_short(telling(tails[name])[-1], 200)}" if name else ""
    advice = "with runPolicy.stallAction None its pods stay, and kubectl exec POD -- py-spy dump --pid 1 shows where they wait"
    made = Diagnosis(Reason.STALLED, f"{in_short(message)}{line}", advice=advice)
    if name:
        made = replace(made, replicas=(name,), node=stopped[name].node or "", lines=tuple(tails[name]))
    return replace(made, evidence=tuple(first_failure(found)))


def _odd(tails: Mapping[str, Sequence[str]], since: Mapping[str, float]) -> str:
    """Of replicas that wait for each other, by what each has printed and since when it is silent, the one whose last line is
    unlike any other line, else the one silent for longest; "" without any.
    """
    last = {name: _NUMBER.sub("", telling(lines)[-1]) for name, lines in tails.items() if any(map(str.strip, lines))}
    outlines = Counter(_NUMBER.sub("", line) for lines in tails.values() for line in lines)
    return min(last, key=lambda name: (outlines[last[name]], since.get(name, 0.0)), default="")


def _printed_last(member: Member, found: Found, now: float) -> str:
    """What a replica printed last, and when."""
    name = member.pod.name
    age = span(now - found.printed_at[name])
    return f"the last line of {member.replica}, {age} old: {in_short(found.last_lines[name], 200)}"
