"""What users and platforms do at a moment that a fault names, instead of in the scenario's own order.

The victim is chosen by the fault's `value`, a name or a number that counts through what there is, so that the same fault does
the same in the same run.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from jobcommon.api import labels
from jobcommon.client.request import MERGE_PATCH
from jobcommon.framework import FINALIZER
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.kubelet import DOWN, STATE, Kubelet
from jobcommon.testutil.sim.nodes import PodCollector
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.user import RefusedError, ask
from localcluster import ApiServer
from localcluster.model import Item

Obj = dict[str, Any]
T = TypeVar("T")
QUOTA = "simulated"
_MASKED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "finalizers")
SLOW_START_SECONDS = (0.2, 600.0)


class FaultInjector:
    """An actor that does nothing by itself. `inject` carries out a fault and returns whether there was a target."""

    def __init__(self, server: ApiServer, scenario: Scenario, kubelet: Kubelet, collector: PodCollector) -> None:
        self._server = server
        self._scenario = scenario
        self._kubelet = kubelet
        self._collector = collector
        self._deeds: Mapping[str, Callable[[Fault], bool]] = {
            "quota": self._quota,
            "namespace-deleted": lambda _: self._delete_namespace(),
            "job-deleted": self._delete_job,
            "job-recreated": self._recreate_job,
            "pod-deleted": lambda fault: self._delete("pods", fault),
            "service-deleted": lambda fault: self._delete("services", fault),
            "label-edited": self._edit_label,
            "finalizer-removed": self._strip,
            "status-forged": self._forge,
            "pod-gc": lambda _: self._collect(0),
            "node-drained": self._drain,
            "node-lost": self._lose_node,
            "slow-start": lambda _: self._slow(SLOW_START_SECONDS),
        }
        self.faults = frozenset(self._deeds)

    def step(self) -> float | None:
        """Nothing is due without a fault."""
        return None

    def inject(self, fault: Fault) -> bool:
        """Do what the fault says; whether it had an effect."""
        return self._deeds[fault.kind](fault)

    def recover(self, fault: Fault) -> None:
        """Put right what can be put right."""
        if fault.kind == "quota":
            user.delete("resourcequotas", QUOTA)(self._server)
        elif fault.kind == "pod-gc":
            self._collect(self._scenario.keep_finished)
        elif fault.kind == "slow-start":
            self._slow(self._scenario.start_seconds)
        elif fault.kind == "node-drained":
            for node in list(self._server.storage.table("nodes").items()):
                if node.obj["spec"].get("unschedulable"):
                    self._ask("PATCH", f"/api/v1/nodes/{node.name}", {"spec": {"unschedulable": None}})
        elif fault.kind == "node-lost":
            user.wake_nodes(self._server)

    # -- deeds ------------------------------------------------------------------------------------------------------------

    def _quota(self, _fault: Fault) -> bool:
        body = {"metadata": {"name": QUOTA}, "spec": {"hard": {"pods": "0"}}}
        return self._ask("POST", user.path_of("resourcequotas"), body)

    def _delete_namespace(self) -> bool:
        """As for any namespace: the API refuses to delete the one called default."""
        storage = self._server.storage
        found = storage.table("namespaces").get("", user.NAMESPACE)
        if found is None or "deletionTimestamp" in found.obj["metadata"]:
            return False
        metadata = {**found.obj["metadata"], "deletionTimestamp": self._server.env.timestamp()}
        storage.put("namespaces", "", found.name, {**found.obj, "metadata": metadata, "status": {"phase": "Terminating"}})
        return True

    def _jobs(self) -> list[tuple[Item, str]]:
        """The jobs there are, with their paths."""
        return [
            (job, user.path_of(framework, job.name, job.namespace))
            for framework in self._scenario.frameworks
            for job in self._server.storage.table(f"{framework.plural}.{framework.group}").sorted()
        ]

    def _delete_job(self, fault: Fault) -> bool:
        found = _chosen(self._jobs(), fault)
        return found is not None and self._ask("DELETE", found[1])

    def _recreate_job(self, fault: Fault) -> bool:
        found = _chosen(self._jobs(), fault)
        if found is None:
            return False
        job, path = found
        framework = next(f for f in self._scenario.frameworks if f"/{f.plural}/" in path)
        metadata = {key: value for key, value in job.obj["metadata"].items() if key not in _MASKED}
        body = {"apiVersion": framework.api_version, "kind": framework.kind, "metadata": metadata, "spec": job.obj["spec"]}
        return self._ask("DELETE", path) and self._ask("POST", path.rpartition("/")[0], body)

    def _delete(self, plural: str, fault: Fault) -> bool:
        found = self._owned(plural, fault)
        return found is not None and self._ask("DELETE", user.path_of(plural, found.name, found.namespace))

    def _edit_label(self, fault: Fault) -> bool:
        pod = self._owned("pods", fault)
        # Kubernetes takes no label value that begins with a dash, but any number of digits.
        patch = {"metadata": {"labels": {labels.REPLICA_INDEX: "999999999999", labels.JOB_NAME: "another"}}}
        return pod is not None and self._ask("PATCH", user.path_of("pods", pod.name, pod.namespace), patch)

    def _strip(self, fault: Fault) -> bool:
        pod = self._owned("pods", fault)
        if pod is None or FINALIZER not in (pod.obj["metadata"].get("finalizers") or ()):
            return False
        kept = [name for name in pod.obj["metadata"]["finalizers"] if name != FINALIZER]
        return self._ask("PATCH", user.path_of("pods", pod.name, pod.namespace), {"metadata": {"finalizers": kept or None}})

    def _forge(self, fault: Fault) -> bool:
        """Half of a status, with an entry of an unknown type and a negative count."""
        found = _chosen(self._jobs(), fault)
        running = {"type": "Running", "status": "True", "reason": "Forged", "message": "by hand"}
        odd = {"type": "Odd", "status": "True", "reason": "Forged", "message": "by hand"}
        patch = {"status": {"conditions": [running, odd], "restarts": None, "failures": None}}
        return found is not None and self._ask("PATCH", f"{found[1]}/status", patch)

    def _drain(self, fault: Fault) -> bool:
        pod = self._bound(fault)
        if pod is None:
            return False
        try:
            user.drain(pod.name)(self._server)
        except RefusedError:
            return False
        return True

    def _lose_node(self, fault: Fault) -> bool:
        pod = self._bound(fault)
        patch = {"metadata": {"annotations": {STATE: DOWN}}}
        return pod is not None and self._ask("PATCH", f"/api/v1/nodes/{pod.obj['spec']['nodeName']}", patch)

    def _collect(self, keep: int | None) -> bool:
        self._collector.keep = keep
        return True

    def _slow(self, bounds: tuple[float, float]) -> bool:
        self._kubelet.start_seconds = bounds
        return True

    # -- victims ------------------------------------------------------------------------------------------------------------

    def _owned(self, plural: str, fault: Fault) -> Item | None:
        items = self._server.storage.table(plural).sorted(user.NAMESPACE)
        return _chosen([item for item in items if item.obj["metadata"].get("ownerReferences")], fault)

    def _bound(self, fault: Fault) -> Item | None:
        items = self._server.storage.table("pods").sorted(user.NAMESPACE)
        return _chosen([item for item in items if item.obj["spec"].get("nodeName")], fault)

    def _ask(self, method: str, path: str, body: Obj | None = None) -> bool:
        try:
            ask(self._server, method, path, body, MERGE_PATCH if method == "PATCH" else "application/json")
        except RefusedError:
            return False
        return True


def _chosen(found: Sequence[T], fault: Fault) -> T | None:
    """The one that the fault's value counts to, or names."""
    if not found:
        return None
    if fault.value.isdecimal() or not fault.value:
        return found[int(fault.value or 0) % len(found)]
    named = [one for one in found if _name(one) == fault.value]
    return named[0] if named else None


def _name(one: Any) -> str:
    return str(one[0].name if isinstance(one, tuple) else one.name)
