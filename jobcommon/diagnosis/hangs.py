"""What a job whose pods all run does not show in its status: that nothing is printed, and that a pod is a new one."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from jobcommon.api.pod import Terminated
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import Cause, in_short, listed, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.error_lines import exceptions
from jobcommon.causes.printed import messages, telling
from jobcommon.causes.programs import printed
from jobcommon.diagnosis.beside import error_of, of_local
from jobcommon.diagnosis.context import collective, in_context
from jobcommon.diagnosis.found import Found, Member

# A step or an epoch may take minutes; only its length is reported before.
QUIET_SECONDS = 60.0
HANGING_SECONDS = 300.0
_THREAD = re.compile(r"(?:Exception in )?(thread \S+|Process \S+?)(?: \(.*\))?:$", re.IGNORECASE)
# A program may print so many lines after an exception that ended it.
_AFTERWARDS = 3
# torch prints it again and again while it tries.
_END_IT = "end the program when a thread fails, so that the job fails, too"
_WAITS = re.compile(
    r"\bwait(?:ing)?\b|\bretry(?:ing)?\b|not (?:there|ready|available|reachable)|back-?off|attempt|try again|sleep",
    re.IGNORECASE,
)
_DIGITS, _REPEATED = re.compile(r"\d+"), 3
_UNRESOLVED = re.compile(r"network address(?:es)? of \([\w.-]+, \d+\) cannot be retrieved \(gai error: .*")
# An operator creates the pods of a job within seconds.
_CREATED_SECONDS = 15.0


def silent(found: Found, now: float) -> tuple[str, Sequence[str], str]:
    """For how long no replica has printed a line, as a part of a sentence; which have been silent longest; and what to do."""
    quiet = {m.replica: now - found.printed_at[m.pod.name] for m in found.members if m.pod.name in found.printed_at}
    if not quiet:
        return "", (), ""
    shortest, longest = min(quiet.values()), max(quiet.values())
    text = ""
    if shortest >= QUIET_SECONDS:
        last = next(m for m in found.members if quiet.get(m.replica) == shortest)
        line = in_short(found.last_lines.get(last.pod.name, ""), 200)
        text = f"; nothing was printed for {span(shortest)}" + (f"; the last line, by {last.replica}: {line}" if line else "")
    if longest < HANGING_SECONDS:
        return text, (), ""
    names = [replica for replica, seconds in quiet.items() if seconds >= longest - QUIET_SECONDS]
    if shortest < HANGING_SECONDS and len(names) < len(quiet):
        return text, (f"{listed(names)} printed nothing for {span(longest)}, but others did",), ""
    ages = " to ".join(dict.fromkeys((span(shortest), span(longest))))
    facts = (f"the last line of {listed(list(quiet))} is {ages} old",)
    pod = next(m.pod.name for m in found.members if m.replica == names[0])
    return text, facts, f"if no step takes this long, the program hangs: kubectl exec {pod} -- py-spy dump --pid 1 shows where"


def error_of_running(member: Member, found: Found, now: float) -> Cause | None:
    """What the log of a program that runs says of an error."""
    lines = found.tails.get(member.pod.name, ())
    return _raised_alone(member, found, now) or unresolved(lines, member.replica, found) or _waits(member, found)


def _raised_alone(member: Member, found: Found, now: float) -> Cause | None:
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


def _waits(member: Member, found: Found) -> Cause | None:
    """The error that the log of a program names which waits for something, and says so again and again."""
    tail = telling(found.tails.get(member.pod.name, ()))
    kinds = [_DIGITS.sub("", line) for line in tail]
    if not tail or not _WAITS.search(tail[-1]) or kinds.count(kinds[-1]) < _REPEATED:
        return None
    its = error_of(tail, local=found.local)
    if its is None or its.reason == Reason.PROGRAM_FAILED or collective(its.text):
        return None
    return of_local(replace(its, text=f"its program is running and waits: {its.text}"), member, found)


def unresolved(lines: Sequence[str], replica: str, found: Found) -> Cause | None:
    """The host outside of the job to which the program of a replica tries to connect, if its name does not resolve."""
    tail = telling(lines)
    match = next(filter(None, map(_UNRESOLVED.search, reversed(tail[-_AFTERWARDS:]))), None)
    if match is None:
        return None
    text = f"c10d: the {in_short(match[0])}"
    cause = in_context(Cause(Reason.PEERS_UNREACHABLE, text, symptom=True), replica, found)
    # The names of the job's own pods resolve when these run.
    return cause if cause.reason == Reason.HOST_UNREACHABLE else None


def died_beside(found: Found) -> Iterator[str]:
    """Threads and processes that have ended with an exception while their program goes on."""
    for member in found.members:
        for one in exceptions(messages(found.tails.get(member.pod.name, ()))):
            if (thread := _THREAD.match(one.thread)) is not None:
                yield f"{member.replica} is still running, but its {thread[1]} has ended: {in_short(one.text, 200)}"


def servers_gone(found: Found, now: float) -> Iterator[str]:
    """Replicas that have ended with exit code 0 though others, which they serve, still run."""
    if not any(member.pod.phase == "Running" and not _serves(member, found) for member in found.members):
        return
    for member in found.members:
        runs = [c.state for c in member.pod.containers if isinstance(c.state, Terminated) and c.state.finished_at is not None]
        at = max((run.finished_at or 0.0 for run in runs), default=now)
        if member.pod.phase == "Succeeded" and _serves(member, found) and now - at > QUIET_SECONDS:
            yield f"{member.replica} ended with exit code 0 {span(now - at)} ago, and its clients are still running"


def _serves(member: Member, found: Found) -> bool:
    return found.framework.serves(member.replica.rpartition("-")[0])


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


def recreated(found: Found) -> Iterator[str]:
    """Replicas whose pod is newer than the job's start though none of them failed."""
    start = parse_time(found.status.start_time)
    failed = {failure.replica for failure in found.status.failures}
    if start is None or any(event.warning for event in found.events_of(found.read.uid)):
        return
    for member in found.members:
        created = member.pod.creation_time
        if created is not None and created > start + _CREATED_SECONDS and member.replica not in failed:
            cause = "an earlier pod was deleted, or the job was scaled"
            yield f"the pod of {member.replica} was created {span(created - start)} after the start: {cause}"
