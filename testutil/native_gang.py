"""One job under Kubernetes' own gang scheduler: a model of its scheduler, of PodGroup protection and of immutable fields."""

from dataclasses import dataclass

from jobcommon.api.workload import V1ALPHA2, min_count
from jobcommon.reconcile.plan import Action, Delete, Update
from jobcommon.testutil.builders import Manifest, Pod
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.kueue import ANY, definition

GROUP, WORKLOAD = ("PodGroup", "demo"), ("Workload", "demo")


def definitions(api_version: str) -> list[Manifest]:
    """Both kinds for a server that has them not built in. Of v1alpha2 every spec is immutable."""
    rules = [{"rule": "self == oldSelf", "message": "field is immutable"}] if api_version == V1ALPHA2 else []
    spec = {**ANY, "x-kubernetes-validations": rules}
    return [
        definition(api_version, "Workload", {"spec": spec}),
        definition(api_version, "PodGroup", {"spec": spec, "status": ANY}),
    ]


@dataclass
class NativeWorld(ClusterModel):
    """Nodes for `room` pods."""

    room: int = 100

    def schedule(self) -> list[str]:
        """What the scheduler starts now. It forgets pods that have ended, so a gang may lack pods for ever."""
        living = {name: pod for name, pod in self.pods.items() if pod.raw["status"]["phase"] in ("Pending", "Running")}
        bound = [name for name, pod in living.items() if pod.view.scheduled]
        waiting = [n for n, pod in living.items() if n not in bound and "deletionTimestamp" not in pod.raw["metadata"]]
        alone = [name for name in waiting if group_of(living[name]) is None]
        gang = [name for name in waiting if name not in alone]
        members = sum(group_of(pod) is not None for pod in living.values())
        chosen = [*alone, *gang][: max(self.room - len(bound), 0)]
        placed = sum(group_of(living[name]) is not None for name in (*bound, *chosen))
        least = min_count(self.others[GROUP]) if GROUP in self.others else members + 1
        if members < least or placed < least:
            chosen = alone[: len(chosen)]
        if chosen:
            self.run(*chosen)
        return chosen

    def _apply(self, action: Action) -> None:
        if isinstance(action, Update) and action.api_version == V1ALPHA2:
            old = self.others[action.manifest["kind"], action.name]
            assert old["spec"] == action.manifest["spec"], "the spec is immutable"
        if isinstance(action, Delete) and action.plural == "podgroups" and self._in_use():
            group = self.others[GROUP]
            metadata = {**group["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            self.others[GROUP] = {**group, "metadata": metadata}
            return
        super()._apply(action)
        self.protect()

    def protect(self) -> None:
        """The protection's finalizer goes when no pod that has not ended names the group."""
        if GROUP in self.others and "deletionTimestamp" in self.others[GROUP]["metadata"] and not self._in_use():
            del self.others[GROUP]

    def _in_use(self) -> bool:
        living = (pod for pod in self.pods.values() if pod.raw["status"]["phase"] in ("Pending", "Running"))
        return any(group_of(pod) is not None for pod in living)


def group_of(pod: Pod) -> str | None:
    """The PodGroup that the pod names."""
    return (pod.raw["spec"].get("schedulingGroup") or {}).get("podGroupName")
