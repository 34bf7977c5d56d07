"""What an optional feature of jobs sees of one in a pass, and what it may do about it: three protocols, each for one power.

A feature is a class with one or more of them, made in each pass from the `View`. It has no other input, and it writes nothing:
what it yields is a value, and the decision says what follows. No two features see each other's proposals, and where several
concern one pod, one table decides (`intents`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from pydantic import ValidationError

from jobcommon.api.model import ApiModel
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.timestamp import format_time
from jobcommon.framework import Feature, Framework, Job, Tallies
from jobcommon.manifests.children import pod_manifest
from jobcommon.reconcile import limits, waiting
from jobcommon.reconcile.accounting import Accounting
from jobcommon.reconcile.attempts import NO_CHANGE, AttemptChange, RestartInPlace, change_of_attempt
from jobcommon.reconcile.facts import Facts, Go, Stop
from jobcommon.reconcile.intents import Course, PodProposal
from jobcommon.reconcile.limits import Deadline
from jobcommon.reconcile.plan import Action, Event
from jobcommon.reconcile.rendering import Note, Statement, Wait, Why
from jobcommon.reconcile.slots import Slot, Slots


@dataclass(frozen=True, slots=True)
class End:
    """The job fails instead of being restarted once more."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """All replicas are restarted although none has failed, because of `cause`, a part of a sentence. Nothing is charged."""

    cause: str


@dataclass(frozen=True, slots=True)
class Wake:
    """The job is looked at again at that time (seconds since the epoch)."""

    at: float


@dataclass(frozen=True, slots=True)
class Remark:
    """What to add to that condition; None: to whichever says how the job goes on."""

    about: ConditionType | None
    note: Note


JobProposal = End | NewAttempt | Deadline
Proposal = PodProposal | Action | Wake | Remark | Event | Statement


class Part(Feature):
    """A feature in one pass over one `job`, at `now`. Of the job's status, it alone writes the `fields`."""

    def __init__(self, view: "View") -> None:
        self.view, self.framework, self.job = view, view.framework, view.job
        self.observed, self.now = view.observed, view.now

    @property
    def policy(self) -> ApiModel | None:
        """What the job's run policy says of it, as its model `spec`; None if the field is not set."""
        return self.job.features.get(self.name)

    @property
    def recorded(self) -> ApiModel | None:
        """What it has recorded of the job, as its model `status`; None if nothing, or what cannot be read."""
        try:
            return self.status.model_validate(self.job.status.features[self.name]) if self.status is not None else None
        except (KeyError, ValidationError):
            return None


