"""Kubernetes' own gangs: what its scheduler does with a PodGroup, how that is protected, and an oracle for jobs at rest."""

from collections.abc import Iterator, Sequence

from jobcommon.api.workload import V1ALPHA2, V1BETA1, min_count
from jobcommon.client.request import MERGE_PATCH
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.nodes import delete_pod, disrupt
from localcluster import ApiServer
from localcluster.model import Access, Item

POD_GROUPS = "podgroups.scheduling.k8s.io"
PROTECTION = "scheduling.k8s.io/podgroup-protection"
_TERMINAL = ("Succeeded", "Failed")


def group_of(pod: Item) -> str:
    """The PodGroup that the pod names; "" for none."""
    return (pod.obj["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""


def living(pods: Sequence[Item]) -> list[Item]:
    """The pods that have not ended: the scheduler forgets the others, also as members of their group (kubernetes#142330)."""
    return [pod for pod in pods if (pod.obj.get("status") or {}).get("phase") not in _TERMINAL]


def places(group: Item | None, members: Sequence[Item], ready: Sequence[Item], room: int) -> Sequence[Item]:
    """Which of the `ready` pods of a group are placed where there is room for so many: enough of its members, or none."""
    bound = sum(bool(pod.obj["spec"].get("nodeName")) for pod in living(members))
    if group is None or bound + min(len(ready), room) < min_count(group.obj):
        return ()
    return ready[:room]


class Protection:
    """A PodGroup that is deleted goes when no pod that has not ended names it."""

    def __init__(self, server: ApiServer) -> None:
        self._access = Access(server, "podgroup-protection")

    def step(self) -> float | None:
        """Protect new PodGroups, and let those go that are not in use."""
        for group in list(self._access.items(POD_GROUPS)):
            held, leaves = bool(group.obj["metadata"].get("finalizers")), "deletionTimestamp" in group.obj["metadata"]
            pods = [pod for pod in self._access.items("pods", group.namespace) if group_of(pod) == group.name]
            if held if leaves and not living(pods) else not (held or leaves):
                version = V1ALPHA2 if "podGroupTemplateRef" in group.obj["spec"] else V1BETA1
                path = f"/apis/{version}/namespaces/{group.namespace}/podgroups/{group.name}"
                body = {"metadata": {"finalizers": None if held else [PROTECTION]}}
                self._access.send("PATCH", path, body, MERGE_PATCH)
        return None


def half_started(server: ApiServer) -> Iterator[str]:
    """The groups of which pods wait at rest while some, but fewer than the group needs, have a node."""
    pods = server.storage.table("pods").sorted()
    for group in server.storage.table(POD_GROUPS).sorted() if POD_GROUPS in server.storage.tables else ():
        members = living([pod for pod in pods if (pod.namespace, group_of(pod)) == (group.namespace, group.name)])
        bound = sum(bool(pod.obj["spec"].get("nodeName")) for pod in members)
        if 0 < bound < min(min_count(group.obj), len(members) + 1) and bound < len(members):
            yield f"podgroups/{group.name}: {bound} of {len(members)} pods have a node, and minCount is {min_count(group.obj)}"


def preempt(*names: str) -> user.Do:
    """The scheduler preempts these pods for others."""

    def do(server: ApiServer) -> None:
        access = Access(server, "scheduler")
        for pod in [pod for pod in server.storage.table("pods").sorted(user.NAMESPACE) if pod.name in names]:
            disrupt(access, pod, "PreemptionByScheduler", "preempting to accommodate a higher priority pod")
            delete_pod(access, pod, None)

    return do
