"""The decision as a value: the actions for one job, its new status, its events, and the time of its next reconcile."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar

from jobcommon.api.merge_patch import merged
from jobcommon.api.observed import FINALIZERS, GETS, IMAGES, IMAGES_LATER, SPARES, UPDATES
from jobcommon.api.status import JobStatus
from jobcommon.api.text import clean
from jobcommon.reconcile import rendering


@dataclass(frozen=True, slots=True, eq=False)
class Create:
    """Create an object of the job. `content` is its manifest, or a pure function that builds it when it is sent.

    If it is not `required`, the job continues when the API server refuses it. With `generate`, the fields it returns are added
    to the manifest when the object is created, because a decision must be deterministic. `replica_type` is that of a pod. If
    the plan creates or gets the object `after` (plural and name), that must have succeeded before. `otherwise` is the name
    under which the next plan creates it if an object of another owner has this one ("" if it waits for this one). A `spare` pod
    is one that the attempt does not need. One that is `kept` may be there already, whatever owns it.
    """

    api_version: str
    plural: str
    name: str
    content: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(repr=False)
    required: bool = True
    generate: Callable[[], Mapping[str, Any]] | None = None
    replica_type: str = ""
    after: tuple[str, str] | None = None
    otherwise: str = ""
    spare: bool = False
    kept: bool = False

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The complete manifest, with its owner reference. It is not cached: a job may have thousands of pods."""
        return self.content() if callable(self.content) else self.content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Create) and self._compared == other._compared

    @property
    def _compared(self) -> tuple[object, ...]:
        return (self.manifest, *(getattr(self, one.name) for one in fields(self) if one.name != "content"))

    def __str__(self) -> str:
        return f"create {self.plural}/{self.name}"


