"""The decision as a value: what to do for one job, what its status becomes, what to say, and when to look again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from jobcommon.api.status import JobStatus


@dataclass(frozen=True, slots=True, eq=False)
class Create:
    """Create an object of the job. `content` is its manifest, or a pure function that makes it when it is sent.

    If it is not `required`, the job goes on when the API server refuses it. With `generate`, the fields it gives are added
    to the manifest when the object is created: chance has no place in a decision. Of a pod, `replica_type` is told. If the plan
    creates or looks at the object `after`, by plural and name, that must have gone well before.
    """

    api_version: str
    plural: str
    name: str
    content: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(repr=False)
    required: bool = True
    generate: Callable[[], Mapping[str, Any]] | None = None
    replica_type: str = ""
    after: tuple[str, str] | None = None

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Complete, with its owner reference. It is not kept: a job may have thousands of pods."""
        return self.content() if callable(self.content) else self.content

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Create):
            return NotImplemented
        return (self.api_version, self.plural, self.name, self.required, self.generate, self.after, self.manifest) == (
            other.api_version, other.plural, other.name, other.required, other.generate, other.after, other.manifest,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"create {self.plural}/{self.name}"


@dataclass(frozen=True, slots=True)
class Update:
    """Replace a companion object; the manifest carries the uid and resourceVersion it was decided on."""

    api_version: str
    plural: str
    name: str
    manifest: Mapping[str, Any]

    def __str__(self) -> str:
        return f"update {self.plural}/{self.name}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one incarnation of an object (rule R1: the UID is a precondition).

    With `resource_version`, only if nothing about it has changed: the decision depended on its state.
    """

    api_version: str
    plural: str
    name: str
    uid: str
    why: str
    resource_version: str | None = None

    def __str__(self) -> str:
        return f"delete {self.plural}/{self.name} ({self.why})"


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Take our finalizer off a pod whose end is on record. `finalizers` is the list the decision was made on."""

    name: str
    uid: str
    finalizers: tuple[str, ...]

    def __str__(self) -> str:
        return f"remove finalizer from pods/{self.name}"


@dataclass(frozen=True, slots=True)
class Get:
    """Look at an object that is not watched. Of a `required` one that is not there no pods are created.

    `fields` are those that are to be remembered beside its metadata; `known` says whether it was there when last looked at.
    """

    api_version: str
    plural: str
    name: str
    fields: tuple[str, ...] = ()
    required: bool = True
    known: bool = False

    def __str__(self) -> str:
        return f"get {self.plural}/{self.name}"


Action = Create | Update | Delete | RemoveFinalizer | Get


def deletes_pod(action: Action) -> bool:
    """Whether a pod goes by it."""
    return isinstance(action, Delete) and action.plural == "pods"


@dataclass(frozen=True, slots=True)
class Event:
    """An event on the job. A `lasting` one describes a state rather than a transition and is said once per process."""

    type: str
    reason: str
    message: str
    lasting: bool = False

    def __str__(self) -> str:
        return f"{self.type} {self.reason}: {self.message}"


def in_short(names: Sequence[str], most: int) -> str:
    """All names, or the first and the last of more than `most`."""
    return ", ".join(names) if len(names) <= most else f"{names[0]} … {names[-1]} ({len(names)} in all)"


NORMAL = "Normal"
WARNING = "Warning"
MAX_WAKE = 120.0
"""A wake-up that is further off than these seconds is looked at in between: the clock it is reckoned by may have been wrong."""


class Urgency(IntEnum):
    """How soon a new status is to be written."""

    COUNTS = 0
    """It says how many pods run and have succeeded, and nothing else: several such changes may become one write."""
    NORMAL = 1
    TERMINAL = 2
    """The job is over."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for one job now.

    The shell carries it out in this order: expectations, `actions`, then the one write of `status` (None: nothing changed;
    `urgency` says how soon), then `events` and those actions that are `background`. It comes back at `wake_at` (seconds since
    the epoch) if nothing else brings it back before.
    With `verify_live`, a live read must show the job unchanged before anything is created or deleted (rule R7). The same for
    the `must_exist`, names and UIDs of ended pods: a pod that is gone has been counted, for its finalizer held it until then.
    """

    actions: tuple[Action, ...] = ()
    status: JobStatus | None = None
    events: tuple[Event, ...] = ()
    wake_at: float | None = None
    reason: str = ""
    verify_live: bool = False
    must_exist: tuple[tuple[str, str], ...] = ()
    urgency: Urgency = Urgency.NORMAL

    @property
    def background(self) -> tuple[RemoveFinalizer, ...]:
        """The finalizers that are removed last: the end of their pods is on record, so nothing waits for it.

        The finalizer of a pod that the plan deletes is not among them: without it the pod is gone at once.
        """
        deleted = {action.name for action in self.actions if deletes_pod(action)}
        return tuple(action for action in self.actions if isinstance(action, RemoveFinalizer) and action.name not in deleted)

    def describe(self) -> str:
        """The plan in words, a line each, for people and for golden tests."""
        lines = [f"reason: {self.reason}"]
        lines += [f"action: {action}" for action in self.actions]
        if self.status is not None:
            lines += [f"status: {c.type}={c.status} {c.reason}: {c.message}" for c in self.status.conditions]
        lines += [f"event: {event}" for event in self.events]
        if self.wake_at is not None:
            lines.append(f"wake at: {self.wake_at:.0f}")
        return "\n".join(lines)
