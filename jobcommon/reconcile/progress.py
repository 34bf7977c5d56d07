"""Progress: when a job is stalled, and when its restarts bring nothing, by what its programs report (`reports`).

The deadline of a run holds from the second distinct step, because the first report comes before the first step. The times in
the status are of the clocks of several processes, which may be wrong, and a false stall restarts a healthy training. So a
deadline counts from the last sign of life that the process which decides has seen, by its monotonic clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jobcommon.api import reasons
from jobcommon.api.job import MAX_REPLICAS, StallAction
from jobcommon.api.replica import Replica, format_indexes, parse_indexes
from jobcommon.api.status import (
    MAX_COUNT,
    ConditionType,
    JobProgress,
    JobStatus,
    ReplicaFailures,
    StallRecord,
)
from jobcommon.api.timestamp import format_moment, format_time, parse_time
from jobcommon.framework import Job
from jobcommon.reconcile.ending import EndType
from jobcommon.reconcile.intents import Course
from jobcommon.reconcile.limits import Deadline
from jobcommon.reconcile.rendering import Note, Sentence, Statement
from jobcommon.reconcile.reports import (
    DONE,
    PHASE,
    RECORD_SECONDS,
    is_of_this_run,
    run_began,
    summarized,
    takes_reports,
)
from jobcommon.reconcile.slots import Active, Ended, Leaving, Starting
from jobcommon.reconcile.view import End, JobProposal, Lifecycle, Proposal, Remark, Wake

# Seconds between setting Stalled and acting; longer than a report can be delayed: after an outage of the API server the report
# that ends the stall comes first.
CONFIRM_SECONDS = 15.0
MAX_RESTARTS = 3
_TRAIN = "train"


@dataclass(frozen=True, slots=True)
class Stall:
    """A job that is to make progress: when it counts as stalled (seconds since the epoch), and why, as a sentence.

    `record`: what is on record of the stall, or is to be from then on. `deadline`: what follows, once it is on record.
    `paused`: it would be on record already, if all reports had been taken.
    """

    at: float
    text: str
    record: StallRecord
    deadline: Deadline | None
    paused: bool = False


class ReportedProgress(Lifecycle):
    """The progress of a job, in one pass."""

    fields = ("stall", "failed_replicas", "progress")

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Feature`."""
        policy, status = job.run_policy, job.status
        return bool(policy.report_progress or status.stall or status.has(ConditionType.STALLED) or status.failed_replicas)

    @cached_property
    def _stall(self) -> Stall | None:
        """When the job counts as stalled; None without a deadline or replicas, and while it does not run, is done, or the
        kubelet is to restart a program of it. Before the first steps are made all replicas must run.
        """
        view, job, observed, now = self.view, self.job, self.observed, self.now
        if not takes_reports(job) or any(s.failed_runs.charged > s.failed_runs.restarted for s in view.slots.living):
            return None
        policy, status, reported = job.run_policy, job.status, observed.reported
        began, report = run_began(status), status.trainer_status
        if began is None or not job.total_replicas:
            return None
        known = status.progress if is_of_this_run(status) else None
        last = parse_time(known.last_progress_time) if known is not None else None
        if known is not None and report is not None and report.progress_percentage == DONE:
            return None
        who = f"{job.kind} {job.key}"
        if known is not None and last is not None and known.armed:
            seconds, name = policy.progress_deadline_seconds, "progressDeadlineSeconds"
            # A crash may have lost the report that the program evaluates now.
            trains = reported and report is not None and report.metric(PHASE) == _TRAIN
            allowed = 0 if trains else policy.evaluation_seconds or 0
            plus = f" and evaluationSeconds {allowed}" if allowed else ""
            text = f"{who} has reported no progress since {format_time(last)}, when it was at step {known.step}"
        else:
            last = began if last is None else max(began, last)
            # By a clock that was set back no step is of this run, and yet it may evaluate.
            reported = status.progress is not None and (status.progress.attempt or 0) == (status.attempt or 0)
            allowed, plus = policy.evaluation_seconds or 0 if reported else 0, ""
            seconds, name = policy.progress_start_deadline_seconds, "progressStartDeadlineSeconds"
            text = f"{who} has not reported two different steps since {format_time(last)}"
            seconds = seconds if view.facts.whole else None
        if seconds is None:
            return None
        seen = now - observed.same_for if observed.same_for is not None else None
        # What was refused before may have been progress.
        reachable = now - observed.reachable_for if observed.reachable_for is not None else 0.0
        text = f"{text}; {name} is {seconds}{plus}"
        step = known.step if known is not None and known.armed else None
        new = StallRecord(
            since=format_moment(now),
            step=step,
            last_progress_time=format_moment(last),
            seconds=min(seconds + allowed, MAX_COUNT),
        )
        if (record := _on_record(status, new)) is None:
            if seen is not None:
                # A report is seen when it is recorded, at most so much later.
                last = min(max(last, seen - RECORD_SECONDS), seen)
            allowed += seconds
            return Stall(max(last, reachable) + allowed, text, new, None, paused=last + allowed <= now < reachable + allowed)
        since = seen or parse_time(record.since)
        if since is None or policy.stall_action in (None, StallAction.NONE):
            return Stall(now, text, record, None)
        new_attempt = policy.stall_action == StallAction.RESTART
        return Stall(
            now, text, record, Deadline(max(since, reachable) + CONFIRM_SECONDS, reasons.STALLED, text, text, new_attempt)
        )

    @cached_property
    def _failed_replicas(self) -> list[ReplicaFailures]:
        """The failed runs of each replica since the highest step rose, after this pass.

        Replicas that fail together are one incident: a peer that is lost, or a network that is gone, ends many. So incidents
        are counted as the failed runs of the replica that has most of them, which is the same however often the operator looks.
        """
        view, accounting, slots = self.view, self.view.accounting, self.view.slots
        job, policy, status = self.job, self.job.run_policy, self.job.status
        if not policy.report_progress or job.restarts_together or view.facts.suspended or status.has(ConditionType.SUSPENDED):
            return status.failed_replicas
        counts: dict[Replica, tuple[int, int]] = {}
        for entry in status.failed_replicas:
            runs, seen = entry.runs or 0, entry.in_place or 0
            counts |= {Replica(entry.type, index): (runs, seen) for index in parse_indexes(entry.indexes, MAX_REPLICAS)}
        entered = {entry.pod.uid for entry in accounting.entries}
        counts |= {replica: (counts[replica][0], 0) for replica in slots.vacant if replica in counts}
        for slot in slots.notable:
            if not isinstance(slot.state, Starting | Active | Leaving | Ended):
                continue
            ended = isinstance(slot.state, Ended) and slot.ending.type == EndType.RETRYABLE
            total = slot.failed_runs.charged + ended
            runs, seen = counts.get(slot.replica, (0, 0))
            more = total - seen if total >= seen else total
            counts[slot.replica] = runs + more, 0 if slot.pod.uid in entered else total
        alike: dict[tuple[str, int, int], set[int]] = {}
        for replica, (runs, seen) in counts.items():
            if runs or seen:
                alike.setdefault((replica.type, runs, seen), set()).add(replica.index)
        return [
            ReplicaFailures(type=kind, indexes=format_indexes(indexes) or "", runs=runs or None, in_place=seen or None)
            for (kind, runs, seen), indexes in sorted(alike.items())
        ]

    @property
    def _progress(self) -> JobProgress | None:
        """What is on record. Of its restarts, one of a program that found no node does not count as one without progress."""
        known, overdue = self.job.status.progress, self.view.overdue
        if known is None or overdue is None or overdue.reason != reasons.PENDING_TOO_LONG:
            return known
        return known.model_copy(update={"restarts": (known.restarts or 0) + 1})

    def act(self, course: Course | None) -> Iterable[Proposal]:
        """The condition Stalled, while it holds and once it does not any more, and that a deadline has started again."""
        found, job = self._stall, self.job
        if found is not None and self.now >= found.at:
            yield Statement(ConditionType.STALLED, True, reasons.STALLED, Sentence(found.text), ConditionType.RUNNING)
        if job.status.has(ConditionType.STALLED):
            over = Sentence(f"{job.kind} {job.key} is no longer stalled")
            yield Statement(ConditionType.STALLED, False, reasons.PROGRESSING, over)
        if found is not None:
            yield Wake(found.at)
            paused = "its deadline for progress has started again, because reports could not be taken"
            yield from [Remark(None, Note(paused))] if found.paused else []

    def propose(self) -> Iterable[JobProposal]:
        """What follows from a stall on record, and the end of a job whose restarts bring nothing."""
        proposals = self._stall.deadline if self._stall is not None else None, self._end
        return [proposal for proposal in proposals if proposal is not None]

    @cached_property
    def _end(self) -> End | None:
        """Why the job is not restarted any more although backoffLimit allows it."""
        job, policy, charged = self.job, self.job.run_policy, self.view.accounting.charged
        known = self._progress
        limit = MAX_RESTARTS if policy.max_restarts_without_progress is None else policy.max_restarts_without_progress
        text = f"Job {job.name} has failed because"
        # Where all replicas are restarted together, one failure of an attempt is charged.
        most = charged if job.restarts_together else max((entry.runs or 0 for entry in self._failed_replicas), default=0)
        if policy.report_progress and known is not None and known.highest_step is not None:
            times = min(most, charged - (known.restarts or 0))
            if times > limit:
                steps = f"the highest step has been {known.highest_step} for {times} failed runs"
                return End(
                    reasons.NO_PROGRESS,
                    f"{text} its restarts bring no progress: {steps}; maxRestartsWithoutProgress is {limit}",
                )
        return None

    def record(self, status: JobStatus) -> Mapping[str, Any]:
        """What later passes need of the stall and of the failed runs."""
        stalled = self._stall if status.has(ConditionType.STALLED) else None
        progress = self._progress
        if progress is not None and progress.summary is not None:
            progress = summarized(status.model_copy(update={"progress": progress}))
        return {
            "stall": stalled.record if stalled is not None else None,
            "failed_replicas": self._failed_replicas,
            "progress": progress,
        }


def _on_record(status: JobStatus, found: StallRecord) -> StallRecord | None:
    """The stall on record if it is the one that was `found`: it lasts, whenever this process began to watch."""
    known = status.stall
    if known is None or not status.has(ConditionType.STALLED):
        return None
    same = (known.step, known.last_progress_time, known.seconds) == (found.step, found.last_progress_time, found.seconds)
    return known if same else None
