"""The kubelet model: runs by script, restarts, signals, and what nodes do to pods."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from jobcommon.client.request import Request
from jobcommon.testutil.builders import START
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.kubelet import DOWN, PARTITIONED, Kubelet
from jobcommon.testutil.sim.platform import actors
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep
from localcluster import ApiServer, Controllers, Env
from localcluster.client import ADMIN

Obj = dict[str, Any]


class Rig:
    """A server, its controllers and the actors of a scenario under a clock that is moved by hand."""

    def __init__(self, **scenario: Any) -> None:
        self.now = START
        self.server = ApiServer(Env.seeded(1, lambda: self.now))
        exact: Obj = {"last_delete_seconds": (0.0, 0.0), "node_skew": 0.0}
        fields: Obj = {"name": "rig", "frameworks": (), "jobs": (), **exact, **scenario}
        self.actors = actors(self.server, Scenario(**fields), Random(1))
        self.controllers = Controllers(self.server, more=self.actors)
        self.kubelet = next(actor for actor in self.actors if isinstance(actor, Kubelet))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.controllers.step()) is not None and due <= end:
            assert due > self.now or self.controllers.step() != due, "a timer that does not go off"
            self.now = max(due, self.now)
        self.now = end
        self.controllers.step()

    def call(self, method: str, path: str, body: Any = None) -> Obj:
        data = None if body is None else msgspec.json.encode(body)
        response = self.server.handle(Request(method, path, body=data), ADMIN)
        assert response.status < 300, response.body
        answer: Obj = msgspec.json.decode(response.body)
        return answer

    def pod(self, name: str = "p") -> Obj:
        return self.call("GET", f"/api/v1/namespaces/default/pods/{name}")

    def create(self, name: str = "p", **spec: Any) -> None:
        containers = [{"name": "main", "image": "image"}]
        body = {"metadata": {"name": name}, "spec": {"containers": containers, "restartPolicy": "Never", **spec}}
        self.call("POST", "/api/v1/namespaces/default/pods", body)

    def there(self, name: str = "p") -> bool:
        return self.server.storage.table("pods").get("default", name) is not None


def rig(script: Sequence[Exit], pattern: str = "p", **more: Any) -> Rig:
    return Rig(behaviour={pattern: script}, **more)


def main_of(pod: Mapping[str, Any]) -> Obj:
    status: Obj = pod["status"]["containerStatuses"][0]
    return status


def test_a_pod_is_bound_starts_and_ends_by_its_script() -> None:
    world = rig([Exit(after=10, code=3, message="so it goes")])
    world.create()
    world.run(5)
    pod = world.pod()
    assert pod["status"]["phase"] == "Running"
    assert pod["spec"]["nodeName"].startswith("node-")
    assert {c["type"]: c["status"] for c in pod["status"]["conditions"]}["Ready"] == "True"
    world.run(10)
    pod = world.pod()
    assert pod["status"]["phase"] == "Failed"
    assert main_of(pod)["state"]["terminated"] | {"startedAt": 0, "finishedAt": 0, "containerID": 0} == {
        "exitCode": 3, "reason": "Error", "message": "so it goes", "startedAt": 0, "finishedAt": 0, "containerID": 0,
    }  # fmt: skip
    assert world.kubelet.runs == {"p": 1}


def test_an_idle_kubelet_writes_no_status() -> None:
    world = rig([Exit(after=10)])
    world.create()
    world.run(60)
    version = world.server.storage.rv
    world.run(3600)
    assert world.server.storage.rv == version


def test_on_failure_restarts_with_back_off() -> None:
    world = rig([Exit(after=1, code=1), Exit(after=1, code=1), Exit(after=1, code=0)])
    world.create(restartPolicy="OnFailure")
    world.run(6)
    pod = world.pod()
    assert main_of(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert main_of(pod)["restartCount"] == 1
    world.run(12)
    assert world.pod()["status"]["phase"] == "Succeeded"
    assert world.kubelet.runs == {"p": 3}


@pytest.mark.parametrize(("stop", "code", "after"), [(0.5, 143, 1), (90, 137, 10)])
def test_a_deleted_pod_gets_its_signal_and_its_grace(stop: float, code: int, after: float) -> None:
    world = rig([Exit(stop=stop, term=143)])
    world.create(terminationGracePeriodSeconds=10)
    world.run(5)
    last: list[Obj] = []
    feed = world.server.storage.feed()
    world.call("DELETE", "/api/v1/namespaces/default/pods/p")
    world.run(after - 0.9)
    assert world.there()
    world.run(1)
    assert not world.there()
    last = [change.item.obj for change in feed if change.table == "pods"]
    assert main_of(last[-1])["state"]["terminated"]["exitCode"] == code


def test_a_finalizer_keeps_a_pod_that_is_over() -> None:
    world = rig([Exit(term=143)])
    world.create()
    world.call(
        "PUT",
        "/api/v1/namespaces/default/pods/p",
        world.pod() | {"metadata": world.pod()["metadata"] | {"finalizers": ["a/b"]}},
    )
    world.run(5)
    world.call("DELETE", "/api/v1/namespaces/default/pods/p")
    world.run(60)
    pod = world.pod()
    assert pod["status"]["phase"] == "Failed"
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 0


def test_init_containers_come_first_and_a_failing_one_fails_the_pod() -> None:
    world = Rig(behaviour={"p/init": [Exit(after=3, code=2)]})
    world.create(initContainers=[{"name": "init", "image": "image"}])
    world.run(2)
    assert world.pod()["status"]["phase"] == "Pending"
    world.run(10)
    pod = world.pod()
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 2
    assert world.kubelet.runs == {}


def test_a_pod_waits_for_the_secret_it_mounts() -> None:
    world = rig([Exit(after=1)])
    world.create(volumes=[{"name": "keys", "secret": {"secretName": "keys"}}])
    world.run(60)
    assert main_of(world.pod())["state"]["waiting"]["reason"] == "ContainerCreating"
    world.call("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "keys"}})
    world.run(10)
    assert world.pod()["status"]["phase"] == "Succeeded"


def test_oom_and_eviction() -> None:
    world = Rig(behaviour={"oom": [Exit(after=1, code=137, cause="OOMKilled")], "evicted": [Exit(after=1, cause="Evicted")]})
    world.create("oom")
    world.create("evicted", restartPolicy="Always")
    world.run(10)
    assert main_of(world.pod("oom"))["state"]["terminated"]["reason"] == "OOMKilled"
    pod = world.pod("evicted")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
    assert "DisruptionTarget" in {c["type"] for c in pod["status"]["conditions"]}
    assert world.kubelet.runs["evicted"] == 1


def step(name: str, do: user.Do, at: float) -> UserStep:
    return UserStep(name, do, at=at)


def test_a_node_that_goes_down_and_comes_back_has_lost_its_containers() -> None:
    steps = (step("down", user.set_node("p", DOWN), 5), step("up", user.wake_nodes, 20))
    world = rig([Exit(after=30)], user=steps)
    world.create()
    world.run(19)
    assert world.pod()["status"]["phase"] == "Running", "the API server has not noticed yet"
    world.run(10)
    pod = world.pod()
    assert pod["status"]["phase"] == "Failed"
    assert main_of(pod)["state"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_a_partitioned_nodes_pod_runs_on_and_tells_of_it_later() -> None:
    world = rig([Exit(after=10)], user=(step("cut", user.set_node("p", PARTITIONED), 5), step("heal", user.wake_nodes, 30)))
    world.create()
    world.run(25)
    assert world.pod()["status"]["phase"] == "Running"
    world.run(10)
    assert world.pod()["status"]["phase"] == "Succeeded"


def test_pods_of_a_lost_node_are_deleted_after_the_toleration() -> None:
    world = rig([Exit()], user=(step("down", user.set_node("p", DOWN), 5), step("gone", user.remove_node("p"), 600)))
    world.create()
    world.run(300)
    assert "deletionTimestamp" not in world.pod()["metadata"]
    world.run(100)
    assert "deletionTimestamp" in world.pod()["metadata"]
    assert "DisruptionTarget" in {c["type"] for c in world.pod()["status"]["conditions"]}
    world.run(150)
    assert world.there(), "terminating for ever, until the node is gone"
    world.run(100)
    assert not world.there()


def test_drain_evicts_and_finished_pods_are_collected() -> None:
    world = rig([Exit()], user=(step("drain", user.drain("p"), 5),))
    world.create()
    world.run(10)
    assert not world.there()
    world = Rig(behaviour={"*": [Exit(after=1)]}, keep_finished=1)
    world.create("a")
    world.create("b")
    world.run(45)
    assert [world.there("a"), world.there("b")].count(True) == 1


def test_a_program_on_a_node_that_is_cut_off_runs_on_and_a_second_one_is_noticed() -> None:
    """Its kubelet hears of no deletion, not even of one by force."""
    world = rig([Exit()], user=(UserStep("cut", user.set_node("p", PARTITIONED), when=user.running("p")),))
    world.create()
    world.run(10)
    world.call("DELETE", "/api/v1/namespaces/default/pods/p", {"gracePeriodSeconds": 0})
    world.run(100)
    assert not world.there()
    assert [name for _, name in world.kubelet.live] == ["main"]
    world.create()
    world.run(10)
    assert len(list(world.kubelet.live)) == 2
    (doubled,) = world.kubelet.doubled
    assert doubled.startswith("slot-doubled: pods/p still runs on node-")
    user.wake_nodes(world.server)
    world.run(10)
    assert len(list(world.kubelet.live)) == 1


def test_pods_of_a_node_out_of_service_end_once_they_are_being_deleted() -> None:
    off = (
        UserStep("down", user.set_node("p", DOWN), when=user.running("p")),
        UserStep("off", user.out_of_service("p"), after=100),
    )
    world = rig([Exit()], user=off)
    world.create(
        tolerations=[
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 30, "effect": "NoExecute"}
        ]
    )
    world.run(99)
    assert "deletionTimestamp" in world.pod()["metadata"]
    world.run(10)
    assert not world.there()
