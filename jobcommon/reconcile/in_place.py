"""Restarting a pod in place, by the image of its main container (`restartMethod: Auto`).

Every kubelet stops a container whose image is changed, with its grace period and its preStop hook, and starts it again from the
new image. The pod keeps its UID, node, address, volumes and sidecars, and in its status the end of the last run. An image whose
name cannot be parsed keeps the container stopped. The operator sets such a name in all pods, waits until all are stopped, and
sets the image that ran, by its digest and under a tag of the attempt. With a new tag the kubelet's back-off begins anew; the
delay between attempts is the operator's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from math import inf
from typing import Any

import msgspec

from jobcommon.api import labels, reasons
from jobcommon.api.job import RestartPolicy, template_for
from jobcommon.api.observed import IMAGES, IMAGES_LATER
from jobcommon.api.pod import STOPPING_TAG, PodView, Running, Terminated, Waiting
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType
from jobcommon.api.template import Positions, Templates, mapping_of, mappings_in
from jobcommon.api.timestamp import format_time, parse_time, trusted
from jobcommon.framework import Job
from jobcommon.manifests.children import pod_manifest, world
from jobcommon.manifests.size import size_text
from jobcommon.reconcile import limits, node_loss
from jobcommon.reconcile.attempts import RestartInPlace
from jobcommon.reconcile.ending import failures_in_place
from jobcommon.reconcile.intents import Course, RestartPod
from jobcommon.reconcile.plan import NORMAL, Action, Event, SetImage, names_in_short
from jobcommon.reconcile.rendering import Note
from jobcommon.reconcile.slots import Slot, holds_node, is_spare
from jobcommon.reconcile.view import Lifecycle, PodShape, Proposal, Remark, View

# After its grace period, a container that does not stop has this many seconds more: a busy kubelet needs some.
STOP_SECONDS = 30.0
_DEFAULT_GRACE = 30
_MAX_NAMED = 10
_CHANGED = "its template or configuration has been changed"
_PULL_ERRORS = ("ErrImagePull", "ImagePullBackOff")


class InPlace(PodShape, Lifecycle):
    """Restarts in place, in one pass."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._known: dict[tuple[Replica, Positions, bool], str] = {}

    def keep(self, slot: Slot) -> RestartInPlace | None:
        """The restart of a pod that is kept."""
        job, pod = self.job, slot.pod
        if not job.restarts_in_place or self._obstacle(slot, job):
            return None
        return RestartInPlace(is_stopped(pod), last_start(pod), given_up_at(job, slot.replica, pod, self.now))

    def act(self, course: Course | None) -> Iterable[Proposal]:
        """Start again the pods that are kept, and those of this attempt whose digest cannot be pulled."""
        if course is not Course.GO_ON:
            return
        slots, kept = self.view.slots, self.view.change.in_place
        for slot in slots.earlier:
            if slot.pod.uid in kept:
                yield RestartPod(slot.pod.uid, self._restart(slot))
        for slot in slots.living if self.job.attempt else ():
            if _is_pulled_in_vain(self.job, slot):
                yield RestartPod(slot.pod.uid, put_back(slot))
        for note in self._notes():
            yield Remark(ConditionType.RESTARTING, note)
            yield Event(NORMAL, reasons.of_kind(self.job.kind, reasons.RESTARTING), str(note), lasting=True)

    def first_start(self, slot: Slot) -> Sequence[Action] | None:
        """The start of a pod whose program has not begun, of a replica of the attempt; None if the pod is of no use."""
        situation = self.view
        # Where images may not be changed, it is made anew as one that starts by itself.
        refused = IMAGES in situation.observed.backed_off and not self.job.is_gathering
        if not slot.stays or refused or self._changed(slot):
            return None
        waits = self.job.is_gathering or situation.change.due is not None or situation.gate(slot.replica) is not None
        return () if waits or not holds_node(slot.pod) else [self._start(slot)]

    def _restart(self, slot: Slot) -> Sequence[Action]:
        """Stop the pod, and start it when all are stopped, the attempt is due, and what it waits for is there."""
        change = self.view.change
        if change.due is not None or self.job.is_gathering:
            return stop(self.job, slot, self.now)
        return [self._start(slot)] if self.view.gate(slot.replica) is None else []

    def _start(self, slot: Slot) -> SetImage:
        """Start the main program of a stopped pod as one of the job's attempt, with what it is to know of the others."""
        job, pod, made = self.job, slot.pod, self._made_from(slot.replica)
        marks, known = {labels.ATTEMPT: str(job.attempt)}, pod.annotations
        if is_spare(pod) or (known.get(labels.SIZE), known.get(labels.TEMPLATE)) != (self._size, made):
            marks |= {**world(self.framework, job, slot.replica), labels.TEMPLATE: made}
        if is_spare(pod):
            return _first_start(pod, self._images, tuple({**marks, labels.SPARE: "false"}.items()))
        ended = msgspec.structs.replace(pod, containers=[msgspec.structs.replace(c, state=None) for c in pod.containers])
        template_image = known.get(labels.IMAGE, "")
        image = self._images.get(template_image) or _next_image(pod, job.attempt) or template_image
        marks[labels.EARLIER_RUNS] = str(failures_in_place(ended, RestartPolicy.ON_FAILURE) + 1)
        return _change(pod, image, f"attempt {job.attempt} begins", tuple(marks.items()))

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with what it is made from, and with the image of the attempt that it joins."""
        if not self.job.starts_by_image:
            return pod
        image = next(mappings_in(_pod_spec(self.job, replica).get("containers")), {}).get("image", "")
        annotations = {
            **(pod["metadata"].get("annotations") or {}),
            labels.TEMPLATE: self._made_from(replica),
            labels.IMAGE: image,
        }
        spec, of_attempt = pod["spec"], self._images.get(image)
        if of_attempt is not None and len(spec["containers"]) == 1:
            spec = {**spec, "containers": [{**spec["containers"][0], "image": of_attempt}]}
        return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec}

    def _notes(self) -> Iterable[Note]:
        """The replicas that get new pods, by reason."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self._replaced():
            by_reason.setdefault(why, []).append(name)
        return [
            Note(f"{names_in_short(names, _MAX_NAMED)} {'gets a new pod' if len(names) == 1 else 'get new pods'} because {why}")
            for why, names in by_reason.items()
        ]

    def _replaced(self) -> Iterator[tuple[str, str]]:
        """The replicas whose pods are to be made anew although the job restarts in place, and why."""
        situation, job = self.view, self.job
        slots = tuple(slot for slot in situation.slots.earlier if not slot.deleting)
        if situation.accounting.attempt > job.attempt:
            counted = job.status.model_copy(update={"node_failures": node_loss.counted(job, situation.accounting.entries)})
            # Without a node it may be left out of the new attempt: the next pass knows its size.
            slots = tuple(slot for slot in situation.slots.ours if slot.pod.scheduled)
            job = replace(job, status=counted)
        for slot in slots if job.restarts_in_place and not situation.keeps_attempt else ():
            # One that is not asked for any more is not in the next attempt.
            asked = job.has(slot.replica) and slot.replica.index < job.asked_of(slot.replica.type)
            if asked and (why := self._obstacle(slot, job)):
                yield str(slot.replica), why

    @cached_property
    def _size(self) -> str:
        return size_text(self.framework, self.job)

    def _obstacle(self, slot: Slot, job: Job) -> str:
        """Why the pod cannot be restarted in place; "" if it can. `job`: the job, or with what this pass records."""
        containers, backed_off = slot.pod.containers, self.observed.backed_off
        if slot.over or slot.deleting:
            return "it has ended"
        if not job.has(slot.replica):
            return "it is surplus"
        if slot.pod.restart_policy != "OnFailure":
            return "its containers are not restarted"
        if len(containers) != 1 or not _has_run(slot.pod):
            return "it has several containers" if len(containers) > 1 else "it has not started"
        if labels.ATTEMPT not in slot.pod.annotations:
            return "it was created before restartScope Job"
        if not slot.pod.containers[0].image or not _next_image(slot.pod, 0):
            return "the digest of its image is unknown"
        if self.now >= given_up_at(job, slot.replica, slot.pod, self.now):
            return f"it did not stop within its grace period and {STOP_SECONDS:g} s"
        if slot.pod.node_name in {entry.node for entry in node_loss.avoided(job)}:
            return f"node {slot.pod.node_name} is avoided"
        seconds, recorded = _stop_seconds(job, slot.replica), limits.restarts_so_far(job.status)[1]
        if IMAGES_LATER in backed_off and self.now >= (trusted(recorded, self.now, seconds) or 0.0) + seconds:
            return "its image could not be changed in time"
        return "its image may not be changed" if IMAGES in backed_off else self._changed(slot)

    def _changed(self, slot: Slot) -> str:
        """Why the pod does not serve the attempt as it was made; "" if it does. What is unknown has changed."""
        made = slot.pod.annotations.get(labels.TEMPLATE, "").partition("-")[0]
        return "" if made == self._made_from(slot.replica).partition("-")[0] else _CHANGED

    def _made_from(self, replica: Replica) -> str:
        """Two digests: of what the replica's pod is made from, and of what is written anew when its program starts.

        A digest of the template alone would miss a port in another one, an option, or a field of the job. Replicas of a
        template differ in their names alone, but for the one of rank 0, which may be the leader, and that of index 0.
        """
        job, framework, kind = self.job, self.framework, replica.type
        positions, first = job.replica_specs[kind].templates.of(replica.index), job.rank_of(replica) == 0
        alike = Replica(kind, min(replica.index, 1))
        key = alike, positions, first
        if key not in self._known:
            template = job.replica_specs[kind].templates.at(positions)
            one = {"template": template, "overrides": [], "templates": Templates(template, ())}
            specs = {**job.replica_specs, kind: job.replica_specs[kind].model_copy(update=one)}
            out = {kind: frozenset({0})} if first and alike.index else {}
            job = replace(job, replica_specs=specs, left_out=out)
            known = world(framework, job, alike)
            # Without room for them in annotations, variables are in the spec, with the ranks and addresses of this attempt.
            of_this = self._size if any(self.job.left_out.values()) and len(known) == 1 and framework.env(job, alike) else ""
            made = [template, self._read_by(job, alike), of_this]
            self._known[key] = f"{_digest(made)}-{_digest(known)}"
        return self._known[key]

    def _read_by(self, job: Job, replica: Replica) -> tuple[Any, ...]:
        """The spec of the replica's pod, and its files, which change some time after its container has started again."""
        framework = self.framework
        spec = pod_manifest(framework, job, replica)["spec"]
        known = {
            c.name: mapping_of((c.manifest or {}).get("data")) for c in framework.companions(job, ()) if c.kind == "ConfigMap"
        }
        mounted = [mapping_of(volume.get("configMap")) for volume in mappings_in(spec.get("volumes"))]
        files = [(known.get(one.get("name", ""), {}), [*mappings_in(one.get("items"))]) for one in mounted]
        return spec, [
            {item.get("key"): data.get(item.get("key", "")) for item in items} if items else data for data, items in files
        ]

    @cached_property
    def _images(self) -> Mapping[str, str]:
        """By the image of the template, the one that all pods of the attempt have: of those that have begun, else will.

        The same tag may be another image by now, and a pod that cannot be kept would run that beside the others.
        """
        found: dict[str, str] = {}
        job, slots = self.job, self.view.slots
        if not (job.restarts_in_place and job.attempt):
            return found
        ours = f":attempt-{job.attempt}@"
        kept = (slot for slot in slots.earlier if slot.pod.uid in self.view.change.in_place)
        for slot in (*slots.wanted.values(), *kept):
            name, containers = slot.pod.annotations.get(labels.IMAGE, ""), slot.pod.containers
            if not name or name in found or len(containers) != 1:
                continue
            image = containers[0].image if ours in containers[0].image else _next_image(slot.pod, job.attempt)
            if image and STOPPING_TAG not in image:
                found[name] = image
        return found