class PodShape(Part):
    """What the pods of a job are made like."""

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The manifest of a pod that is to be created."""
        return pod

    def keep(self, slot: Slot) -> RestartInPlace | None:
        """The restart in place of a pod of an earlier attempt; None for one that is replaced."""
        return None


class Admission(Part):
    """Whether a job may have pods, and whether those that are missing may be created now."""

    @classmethod
    def quota(cls, facts: Facts) -> Go | Stop:  # noqa: ARG003 - the protocol
        """Whether the job may have pods at all, and how many. It is asked before the pods are classified."""
        return Go()

    def wait(self) -> Wait | None:
        """What the creation of all missing pods waits for, and the start of the job; None if nothing does.

        Its Services and the objects of other features are made meanwhile, and quota is kept. A pod that is there goes on, and
        its program is restarted in it, by the operator as by the kubelet, which asks for nothing.
        """
        return None


class Lifecycle(Part):
    """What becomes of a job, of its pods and of other objects."""

    def propose(self) -> Iterable[JobProposal]:
        """What becomes of a job that goes on."""
        return ()

    def act(self, course: Course | None) -> Iterable[Proposal]:
        """What to do on that course; None: of a job whose suspension is being recorded, or which another controller manages.

        A remark and a statement are heard of a job that goes on, and while a new attempt is recorded.
        """
        return ()

    def record(self, status: JobStatus) -> Mapping[str, Any]:
        """The values of its fields in the `status` that is to be written, until the job has finished; with a model `status`,
        those of the model, by their names in Python, or nothing.
        """
        return {}


P = TypeVar("P", bound=Part)
EARLIER_PODS = Wait(Why.NOT_YET, Note("it waits for the pods of its last attempt to end"))
UNSIZED = Wait(Why.NOT_YET, Note("its size is recorded first"))
_PREDECESSORS = Wait(Why.NOT_YET, Note("pods of an earlier job of this name are still terminating"))


@dataclass(frozen=True)
class View:
    """A job in one pass, as its features see it: the facts, and what they have let it have.

    `accounting` and `tallies` are those after this pass. `overdue`: the deadline after which the attempt begins that
    `accounting` has entered.
    """

    facts: Facts
    features: Sequence[type[Part]]
    accounting: Accounting
    tallies: Tallies
    overdue: Deadline | None = None
    framework: Framework = field(init=False, repr=False)
    job: Job = field(init=False, repr=False)
    observed: Observed = field(init=False, repr=False)
    now: float = field(init=False, repr=False)
    slots: Slots = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Most features ask for these of the facts."""
        for name in ("framework", "job", "observed", "now", "slots"):
            object.__setattr__(self, name, getattr(self.facts, name))

    @cached_property
    def _parts(self) -> Sequence[Part]:
        """The features that concern the job, in the order in which they are asked."""
        return [feature(self) for feature in self.features]

    def of(self, kind: type[P]) -> Iterable[P]:
        """Those with that power."""
        return (part for part in self._parts if isinstance(part, kind))

    # -- what features let it have ------------------------------------------------------------------------------------

    @property
    def keeps_attempt(self) -> bool:
        """Whether no attempt may begin, because pods of some type would be deleted and could not be created again."""
        return bool(self.facts.blocked.types)

    def pod(self, replica: Replica) -> dict[str, Any]:
        """The manifest of one pod."""
        pod = pod_manifest(self.framework, self.job, replica)
        for part in self.of(PodShape):
            pod = part.shape(replica, pod)
        return pod

    @cached_property
    def change(self) -> AttemptChange:
        """How the job changes from its earlier attempts to the present one."""
        if not self.slots.earlier:
            return NO_CHANGE
        shapes = [part for part in self.of(PodShape) if type(part).keep is not PodShape.keep]
        found = ((slot.pod.uid, part.keep(slot)) for slot in self.slots.earlier for part in shapes)
        kept = {uid: restart for uid, restart in found if restart is not None}
        return change_of_attempt(self.job, self.slots.earlier, kept, self.now, begins=not self.keeps_attempt)

    @cached_property
    def start_time(self) -> str | None:
        """When the job was started, or is by this pass. The deadline does not run while the job waits in a queue."""
        if limits.is_started(self.job):
            return self.job.status.start_time
        return None if self.facts.blocked.not_to_start or self.waits_of_all else format_time(self.now)

    @cached_property
    def waits_of_all(self) -> Sequence[Wait]:
        """What all missing pods wait for, as features say."""
        return [wait for part in self.of(Admission) if (wait := part.wait()) is not None]

    @cached_property
    def missing(self) -> Sequence[Replica]:
        """The replicas that are to have a pod and have none. Each is created by this pass, or in `holds`."""
        done = self.accounting.succeeded
        return [r for r in self.slots.vacant if r.index not in done[r.type]]

    @cached_property
    def holds(self) -> Mapping[Replica, Wait]:
        """Those of `missing` whose pods may not be created now, and why."""
        found = ((replica, self._hold_of(replica)) for replica in self.missing) if self.missing else ()
        return {replica: wait for replica, wait in found if wait is not None}

    @cached_property
    def _hold_of(self) -> Callable[[Replica], Wait | None]:
        # Of thousands of replicas each is asked: what is the same for all is worked out once.
        job, blocked, predecessors = self.job, self.facts.blocked, self.observed.predecessors
        unsized = job.is_elastic and not (job.status.attempt_replicas or job.is_gathering)
        # Pods that are gathered start nothing.
        earlier = EARLIER_PODS if self.change.due is not None and not job.is_gathering else None
        of_all = next(iter(self.waits_of_all), UNSIZED if unsized else earlier)
        refusal = self.facts.refusal if "pods" in self.observed.backed_off else None

        def hold(replica: Replica) -> Wait | None:
            if replica.type in blocked.types:
                return blocked.hold
            if of_all is not None:
                return of_all
            if predecessors and job.pod_name(replica) in predecessors:
                return _PREDECESSORS
            return self.gate(replica) or refusal

        return hold

    @cached_property
    def without_node(self) -> Mapping[Replica, Wait]:
        """Why replicas, each of `holds` and those whose pods have none, have no node, or one that is silent."""
        found = dict(self.holds) if self.change.due is None or self.job.is_gathering else {}
        for slot in (*self.slots.notable, *self.slots.earlier):
            if (wait := waiting.without_node(slot, self.now)) is not None:
                found[slot.replica] = wait
        return found

    def gate(self, replica: Replica) -> Wait | None:
        """What holds the start of that replica, in a new pod or in place, until others are there; None if nothing does."""
        if self.framework.may_create(self.job, replica, self.tallies):
            return None
        return Wait(Why.NOT_YET, Note(f"{replica.type} waits for the replicas that it needs"))


def look(framework: Framework, job: Job, observed: Observed, now: float, features: Iterable[type[Part]]) -> View:
    """The view of a job at `now` (seconds since the epoch), with those of `features` that concern it."""
    used = [feature for feature in features if feature.concerns(job)]
    known = Facts(framework, job, observed, now)
    quota = [feature.quota(known) for feature in used if issubclass(feature, Admission)]
    facts = Facts(framework, job, observed, now, quota) if quota else known
    return View(facts, used, facts.charged, facts.tallies)
