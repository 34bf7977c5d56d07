"""What is known of an unfinished job in one pass, and the status and the events that report it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, Self

from jobcommon.api import reasons
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.status import (
    MAX_MESSAGE,
    ConditionType,
    JobStatus,
)
from jobcommon.api.timestamp import format_time
from jobcommon.framework import Framework, Job, Outcome, Tallies
from jobcommon.manifests.children import overruled_policies, pod_manifest, selectors
from jobcommon.reconcile import limits, waiting
from jobcommon.reconcile.accounting import (
    Accounting,
    account_for_pods,
    failures_on_record,
    last_restart_time,
    replica_statuses,
    restarts_made,
)
from jobcommon.reconcile.attempts import NO_CHANGE, AttemptChange, change_of_attempt, without_consequences
from jobcommon.reconcile.ending import EndType
from jobcommon.reconcile.extension import Extension
from jobcommon.reconcile.intents import Course, Intent, Standing, pod_actions
from jobcommon.reconcile.limits import Deadline
from jobcommon.reconcile.plan import NORMAL, WARNING, Action, Event, Get, KeepLog, names_in_short
from jobcommon.reconcile.rendering import Note, Sentence, Statement, Wait, Why, described_end, described_run, rendered
from jobcommon.reconcile.slots import STARTING, Recorded, Slot, Slots, arrange, tally
from jobcommon.reconcile.waiting import MAX_EVENTS, Blocked, blocked_types

_EARLIER = Wait(Why.NOT_YET, Note("it waits for the pods of its last attempt to end"))
_PREDECESSORS = Wait(Why.NOT_YET, Note("pods of an earlier job of this name are still terminating"))
Feature = type[Extension]
"""Makes the extension of one pass, for a job that it concerns."""


@dataclass(frozen=True)
class Situation:
    """What is known of a job in one pass. Each part is worked out when it is first asked for, and each extension asked once.

    `overdue`: the deadline after which the attempt begins that `accounting` has entered.
    """

    framework: Framework
    job: Job
    observed: Observed
    now: float
    features: Sequence[Feature]
    overdue: Deadline | None = None

    @cached_property
    def extensions(self) -> Sequence[Extension]:
        """The features of the job, in the order in which they are asked: here alone, each question in one place."""
        return [feature(self) for feature in self.features if feature.concerns(self.job)]

    # -- the pods and their accounting ------------------------------------------------------------------------------

    @cached_property
    def suspension(self) -> Wait | None:
        """Why the job is suspended although its user wants it to run."""
        return next(filter(None, (extension.suspension for extension in self.extensions)), None)

    @property
    def suspended(self) -> bool:
        """Whether the job is to have no pods. One that has finished is not suspended for any other reason than its spec."""
        return bool(self.job.run_policy.suspend) or (not self.job.status.finished and self.suspension is not None)

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
        granted = any(extension.is_granted for extension in self.extensions)
        return blocked_types(self.framework, self.job, started=started, granted=granted)

    @cached_property
    def entered(self) -> Accounting:
        """The accounting with all that has ended, each for itself."""
        # What an end means for the job is unknown until the whole spec can be read; the pods remain as evidence.
        return account_for_pods(self.job, self.slots, entering=not self.job.unread or self.job.status.finished)

    @cached_property
    def tallies(self) -> Tallies:
        """The slots of each type, counted."""
        return tally(self.job, self.slots, self.entered.succeeded)

    @cached_property
    def accounting(self) -> Accounting:
        """The accounting after this pass: where the first failure restarts all replicas, it alone is charged."""
        if not self.job.restarts_together:
            return self.entered
        return without_consequences(self.job, self.entered, self.slots)

    def with_accounting(self, accounting: Accounting, tallies: Tallies | None = None, overdue: Deadline | None = None) -> Self:
        """The same pods with another accounting, about which the extensions are asked anew."""
        if accounting is self.accounting and tallies is None:
            return self
        other = replace(self, overdue=overdue)
        same = {name: getattr(self, name) for name in ("suspension", "slots", "blocked", "entered")}
        vars(other).update(same, accounting=accounting, tallies=self.tallies if tallies is None else tallies)
        return other

    @property
    def uncharged(self) -> Self:
        """The same without the consequences of a failure, for what ends the job whatever has failed."""
        return self.with_accounting(self.entered)

    @cached_property
    def undisturbed(self) -> Self:
        """The same without what has just ended, while no attempt may begin: it remains as evidence, and deadlines hold."""
        if self.accounting.attempt == self.job.attempt or not self.keeps_attempt:
            return self
        return self.with_accounting(account_for_pods(self.job, self.slots, entering=False))

    @cached_property
    def outcome(self) -> Outcome:
        """What the framework says of the tallies."""
        return self.framework.decide(self.job, self.tallies)

    @property
    def has_begun(self) -> bool:
        """Whether the job was ever started, so that an error of its spec does not fail it."""
        started = self.job.status.start_time is not None or any(extension.has_begun for extension in self.extensions)
        return started or bool(self.slots.ours)

    def pod(self, replica: Replica) -> dict[str, Any]:
        """The manifest of one pod."""
        pod = pod_manifest(self.framework, self.job, replica)
        for extension in self.extensions:
            pod = extension.shape(replica, pod)
        return pod

    @cached_property
    def change(self) -> AttemptChange:
        """How the job changes from its earlier attempts to the present one."""
        if not self.slots.earlier:
            return NO_CHANGE
        asked = [
            extension for extension in self.extensions if type(extension).restart_in_place is not Extension.restart_in_place
        ]
        found = ((slot.pod.uid, extension.restart_in_place(slot)) for slot in self.slots.earlier for extension in asked)
        in_place = {uid: restart for uid, restart in found if restart is not None}
        return change_of_attempt(self.job, self.slots.earlier, in_place, self.now, begins=not self.keeps_attempt)

    @cached_property
    def delays(self) -> Mapping[str, float]:
        """Which of the pods that are to be replaced remain for now, by UID, and until when (seconds since the epoch).

        Infinity while errors of the spec concern them.
        """
        found: dict[str, float] = {}
        earlier, recorded_at = limits.restarts_so_far(self.job.status)
        for slot in self.slots.notable:
            match slot.state:
                case Recorded() if slot.replica.type in self.blocked.types:
                    found[slot.pod.uid] = inf
                case Recorded(given_up=False) if not slot.deleting:
                    due = limits.restart_due(slot.pod.started, earlier, self.now, recorded_at)
                    found |= {slot.pod.uid: due} if due > self.now else {}
        return found

    def pod_actions(self, course: Course, known: Mapping[str, Standing]) -> list[Action]:
        """What is done to each pod on that course; `known`: the standing of some, by UID."""
        return list(pod_actions(self.slots, course, known, self._intent, self._start_again))

    def _intent(self, course: Course, slot: Slot, intent: Intent) -> Intent:
        for extension in self._asked_of_pods:
            intent = extension.intent(course, slot, intent)
        return intent

    @cached_property
    def _asked_of_pods(self) -> Sequence[Extension]:
        """Those with a word on single pods, of which a job may have thousands."""
        return [extension for extension in self.extensions if type(extension).intent is not Extension.intent]

    def _start_again(self, slot: Slot) -> Iterable[Action]:
        return (action for extension in self.extensions for action in extension.start_again(slot))

    def actions(self, course: Course | None) -> list[Action]:
        """What makes the objects of the extensions what they are to be on that course; None: see `Extension.actions`."""
        return [action for extension in self.extensions for action in extension.actions(course)]

    @property
    def wakes(self) -> Sequence[float]:
        """When its features are to be asked again (seconds since the epoch)."""
        return [at for extension in self.extensions for at in extension.wakes() if at > self.now]

    @property
    def waits_to_be_started(self) -> bool:
        """Whether a scheduled pod does not run yet: if an object that it mounts is missing, it would wait for ever."""
        return any(slot.state is STARTING and slot.pod.scheduled for slot in self.slots.notable)

    def status_of_active(self, running: bool, cause: str = "") -> tuple[JobStatus, Sequence[Event]]:
        """The status of an active job, and the events of its transitions. `cause`: of a restart without a failure."""
        job = self.job
        waiting = (*self.hold_notes, *self.waits.notes)
        stated = [self.created()]
        events: list[Event] = []
        lost = self.accounting.having(EndType.RETRYABLE, EndType.DISRUPTED)
        if lost or self.accounting.attempt > job.attempt:
            causes = ", ".join(described_end(entry, read=entry is lost[0]) for entry in lost[:3])
            more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
            cause = f"{causes or cause}{more}"[:MAX_MESSAGE]
            stated.append(new := self._restarting(cause))
            severity = WARNING if lost or self.overdue is not None else NORMAL
            events.append(Event(severity, reasons.of_kind(job.kind, reasons.RESTARTING), str(new.sentence)))
        elif job.status.has(ConditionType.RESTARTING) and not (running and self.whole):
            stated.append(self._restarting(cause := job.status.last_restart_cause or "", waiting))
        elif running or job.status.has(ConditionType.RUNNING):
            remarks = (*self.notes(ConditionType.RUNNING), *_restart_notes(self.slots))
            sentence = Sentence(f"{job.kind} {job.key} is running", remarks=remarks, waiting=waiting)
            stated.append(Statement(ConditionType.RUNNING, True, reasons.of_kind(job.kind, reasons.RUNNING), sentence))
        else:
            stated[0] = self.created(*self.waits.notes)
        current = stated[-1].type
        for statement, event in (pair for extension in self.extensions for pair in extension.statements(current)):
            stated.append(statement)
            events += [event] if event is not None else []
        return self.status(*stated, cause=cause), events

    def _restarting(self, cause: str, waiting: Iterable[Note] = ()) -> Statement:
        job, because = self.job, f" because {cause}" if cause else ""
        what = " all replicas" if job.restarts_together else ""
        what += " in place" if job.restarts_in_place else ""
        waiting = (*self.notes(ConditionType.RESTARTING), *waiting)
        sentence = Sentence(f"{job.kind} {job.name} is restarting{what}{because}", waiting=waiting, end="")
        return Statement(ConditionType.RESTARTING, True, reasons.of_kind(job.kind, reasons.RESTARTING), sentence)

    def notes(self, about: ConditionType | None) -> list[Note]:
        """What the extensions have to add to that condition; None: to whichever says how the job goes on."""
        return [note for extension in self.extensions for note in extension.notes(about)]

    @cached_property
    def deadlines(self) -> tuple[Deadline, ...]:
        """The times at which the job or its attempt ends, in order of precedence."""
        found = [limits.active_deadline(self.job, self.start_time, self.waits.notes)]
        # A new attempt has times of its own, and of pods whose type cannot be read it is unknown what they do.
        if self.accounting.attempt == self.job.attempt and not self.blocked.unread:
            found += [deadline for extension in self.extensions for deadline in extension.deadlines()]
            found.append(limits.pending_deadline(self.job, self.slots, self.now))
        return tuple(d for d in found if d is not None and not (d.new_attempt and self.keeps_attempt))

    @property
    def keeps_attempt(self) -> bool:
        """Whether no attempt may begin, because pods of some type would be deleted and could not be created again."""
        return bool(self.blocked.types)

    @cached_property
    def start_time(self) -> str | None:
        """When the job was started, or is by this pass. The deadline does not run while the job waits in a queue."""
        if limits.is_started(self.job):
            return self.job.status.start_time
        return None if self.blocked.not_to_start or self._holds_of_all else format_time(self.now)

    @cached_property
    def missing(self) -> Sequence[Replica]:
        """The replicas that are to have a pod and have none. Each is created by this pass, or in `holds`."""
        done = self.accounting.succeeded
        return [r for r in self.slots.vacant if r.index not in done[r.type]]

    @cached_property
    def holds(self) -> Mapping[Replica, Wait]:
        """Those of `missing` whose pods may not be created now, and why."""
        return {replica: hold for replica in self.missing if (hold := self._hold_of(replica)) is not None}

    def _hold_of(self, replica: Replica) -> Wait | None:
        if replica.type in self.blocked.types:
            return self.blocked.hold
        if self._holds_of_all or self.change.due is not None:
            return next(iter(self._holds_of_all), _EARLIER)
        if self.job.pod_name(replica) in self.observed.predecessors:
            return _PREDECESSORS
        if (gate := self.gate(replica)) is not None:
            return gate
        return self._refusal if "pods" in self.observed.backed_off else None

    def gate(self, replica: Replica) -> Wait | None:
        """What holds the start of that replica, in a new pod or in place, until others are there; None if nothing does."""
        if self.framework.may_create(self.job, replica, self.tallies):
            return None
        return Wait(Why.NOT_YET, Note(f"{replica.type} waits for the replicas that it needs"))

    @cached_property
    def _holds_of_all(self) -> Sequence[Wait]:
        """What the extensions hold all missing pods for."""
        return [hold for extension in self.extensions if (hold := extension.hold) is not None]

    @cached_property
    def _refusal(self) -> Wait:
        words = Note(quoted=self.observed.refusal or "the API server rejects pods at present")
        seconds = self.observed.quota_refuses_for
        return Wait(Why.NOT_ALLOWED, words) if seconds is None else Wait(Why.NO_ROOM, words, self.now - seconds)

    @cached_property
    def without_node(self) -> Mapping[Replica, Wait]:
        """Why replicas, each of `holds` and those whose pods have none, have no node, or one that is silent."""
        found = dict(self.holds) if self.change.due is None else {}
        for slot in (*self.slots.notable, *self.slots.earlier):
            if (wait := waiting.without_node(slot, self.now)) is not None:
                found[slot.replica] = wait
        return found

    def most(self, kind: str) -> int:
        """The replicas of a type that the job may have now: those that are asked for, unless an extension allows fewer."""
        bounds = (extension.most(kind) for extension in self.extensions)
        return min([self.job.asked_of(kind), *(bound for bound in bounds if bound is not None)])

    @property
    def new_attempt(self) -> str | None:
        """Why all replicas are restarted although none has failed, as an extension asks for."""
        return next(filter(None, (extension.new_attempt() for extension in self.extensions)), None)

    @cached_property
    def hold_notes(self) -> Sequence[Note]:
        """Why the job does not go on as its spec says."""
        passed = self.blocked.unread and any(self.now >= deadline.at for deadline in self.deadlines)
        overdue = Note("activeDeadlineSeconds has passed; it ends the job once the spec can be read") if passed else None
        start = () if limits.is_started(self.job) else self._holds_of_all
        refusal = self._refusal if self.observed.refusal else None
        # Thousands of replicas share a hold, and it takes long to compare.
        holds = {id(hold.words): hold for hold in self.holds.values()}.values()
        kept = (slot.replica for slot in self.slots.earlier if slot.pod.uid in self.change.in_place)
        gates = [gate for replica in kept if (gate := self.gate(replica)) is not None] if self.change.due is None else []
        held = (wait.words for wait in (self.blocked.hold, *holds, *gates, *start) if wait is not None)
        found = (overdue, *held, *self.notes(None), refusal.words if refusal is not None else None)
        # The condition of a job that restarts says that itself.
        stated = (_EARLIER.words,) if self.job.status.has(ConditionType.RESTARTING) else ()
        return list(dict.fromkeys(note for note in found if note is not None and note not in stated))

    @cached_property
    def waits(self) -> waiting.WaitingReasons:
        """What the pods wait for."""
        others = (*self.slots.surplus, *self.slots.unknown, *self.slots.earlier)
        leaving = [slot for slot in others if slot.deleting]
        return waiting.waits(
            (*self.slots.notable, *leaving),
            self.now,
            self._scheduler,
            [wait for extension in self.extensions for wait in extension.waits()],
        )

    def _scheduler(self, replica: Replica) -> str:
        """The scheduler of its pod; "" if it is unknown, because no pod can be made of the template any more."""
        return "" if replica.type in self.blocked.types else self.pod(replica)["spec"].get("schedulerName", "")

    @cached_property
    def whole(self) -> bool:
        """Whether every slot runs, has succeeded, or has failed for good with the job tolerating it."""
        gone = Counter(slot.replica.type for slot in self.slots.notable if slot.given_up)
        return all(t.active + t.succeeded + gone[kind] >= t.wanted for kind, t in self.tallies.items())

    @property
    def must_exist(self) -> tuple[tuple[str, str], ...]:
        """See `Plan`."""
        return self.entered.must_exist(self.now)

    @property
    def as_cached(self) -> tuple[Get, str] | None:
        """See `Plan`. Only for a job that an extension suspends."""
        return next(filter(None, (extension.as_cached for extension in self.extensions)), None)

    def exhausted(self) -> tuple[str, str] | None:
        """The reason and the message with which an extension lets the job fail instead of a restart."""
        return next(filter(None, (extension.exhausted() for extension in self.extensions)), None)

    def logs(self, actions: Sequence[Action]) -> Sequence[KeepLog]:
        """The logs that are kept before those actions."""
        return [log for extension in self.extensions for log in extension.logs(actions)]

    def trouble_events(self) -> list[Event]:
        """Events, one per cause, for what keeps pods from running, and for pods that claim the job as owner wrongly."""
        events = [*self.waits.events[:MAX_EVENTS]]
        events += waiting.container_events(self.framework, self.job, self.slots)
        events += [
            Event(
                WARNING,
                reasons.UNKNOWN_POD,
                f"Pod {slot.pod.name} names this job as its owner but is not one of its replicas",
                True,
            )
            for slot in self.slots.unowned[:MAX_EVENTS]
        ]
        events += self.blocked.events
        events += [event for extension in self.extensions for event in extension.events()]
        job = self.job
        events += [
            Event(WARNING, reasons.POLICY_OVERRULED, text[:MAX_MESSAGE], lasting=True)
            for text in overruled_policies(self.framework, job)
        ]
        if self.observed.predecessors:
            events.append(Event(NORMAL, reasons.WAITING, "Pods of an earlier job of this name are still terminating", True))
        return events

    # -- the status -------------------------------------------------------------------------------------------------

    def created(self, *waiting: Note, with_holds: bool = True) -> Statement:
        """The Created condition, with what holds the job."""
        remarks = (*self.notes(ConditionType.CREATED), *self.hold_notes) if with_holds else ()
        sentence = Sentence(f"{self.job.kind} {self.job.name} is created", remarks=remarks, waiting=waiting)
        return Statement(ConditionType.CREATED, True, reasons.of_kind(self.job.kind, reasons.CREATED), sentence)

    def exit_events(self) -> list[Event]:
        """Events for the ends that this pass enters."""
        pods: dict[int | None, list[str]] = {}
        for entry in self.accounting.entries:
            pods.setdefault(entry.ending.exit_code, []).append(f"{entry.pod.namespace}.{entry.pod.name}")
        named = {code: names_in_short(names, MAX_EVENTS) for code, names in pods.items() if code}
        events = [Event(NORMAL, reasons.EXITED_WITH_CODE, f"Pod: {who} exited with code {code}") for code, who in named.items()]
        return [*events[:MAX_EVENTS], *waiting.cut_short(self.accounting.entries)]

    def status(self, *statements: Statement, active: bool = True, ends: bool = False, cause: str = "") -> JobStatus:
        """The status with this pass's accounting and with `statements` applied to the conditions in order."""
        job = self.job
        # What ends in the pass that ends the job restarts nothing. A disruption of an attempt is charged with the next attempt.
        attempt_number = job.attempt if ends else self.accounting.attempt
        disruptions = job.status.disruptions if ends and job.restarts_together else self.accounting.disruptions
        last = [note for extension in self.extensions for note in extension.last_notes()]
        times = restarts_made(job, self.accounting, self.slots, ends=ends) or None
        status = job.status.model_copy(
            update={
                "conditions": rendered(job.status, statements, last, self.now),
                "replica_statuses": replica_statuses(
                    job, self.accounting, self.tallies, selectors(self.framework, job), active=active
                ),
                "restarts": times,
                "last_restart_time": last_restart_time(job.status, (times, disruptions, attempt_number), self.now),
                "last_restart_cause": cause or job.status.last_restart_cause,
                "disruptions": disruptions or None,
                "attempt": attempt_number if job.restarts_together or attempt_number else None,
                "service_name": job.service or None,
                "failures": failures_on_record(job, self.accounting, self.slots, suspended=self.suspended),
                "counted_pods": list(self.accounting.counted_pods),
                "stopped_pods": list(self.accounting.stopped_pods),
            }
        )
        for extension in self.extensions:
            # The later ones see what the earlier ones have recorded.
            if values := extension.record(status):
                status = status.model_copy(update={name: values[name] for name in extension.fields if name in values})
        return status


def _restart_notes(slots: Slots) -> list[Note]:
    """What the condition says of restarts in place: the replica with most of them, and its last failure."""
    found = [(times, slot) for slot in slots.living if (times := slot.failed_runs.restarted)]
    if not found:
        return []
    times, slot = max(found, key=lambda entry: entry[0])
    run = slot.failed_runs.last
    why = f", last: {described_run(run)}" if run is not None else ""
    more = f"; {len(found) - 1} more restarted" if len(found) > 1 else ""
    return [Note(f"{slot.replica} restarted {'once' if times == 1 else f'{times} times'}{why}{more}")]
