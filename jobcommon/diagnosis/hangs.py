"""What a job whose pods all run does not show in its status: that nothing is printed, an exception, or which replica waits."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobcommon.causes.cause import Cause, in_short, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.error_lines import exceptions
from jobcommon.causes.printed import messages, telling
from jobcommon.causes.programs import printed
from jobcommon.diagnosis.diagnosis import Diagnosis
from jobcommon.diagnosis.found import Found, Member
from jobcommon.reconcile.ending import STOPPED

# A step or an epoch may take minutes; only its length is reported before.
QUIET_SECONDS = 60.0
HANGING_SECONDS = 300.0
_THREAD = re.compile(r"(?:Exception in )?(thread \S+|Process \S+?)(?: \(.*\))?:$", re.IGNORECASE)
# A program may print so many lines after an exception that ended it.
_AFTERWARDS = 3
_END_IT = "end the program when a thread fails, so that the job fails, too"
_NUMBER = re.compile(r"\d+")
_MOST = 3
_ADVICE = {
    Reason.STALLED: "with runPolicy.stallAction None its pods stay, and kubectl exec POD -- py-spy dump --pid 1 shows where "
    "they wait",
    Reason.DEADLINE_EXCEEDED: "if it was slow, raise runPolicy.activeDeadlineSeconds, or train for less time; if it hung, see "
    "what {} waited for: while it runs, kubectl exec POD -- py-spy dump --pid 1 shows it",
}


def silent(found: Found, now: float) -> tuple[str, str]:
    """For how long no replica has printed a line, as a part of a sentence, and what to do."""
    quiet = {m.replica: now - found.printed_at[m.pod.name] for m in found.members if m.pod.name in found.printed_at}
    if not quiet:
        return "", ""
    shortest = min(quiet.values())
    text = ""
    if shortest >= QUIET_SECONDS:
        last = next(m for m in found.members if quiet.get(m.replica) == shortest)
        line = in_short(found.last_lines.get(last.pod.name, ""), 200)
        text = f"; nothing was printed for {span(shortest)}" + (f"; the last line, by {last.replica}: {line}" if line else "")
    if shortest < HANGING_SECONDS:
        return text, ""
    pod = max(found.members, key=lambda m: quiet.get(m.replica, 0.0)).pod.name
    return text, f"if no step takes this long, the program hangs: kubectl exec {pod} -- py-spy dump --pid 1 shows where"


def error_of_running(member: Member, found: Found, now: float) -> Cause | None:
    """The exception with which the log of a pod that runs ends: that of a thread, or of a process that others wait for."""
    tail = found.tails.get(member.pod.name, ())
    quiet = now - found.printed_at.get(member.pod.name, now)
    cause, of = last_exception(tail, local=found.local)
    if cause is None:
        return None
    first = [one.text for one in exceptions(messages(tail))]
    # Processes that are started again and again fail in the same way. Programs try connections more than once.
    again = first.count(first[-1]) > 1 and not cause.symptom
    if not of and not again and quiet < QUIET_SECONDS:
        return None
    what = f"its {of} has ended with an exception" if of else f"its log {'repeats' if again else 'ends with'} an exception"
    since = f", and has printed nothing for {span(quiet)} since" if quiet >= QUIET_SECONDS or of else ""
    text = f"{what}: {cause.text}; the process is still running{since}"
    mpi = "Launcher" in found.read.replica_specs
    so = "start Python with -m mpi4py, which ends all ranks when one fails" if mpi else _END_IT
    return replace(cause, text=text, advice=f"{cause.advice}; {so}")


def last_exception(lines: Sequence[str], *, local: bool) -> tuple[Cause | None, str]:
    """The cause of the exception that ends these lines, and the thread or process that it has ended.

    None if more was printed after it.
    """
    said = messages(lines)
    found = exceptions(said)
    if not found or sum(bool(line.text[:1].strip()) for line in said[found[-1].end + 1 :]) > _AFTERWARDS:
        return None, ""
    thread = _THREAD.match(found[-1].thread)
    return printed(lines, local=local), thread[1] if thread else ""


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
    made = Diagnosis(reason, text, advice=_ADVICE[reason].format("each replica"))
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
        advice=_ADVICE[reason].format(name),
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
