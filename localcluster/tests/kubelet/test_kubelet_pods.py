"""Pods as real processes: what runs in them, how they end, what is reported."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from localcluster.apiserver import ADMIN
from localcluster.apiserver.inprocess import InProcessTransport
from localcluster.kubelet.process import Isolation, Launch, ShimProcess, detect
from localcluster.request import MERGE_PATCH, Request, Response
from tests.kubelet.process_cluster import PODS, Cluster, cluster, pod, processes_with, shell, state
from tests.polling import PATIENCE, polled

pytestmark = pytest.mark.cluster

ANY_ISOLATION = [None, Isolation(namespaces=False)]


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as running:
        yield running


def ended_with(found: dict[str, Any]) -> tuple[str, int, str]:
    terminated = state(found)["state"]["terminated"]
    return found["status"]["phase"], terminated["exitCode"], terminated["reason"]


async def test_a_device_that_the_machine_does_not_have_is_reported_once(tmp_path: Path) -> None:
    resources = {"limits": {"example.com/fpga": "1", "cpu": "1"}}
    async with cluster(tmp_path) as local:
        for name in ("first", "second"):
            await local.create(shell(name, "true", resources=resources))
            await local.ended(name)
            await local.told(name, "Started")
        event = await local.told("first", "NoSuchDevice")
        assert event["message"].startswith("this machine has no example.com/fpga: the pod runs without")
        assert "NoSuchDevice" not in [event["reason"] for event in await local.events("second")]


@pytest.mark.parametrize("isolation", ANY_ISOLATION, ids=["best", "fallback"])
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo out; echo err >&2; exit 0", ("Succeeded", 0, "Completed")),
        ("exit 3", ("Failed", 3, "Error")),
        ("kill -9 $$$$", ("Failed", 137, "Error")),
        ("kill -15 $$$$", ("Failed", 143, "Error")),
    ],
)
async def test_exit_codes(tmp_path: Path, isolation: Isolation | None, script: str, expected: tuple[str, int, str]) -> None:
    async with cluster(tmp_path, isolation=isolation) as local:
        await local.create(shell("p", script))
        found = await local.ended("p")
        assert ended_with(found) == expected
        assert found["spec"]["nodeName"] == "local"
        if expected[1] == 0:
            assert sorted((await local.logs("p")).split()) == ["err", "out"]
            for reason in ("Scheduled", "Created", "Started"):
                await local.told("p", reason)


@pytest.mark.parametrize(
    ("command", "content", "message"),
    [
        ("no-such-program", b"", 'exec: "no-such-program": executable file not found in $PATH'),
        ("/no/such/file", b"", 'exec: "/no/such/file": stat /no/such/file: no such file or directory'),
        ("/etc/hostname", b"", 'exec: "/etc/hostname": permission denied'),
        ("", b"#!/bin/bash\r\ntrue\r\n", "exec {}: no such file or directory (its first line: '#!/bin/bash\\r\\n')"),
        ("", b"true\n", "exec {}: exec format error"),
    ],
)
async def test_a_command_that_cannot_start(local: Cluster, tmp_path: Path, command: str, content: bytes, message: str) -> None:
    script = tmp_path / "run"
    script.write_bytes(content)
    script.chmod(0o755)
    message = message.format(script)
    await local.create(pod("p", command or str(script)))
    found = await local.ended("p")
    assert ended_with(found) == ("Failed", 128, "StartError")
    assert state(found)["state"]["terminated"]["message"] == message
    warning = await local.told("p", "Failed")
    assert (warning["type"], warning["message"]) == ("Warning", f'Error: failed to start container "main": {message}')
    assert warning["involvedObject"]["fieldPath"] == "spec.containers{main}"


async def test_a_pod_without_a_command_says_why_it_waits(local: Cluster) -> None:
    await local.create(pod("p"))
    found = await local.until("p", lambda s: s.get("containerStatuses"))
    waiting = state(found)["state"]["waiting"]
    assert waiting["reason"] == "ErrImageNeverPull"
    assert "Give container 'main' a command" in waiting["message"]
    warning = await local.told("p", "Failed")
    assert (warning["type"], warning["message"]) == ("Warning", waiting["message"])


async def test_an_image_is_read_when_the_volumes_are_there(local: Cluster) -> None:
    spec = {"volumes": [{"name": "v", "configMap": {"name": "cm"}}]}
    await local.create(
        pod("p", "true", spec=spec, image="none:latest:stopped", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    )
    found = await local.until("p", lambda s: s.get("containerStatuses"))
    assert state(found)["state"]["waiting"]["reason"] == "ContainerCreating"
    await local.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "1"}})
    await local.until("p", lambda s: s["containerStatuses"][0]["state"].get("waiting", {}).get("reason") == "InvalidImageName")


async def test_environment_volumes_and_names(local: Cluster) -> None:
    data = {"a": "one", "run": "#!/bin/sh\necho ran"}
    await local.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": data})
    await local.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    volumes = [
        {"name": "c", "configMap": {"name": "cm", "items": [{"key": "run", "path": "run.sh", "mode": 0o555}]}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "e", "emptyDir": {}},
        {"name": "top", "configMap": {"name": "cm"}},
    ]
    mounts = [
        {"name": "c", "mountPath": "/etc/not-there-before"},
        {"name": "s", "mountPath": "/root/.new/ssh"},
        {"name": "e", "mountPath": "/scratch"},
        {"name": "top", "mountPath": "/etc/top/a", "subPath": "a"},
    ]
    env = [
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "a"}}},
    ]
    script = (
        "/etc/not-there-before/run.sh; cat /root/.new/ssh/key; echo; cat /etc/top/a; echo; echo x > /scratch/x; cat /scratch/x;"
        "hostname; cat /etc/hostname; getent ahostsv4 p.job.default.svc.cluster.local | head -1; echo $0 $(A);"
        "touch /etc/top/a 2>/dev/null && echo writable || echo read-only; pwd; echo why > /dev/termination-log"
    )
    spec = {"volumes": volumes, "hostname": "p", "subdomain": "job"}
    main = {"command": ["sh", "-c", script, "$(IP)"], "volumeMounts": mounts, "env": env, "workingDir": "/usr"}
    item = shell("p", script, spec=spec)
    item["spec"]["containers"] = [{"name": "main", "image": "none", **main}]
    await local.create(item)
    found = await local.ended("p")
    address = found["status"]["podIP"]
    log = await local.logs("p")
    lines = log.splitlines()
    assert lines[:6] == ["ran", "hidden", "one", "x", "p", "p"], log
    assert re.fullmatch(rf"{re.escape(address)}\s.*", lines[6])
    assert lines[7:] == [f"{address} one", "read-only", "/usr"]
    assert state(found)["state"]["terminated"]["message"] == "why\n"
    assert not {"not-there-before", "scratch"} & {entry.name for place in ("/etc", "/") for entry in os.scandir(place)}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("seq 1 100; exit 1", "\n".join(map(str, range(21, 101)))),
        ("printf 'x%.0s' $(seq 1 3000); echo; exit 1", "x" * 2048),
        ("echo log; echo why > /dev/termination-log; exit 1", "why\n"),
        ("echo log; exit 0", None),
    ],
)
async def test_the_end_of_the_log_is_the_message_of_a_container_that_failed(
    local: Cluster, script: str, message: str | None
) -> None:
    """At most 80 lines and 2,048 bytes, as of a real kubelet; its own message comes first."""
    await local.create(shell("p", script, terminationMessagePolicy="FallbackToLogsOnError"))
    assert state(await local.ended("p"))["state"]["terminated"].get("message") == message


async def test_a_mounted_config_map_follows_the_object(local: Cluster) -> None:
    await local.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"hosts": "one"}})
    volume = {"volumes": [{"name": "c", "configMap": {"name": "cm"}}]}
    script = "until grep -q two /etc/mpi/hosts; do sleep 0.05; done; cat /etc/mpi/hosts"
    await local.create(shell("p", script, spec=volume, volumeMounts=[{"name": "c", "mountPath": "/etc/mpi"}]))
    await local.running("p")
    await local.api.patch("/api/v1/namespaces/default/configmaps/cm", {"data": {"hosts": "two"}})
    await local.ended("p")
    assert await local.logs("p") == "two\n"


async def test_a_pod_waits_for_its_claim_which_its_first_consumer_binds(local: Cluster) -> None:
    claim = "/api/v1/namespaces/default/persistentvolumeclaims"
    mounted = {
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "mine"}}],
        "containers": [
            {"name": "main", "image": "i", "command": ["ls", "/v"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        ],
    }
    await local.create(pod("p", spec=mounted))
    waiting = await local.until("p", lambda status: status.get("conditions"))
    (scheduled,) = waiting["status"]["conditions"]
    said = '0/1 nodes are available: persistentvolumeclaim "mine" not found.'
    assert (scheduled["status"], scheduled["reason"], scheduled["message"]) == ("False", "Unschedulable", said)
    assert "nodeName" not in waiting["spec"]
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}, "spec": spec}
    made = await local.api.call("POST", claim, body)
    assert made["status"] == {"phase": "Pending"}
    assert (await local.ended("p"))["status"]["phase"] == "Succeeded"
    bound = await local.api.get(f"{claim}/mine")
    assert bound is not None
    assert bound["status"] == {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}}


async def test_an_annotation_that_the_answer_to_a_status_write_brings_reaches_its_file(
    local: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watch event then comes late, and is no news any more."""
    send, met = InProcessTransport.send, list[str]()

    async def meeting(self: InProcessTransport, request: Request) -> Response:
        if met or not request.path.endswith("/p/status") or b'"running"' not in (request.body or b""):
            return await send(self, request)
        met.append(request.path)
        body = json.dumps({"metadata": {"annotations": {"told": "go on"}}}).encode()
        # Both in one turn: the watch has none between them.
        self._server.handle(Request("PATCH", f"{PODS}/p", (), body, MERGE_PATCH), ADMIN)
        return self._server.handle(request, ADMIN)

    monkeypatch.setattr(InProcessTransport, "send", meeting)
    told = {"path": "told", "fieldRef": {"fieldPath": "metadata.annotations['told']"}}
    spec = {"volumes": [{"name": "v", "downwardAPI": {"items": [told]}}]}
    script = "until [ -s /v/told ]; do sleep 0.05; done; cat /v/told"
    await local.create(shell("p", script, spec=spec, volumeMounts=[{"name": "v", "mountPath": "/v"}]))
    await local.ended("p")
    assert (await local.logs("p"), len(met)) == ("go on\n", 1)


