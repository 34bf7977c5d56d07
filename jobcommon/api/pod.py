"""The view of a pod: all that the controllers know of one.

Pods never pass through model classes: `pod_view` decodes the API's JSON straight into the few fields below. Times are
seconds since the epoch (floats); an absent string is "", an absent time or exit code is None. What others write, without a
bound of the API server, is cut: a kubelet quotes an image of any length in its messages, and each pod of a job has them.
"""

from collections.abc import Mapping
from sys import intern

import msgspec

from jobcommon.api import labels as job_labels
from jobcommon.api.view import (
    MAX_WORD,
    NO_LABELS,
    Owner,
    WireInt32,
    WireInt64,
    WireMetadata,
    WireTime,
    controller_of,
    decode_leniently,
    epoch,
    named_metadata,
    selected,
    shared,
)

STOPPING_TAG = ":stopped:attempt-"
"""Part of an image reference that cannot be parsed, because none has two tags: a container with that image does not start."""


class Waiting(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A container that does not run yet, or not at the moment."""

    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A container that runs."""

    started_at: float | None = None


class Terminated(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A run of a container that has ended. `exit_code` is None when the API gave none that can be read.

    `container_id` distinguishes the runs of a container; "" when the kubelet knows no ID.
    """

    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    container_id: str = ""


class ContainerView(msgspec.Struct, frozen=True, gc=False):
    """The status of one container. `state` is None while the kubelet has reported none; `last` is the run before.

    `restart_policy` is the container's own, which comes before that of the pod: Always makes an init container a sidecar.
    `image` is the spec's, and `at` its place there, by which statuses are not ordered. `image_id` is that of the latest run
    with the repository's digest if the kubelet knows it.
    """

    name: str
    ready: bool = False
    restart_count: int = 0
    state: Waiting | Running | Terminated | None = None
    last: Terminated | None = None
    restart_policy: str = ""
    image: str = ""
    image_id: str = ""
    at: int = 0

    @property
    def stopped_by_image(self) -> bool:
        """Whether an image that the operator has set keeps it stopped, whatever the kubelet says of it."""
        return isinstance(self.state, Waiting) and STOPPING_TAG in f"{self.image} {self.state.message}"


class PodView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One pod at one version.

    `owner` is the controller owner. `labels` holds the job labels only, `annotations` those of `POD_ANNOTATIONS`.
    `disruption` is the reason of a true DisruptionTarget condition ("" when it gives none), None without one.
    `scheduled_time` is when it got its node, as far as a condition says.
    `unschedulable` is the scheduler's message while the pod has no node; `no_room`: it has found none, rather than that the pod
    is gated. `ready_to_start`: the kubelet has mounted its volumes and set up its network. `init_containers` and `containers`
    are in the order in which the API reports their statuses; they are empty until the kubelet reports any. `restart_policy` is
    the kubelet's: Always, OnFailure or Never. `spec_seen`: the status is that of a kubelet which acts on the current spec
    (known from Kubernetes 1.34 on).
    """

    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    creation_time: float | None = None
    deletion_time: float | None = None
    deletion_grace_seconds: int | None = None
    finalizers: tuple[str, ...] = ()
    owner: Owner | None = None
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS
    node_name: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: float | None = None
    ready: bool = False
    disruption: str | None = None
    scheduled: bool = False
    scheduled_time: float | None = None
    unschedulable: str = ""
    no_room: bool = False
    restart_policy: str = ""
    spec_seen: bool = False
    ready_to_start: bool = False
    init_containers: tuple[ContainerView, ...] = ()
    containers: tuple[ContainerView, ...] = ()

    @property
    def started(self) -> float | None:
        """When the kubelet accepted it, else when it was created."""
        return self.start_time if self.start_time is not None else self.creation_time


class _Waiting(msgspec.Struct, gc=False):
    reason: str | None = None
    message: str | None = None


class _Running(msgspec.Struct, rename="camel", gc=False):
    started_at: WireTime | None = None


class _Terminated(msgspec.Struct, rename="camel", gc=False):
    exit_code: WireInt32 | None = None
    signal: WireInt32 | None = None
    reason: str | None = None
    message: str | None = None
    started_at: WireTime | None = None
    finished_at: WireTime | None = None
    container_id: str | None = msgspec.field(default=None, name="containerID")


class _State(msgspec.Struct, gc=False):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    ready: bool | None = None
    restart_count: WireInt32 | None = None
    state: _State | None = None
    last_state: _State | None = None
    image_id: str | None = msgspec.field(default=None, name="imageID")


class _Condition(msgspec.Struct, rename="camel", gc=False):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: WireTime | None = None


class _Status(msgspec.Struct, gc=False):
    observed_generation: WireInt64 | None = msgspec.field(default=None, name="observedGeneration")
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: WireTime | None = msgspec.field(default=None, name="startTime")
    conditions: list[_Condition] | None = None
    init_containers: list[_Container] | None = msgspec.field(default=None, name="initContainerStatuses")
    containers: list[_Container] | None = msgspec.field(default=None, name="containerStatuses")


class _ContainerSpec(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    restart_policy: str | None = None
    image: str | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str | None = None
    restart_policy: str | None = None
    init_containers: list[_ContainerSpec] | None = None
    containers: list[_ContainerSpec] | None = None


class _Pod(msgspec.Struct, gc=False):
    metadata: WireMetadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_decoder = msgspec.json.Decoder(_Pod)
_NO_CONDITION = _Condition()
_NO_SPEC = _ContainerSpec()
# A kubelet keeps no longer message of a program.
_MAX_TEXT = 4096


def pod_view(data: bytes) -> PodView:
    """The view of one pod in JSON. Raises `msgspec.DecodeError` when `data` is not JSON or has no metadata.name."""
    pod = decode_leniently(_decoder, data)
    metadata = named_metadata(pod.metadata)
    status = pod.status or _Status()
    conditions = {condition.type: condition for condition in status.conditions or ()}
    scheduled = conditions.get("PodScheduled", _NO_CONDITION)
    disruption = conditions.get("DisruptionTarget", _NO_CONDITION)
    spec = pod.spec or _Spec()
    node_name = spec.node_name
    return PodView(
        namespace=intern(metadata.namespace or ""),
        name=metadata.name or "",
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        creation_time=epoch(metadata.creation_timestamp),
        deletion_time=epoch(metadata.deletion_timestamp),
        deletion_grace_seconds=metadata.deletion_grace_period_seconds,
        finalizers=shared(tuple(intern(name) for name in metadata.finalizers or ())),
        owner=controller_of(metadata),
        labels=selected(metadata.labels, job_labels.JOB_LABELS),
        annotations=selected(metadata.annotations, job_labels.POD_ANNOTATIONS),
        node_name=intern(node_name or ""),
        phase=_word(status.phase),
        reason=_word(status.reason),
        message=_text(status.message),
        start_time=epoch(status.start_time),
        ready=conditions.get("Ready", _NO_CONDITION).status == "True",
        disruption=_word(disruption.reason) if disruption.status == "True" else None,
        scheduled=scheduled.status == "True" or bool(node_name),
        scheduled_time=epoch(scheduled.last_transition_time) if scheduled.status == "True" else None,
        unschedulable=_text(scheduled.message or scheduled.reason) if scheduled.status == "False" else "",
        no_room=scheduled.status == "False" and scheduled.reason == "Unschedulable",
        ready_to_start=conditions.get("PodReadyToStartContainers", _NO_CONDITION).status == "True",
        restart_policy=intern(spec.restart_policy or ""),
        spec_seen=(status.observed_generation or 0) >= (metadata.generation or 1),
        init_containers=_containers(status.init_containers, spec.init_containers),
        containers=_containers(status.containers, spec.containers),
    )


def _word(word: str | None) -> str:
    """The word; absent if it is too long to be one."""
    return intern(word) if word and len(word) <= MAX_WORD else ""


def _text(text: str | None) -> str:
    """The text, or its beginning and its end."""
    text, half = text or "", _MAX_TEXT // 2
    return text if len(text) <= _MAX_TEXT else text[:half] + text[-half:]


def _containers(statuses: list[_Container] | None, specs: list[_ContainerSpec] | None) -> tuple[ContainerView, ...]:
    by_name = {spec.name: (spec, at) for at, spec in enumerate(specs or ())} if statuses else {}
    found = tuple([_container(status, *by_name.get(status.name, (_NO_SPEC, 0))) for status in statuses or ()])
    # Other states have messages, which are long and seldom the same.
    calm = all(isinstance(container.state, Running) and container.last is None for container in found)
    return shared(found) if calm else found


def _container(status: _Container, spec: _ContainerSpec, at: int) -> ContainerView:
    return ContainerView(
        name=intern(status.name or ""),
        ready=bool(status.ready),
        restart_count=max(status.restart_count or 0, 0),
        state=_state(status.state),
        last=_terminated(status.last_state.terminated if status.last_state else None),
        restart_policy=intern(spec.restart_policy or ""),
        image=_word(spec.image),
        image_id=_word(status.image_id),
        at=at,
    )


def _state(state: _State | None) -> Waiting | Running | Terminated | None:
    if state is None:
        return None
    if state.terminated is not None:
        return _terminated(state.terminated)
    if state.running is not None:
        return Running(epoch(state.running.started_at))
    if state.waiting is not None:
        return Waiting(_word(state.waiting.reason), _text(state.waiting.message))
    return None


def _terminated(run: _Terminated | None) -> Terminated | None:
    if run is None:
        return None
    return Terminated(
        exit_code=run.exit_code,
        signal=run.signal or 0,
        reason=_word(run.reason),
        message=_text(run.message),
        started_at=epoch(run.started_at),
        finished_at=epoch(run.finished_at),
        container_id=_word(run.container_id),
    )