@dataclass(frozen=True, slots=True)
class Update:
    """Change an object, or its `subresource`, by a JSON merge patch, if it is still the one `found`."""

    api_version: str
    plural: str
    name: str
    found: Mapping[str, Any] = field(repr=False)
    changes: Mapping[str, Any]
    subresource: str = ""

    @property
    def patch(self) -> Mapping[str, Any]:
        """The patch, with the uid of what it was decided on, and with its resourceVersion if that matters."""
        metadata = self.found["metadata"]
        known = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
        return {**self.changes, "metadata": {**known, **self.changes.get("metadata", {})}}

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The object with the changes."""
        return merged(self.found, self.changes)

    def __str__(self) -> str:
        return f"update {f'{self.subresource} of ' if self.subresource else ''}{self.plural}/{self.name}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one incarnation of an object (rule R1: the UID is a precondition).

    With `resource_version`, only if the object has not changed: the decision depended on its state. By `force` without a grace
    period: a pod that is terminating already is taken for ended. `replaced`: a pod that has ended and is on record.
    """

    api_version: str
    plural: str
    name: str
    uid: str
    why: str
    resource_version: str | None = None
    force: bool = False
    replaced: bool = False

    def __str__(self) -> str:
        return f"delete {self.plural}/{self.name}{' by force' if self.force else ''} ({self.why})"


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer from a pod whose end is recorded. `finalizers` is the list on which the decision is based.

    `awaited`: its deletion in the same plan, which then takes effect at once, or the pod's replacement waits for it.
    """

    plural: ClassVar[str] = "pods"
    api_version: ClassVar[str] = "v1"
    name: str
    uid: str
    finalizers: tuple[str, ...]
    awaited: bool = False

    def __str__(self) -> str:
        return f"remove finalizer from pods/{self.name}"


@dataclass(frozen=True, slots=True)
class SetImage:
    """Change the image of a pod's container, and with it the pod's `annotations`: the container is stopped or started.

    Only while the container still has the image `before` and the pod is one of `attempt`, as its annotation says: a write that
    was held up must not stop or start what another operator has started since. `path` is the container's place in the pod. The
    `others` of a pod that has started nothing are changed together with it: the place of each, its name, image and new image.
    """

    plural: ClassVar[str] = "pods"
    api_version: ClassVar[str] = "v1"
    name: str
    uid: str
    container: str
    before: str
    image: str
    attempt: str
    why: str
    annotations: tuple[tuple[str, str], ...] = ()
    path: str = "/spec/containers/0"
    others: tuple[tuple[str, str, str, str], ...] = ()

    def __str__(self) -> str:
        return f"set image of pods/{self.name} to {self.image} ({self.why})"


@dataclass(frozen=True, slots=True)
class Get:
    """Read an object that is not watched. If a `required` one is absent, no pods are created.

    `fields` are those to keep beside its metadata; `known` is whether it was present when last read. One that is `kept` need
    not be the job's.
    """

    api_version: str
    plural: str
    name: str
    fields: tuple[str, ...] = ()
    required: bool = True
    known: bool = False
    kept: bool = False

    def __str__(self) -> str:
        return f"get {self.plural}/{self.name}"


Action = Create | Update | Delete | RemoveFinalizer | SetImage | Get


@dataclass(frozen=True, slots=True)
class KeepLog:
    """Copy the end of a failed run's log into the job's ConfigMap, as `key`, because an action of the plan ends its pod; and
    the events on that pod.

    `run` is the run's container ID: the container may be started again at any time. A run without one has no log.
    """

    pod: str
    container: str
    run: str
    key: str
    uid: str

    def __str__(self) -> str:
        return f"keep log of pods/{self.pod} as {self.key}"


def deletes_pod(action: Action) -> bool:
    """Whether the action deletes a pod."""
    return isinstance(action, Delete) and action.plural == "pods"


def ends_run(action: Action) -> bool:
    """Whether the action ends, or may end, what runs in a pod."""
    return deletes_pod(action) or isinstance(action, SetImage)


@dataclass(frozen=True, slots=True)
class Event:
    """An event on the job. A `lasting` one describes a state rather than a transition and is emitted once per process."""

    type: str
    reason: str
    message: str
    lasting: bool = False

    def __str__(self) -> str:
        return f"{self.type} {self.reason}: {self.message}"


def names_in_short(names: Sequence[str], most: int) -> str:
    """All names, or the first and the last of more than `most`."""
    return ", ".join(names) if len(names) <= most else f"{names[0]} … {names[-1]} ({len(names)} in all)"


NORMAL = "Normal"
WARNING = "Warning"
MAX_WAKE = 120.0
"""Upper bound of a requeue delay, in seconds: later deadlines are evaluated in steps, as the wall clock may be corrected."""


class Urgency(IntEnum):
    """How soon a new status is to be written."""

    COUNTS = 0
    """Only numbers of pods and messages, which name pods, have changed: several such changes may become one write."""
    TRANSITION = 1
    """Others wait for it, or the next decision depends on it."""
    TERMINAL = 2
    """The job has finished."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for one job now.

    It is carried out in this order: expectations (controller), then by the executor `logs`, `actions`, the one write of
    `status` (None: no change; see `urgency`), then `events` and the `background` actions. The job is requeued at `wake_at`
    (seconds since the epoch) unless an event queues it before.
    With `verify_live`, a live read must show the job unchanged before anything is created or deleted (rule R7). The pods in
    `must_exist` (name, UID) have ended and must still exist: a pod lives until its finalizer is removed, which is done only
    once it is counted. If one is absent, another pass has counted it, and the plan is discarded. It is, too, if the object in
    `as_cached` has another resourceVersion than the one given, "" for an absent one. `restart_causes`: the restarts
    that `status` is the first to record, by cause, for metrics.
    """

    actions: tuple[Action, ...] = ()
    status: JobStatus | None = None
    events: tuple[Event, ...] = ()
    wake_at: float | None = None
    reason: str = ""
    verify_live: bool = False
    must_exist: tuple[tuple[str, str], ...] = ()
    as_cached: tuple[Get, str] | None = None
    urgency: Urgency = Urgency.TRANSITION
    restart_causes: tuple[tuple[str, int], ...] = ()
    logs: tuple[KeepLog, ...] = ()

    @property
    def background(self) -> tuple[RemoveFinalizer, ...]:
        """The finalizers that are removed last: the end of their pods is recorded, and nothing waits for their removal."""
        return tuple(action for action in self.actions if isinstance(action, RemoveFinalizer) and not action.awaited)

    def describe(self) -> str:
        """The plan as text, a line per action, for the command line and for golden tests."""
        lines = [f"reason: {self.reason}"]
        lines += [f"action: {action}" for action in (*self.logs, *self.actions)]
        if self.status is not None:
            lines += [f"status: {line}" for line in rendering.lines(self.status)]
        lines += [f"event: {event}" for event in self.events]
        if self.wake_at is not None:
            lines.append(f"wake at: {self.wake_at:.0f}")
        return "\n".join(map(clean, lines))


def in_order(actions: Iterable[Action], backed_off: Collection[str]) -> tuple[Action, ...]:
    """The actions without those that are `backed_off` (see `Observed`), and with the background actions at their end."""
    left_out = {*backed_off, IMAGES} if IMAGES_LATER in backed_off else backed_off
    return tuple(sorted((action for action in actions if backed_off_as(action) not in left_out), key=_is_background))


def backed_off_as(action: Action) -> str:
    """What stands for the action among what is backed off (see `Observed`); "" for one that is never left out."""
    match action:
        case RemoveFinalizer():
            return FINALIZERS
        case SetImage():
            return IMAGES
        case Update():
            return f"{action.plural}{UPDATES}"
        case Get():
            return f"{action.plural}{GETS}"
    return (SPARES if action.spare else action.plural) if isinstance(action, Create) else ""


def _is_background(action: Action) -> bool:
    return isinstance(action, RemoveFinalizer) and not action.awaited
