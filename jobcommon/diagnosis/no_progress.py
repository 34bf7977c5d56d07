"""A job that makes no progress: which of its replicas differs from the others, by what they have printed last."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from jobcommon.causes.cause import in_short, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.printed import telling
from jobcommon.diagnosis.diagnosis import Diagnosis
from jobcommon.diagnosis.failures import init_when_stopped
from jobcommon.diagnosis.found import Found, Member
from jobcommon.reconcile.ending import STOPPED

_NUMBER = re.compile(r"\d+")
_TIME = re.compile(r"(?:\d+-\d+-\d+[T ])?\d+:\d+:\d+(?:[.,]\d+)?")
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
    name = straggler(tails, {name: found.printed_at[member.pod.name] for name, member in there.items()})
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
    stopped = {f.replica: f for f in found.status.failures if f.reason == STOPPED and not init_when_stopped(f)[0]}
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


def straggler(tails: Mapping[str, Sequence[str]], since: Mapping[str, float] = MappingProxyType({})) -> str:
    """Of replicas that wait for each other, by what each has printed and since when it is silent, the one that is behind; "" if
    they do not differ.

    It is the one whose last line is no step and the fewest share; of several, the one whose last line most others have printed,
    too, before they went on.
    """
    outlines = {name: [*map(_outline, said)] for name, lines in tails.items() if (said := telling(lines))}
    last = {name: lines[-1] for name, lines in outlines.items()}

    def order(name: str) -> tuple[bool, int, int, float]:
        own, printed = last[name], {*outlines[name]}
        ahead = sum(own in outlines[other] and line not in printed for other, line in last.items() if other != name)
        return _counts(telling(tails[name])), sum(line == own for line in last.values()), -ahead, since.get(name, 0.0)

    ranked = sorted(last, key=order)
    return ranked[0] if ranked and (len(ranked) == 1 or order(ranked[0]) < order(ranked[1])) else ""


def _outline(line: str) -> str:
    return _NUMBER.sub("", line)


def _counts(lines: Sequence[str]) -> bool:
    """Whether the last line repeats one before with other numbers, as steps do; times do not count."""
    *before, last = [_TIME.sub("", line) for line in lines]
    return any(line != last and _outline(line) == _outline(last) for line in before)


def _printed_last(member: Member, found: Found, now: float) -> str:
    """What a replica printed last, and when."""
    name = member.pod.name
    age = span(now - found.printed_at[name])
    return f"the last line of {member.replica}, {age} old: {in_short(found.last_lines[name], 200)}"
