"""What a job's features propose, and the status and the events that report it all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Self, TypeVar

from jobcommon.api import reasons
from jobcommon.api.replica import Replica
from jobcommon.api.status import MAX_MESSAGE, ConditionType, JobStatus
from jobcommon.framework import Outcome, Tallies
from jobcommon.manifests.children import overruled_policies, selectors
from jobcommon.reconcile import limits, waiting
from jobcommon.reconcile.accounting import (
    Accounting,
    account_for_pods,
    failures_on_record,
    last_restart_time,
    replica_statuses,
    restarts_made,
)
from jobcommon.reconcile.ending import EndType
from jobcommon.reconcile.intents import Course
from jobcommon.reconcile.limits import Deadline
from jobcommon.reconcile.plan import NORMAL, WARNING, Event, names_in_short
from jobcommon.reconcile.rendering import Note, Sentence, Statement, described_end, described_run, rendered
from jobcommon.reconcile.slots import STARTING, Recorded, Slots
from jobcommon.reconcile.spec_warnings import warning_events
from jobcommon.reconcile.time_spent import time_spent
from jobcommon.reconcile.view import EARLIER_PODS, UNSIZED, JobProposal, Lifecycle, Proposal, Remark, View
from jobcommon.reconcile.waiting import MAX_EVENTS

T = TypeVar("T")


@dataclass(frozen=True)
class Situation:
    """A job in one pass, with what is proposed for it. Each part is worked out when it is first asked for."""

    view: View

    def with_accounting(self, accounting: Accounting, tallies: Tallies | None = None, overdue: Deadline | None = None) -> Self:
        """The same pods with another accounting, about which the features are asked anew."""
        view = self.view
        if accounting is view.accounting and tallies is None:
            return self
        tallies = view.tallies if tallies is None else tallies
        return replace(self, view=replace(view, accounting=accounting, tallies=tallies, overdue=overdue))

    @property
    def uncharged(self) -> Self:
        """The same without the consequences of a failure, for what ends the job whatever has failed."""
        return self.with_accounting(self.view.facts.entered)

    @cached_property
    def undisturbed(self) -> Self:
        """The same without what has just ended, while no attempt may begin: it remains as evidence, and deadlines hold."""
        view = self.view
        if view.accounting.attempt == view.job.attempt or not view.keeps_attempt:
            return self
        return self.with_accounting(account_for_pods(view.job, view.slots, entering=False))

    @cached_property
    def outcome(self) -> Outcome:
        """What the framework says of the tallies."""
        view = self.view
        return view.framework.decide(view.job, view.tallies)

    # -- what the features propose ------------------------------------------------------------------------------------

    @cached_property
    def proposed(self) -> Sequence[JobProposal]:
        """What becomes of the job, as its features propose."""
        return [proposal for part in self.view.of(Lifecycle) for proposal in part.propose()]

    def acts(self, course: Course | None) -> Sequence[Proposal]:
        """What the features propose to do on that course."""
        return [proposal for part in self.view.of(Lifecycle) for proposal in part.act(course)]

    @cached_property
    def going_on(self) -> Sequence[Proposal]:
        """The same, of a job that goes on."""
        return self.acts(Course.GO_ON)

    def notes(self, about: ConditionType | None) -> list[Note]:
        """What the features have to add to that condition; None: to whichever says how the job goes on."""
        return [remark.note for remark in only(self.going_on, Remark) if remark.about == about]

    @cached_property
    def deadlines(self) -> tuple[Deadline, ...]:
        """The times at which the job or its attempt ends, in order of precedence."""
        view = self.view
        found = [limits.active_deadline(view.job, view.start_time, self.waits.notes)]
        # A new attempt has times of its own, and of pods whose type cannot be read it is unknown what they do.
        if view.accounting.attempt == view.job.attempt and not view.facts.blocked.unread:
            found += only(self.proposed, Deadline)
            found.append(limits.pending_deadline(view.job, view.slots, view.now))
        return tuple(d for d in found if d is not None and not (d.new_attempt and view.keeps_attempt))

    @cached_property
    def delays(self) -> Mapping[str, float]:
        """Which of the pods that are to be replaced remain for now, by UID, and until when (seconds since the epoch).

        Infinity while errors of the spec concern them.
        """
        view = self.view
        found: dict[str, float] = {}
        earlier, recorded_at = limits.restarts_so_far(view.job.status)
        for slot in view.slots.notable:
            match slot.state:
                case Recorded() if slot.replica.type in view.facts.blocked.types:
                    found[slot.pod.uid] = inf
                case Recorded(given_up=False) if not slot.deleting:
                    due = limits.restart_due(slot.pod.started, earlier, view.now, recorded_at)
                    found |= {slot.pod.uid: due} if due > view.now else {}
        return found

    @property
    def waits_to_be_started(self) -> bool:
        """Whether a scheduled pod does not run yet: if an object that it mounts is missing, it would wait for ever."""
        return any(slot.state is STARTING and slot.pod.scheduled for slot in self.view.slots.notable)

    def status_of_active(self, running: bool, cause: str = "") -> tuple[JobStatus, Sequence[Event]]:
        """The status of an active job, and the events of its transitions. `cause`: of a restart without a failure."""
        view, job = self.view, self.view.job
        waiting = (*self.hold_notes, *self.waits.notes)
        stated = [self.created()]
        events: list[Event] = []
        lost = view.accounting.having(EndType.RETRYABLE, EndType.DISRUPTED)
        if lost or view.accounting.attempt > job.attempt:
            causes = ", ".join(described_end(entry, read=entry is lost[0]) for entry in lost[:3])
            more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
            cause = f"{causes or cause}{more}"[:MAX_MESSAGE]
            stated.append(new := self._restarting(cause))
            severity = WARNING if lost or view.overdue is not None else NORMAL
            events.append(Event(severity, reasons.of_kind(job.kind, reasons.RESTARTING), str(new.sentence)))
        elif job.status.has(ConditionType.RESTARTING) and not (running and view.facts.whole):
            stated.append(self._restarting(cause := job.status.last_restart_cause or "", waiting))
        elif running or job.status.has(ConditionType.RUNNING):
            remarks = (*self.notes(ConditionType.RUNNING), *_restart_notes(view.slots))
            sentence = Sentence(f"{job.kind} {job.key} is running", remarks=remarks, waiting=waiting)
            stated.append(Statement(ConditionType.RUNNING, True, reasons.of_kind(job.kind, reasons.RUNNING), sentence))
        else:
            stated[0] = self.created(*self.waits.notes)
        current = stated[-1].type
        for other in only(self.going_on, Statement):
            if other.beside in (None, current) and all(one.type != other.type for one in stated):
                stated.append(other)
                begins = other.holds and not job.status.has(other.type)
                events += [Event(WARNING, other.reason, other.sentence.base)] if begins else []
        return self.status(*stated, cause=cause), events

    def _restarting(self, cause: str, waiting: Iterable[Note] = ()) -> Statement:
        job, because = self.view.job, f" because {cause}" if cause else ""
        what = " all replicas" if job.restarts_together else ""
        what += " in place" if job.restarts_in_place else ""
        waiting = (*self.notes(ConditionType.RESTARTING), *waiting)
        sentence = Sentence(f"{job.kind} {job.name} is restarting{what}{because}", waiting=waiting, end="")
        return Statement(ConditionType.RESTARTING, True, reasons.of_kind(job.kind, reasons.RESTARTING), sentence)

    @cached_property
    def hold_notes(self) -> Sequence[Note]:
        """Why the job does not go on as its spec says."""
        view = self.view
        passed = view.facts.blocked.unread and any(view.now >= deadline.at for deadline in self.deadlines)
        overdue = Note("activeDeadlineSeconds has passed; it ends the job once the spec can be read") if passed else None
        start = () if limits.is_started(view.job) else view.waits_of_all
        refusal = (view.facts.refusal.words,) if view.observed.refusal else ()
        # Thousands of replicas share a hold, and it takes long to compare.
        holds = {id(hold.words): hold for hold in view.holds.values()}.values()
        kept = (slot.replica for slot in view.slots.earlier if slot.pod.uid in view.change.in_place)
        gates = [gate for replica in kept if (gate := view.gate(replica)) is not None] if view.change.due is None else []
        held = (wait.words for wait in (view.facts.blocked.hold, *holds, *gates, *start) if wait is not None)
        found = (overdue, *held, *self.notes(None), *refusal)
        # The condition of a job that restarts says that itself.
        stated = (UNSIZED.words, *((EARLIER_PODS.words,) if view.job.status.has(ConditionType.RESTARTING) else ()))
        return list(dict.fromkeys(note for note in found if note is not None and note not in stated))

    @cached_property
    def waits(self) -> waiting.WaitingReasons:
        """What the pods wait for."""
        view = self.view
        others = (*view.slots.surplus, *view.slots.unknown, *view.slots.earlier)
        leaving = [slot for slot in others if slot.deleting]
        return waiting.waits(
            (*view.slots.notable, *leaving),
            view.now,
            self._scheduler,
        )

    def _scheduler(self, replica: Replica) -> str:
        """The scheduler of its pod; "" if it is unknown, because no pod can be made of the template any more."""
        return "" if replica.type in self.view.facts.blocked.types else self.view.pod(replica)["spec"].get("schedulerName", "")

    def trouble_events(self) -> list[Event]:
        """Events, one per cause, for what keeps pods from running, and for pods that claim the job as owner wrongly."""
        view = self.view
        events = [*self.waits.events[:MAX_EVENTS]]
        events += waiting.container_events(view.framework, view.job, view.slots)
        events += [
            Event(
                WARNING,
                reasons.UNKNOWN_POD,
                f"Pod {slot.pod.name} names this job as its owner but is not one of its replicas",
                True,
            )
            for slot in view.slots.unowned[:MAX_EVENTS]
        ]
        events += view.facts.blocked.events
        events += [*only(self.going_on, Event), *warning_events(self.view)]
        job = view.job
        events += [
            Event(WARNING, reasons.POLICY_OVERRULED, text[:MAX_MESSAGE], lasting=True)
            for text in overruled_policies(view.framework, job)
        ]
        if view.observed.predecessors:
            events.append(Event(NORMAL, reasons.WAITING, "Pods of an earlier job of this name are still terminating", True))
        return events

    # -- the status -------------------------------------------------------------------------------------------------

    def created(self, *waiting: Note, with_holds: bool = True) -> Statement:
        """The Created condition, with what holds the job."""
        view = self.view
        remarks = (*self.notes(ConditionType.CREATED), *self.hold_notes) if with_holds else ()
        sentence = Sentence(f"{view.job.kind} {view.job.name} is created", remarks=remarks, waiting=waiting)
        return Statement(ConditionType.CREATED, True, reasons.of_kind(view.job.kind, reasons.CREATED), sentence)

    def exit_events(self) -> list[Event]:
        """Events for the ends that this pass enters."""
        pods: dict[int | None, list[str]] = {}
        for entry in self.view.accounting.entries:
            pods.setdefault(entry.ending.exit_code, []).append(f"{entry.pod.namespace}.{entry.pod.name}")
        named = {code: names_in_short(names, MAX_EVENTS) for code, names in pods.items() if code}
        events = [Event(NORMAL, reasons.EXITED_WITH_CODE, f"Pod: {who} exited with code {code}") for code, who in named.items()]
        return [*events[:MAX_EVENTS], *waiting.cut_short(self.view.accounting.entries)]

    def status(self, *statements: Statement, active: bool = True, ends: bool = False, cause: str = "") -> JobStatus:
        """The status with this pass's accounting and with `statements` applied to the conditions in order."""
        view, job = self.view, self.view.job
        # What ends in the pass that ends the job restarts nothing. A disruption of an attempt is charged with the next attempt.
        attempt_number = job.attempt if ends else view.accounting.attempt
        disruptions = job.status.disruptions if ends and job.restarts_together else view.accounting.disruptions
        unkept = view.observed.unkept if job.keeps_failed_logs else ""
        last = [Note(quoted=unkept)] if unkept else []
        times = restarts_made(job, view.accounting, view.slots, ends=ends) or None
        status = job.status.model_copy(
            update={
                "conditions": rendered(job.status, statements, last, view.now),
                "replica_statuses": replica_statuses(
                    job, view.accounting, view.tallies, selectors(view.framework, job), active=active
                ),
                "restarts": times,
                "last_restart_time": last_restart_time(job.status, (times, disruptions, attempt_number), view.now),
                "last_restart_cause": cause or job.status.last_restart_cause,
                "disruptions": disruptions or None,
                "attempt": attempt_number if job.restarts_together or attempt_number else None,
                "service_name": job.service or None,
                "failures": failures_on_record(job, view.accounting, view.slots, suspended=view.facts.suspended),
                "counted_pods": list(view.accounting.counted_pods),
                "stopped_pods": list(view.accounting.stopped_pods),
            }
        )
        for part in view.of(Lifecycle):
            # The later ones see what the earlier ones have recorded.
            values = part.record(status)
            if part.status is not None:
                features = {name: value for name, value in status.features.items() if name != part.name}
                if values:
                    features[part.name] = part.status(**values).model_dump(by_alias=True, exclude_none=True, mode="json")
                status = status.model_copy(update={"features": features})
            elif values:
                status = status.model_copy(update={name: values[name] for name in part.fields if name in values})
        spent = time_spent(job, status, view.slots.wanted.values(), view.now)
        return status.model_copy(update={"time_spent": spent})


def only(proposals: Iterable[object], kind: type[T]) -> list[T]:
    """Those of that kind."""
    return [proposal for proposal in proposals if isinstance(proposal, kind)]


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
