"""The objects that a job wants beside its pods, and the one comparison of them with what is observed.

What is missing is created; what differs in our fields is corrected by one JSON merge patch of the version that was compared;
what must not be there is deleted. Nothing is written where nothing differs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from jobcommon.api.merge_patch import difference
from jobcommon.api.observed import Observed
from jobcommon.api.view import ObjectView
from jobcommon.framework import Job
from jobcommon.reconcile.plan import Action, Create, Delete, Get, Update


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object. `manifest` is what is created if it is missing; None: it must not exist, and `why`.

    `corrected` is the part that is put right where it differs, and `status` that of the status, once nothing else differs. None
    in them stands for a field that must not be there. `exact`: a list that has more in its elements than wanted differs, too.
    A create that was refused for good is `retried` if not the job's spec alone decides on it. For the others see `Create`.
    """

    api_version: str
    plural: str
    name: str
    manifest: Mapping[str, Any] | None
    corrected: Mapping[str, Any] | None = None
    status: Mapping[str, Any] | None = None
    exact: bool = False
    required: bool = True
    retried: bool = False
    generate: Callable[[], Mapping[str, Any]] | None = None
    after: tuple[str, str] | None = None
    otherwise: str = ""
    why: str = "no longer wanted"


def changes(job: Job, observed: Observed, wanted: Iterable[Wanted], since: float = -inf) -> list[Action]:
    """What makes the objects of the job what is wanted.

    Those of unwatched kinds are read if they have never been, or not since `since` (seconds since the epoch).
    """
    there = {("services", service.name): service for service in observed.services} | dict(observed.companions)
    actions: list[Action] = []
    for one in wanted:
        found = there.get((one.plural, one.name))
        read = _due_read(job, observed, one, found, since)
        actions += [read] if read is not None else []
        if found is None:
            refused = (one.plural, one.name) in observed.rejections and not one.retried
            if one.manifest is not None and read is None and not refused:
                options = one.required, one.generate, "", one.after, one.otherwise
                actions.append(Create(one.api_version, one.plural, one.name, one.manifest, *options))
        elif found.deleting:
            pass  # Its name is free, or its successor is created, once it is gone.
        elif one.manifest is None:
            actions.append(Delete(one.api_version, one.plural, one.name, found.uid, one.why))
        elif one.corrected or one.status:
            actions += _correction(one, found.raw)
    return actions


def _correction(one: Wanted, found: Mapping[str, Any]) -> list[Action]:
    if patch := difference(found, one.corrected or {}, exact=one.exact):
        return [Update(one.api_version, one.plural, one.name, found, patch)]
    patch = difference(found.get("status") or {}, one.status or {})
    return [Update(one.api_version, one.plural, one.name, found, {"status": patch}, "status")] if patch else []


def _due_read(job: Job, observed: Observed, one: Wanted, found: ObjectView | None, since: float) -> Get | None:
    """The read of an object, if one is due. A new job's are created without a read: they cannot exist yet."""
    read_at = observed.last_observed.get(one.plural)
    if read_at is None:
        return None
    at = read_at.get(one.name)
    due = at < since and found is not None if at is not None else job.status.since() is not None or one.manifest is None
    fields = tuple(one.manifest or ())
    return Get(one.api_version, one.plural, one.name, fields, one.required, known=found is not None) if due else None
