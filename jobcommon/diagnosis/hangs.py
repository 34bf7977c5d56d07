"""What a job whose pods all run does not show in its status: that nothing is printed, or an exception."""

import re
from collections.abc import Sequence
from dataclasses import replace

from jobcommon.causes.cause import Cause, in_short, span
from jobcommon.causes.error_lines import exceptions
from jobcommon.causes.printed import messages
from jobcommon.causes.programs import printed
from jobcommon.diagnosis.found import Found, Member

# A step or an epoch may take minutes; only its length is reported before.
QUIET_SECONDS = 60.0
HANGING_SECONDS = 300.0
_THREAD = re.compile(r"(?:Exception in )?(thread \S+|Process \S+?)(?: \(.*\))?:$", re.IGNORECASE)
# A program may print so many lines after an exception that ended it.
_AFTERWARDS = 3
_END_IT = "end the program when a thread fails, so that the job fails, too"


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
