"""What a cluster has beside nodes: the scheduler; and everything that plays in a scenario together."""

import random as chance
from typing import Any

from jobcommon.testutil.sim.fault_injector import FaultInjector
from jobcommon.testutil.sim.kubelet import Draw, Kubelet, drawing
from jobcommon.testutil.sim.nodes import Nodes, PodCollector, ready_of
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.user import User
from localcluster import ApiServer
from localcluster.model import Access, Controller, Item, parse_time

Obj = dict[str, Any]
_TERMINAL = ("Succeeded", "Failed")


class Scheduler:
    """Binds pods to nodes a moment after their creation."""

    ASSUMES = ("gates", "binding")

    def __init__(self, server: ApiServer, draw: Draw) -> None:
        self._access = Access(server, "scheduler")
        self._draw = draw

    def step(self) -> float | None:
        """Bind every pod whose time has come."""
        now, due = self._access.now, []
        nodes = sorted(node.name for node in self._access.items("nodes") if _schedulable(node))
        unbound = [pod for pod in self._access.items("pods") if _unbound(pod)]
        for pod in sorted(unbound, key=lambda pod: (pod.namespace, pod.name)):
            at = parse_time(pod.obj["metadata"]["creationTimestamp"]) + self._draw(f"bind/{pod.uid}", 0.05, 0.5)
            if now < at:
                due.append(at)
            elif nodes:
                node = nodes[int(self._draw(f"node/{pod.name}", 0, len(nodes)))]
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                body = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": target}
                self._access.send("POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", body)
        return min(due, default=None)


def _unbound(pod: Item) -> bool:
    spec, meta = pod.obj["spec"], pod.obj["metadata"]
    phase = (pod.obj.get("status") or {}).get("phase")
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and "deletionTimestamp" not in meta
        and phase not in _TERMINAL
    )


def _schedulable(node: Item) -> bool:
    return (
        ready_of(node)
        and not (node.obj.get("spec") or {}).get("unschedulable")
        and "deletionTimestamp" not in node.obj["metadata"]
    )


def actors(server: ApiServer, scenario: Scenario, random: chance.Random) -> tuple[Controller, ...]:
    """Everything that plays in the scenario; `random` is asked once, for the salt of all that is drawn.

    The kinds of the frameworks, the scenario's objects and its jobs are created by the user as its first steps.
    """
    draw = drawing(random.getrandbits(64))
    kubelet, collector = Kubelet(server, scenario, draw), PodCollector(server, scenario)
    return (
        User(server, scenario),
        Nodes(server, scenario),
        Scheduler(server, draw),
        kubelet,
        collector,
        FaultInjector(server, scenario, kubelet, collector),
    )
