"""Forty jobs of all states, some with long names and causes, for the layout of the pages. No cluster is needed."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

from jobcommon.api.timestamp import format_time
from jobcommon.cli.dashboard.server import serve_dashboard
from jobcommon.cli.embedded import InProcessTransport
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.framework import Framework, Job
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.reconcile import read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.testutil.builders import Pod, condition, job_manifest
from tests.runtime.fakes import crd
from tests.runtime.world import World

Json = dict[str, Any]
FRAMEWORKS = (PYTORCH, MPI, TF)
STATES = ("New", "Created", "Running", "Restarting", "Failed", "Succeeded", "Suspended", "Running")
NAMES = (
    "resnet", "bert-large-pretraining-2026-11", "llama-3-8b-finetune-customer-support-sweep-lr-3e-4",
    "gpt2", "whisper-small-de", "recommender-two-tower-nightly", "vit",
)  # fmt: skip
NAMESPACES = ("vision", "speech-and-language-research", "ml-platform")
AGES = (47, 95, 330, 900, 4000, 9000, 20_000, 100_000, 400_000, 3_000_000, 3)
UNSCHEDULABLE = (
    "0/12 nodes are available: 3 node(s) had untolerated taint {nvidia.com/gpu: present}, 4 Insufficient memory, 5 Insufficient"
    " nvidia.com/gpu. preemption: 0/12 nodes are available: 12 No preemption victims found for incoming pod"
)
PRINTED = """epoch 3 step 1180 loss 0.3127
epoch 3 step 1190 loss nan
Traceback (most recent call last):
  File "/workspace/train.py", line 214, in <module>
    main(parse())
  File "/workspace/train.py", line 187, in main
    raise ValueError(f"the loss of step {step} is {loss}; lower the learning rate")
