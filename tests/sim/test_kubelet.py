"""The kubelet model: runs by script, restarts and signals."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from jobcommon.client.request import Request
from jobcommon.testutil.builders import START
from jobcommon.testutil.sim.kubelet import Kubelet
from jobcommon.testutil.sim.platform import actors
from jobcommon.testutil.sim.scenario import Exit, Scenario
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
