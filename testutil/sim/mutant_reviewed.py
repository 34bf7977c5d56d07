"""Defects that reading the code has found, put back: most cost requests or time, which no oracle of the simulator measures."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from jobcommon.api.job import template_for
from jobcommon.api.observed import Observed
from jobcommon.controller import fair_queue, refusals
from jobcommon.controller import job_controller as controller
from jobcommon.controller.job_state import JobState, Requeue
from jobcommon.controller.refusals import Refusals
from jobcommon.controller.result import ActionResult
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import cleanup, decision, in_place, node_loss, waiting
from jobcommon.reconcile.plan import Create, Plan, RemoveFinalizer, Urgency
from jobcommon.reconcile.slots import Slot
from jobcommon.testutil.sim.mutation import Mutant

_decide = decision.plan
_finish = JobState.finish
_record = Refusals.record
_remove_finalizers = cleanup.remove_finalizers
_with_note = waiting.with_note


def _masked(self: JobState, work: Any, result: Any, moment: Any, unwatched: Any) -> Requeue:
    again = _finish(self, work, result, moment, unwatched)
    return replace(again, failed=False) if again.at is not None else again


def _by_memory(state: JobState, outcome: ActionResult) -> bool:
    required = isinstance(outcome.action, Create) and outcome.action.required
    return refusals.answer_of(outcome) is refusals.Answer.INVALID and not (required and state.begun)


def _in_its_words(text: str, _earlier: str) -> str:
    return text


def _first_text(self: Refusals, plan: Plan, outcomes: Iterable[ActionResult], now: float) -> bool:
    text = self.text
    refused = _record(self, plan, outcomes, now)
    self.text = text or self.text
    return refused


def _suspended_at_once(framework: Framework, job: Job, observed: Observed, now: float) -> Plan:
    plan = _decide(framework, job, observed, now)
    return replace(plan, urgency=Urgency.TRANSITION) if plan.reason == "job is suspended" else plan


def _in_the_background(slots: Iterable[Slot], *, awaited: bool = False) -> Iterable[RemoveFinalizer]:
    del awaited
    return _remove_finalizers(slots)


def _any_grace(job: Job, slot: Slot) -> float:
    template = template_for(job.replica_specs[slot.replica.type], slot.replica.index)
    return float(template["spec"].get("terminationGracePeriodSeconds", 30)) + in_place.STOP_SECONDS


def _as_it_is(value: Any) -> Any:
    return value or {}


class _Flows(dict[Any, Any]):
    """A dict as it is: its first key is found in time linear in the keys removed before it."""

    def move_to_end(self, key: Any) -> None:
        self[key] = self.pop(key)


def _two_marks(message: str, note: str) -> str:
    return _with_note(message.removesuffix("."), note).replace("; waiting", ".; waiting", 1)


REVIEWED = (
    Mutant(
        "P3-refusal-masks-errors",
        "Beside a refused create, a transient error of another write is retried when the refusal is: up to ten minutes later.",
        ((JobState, "finish", _masked),),
    ),
    Mutant(
        "P4-memory-changes-the-end",
        "Whether a refused create fails the job depends on what this process has seen of it.",
        ((JobState, "is_final", _by_memory),),
    ),
    Mutant(
        "P5-status-for-each-word-of-the-scheduler",
        "A pending job writes its status each time a number in the scheduler's message changes.",
        ((waiting, "as_told", _in_its_words),),
    ),
    Mutant(
        "P6-first-refusal-for-ever",
        "The condition names a cause that is gone when another has taken its place.",
        ((Refusals, "record", _first_text),),
    ),
    Mutant(
        "P8-suspension-writes-each-end",
        "A suspended job writes its status for each pod that ends.",
        ((controller, "decide", _suspended_at_once),),
    ),
    Mutant(
        "P9-replacement-waits-in-the-background",
        "The finalizer of an evicted pod is removed last, though its replacement waits for that.",
        ((cleanup, "remove_finalizers", _in_the_background),),
    ),
    Mutant(
        "P10-queue-linear-in-flows",
        "To take an item costs time linear in the flows that were emptied.",
        ((fair_queue, "OrderedDict", _Flows),),
    ),
    Mutant(
        "P11-two-marks",
        "A condition reads '.; waiting:'.",
        ((waiting, "with_note", _two_marks),),
    ),
    Mutant(
        "P12-any-grace-period",
        "A restart in place of a pod whose grace period is text, as a lax definition lets it in, cannot be planned.",
        ((in_place, "seconds_to_stop", _any_grace),),
    ),
    Mutant(
        "P13-any-containers",
        "A pull error after a restart in place cannot be planned when the containers of the template cannot be read.",
        ((in_place, "mappings_in", _as_it_is),),
    ),
    Mutant(
        "P14-any-affinity",
        "No pod can be planned away from a lost node when the template's affinity is not an object.",
        ((node_loss, "mapping_of", _as_it_is),),
    ),
)