ValueError: the loss of step 1190 is nan; lower the learning rate
"""


class WithLogs(InProcessTransport):
    """Each container has printed the same."""

    async def send(self, request: Request) -> Response:
        if not request.path.endswith("/log"):
            return await super().send(request)
        stamp = "2026-01-01T00:00:00Z " if ("timestamps", "true") in request.query else ""
        return Response(200, "".join(f"{stamp}{line}\n" for line in PRINTED.splitlines()).encode())


class Forty:
    """An API server with the jobs. `paths` has the page of the first job in each state."""

    def __init__(self) -> None:
        self.world = World()
        self.transport = WithLogs(self.world.server)
        self.paths: dict[str, str] = {}
        for framework in FRAMEWORKS:
            self.world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(framework))
        for namespace in NAMESPACES:
            self.world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        now, kinds, ages = time.time(), cycle(FRAMEWORKS), cycle(AGES)
        for number, name, namespace, state in zip(range(40), cycle(NAMES), cycle(NAMESPACES), cycle(STATES), strict=False):
            self._job(next(kinds), f"{name}-{number}", namespace, state, now - next(ages), now)

    def _job(self, framework: Framework, name: str, namespace: str, state: str, begin: float, now: float) -> None:
        self.world.clock.now += begin - self.world.clock.wall()
        leader = "Launcher" if framework is MPI else "Master" if framework is PYTORCH else "Chief"
        body = job_manifest(framework, {leader: 1, "Worker": 31 if "bert" in name else 2}, name=name, policy="ExitCode")
        body["metadata"] = {"name": name, "namespace": namespace}
        path = f"/apis/{framework.api_version}/namespaces/{namespace}/{framework.plural}"
        raw = self.world.ok("POST", path, body)
        job = read_job(framework, raw)
        self.paths.setdefault(state, f"/jobs/{framework.plural}/{namespace}/{name}")
        if state == "New":
            return
        self.world.ok("PATCH", f"{path}/{name}/status", {"status": status(job, state, begin, now)}, MERGE_PATCH)
        self._event(raw, begin, "Normal", "SuccessfulCreatePod", f"Created pod: {name}-worker-0")
        if state == "Created":
            self._event(raw, (begin + now) / 2, "Warning", "FailedScheduling", UNSCHEDULABLE)
        for replica in job.replicas if state != "Suspended" else ():
            manifest = pod_manifest(framework, job, replica)
            pod = Pod.created(framework, manifest).scheduled()
            last = replica.type == "Worker" and replica.index == 1
            pods = f"/api/v1/namespaces/{namespace}/pods"
            spec = {**manifest["spec"], "nodeName": "" if last and state == "Created" else "gpu-node-7"}
            self.world.ok("POST", pods, {**manifest, "spec": spec})
            self.world.ok(
                "PATCH", f"{pods}/{pod.name}/status", {"status": self._run(pod, state, last, begin, now)}, MERGE_PATCH
            )

    def _run(self, pod: Pod, state: str, last: bool, begin: float, now: float) -> Json:
        third = (now - begin) / 3
        if state == "Created" and last:
            return dict(pod.unschedulable(UNSCHEDULABLE).raw["status"])
        if last and state in ("Failed", "Restarting"):
            ended = pod.failed(1 if state == "Failed" else 137, at=begin + 2 * third)
        elif state == "Succeeded" or state == "Failed":
            ended = pod.succeeded(begin + 2 * third)
        else:
            return dict(pod.running(begin + third).raw["status"])
        (container,) = ended.raw["status"]["containerStatuses"]
        container["state"]["terminated"]["startedAt"] = format_time(begin + third)
        return dict(ended.raw["status"])

    def _event(self, about: Json, at: float, kind: str, reason: str, message: str) -> None:
        metadata = {"generateName": "event-", "namespace": about["metadata"]["namespace"]}
        of = {key: about["metadata"][key] for key in ("name", "namespace", "uid")} | {"kind": about["kind"]}
        times = {"firstTimestamp": format_time(at), "lastTimestamp": format_time(at), "count": 3}
        event = {"metadata": metadata, "involvedObject": of, "type": kind, "reason": reason, "message": message, **times}
        self.world.ok("POST", f"/api/v1/namespaces/{metadata['namespace']}/events", event)


def status(job: Job, state: str, begin: float, now: float) -> Json:
    """The status of a job in that state."""
    end = begin + (now - begin) * 2 / 3
    failed = "Worker-1: exited with code 1 (Error) on node gpu-node-7.eu-central.example.com"
    said = {
        "Created": f"{job.kind} {job.name} is created; waiting: Worker-1: {UNSCHEDULABLE}.",
        "Running": f"{job.kind} {job.key} is running.",
        "Restarting": f"{job.kind} {job.name} is restarting because {failed.replace('code 1 (Error)', 'code 137 (SIGKILL)')}",
        "Failed": f"{job.kind} {job.name} has failed because {failed}: ValueError: the loss of step 1190 is nan",
        "Succeeded": f"{job.kind} {job.key} successfully completed.",
        "Suspended": f"{job.kind} {job.name} is suspended.",
    }
    conditions = [condition("Created", at=begin), condition(state, message=said[state], at=end)]
    # Of the workers one waits, or has failed.
    less = int(state in ("Created", "Restarting", "Failed"))
    counted = {"Suspended": "", "Failed": "succeeded", "Succeeded": "succeeded"}.get(state, "active")
    counts = {kind: {counted: job.count(kind) - (less if kind == "Worker" else 0)} for kind in job.replica_specs if counted}
    made: Json = {"conditions": conditions, "startTime": format_time(begin), "replicaStatuses": counts}
    if state in ("Failed", "Restarting"):
        failure = {"replica": "Worker-1", "pod": f"{job.name}-worker-1", "node": "gpu-node-7.eu-central.example.com"}
        reason = {"reason": "Error", "exitCode": 1} if state == "Failed" else {"reason": "SIGKILL", "exitCode": 137}
        made |= {"failures": [{**failure, **reason, "time": format_time(end)}], "restarts": int(state == "Restarting")}
    return made | ({"completionTime": format_time(end)} if state in ("Failed", "Succeeded") else {})


@contextmanager
def dashboard_of_forty() -> Iterator[tuple[str, Forty]]:
    """A dashboard of them: its address with the token, and the jobs."""
    forty, loop = Forty(), asyncio.new_event_loop()
    served = serve_dashboard(forty.transport, FRAMEWORKS, where="https://10.0.0.1:6443")
    address = loop.run_until_complete(served.__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield address, forty
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(served.__aexit__(None, None, None))
        loop.close()
