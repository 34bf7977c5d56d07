"""A job that makes no progress: which of its replicas differs from the others, by what they have printed last."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobcommon.causes.cause import in_short, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.printed import telling
from jobcommon.diagnosis.diagnosis import Diagnosis
from jobcommon.diagnosis.found import Found, Member
from jobcommon.reconcile.ending import STOPPED

_NUMBER = re.compile(r"\d+")
_MOST = 3
_HUNG = "if it hung, see what {} waited for: while it runs, kubectl exec POD -- py-spy dump --pid 1 shows it"
_ADVICE = {
    Reason.STALLED: (
        "with runPolicy.stallAction None its pods stay, and kubectl exec POD -- py-spy dump --pid 1 shows where they wait",
    ),
    Reason.DEADLINE_EXCEEDED: (_HUNG, "if it was slow, raise runPolicy.activeDeadlineSeconds, or train for less time"),
}


def without_progress(found: Found, text: str, now: float) -> Diagnosis:
    """The diagnosis of a job whose pods all run; `text` says since when it has reported nothing."""
    made = Diagnosis(Reason.STALLED, text, advice="check what its ranks wait for: py-spy dump, or their logs")
    there = {m.replica: m for m in found.members if m.pod.name in found.printed_at and found.last_lines.get(m.pod.name)}
    tails = {name: found.tails.get(member.pod.name, ()) for name, member in there.items()}
    name = straggler(tails)
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


def ended_by_limit(found: Found, reason: Reason, text: str) -> Diagnosis:
    """The diagnosis of a job that a limit has ended, and no replica, with what its replicas printed until then."""
    stopped = {f.replica: f for f in found.status.failures if f.reason == STOPPED}
    tails = {name: said for name, f in stopped.items() if (said := telling((f.message or "").splitlines()))}
    advice = "; ".join(reversed(_ADVICE[reason]))
    made = Diagnosis(reason, text, advice=advice.format("each replica"))
    if not tails:
        return made
    name = straggler(tails) or next(iter(tails))
    others = [f"the last line of {other}: {in_short(tails[other][-1], 200)}" for other in tails if other != name]
    return replace(
        made,
        sentence=f"{made.sentence}; the last line of {name}: {in_short(tails[name][-1], 200)}",
        evidence=(*others[:_MOST], *made.evidence),
        lines=tuple(tails[name]),
        replicas=(name,),
        node=stopped[name].node or "",
        advice=advice.format(name),
    )


def straggler(tails: Mapping[str, Sequence[str]]) -> str:
    """Of replicas that wait for each other the one that is behind, by what each has printed; "" if they do not differ.

    The fewest share its last line, but for numbers; or else it has not printed that line before, as it does with steps.
    """
    lines = {name: [_NUMBER.sub("", line) for line in said] for name, tail in tails.items() if (said := telling(tail))}
    last = [said[-1] for said in lines.values()]
    rank = {name: (last.count(said[-1]), said[-1] in said[:-1]) for name, said in lines.items()}
    behind = [name for name in rank if rank[name] == min(rank.values())]
    return behind[0] if len(behind) == 1 else ""


def _printed_last(member: Member, found: Found, now: float) -> str:
    """What a replica printed last, and when."""
    name = member.pod.name
    age = span(now - found.printed_at[name])
    return f"the last line of {member.replica}, {age} old: {in_short(found.last_lines[name], 200)}"