def given_up_at(job: Job, replica: Replica, pod: PodView, now: float) -> float:
    """When a pod that has not stopped by then is deleted instead (seconds since the epoch); infinity for one that has.

    It counts from the order to stop: an operator that records a restart may die before it gives the order.
    """
    if is_stopped(pod):
        return inf
    ordered = _ordered_at(pod, now)
    return (now if ordered is None else ordered) + _stop_seconds(job, replica)


def _stop_seconds(job: Job, replica: Replica) -> float:
    """How long a stop may take."""
    grace = _pod_spec(job, replica).get("terminationGracePeriodSeconds")
    return (grace if isinstance(grace, int) else _DEFAULT_GRACE) + STOP_SECONDS


def _ordered_at(pod: PodView, now: float) -> float | None:
    """When the pod's program was asked to stop; None if it was not, or the time was written by a clock far ahead."""
    at = parse_time(pod.annotations.get(labels.STOP_ORDERED)) if STOPPING_TAG in pod.containers[0].image else None
    return trusted(at, now, STOP_SECONDS)


def is_stopped(pod: PodView) -> bool:
    """Whether the kubelet keeps the main program stopped because of its image.

    A container that waits for a restart may still start from the former image, unless the kubelet's message or its
    observedGeneration shows that it acts on the present one. One that has ended with code 0 will not start again.
    """
    container = pod.containers[0]
    if STOPPING_TAG not in container.image or not isinstance(container.state, Waiting):
        return False
    acted = container.image in container.state.message or pod.spec_seen
    return acted and container.last is not None and container.last.exit_code != 0


