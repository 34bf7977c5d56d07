"""What was found on an API server about one job: the input of a diagnosis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from jobcommon.api import labels
from jobcommon.api.pod import STOPPING_TAG, PodView, pod_view
from jobcommon.api.replica import Replica
from jobcommon.api.status import JobStatus, read_status
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.timestamp import parse_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile.slots import is_spare
from jobcommon.spec import read_job

Object = Mapping[str, Any]
# The runtime of the embedded cluster.
_PROCESSES = "process://"


@dataclass(frozen=True, slots=True)
class EventView:
    """An event: about which object (UID and name; of a pod perhaps a `container`), its reason and message, when it occurred
    last, and whether it is a warning.
    """

    uid: str
    name: str
    container: str
    reason: str
    message: str
    at: float
    warning: bool


@dataclass(frozen=True)
class Found:
    """What is known of a job. All objects are JSON as the API server gives them.

    `logs` has the last lines of what failed pods printed, by pod; of those in `gone` nothing can be read any more. `nodes`,
    `workloads` (Kueue's) and `pod_groups` may be empty when there are none or they may not be read. `printed_at` is, by pod,
    when a running one printed its last line (seconds since the epoch), and `last_lines` what it was; `tails` are the last
    lines of some that run or have succeeded. Only where no operator seems to act: `operator`, whether a pod of the operators
    runs (None when that is unknown). `unread` says, by resource, why it could not be read.
    """

    framework: Framework
    job: Object
    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    logs: Mapping[str, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}))
    gone: frozenset[str] = frozenset()
    nodes: Sequence[Object] = ()
    workloads: Sequence[Object] = ()
    pod_groups: Sequence[Object] = ()
    printed_at: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    last_lines: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tails: Mapping[str, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}))
    operator: bool | None = None
    unread: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def read(self) -> Job:
        """The job as the operator reads it."""
        return read_job(self.framework, self.job)

    @cached_property
    def status(self) -> JobStatus:
        """Its status."""
        return read_status(self.job.get("status"))

    @cached_property
    def local(self) -> bool:
        """Whether the pods are processes of one machine: those of the embedded cluster."""
        nodes = ((node.get("status") or {}).get("nodeInfo") for node in self.nodes)
        runtimes = [str((info or {}).get("containerRuntimeVersion") or "") for info in nodes]
        statuses = (mappings_in(mapping_of(mapping_of(pod).get("status")).get("containerStatuses")) for pod in self.pods)
        runtimes += [str(status.get("containerID") or "") for found in statuses for status in found]
        return any(runtime.startswith(_PROCESSES) for runtime in runtimes)

    @cached_property
    def members(self) -> "tuple[Member, ...]":
        """The job's pods that can be read, in the order of its replicas, but for `spare`."""
        return tuple(member for member in self._all if member not in self.spare)

    @cached_property
    def spare(self) -> "tuple[Member, ...]":
        """Those of replicas that the attempt of an elastic job leaves out, which only ask for a node."""
        names = {self.read.pod_name(replica) for replica in self.read.replicas} if self.read.is_elastic else ()
        return tuple(member for member in self._all if is_spare(member.pod) and member.pod.name not in names)

    @cached_property
    def _all(self) -> "tuple[Member, ...]":
        job = self.read
        counts = {kind: max(job.count(kind), job.asked_of(kind)) for kind in job.replica_specs}
        replicas = [Replica(kind, index) for kind, count in counts.items() for index in range(count)]
        order = {job.pod_name(replica): (number, str(replica)) for number, replica in enumerate(replicas)}
        types = {kind.name.lower(): kind.name for kind in self.framework.replica_types}
        found: list[tuple[tuple[int, str], Member]] = []
        for raw in self.pods:
            try:
                view = pod_view(msgspec.json.encode(raw))
            except msgspec.DecodeError:
                continue
            known = order.get(view.name)
            kind = types.get(view.labels.get(labels.REPLICA_TYPE, ""), "")
            name = known[1] if known else f"{kind}-{view.labels.get(labels.REPLICA_INDEX, '')}" if kind else view.name
            found.append(((known[0] if known else len(order), view.name), Member(name, view, raw)))
        return tuple(member for _, member in sorted(found, key=lambda entry: entry[0]))

    def events_of(self, about: str) -> list[EventView]:
        """The events on an object, given by UID or name, the latest first."""
        return self._events.get(about, [])

    @cached_property
    def _events(self) -> Mapping[str, list[EventView]]:
        found: dict[str, list[EventView]] = {}
        # The operator stops programs by such an image, and the kubelet warns of it.
        for event in (event for event in map(event_view, self.events) if STOPPING_TAG not in event.message):
            for key in {event.uid, event.name}:
                found.setdefault(key, []).append(event)
        return {key: sorted(events, key=lambda event: -event.at) for key, events in found.items()}


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of the job, and the name of its replica."""

    replica: str
    pod: PodView
    raw: Object


def main_container(framework: Framework, pod: PodView) -> str:
    """The name of the container of a pod that runs the program, "" if its status has none yet."""
    main = min(pod.containers, key=lambda one: (one.name != framework.container, one.at), default=None)
    return main.name if main is not None else ""


def event_view(raw: Object) -> EventView:
    """The view of an event of core/v1. Total."""
    about, series = (found if isinstance(found := raw.get(name), Mapping) else {} for name in ("involvedObject", "series"))
    times = (series.get("lastObservedTime"), raw.get("lastTimestamp"), raw.get("eventTime"), raw.get("firstTimestamp"))
    at = next((time for time in map(parse_time, times) if time is not None), 0.0)
    reason, message = str(raw.get("reason") or ""), str(raw.get("message") or "")
    uid, name = str(about.get("uid") or ""), str(about.get("name") or "")
    container = str(about.get("fieldPath") or "").partition("{")[2].removesuffix("}")
    return EventView(uid, name, container, reason, message, at, raw.get("type") == "Warning")
