"""What a job waits for, in words: pods that do not end, and containers that keep a pod from its end."""

from collections.abc import Iterable

from jobcommon.api import reasons
from jobcommon.api.pod import PodView
from jobcommon.framework import Framework, Job
from jobcommon.reconcile.ending import awaited, is_over, left_running
from jobcommon.reconcile.ledger import Entry
from jobcommon.reconcile.plan import NORMAL, WARNING, Event, in_short
from jobcommon.reconcile.slots import Slots

# Of what happens to hundreds of pods at once, so many are told.
MAX_EVENTS = 10
# A pod that has not ended so long after its grace period is told of: its kubelet does not answer.
STUCK_SECONDS = 300.0
_WAY_OUT = (
    "if the node is shut down for good, taint it with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute or delete the "
    "pod with kubectl delete pod --force"
)


def note(pods: Iterable[PodView], now: float) -> str:
    """What the Created condition says of pods that do not end; "" while there are none."""
    names = [pod.name for pod in _stuck(pods, now)]
    return f"; waits for pods that do not terminate: {in_short(names, MAX_EVENTS)}" if names else ""


def stuck_events(pods: Iterable[PodView], now: float) -> list[Event]:
    """One event for each pod that does not end, with the way out."""
    return [
        Event(WARNING, reasons.STUCK_TERMINATING, f"Pod {p.name} on node {p.node_name} does not terminate: {_WAY_OUT}", True)
        for p in _stuck(pods, now)[:MAX_EVENTS]
    ]


def stuck_at(pods: Iterable[PodView], now: float) -> float | None:
    """When the next terminating pod has to be told of."""
    times = (pod.deletion_time + STUCK_SECONDS for pod in pods if pod.deletion_time is not None and not is_over(pod))
    return min((at for at in times if at > now), default=None)


def container_events(framework: Framework, job: Job, slots: Slots) -> list[Event]:
    """One event for each pod whose main container has succeeded while another one runs on."""
    events: list[Event] = []
    for replica, pod in slots.pods.items():
        # Asked of every pod in every pass; most have one container.
        if len(pod.containers) > 1 and len(events) < MAX_EVENTS:
            main = framework.main_container(job.replica_specs[replica.type], replica.index)
            if names := awaited(pod, main):
                text = f"Pod {pod.name}: container {main} has succeeded; waiting for container {', '.join(names)} to end"
                events.append(Event(NORMAL, reasons.WAITING, text, lasting=True))
    return events


def cut_short(entries: Iterable[Entry]) -> list[Event]:
    """One event for each pod that is deleted because its main container has failed, though another one runs."""
    cut = [e.pod for e in entries if e.pod.deletion_time is None and not is_over(e.pod)]
    return [
        Event(WARNING, reasons.MAIN_CONTAINER_FAILED, f"Pod {pod.name}: its main container has failed; {_running(pod)}")
        for pod in cut[:MAX_EVENTS]
    ]


def _running(pod: PodView) -> str:
    return f"the pod is deleted though container {', '.join(left_running(pod))} has not ended"


def _stuck(pods: Iterable[PodView], now: float) -> list[PodView]:
    return [p for p in pods if p.deletion_time is not None and p.deletion_time + STUCK_SECONDS <= now and not is_over(p)]
