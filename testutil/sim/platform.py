"""The scheduler, and everything that plays in a scenario together."""

import random as chance
from typing import Any

from jobcommon.testutil.sim.kubelet import Draw, Kubelet, drawing
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.user import User
from localcluster import ApiServer
from localcluster.model import Access, Controller, Item, parse_time

Obj = dict[str, Any]
_TERMINAL = ("Succeeded", "Failed")
_NODES = 3


class Scheduler:
    """Binds pods to nodes a moment after their creation."""

    ASSUMES = ("gates", "binding")

    def __init__(self, server: ApiServer, draw: Draw) -> None:
        self._access = Access(server, "scheduler")
        self._draw = draw

    def step(self) -> float | None:
        """Bind every pod whose time has come."""
        now, due = self._access.now, []
        unbound = [pod for pod in self._access.items("pods") if _unbound(pod)]
        for pod in sorted(unbound, key=lambda pod: (pod.namespace, pod.name)):
            at = parse_time(pod.obj["metadata"]["creationTimestamp"]) + self._draw(f"bind/{pod.uid}", 0.05, 0.5)
            if now < at:
                due.append(at)
            else:
                node = f"node-{int(self._draw(f'node/{pod.name}', 0, _NODES))}"
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


def actors(server: ApiServer, scenario: Scenario, random: chance.Random) -> tuple[Controller, ...]:
    """Everything that plays in the scenario; `random` is asked once, for the salt of all that is drawn.

    The kinds of the frameworks and the jobs are created by the user as its first steps.
    """
    draw = drawing(random.getrandbits(64))
    return User(server, scenario), Scheduler(server, draw), Kubelet(server, scenario, draw)
