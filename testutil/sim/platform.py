"""What a cluster has beside nodes: the scheduler, the gang schedulers' part of it, a queue that admits jobs; and all together.

`actors` gives everything that plays in a scenario but the API server, its own controllers and the operators.
"""

import random as chance
from collections.abc import Mapping
from typing import Any

from jobcommon.api import gang
from jobcommon.api.template import mapping_of
from jobcommon.client.request import MERGE_PATCH
from jobcommon.testutil.sim import native_gangs
from jobcommon.testutil.sim.fault_injector import FaultInjector
from jobcommon.testutil.sim.kubelet import Draw, Kubelet, drawing
from jobcommon.testutil.sim.kueue import Kueue
from jobcommon.testutil.sim.nodes import Nodes, PodCollector, ready_of
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.user import User
from localcluster import ApiServer
from localcluster.model import DEFAULT_SCHEDULER, Access, Controller, Item, parse_time

Obj = dict[str, Any]
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
#: What Volcano takes to take up a PodGroup, and the queue to admit a job.
ENQUEUE_SECONDS = 2.0
ADMISSION_SECONDS = 3.0
_TERMINAL = ("Succeeded", "Failed")


class Scheduler:
    """Binds pods to nodes a moment after their creation; members of a gang only when enough of them are there."""

    ASSUMES = ("gates", "binding")

    def __init__(self, server: ApiServer, draw: Draw, room: int) -> None:
        self._access = Access(server, "scheduler")
        self._draw, self._room = draw, room

    def step(self) -> float | None:
        """Bind every pod whose time has come, as far as there is room."""
        now, due = self._access.now, []
        nodes = sorted(node.name for node in self._access.items("nodes") if _schedulable(node))
        ready: dict[tuple[str, str], list[Item]] = {}
        pods = list(self._access.items("pods"))
        for pod in sorted((pod for pod in pods if _unbound(pod)), key=lambda pod: (pod.namespace, pod.name)):
            at = parse_time(pod.obj["metadata"]["creationTimestamp"]) + self._draw(f"bind/{pod.uid}", 0.05, 0.5)
            if now < at:
                due.append(at)
            elif nodes:
                ready.setdefault((pod.namespace, native_gangs.group_of(pod)), []).append(pod)
        room = self._room - sum(bool(pod.obj["spec"].get("nodeName")) for pod in native_gangs.living(pods)) if ready else 0
        for (namespace, group), waiting in ready.items():
            if group:
                members = [pod for pod in pods if (pod.namespace, native_gangs.group_of(pod)) == (namespace, group)]
                found = self._access.get(native_gangs.POD_GROUPS, namespace, group)
                chosen = native_gangs.places(found, members, waiting, room)
            else:
                chosen = [pod for pod in waiting if self._gang_is_there(pod)][: max(room, 0)]
            room -= len(chosen)
            for pod in chosen:
                node = nodes[int(self._draw(f"node/{pod.name}", 0, len(nodes)))]
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                body = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": target}
                self._access.send("POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", body)
        return min(due, default=None)

    def _gang_is_there(self, pod: Item) -> bool:
        if (pod.obj["spec"].get("schedulerName") or DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER:
            return True
        group = group_of(pod)
        found = next(
            (g for table in POD_GROUP_TABLES if (g := self._access.get(table, pod.namespace, group)) is not None), None
        )
        if found is None:
            return False
        needed = (found.obj.get("spec") or {}).get("minMember") or 1
        phase = (found.obj.get("status") or {}).get("phase")
        members = [p for p in self._access.items("pods", pod.namespace) if group_of(p) == group]
        there = [p for p in members if (p.obj.get("status") or {}).get("phase") not in _TERMINAL]
        return len(there) >= needed and phase != "Pending"


POD_GROUP_TABLES = tuple(f"podgroups.{api.partition('/')[0]}" for api in (gang.VOLCANO_API, gang.COSCHEDULING_API))


def group_of(pod: Item) -> str:
    """The PodGroup that a pod belongs to; "" for none."""
    meta = pod.obj["metadata"]
    named: Mapping[str, str] = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    return named.get(gang.COSCHEDULING_GROUP) or named.get(gang.VOLCANO_GROUP) or ""


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


class PodGroups:
    """The gang schedulers' controllers: Volcano takes a PodGroup up after a while, and both say when it runs."""

    def __init__(self, server: ApiServer) -> None:
        self._access = Access(server, "gang-scheduler")

    def step(self) -> float | None:
        """Bring every PodGroup's phase up to date."""
        now, due = self._access.now, []
        for table, api in zip(POD_GROUP_TABLES, (gang.VOLCANO_API, gang.COSCHEDULING_API), strict=True):
            for group in list(self._access.items(table)):
                taken_up = parse_time(group.obj["metadata"]["creationTimestamp"]) + ENQUEUE_SECONDS
                phase = self._phase(group) if now >= taken_up else "Pending"
                if now < taken_up:
                    due.append(taken_up)
                if (group.obj.get("status") or {}).get("phase") != phase:
                    path = f"/apis/{api}/namespaces/{group.namespace}/podgroups/{group.name}/status"
                    self._access.send("PATCH", path, {"status": {"phase": phase}}, MERGE_PATCH)
        return min(due, default=None)

    def _phase(self, group: Item) -> str:
        members = [p for p in self._access.items("pods", group.namespace) if group_of(p) == group.name]
        bound = [p for p in members if p.obj["spec"].get("nodeName")]
        return "Running" if len(bound) >= ((group.obj.get("spec") or {}).get("minMember") or 1) else "Inqueue"


class Queue:
    """A queue in the manner of Kueue: of the suspended jobs with its label it admits a limited number, oldest first."""

    def __init__(self, server: ApiServer, scenario: Scenario) -> None:
        self._access = Access(server, "queue")
        self._scenario = scenario

    def step(self) -> float | None:
        """Admit the next jobs, if there is room."""
        now, due = self._access.now, []
        queued: list[tuple[Item, str]] = []
        running = 0
        for framework in self._scenario.frameworks:
            for job in self._access.items(f"{framework.plural}.{framework.group}"):
                if QUEUE_LABEL not in (job.obj["metadata"].get("labels") or {}) or _finished(job):
                    continue
                policy = mapping_of(mapping_of(job.obj.get("spec")).get("runPolicy"))
                path = f"/apis/{framework.api_version}/namespaces/{job.namespace}/{framework.plural}/{job.name}"
                if policy.get("suspend"):
                    queued.append((job, path))
                else:
                    running += 1
        queued.sort(key=lambda entry: (entry[0].obj["metadata"]["creationTimestamp"], entry[1]))
        for job, path in queued[: max(self._scenario.admits - running, 0)]:
            at = parse_time(job.obj["metadata"]["creationTimestamp"]) + ADMISSION_SECONDS
            if now < at:
                due.append(at)
            else:
                self._access.send("PATCH", path, {"spec": {"runPolicy": {"suspend": False}}}, MERGE_PATCH)
        return min(due, default=None)


def _finished(job: Item) -> bool:
    conditions = (job.obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in _TERMINAL and one.get("status") == "True" for one in conditions)


def actors(server: ApiServer, scenario: Scenario, random: chance.Random) -> tuple[Controller, ...]:
    """Everything that plays in the scenario; `random` is asked once, for the salt of all that is drawn.

    The kinds of the frameworks, the scenario's objects and its jobs are created by the user as its first steps.
    """
    draw = drawing(random.getrandbits(64))
    kubelet, collector = Kubelet(server, scenario, draw), PodCollector(server, scenario)
    return (
        User(server, scenario),
        Nodes(server, scenario),
        Scheduler(server, draw, scenario.room),
        PodGroups(server),
        native_gangs.Protection(server),
        Kueue(server, scenario, draw) if scenario.settings.kueue else Queue(server, scenario),
        kubelet,
        collector,
        FaultInjector(server, scenario, kubelet, collector),
    )
