"""The replica types that are held: some of a job that has begun and whose spec has errors, or all of one that cannot start.

A job that has begun is never failed for an error: an edit, an older CRD or another operator may have accepted a spec that is
refused today. Running pods continue and are counted; nothing is created or deleted for the replica types that an error
concerns, and the condition reports it until the spec is corrected. If a type cannot be read, no end of a pod is recorded
either: what it means for the job is unknown. The operator's own configuration is no error of the spec:
a job waits to be started until it is changed, and a job that has started continues.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobcommon.api import reasons
from jobcommon.framework import FieldError, Framework, Job
from jobcommon.reconcile.plan import WARNING, Event
from jobcommon.reconcile.rendering import Hold

_TYPE = re.compile(r"\[([^\]]*)\]")
# Errors there concern the job as a whole and no pod: the field counts as not set.
_ELSEWHERE = ("metadata", "spec.runPolicy")
_GANG = "spec.runPolicy.schedulingPolicy"


@dataclass(frozen=True, slots=True)
class HeldTypes:
    """`types`: the replica types for which nothing is created or deleted; `unread`: some could not be read at all, so the job's
    progress is unknown; `start`: the job must not be started.
    """

    types: frozenset[str] = frozenset()
    unread: bool = False
    start: bool = False
    hold: Hold | None = None

    @property
    def events(self) -> list[Event]:
        """The same as an event, emitted once."""
        reason = reasons.WAITING if self.start else reasons.INVALID_SPEC
        return [Event(WARNING, reason, str(self.hold), lasting=True)] if self.hold is not None else []


_NONE = HeldTypes()


def held_types(framework: Framework, job: Job, *, started: bool) -> HeldTypes:
    """What the errors of the job's spec hold, or the operator's options if the job has not `started` yet."""
    if not job.errors:
        why = "" if started else framework.blocked(job)
        return HeldTypes(frozenset(job.replica_specs), start=True, hold=Hold(f"it waits: {why}")) if why else _NONE
    known = {kind.name.lower(): kind.name for kind in framework.replica_types}
    # The other types' environment describes the whole job, and would be wrong without the types that could not be read.
    types = known.values() if job.unread else {n for error in job.errors for n in _concerned(framework, error, known)}
    hold = Hold("the spec is invalid: " + "; ".join(map(str, job.errors)))
    return HeldTypes(frozenset(types), unread=bool(job.unread), hold=hold)


def _concerned(framework: Framework, error: FieldError, known: Mapping[str, str]) -> Iterable[str]:
    specs = f"spec.{framework.replica_specs}"
    if error.path.startswith(f"{specs}["):
        found = _TYPE.match(error.path, len(specs))
        name = known.get(found[1].lower()) if found is not None else None
        return () if name is None else (name,)
    if error.path.startswith(_ELSEWHERE) and not error.path.startswith(_GANG):
        return ()
    return known.values()
