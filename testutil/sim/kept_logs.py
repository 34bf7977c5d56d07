"""The oracle of `keepFailedLogs`: a pod whose failure is on record goes, or is restarted in place, only when all is kept."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jobcommon.api.template import mapping_of
from jobcommon.testutil.sim.faults import Fault
from localcluster.model import Change, ContainerState, Item, Run

Obj = Mapping[str, Any]
SUFFIX = "-failed-logs"
#: These may prevent that a log is kept: it is read once and written at most twice.
_LOSING = frozenset({
    "conflict", "throttled", "forbidden", "unauthorized", "invalid", "partition", "apiserver-restart",
    "foreign-answer", "rights-revoked", "pause", "node-lost", "etcd-restore", "namespace-deleted", "schema-prunes",
    "spec-unreadable",
})  # fmt: skip


def printed(pod: str, code: int) -> str:
    """What every simulated container prints, as its log has it when it has ended."""
    return f"{pod} ends with {code}\n"


def previous_run(pod: Mapping[str, Any], container: str, seen: ContainerState) -> Run | None:
    """The run that the pod's status shows as the last state: while the next one is awaited, the latest."""
    status = pod["status"]
    every = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    last = [mapping_of(one["lastState"]).get("terminated") or {} for one in every if one["name"] == container]
    shown = [run for run in (seen.run,) if run is not None and run.container_id in (end.get("containerID") for end in last)]
    return shown[0] if shown else seen.last


class KeptLogs:
    """Sees the ConfigMaps of failed logs, by the UID of the job that owns them."""

    def __init__(self, faults: Sequence[Fault], say: Callable[[float, str, str], None]) -> None:
        self._say = say
        self._judges = not any(fault.kind in _LOSING for fault in faults)
        # A restore forgets the ConfigMap, and the next operator makes it again.
        self._forgets = any(fault.kind == "etcd-restore" for fault in faults)
        self._found: dict[str, Item] = {}

    def see(self, at: float, change: Change) -> None:
        """An operator has written an object."""
        item = change.item
        if change.table != "configmaps" or not item.name.endswith(SUFFIX):
            return
        (owner,) = item.obj["metadata"]["ownerReferences"]
        if self._found.setdefault(owner["uid"], item).uid != item.uid and not self._forgets:
            self._say(at, "log-lost", f"{item.name} is not the only ConfigMap of failed logs of {owner['name']}")
        self._found[owner["uid"]] = item

    def judge(self, at: float, pod: Item, owner: str, job: Obj) -> None:
        """An operator lets the pod go, or restarts it in place."""
        if not self._judges or not mapping_of(mapping_of(job.get("spec")).get("runPolicy")).get("keepFailedLogs"):
            return
        data = self._found[owner].obj.get("data") or {} if owner in self._found else {}
        main = pod.obj["spec"]["containers"][0]["name"]
        statuses = (pod.obj.get("status") or {}).get("containerStatuses") or ()
        states = [one.get(state) or {} for one in statuses if one["name"] == main for state in ("state", "lastState")]
        ends = [state["terminated"] for state in states if "terminated" in state]
        for number, failure in enumerate((job.get("status") or {}).get("failures") or ()):
            code = failure.get("exitCode")
            ours = failure.get("pod") == pod.name and code is not None
            if ours and any(end.get("finishedAt") == failure.get("time") for end in ends):
                kept = data.get(f"{number}.{pod.name}.log", "nothing")
                if kept != printed(pod.name, code) or f"{number}.{pod.name}.events" not in data:
                    self._say(at, "log-lost", f"pods/{pod.name} goes, and of its failure {number} is kept: {kept.strip()}")
