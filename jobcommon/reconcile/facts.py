"""What is known of a job and its pods in one pass, before its features say what they want."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jobcommon.api.observed import Observed
from jobcommon.framework import Framework, Job, Tallies
from jobcommon.reconcile import limits
from jobcommon.reconcile.accounting import Accounting, account_for_pods
from jobcommon.reconcile.attempts import without_consequences
from jobcommon.reconcile.plan import Get
from jobcommon.reconcile.rendering import Note, Wait, Why
from jobcommon.reconcile.slots import Slots, arrange, tally
from jobcommon.reconcile.waiting import Blocked, blocked_types


@dataclass(frozen=True, slots=True)
class Go:
    """The job may have pods: of the types in `most` no more than so many of those that its user asks for.

    `granted`: that was granted to its spec as it was, so an invalid one changes nothing of it.
    """

    most: Mapping[str, int] | None = None
    granted: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """The job is to have no pods at all although its user wants it to run, and why.

    `seen`: the object for which that is so, and the version of it that was decided upon. `granted`: see `Go`.
    """

    words: Note
    seen: tuple[Get, str] | None = None
    granted: bool = False


@dataclass(frozen=True)
class Facts:
    """The job, what was observed, and what follows from both alone. Each part is worked out when it is first asked for.

    `quota`: what its features let it have.
    """

    framework: Framework
    job: Job
    observed: Observed
    now: float
    quota: Sequence[Go | Stop] = ()

    @cached_property
    def stop(self) -> Stop | None:
        """Why the job is suspended although its user wants it to run."""
        return next((one for one in self.quota if isinstance(one, Stop)), None)

    @property
    def suspended(self) -> bool:
        """Whether the job is to have no pods. One that has finished is not suspended for any other reason than its spec."""
        return bool(self.job.run_policy.suspend) or (not self.job.status.finished and self.stop is not None)

    def most(self, kind: str) -> int:
        """The replicas of a type that the job may have now: those that are asked for, unless there is quota for fewer."""
        granted = (one.most for one in self.quota if isinstance(one, Go) and one.most is not None)
        return min([self.job.asked_of(kind), *(most[kind] for most in granted if kind in most)])

    @cached_property
    def slots(self) -> Slots:
        """The pods, each classified."""
        blocked = self._blocked(started=True).types
        return arrange(self.framework, self.job, self.observed.pods, blocked, suspended=self.suspended)

    @cached_property
    def blocked(self) -> Blocked:
        """What errors of the spec, or the operator's options, block."""
        return self._blocked(started=limits.is_started(self.job) or bool(self.slots.ours))

    def _blocked(self, *, started: bool) -> Blocked:
        return blocked_types(self.framework, self.job, started=started, granted=any(one.granted for one in self.quota))

    @cached_property
    def entered(self) -> Accounting:
        """The accounting with all that has ended, each for itself."""
        # What an end means for the job is unknown until the whole spec can be read; the pods remain as evidence.
        return account_for_pods(self.job, self.slots, entering=not self.job.unread or self.job.status.finished)

    @cached_property
    def charged(self) -> Accounting:
        """The same; where the first failure restarts all replicas, it alone is charged."""
        if not self.job.restarts_together:
            return self.entered
        return without_consequences(self.job, self.entered, self.slots)

    @cached_property
    def tallies(self) -> Tallies:
        """The slots of each type, counted."""
        return tally(self.job, self.slots, self.entered.succeeded)

    @property
    def has_begun(self) -> bool:
        """Whether the job was ever started, so that an error of its spec does not fail it."""
        return self.job.status.start_time is not None or bool(self.slots.ours)

    @cached_property
    def whole(self) -> bool:
        """Whether every slot runs, has succeeded, or has failed for good with the job tolerating it."""
        gone = Counter(slot.replica.type for slot in self.slots.notable if slot.given_up)
        return all(t.active + t.succeeded + gone[kind] >= t.wanted for kind, t in self.tallies.items())

    @cached_property
    def refusal(self) -> Wait:
        """What the API server refuses for now."""
        words = Note(quoted=self.observed.refusal or "the API server rejects pods at present")
        seconds = self.observed.quota_refuses_for
        return Wait(Why.NOT_ALLOWED, words) if seconds is None else Wait(Why.NO_ROOM, words, self.now - seconds)
