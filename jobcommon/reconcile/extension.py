"""An optional feature of jobs, as the decision sees it.

The decision asks each of them in its declared order, and knows none by name. What an extension yields is a value, and the
decision says what follows from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.framework import Job
from jobcommon.reconcile.intents import Course, Intent
from jobcommon.reconcile.limits import Deadline
from jobcommon.reconcile.plan import Action, Event, Get, KeepLog
from jobcommon.reconcile.rendering import Note, Statement, Wait
from jobcommon.reconcile.slots import Slot
from jobcommon.reconcile.waiting import SharedWait


@dataclass(frozen=True, slots=True)
class RestartInPlace:
    """How far the restart of a pod in place has come. `last_start` of its program, in seconds since the epoch.

    A pod that is not `stopped` by `given_up_at` is replaced.
    """

    stopped: bool
    last_start: float | None
    given_up_at: float


class Extension:
    """One feature, in one pass over one job. Each method is optional.

    It is made of the `Situation`, the state of the job in that pass, and reads it when it is asked. `fields` are those of the
    status that it alone writes.

    What becomes of pods (`intent`), `logs`, `actions` and `wakes` are asked of every job on a course, suspended and finished
    ones too; `record` until the job has finished. A job that has no pods because it is suspended has no deadlines,
    and what concerns its going on is not asked: `hold`, `statements`, `exhausted` and `events`. `suspension` is asked first,
    before the pods are classified, because what their ends mean depends on it.
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, situation: Any) -> None:
        """See the class. The situation asks the extensions, so its type cannot be imported here."""

    @classmethod
    def concerns(cls, job: Job) -> bool:  # noqa: ARG003 - what most features depend on
        """Whether the job uses the feature, or its status still has something of it. Otherwise nothing else is asked."""
        return True

    @property
    def hold(self) -> Wait | None:
        """What holds the creation of the job's missing pods, and its start; None if nothing does.

        Its Services and the objects of other extensions are made meanwhile, and quota is kept: see `suspension`. A pod that is
        there goes on, and its program is restarted in it, by the operator as by the kubelet, which asks for nothing.
        """
        return None

    @property
    def suspension(self) -> Wait | None:
        """Why the job is to have no pods at all although its user wants it to run; None if it may have them."""
        return None

    @property
    def is_granted(self) -> bool:
        """Whether what the job has was granted to its spec as it was, so that an invalid one changes nothing of it.

        Asked before the pods are classified.
        """
        return False

    @property
    def has_begun(self) -> bool:
        """Whether objects of the feature show that the job was started before."""
        return False

    @property
    def as_cached(self) -> tuple[Get, str] | None:
        """The object for which the job is suspended, and the version of it that is decided upon."""
        return None

    def actions(self, course: Course | None) -> Iterable[Action]:
        """What makes the feature's own objects what they are to be; None: of a job whose suspension is being recorded, or which
        another controller manages.
        """
        return ()

    def record(self, status: JobStatus) -> Mapping[str, Any]:
        """The values of its `fields` in the `status` that is to be written."""
        return {}

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The manifest of a pod that is to be created."""
        return pod

    def statements(self, current: ConditionType) -> Iterable[tuple[Statement, Event | None]]:
        """Conditions of its own beside the `current` one, each with the event of its transition."""
        return ()

    def exhausted(self) -> tuple[str, str] | None:
        """The reason and the message with which a job fails that would be restarted otherwise."""
        return None

    def most(self, kind: str) -> int | None:
        """The most replicas of a type that the job may have now, of those that its user asks for; None: all."""
        return None

    def new_attempt(self) -> str | None:
        """Why all replicas are restarted although none has failed, as a part of a sentence. Nothing is charged for it."""
        return None

    def deadlines(self) -> Iterable[Deadline]:
        """Times after which the job fails or all its replicas are restarted."""
        return ()

    def intent(self, course: Course, slot: Slot, intent: Intent) -> Intent:
        """What becomes of a pod of which `intent` would become otherwise."""
        return intent

    def restart_in_place(self, slot: Slot) -> RestartInPlace | None:
        """The restart in place of a pod of an earlier attempt; None for one that is replaced."""
        return None

    def start_again(self, slot: Slot) -> Sequence[Action]:
        """The actions for a pod for which `intent` has chosen START_AGAIN."""
        return ()

    def notes(self, about: ConditionType | None) -> Iterable[Note]:
        """What to add to that condition; None: to whichever says how the job goes on."""
        return ()

    def last_notes(self) -> Iterable[Note]:
        """What stands behind all else in each condition that the pass states."""
        return ()

    def waits(self) -> Iterable[SharedWait]:
        """What the pods wait for together, so that it is not repeated for each."""
        return ()

    def logs(self, actions: Sequence[Action]) -> Iterable[KeepLog]:
        """The logs that are kept before those actions."""
        return ()

    def wakes(self) -> Iterable[float]:
        """When to look again (seconds since the epoch)."""
        return ()

    def events(self) -> Iterable[Event]:
        """What to report beside the status."""
        return ()