def stop(job: Job, slot: Slot, now: float) -> list[SetImage]:
    """Stop the main program and keep it stopped."""
    pod, image = slot.pod, slot.pod.containers[0].image
    if is_stopped(pod) or _ordered_at(pod, now) is not None:
        return []
    stopping = image if STOPPING_TAG in image else f"{image}{STOPPING_TAG}{job.attempt}"
    return [_change(pod, stopping, "all replicas are stopped", ((labels.STOP_ORDERED, format_time(now)),))]


def _first_start(pod: PodView, images: Mapping[str, str], marks: tuple[tuple[str, str], ...]) -> SetImage:
    """Give all containers of a pod that has started none the images that they are to have."""
    parts = (("initContainers", pod.init_containers), ("containers", pod.containers))
    gated = ((f"/spec/{part}/{one.at}", one) for part, found in parts for one in found if STOPPING_TAG in one.image)
    *others, main = [(path, one.name, one.image, one.image.partition(STOPPING_TAG)[0]) for path, one in gated]
    path, name, before, image = main
    image = (None if others else images.get(pod.annotations.get(labels.IMAGE, ""))) or image
    attempt = pod.annotations.get(labels.ATTEMPT, "")
    return SetImage(pod.name, pod.uid, name, before, image, attempt, "the attempt has its members", marks, path, tuple(others))


