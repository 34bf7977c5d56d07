"""The result of a plan: what the executor returns to the controller."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobcommon.api.pod import PodView
from jobcommon.api.view import ObjectView
from jobcommon.client.errors import ClientError
from jobcommon.framework import Job
from jobcommon.reconcile.plan import Action, Plan


class Effect(StrEnum):
    """What one request did.

    APPLIED is also the effect of a get that found an object of the job. ALREADY_EXISTS: a create found that very object,
    owned by the job (success, rule R12). NOT_FOUND: a get found nothing, a delete or the removal of a finalizer nothing or
    another incarnation. NAME_CONFLICT: the name belongs to an object of another owner. SKIPPED: not tried, because an earlier
    write failed.
    """

    APPLIED = "applied"
    ALREADY_EXISTS = "already exists"
    NOT_FOUND = "not found"
    NAME_CONFLICT = "name conflict"
    REFUSED = "refused"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The effect of one action. `resource_version` is that of the object after the write, when the server gave one.

    `seen` is a companion as the server returned it, reduced to the fields that the action itself names: no keys of Secrets.
    `strayed` is a pod of the job in the place of one that was to be created, which has lost the labels that select it.
    """

    action: Action
    effect: Effect
    resource_version: str = ""
    error: ClientError | None = None
    seen: ObjectView | None = None
    strayed: PodView | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """One key's plan for the executor, with the object it was decided on.

    `raw` is the whole job as cached, for the status write. `orphans_of` is the UID of a job that seems to be deleted: the
    executor carries the plan out only if a live read shows that no job of that UID exists; it is "" for pods without an owner,
    which no job can claim. `deferred`: the plan is not carried
    out, because it would only write new counts of pods; the key is requeued with a delay. `error` is why there is no decision.
    `active_pods` is how many of the job's pods were not over when it was planned.
    """

    namespace: str
    name: str
    uid: str
    plan: Plan
    job: Job | None = None
    raw: Mapping[str, Any] | None = None
    orphans_of: str | None = None
    deferred: bool = False
    error: Exception | None = None
    active_pods: int = 0

    @property
    def sends_nothing(self) -> bool:
        """Whether there is no request to make and no event to send, as when a watch shows our own write."""
        plan = self.plan
        return self.deferred or not (plan.actions or plan.events or plan.must_exist or plan.status is not None)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a plan. `stale`: a live read showed another state, or failed with `read_error`, and nothing was written.

    `status_version` is the job's resourceVersion after the status write, None if there was no successful write;
    `status_error` is the error of a failed write. `shortened`: only a shorter status could be stored. `log_error`: why a log of
    the plan could not be kept; that holds nothing up.
    """

    outcomes: tuple[ActionResult, ...] = ()
    status_version: str | None = None
    status_error: ClientError | None = None
    stale: bool = False
    read_error: ClientError | None = None
    shortened: bool = False
    log_error: ClientError | None = None