async def test_an_answer_that_is_older_than_what_the_watch_has_brought_is_no_news(
    local: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image that starts the container again is seen before the answer to the write that it waits: it must not be lost."""
    send, met = InProcessTransport.send, list[str]()

    async def late(self: InProcessTransport, request: Request) -> Response:
        answer = await send(self, request)
        if not met and request.path.endswith("/p/status") and b"InvalidImageName" in (request.body or b""):
            met.append(request.path)
            newer = await local.api.patch(f"{PODS}/p", {"spec": {"containers": [{"name": "main", "image": "none:attempt-1"}]}})
            version = newer["metadata"]["resourceVersion"]

            await polled(lambda: local.kubelet.pod("default", "p"), lambda pod: pod["metadata"]["resourceVersion"] == version)
        return answer

    monkeypatch.setattr(InProcessTransport, "send", late)
    await local.create(shell("p", "exec sleep 999", image="none:latest:stopped"))
    assert state(await local.running("p"))["image"] == "none:attempt-1"
    assert met


async def test_init_containers_and_sidecars(local: Cluster) -> None:
    mount = [{"name": "e", "mountPath": "/e"}]
    inits = [
        {"name": "one", "image": "none", "command": ["sh", "-c", "echo one >> /e/log"], "volumeMounts": mount},
        {"name": "side", "image": "none", "command": ["sh", "-c", "echo side >> /e/log; sleep 1000"],
         "restartPolicy": "Always", "volumeMounts": mount,
         "startupProbe": {"exec": {"command": ["grep", "-q", "side", "/e/log"]}, "periodSeconds": 1, "timeoutSeconds": 100}},
        {"name": "two", "image": "none", "command": ["sh", "-c", "echo two >> /e/log"], "volumeMounts": mount},
    ]  # fmt: skip
    # Long enough to end by SIGTERM on a busy machine.
    spec = {"initContainers": inits, "volumes": [{"name": "e", "emptyDir": {}}], "terminationGracePeriodSeconds": 100}
    await local.create(shell("p", "cat /e/log", spec=spec, volumeMounts=mount))
    found = await local.ended("p")
    assert await local.logs("p") == "one\nside\ntwo\n"
    assert found["status"]["phase"] == "Succeeded"
    assert state(found, "side")["state"]["terminated"]["exitCode"] == 143


async def test_a_container_stopped_while_it_starts_ends(tmp_path: Path) -> None:
    """The letters T and K may reach the shim together with its specification."""
    devnull = os.open(os.devnull, os.O_RDWR)
    gone = asyncio.Event()
    messages: list[dict[str, Any]] = []
    launch = Launch(["sleep", "1000"], {"PATH": os.defpath}, await detect(), stdout=devnull, stderr=devnull, hostname="h")
    process = ShimProcess(launch, messages.append, gone.set)
    process.start()
    process.terminate()
    process.kill()
    async with asyncio.timeout(PATIENCE):
        await gone.wait()
    os.close(devnull)
    assert messages[-1]["exited"] in (137, 143)


async def test_a_deleted_pod_has_its_last_status_before_its_last_delete(local: Cluster) -> None:
    """The order of the real kubelet: containers end, the phase is terminal, and only then the DELETE with period 0."""
    item = shell("p", "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done", spec={"terminationGracePeriodSeconds": 9})
    item["metadata"]["finalizers"] = ["example.com/keep"]
    await local.create(item)
    await local.running("p")
    await local.log_with("p", "up")
    before = await local.get("p")
    assert before is not None
    await local.delete("p")
    seen = []
    query = (("watch", "true"), ("resourceVersion", before["metadata"]["resourceVersion"]))
    async with asyncio.timeout(PATIENCE), aclosing(local.api.stream(PODS, query)) as lines:  # type: ignore[type-var]
        async for line in lines:
            found = json.loads(line)["object"]
            ended = "terminated" in state(found)["state"]
            seen.append((found["status"]["phase"], ended, found["metadata"]["deletionGracePeriodSeconds"]))
            if seen[-1][-1] == 0:
                break
    assert seen[0] == ("Running", False, 9)
    assert seen[-2:] == [("Failed", True, 9), ("Failed", True, 0)]
    finished = state(found)["state"]["terminated"]["finishedAt"]
    assert found["metadata"]["deletionTimestamp"] >= finished, "as from Kubernetes 1.33 on"


async def test_liveness_restarts_and_readiness_reports(local: Cluster) -> None:
    probe = {"exec": {"command": ["test", "-e", "/e/dead"]}, "periodSeconds": 1, "failureThreshold": 1}
    spec = {"restartPolicy": "Always", "volumes": [{"name": "e", "emptyDir": {}}], "terminationGracePeriodSeconds": 100}
    mount = [{"name": "e", "mountPath": "/e"}]
    await local.create(shell("live", "sleep 1000", spec=spec, livenessProbe=probe, volumeMounts=mount))
    port = {"containerPort": 18080, "name": "http"}
    http = {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 1}
    command = ["python", "-m", "http.server", "18080", "--bind", "web"]
    await local.create(pod("web", *command, ports=[port], readinessProbe=http))
    await local.running("web")
    found = await local.until(
        "live", lambda s: s["containerStatuses"][0]["restartCount"] > 0 if s.get("containerStatuses") else 0
    )
    assert state(found)["lastState"]["terminated"]["exitCode"] == 143
    await local.told("live", "Unhealthy")


LISTENER = """
import asyncio, socket, time
four = socket.create_server(("0.0.0.0", 23456))
six = socket.create_server(("::", 23457), family=socket.AF_INET6, dualstack_ipv6=True)
own = socket.create_server(("127.0.0.1", 23458))
async def serve():
    both = await asyncio.start_server(lambda r, w: None, None, 23459)
    both.close()
asyncio.run(serve())
for port, server in ((23456, four), (23457, six), (23458, own)):
    with socket.create_connection(("localhost", port)) as client:
        server.accept()[0].close()
        print(client.getpeername()[0])
print("up", flush=True)
time.sleep(1000)
"""


async def test_each_pod_has_ports_of_its_own(local: Cluster) -> None:
    """Two jobs use one port at a time: a wildcard listener must neither block nor receive what is meant for another pod."""
    addresses = {}
    for name in ("a", "b"):
        await local.create(pod(name, "python", "-c", LISTENER))
        found = await local.running(name)
        addresses[name] = found["status"]["podIP"]
    for name, address in addresses.items():
        assert (await local.log_with(name, "up")).split() == [address, address, address, "up"]
    code, _ = await local.exec("a", "python", "-c", "import socket; socket.create_connection(('localhost', 23456))")
    assert code == 0
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", 23458)


async def test_no_process_outlives_its_container(local: Cluster) -> None:
    mark = f"tag-{os.getpid()}-tree"
    stray = f"sh -c 'sleep 1000; : {mark}'"
    script = f"{stray} & setsid {stray} & (setsid {stray} &) ; sleep 0.1"
    await local.create(shell("p", script))
    await local.ended("p")
    assert processes_with(mark) == []