def spare(job: Job, pod: dict[str, Any]) -> dict[str, Any]:
    """The new pod as one none of whose containers starts: it shows whether there is a node that can run it."""
    annotations = {**pod["metadata"]["annotations"], labels.SPARE: "true"}
    spec = dict(pod["spec"])
    for part in ("initContainers", "containers"):
        if part in spec:
            spec[part] = [{**one, "image": f"{one.get('image')}{STOPPING_TAG}{job.attempt}"} for one in spec[part]]
    if len(spec["containers"]) == 1 and (image := annotations.get(labels.IMAGE)):
        spec["containers"][0]["image"] = f"{image}{STOPPING_TAG}{job.attempt}"
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec}


def _is_pulled_in_vain(job: Job, slot: Slot) -> bool:
    """Whether the digest cannot be pulled: an imported image has one that no registry knows."""
    state, image = next(((c.state, c.image) for c in slot.pod.containers[:1]), (None, ""))
    return isinstance(state, Waiting) and state.reason in _PULL_ERRORS and f":attempt-{job.attempt}@" in image


def put_back(slot: Slot) -> list[SetImage]:
    """Set the image of the template from which the pod was made: the others of the attempt do not run an edited one."""
    image = slot.pod.annotations.get(labels.IMAGE)
    return [_change(slot.pod, image, "its digest cannot be pulled")] if image else []


def _change(pod: PodView, image: str, why: str, annotations: tuple[tuple[str, str], ...] = ()) -> SetImage:
    main, attempt = pod.containers[0], pod.annotations.get(labels.ATTEMPT, "")
    return SetImage(pod.name, pod.uid, main.name, main.image, image, attempt, why, annotations)


def _digest(value: Any) -> str:
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]


def _pod_spec(job: Job, replica: Replica) -> Mapping[str, Any]:
    """The pod spec of the replica's template; empty if it cannot be read."""
    return mapping_of(template_for(job.replica_specs[replica.type], replica.index).get("spec"))


def _has_run(pod: PodView) -> bool:
    return any(isinstance(c.state, Running | Terminated) or c.last is not None for c in pod.containers)


def _next_image(pod: PodView, attempt: int) -> str:
    """The image that ran last, under a tag of that attempt; "" if the repository's digest is not known.

    Of an image that several repositories have, a runtime reports any of them: the template's is the one that may be pulled.
    """
    repository, _, digest = pod.containers[0].image_id.removeprefix("docker-pullable://").partition("@")
    path, slash, name = pod.annotations.get(labels.IMAGE, repository).partition("@")[0].rpartition("/")
    return f"{path}{slash}{name.partition(':')[0]}:attempt-{attempt}@{digest}" if repository and digest else ""


def last_start(pod: PodView) -> float | None:
    """When the latest run of the main program began (seconds since the epoch), else when the kubelet accepted the pod."""
    runs = [run for c in pod.containers[:1] for run in (c.state, c.last) if isinstance(run, Running | Terminated)]
    starts = [run.started_at for run in runs if run.started_at is not None]
    return max(starts, default=pod.started)
