"""Micro-benchmarks of the cache and the work queue: throughput on one core and memory per pod.

Run from the repository root: ``python -m benchmarks.cache [pods]``. The pod is a small
realistic one, with managedFields. Figures are the best of three rounds.
"""

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from time import process_time
from typing import Any

from jobcommon.api.labels import JOB_NAME, REPLICA_INDEX, REPLICA_TYPE
from jobcommon.api.pod import PodView, pod_view
from jobcommon.cache.informer import Informer
from jobcommon.cache.lister import Lister, owned_indexes
from jobcommon.cache.reflector import Reflector
from jobcommon.cache.store import Store
from jobcommon.client.request import Response
from jobcommon.workqueue import WorkQueue

ROUNDS = 3
WORKERS = 10


def middle() -> float:
    """In place of a random draw."""
    return 0.5


def a_pod(number: int) -> dict[str, Any]:
    """Worker `number` of a cluster full of jobs of ten workers."""
    job = f"job-{number // WORKERS}"
    env = [{"name": f"SETTING_{index}", "value": f"value-{index}" * 3} for index in range(30)]
    mounts = [{"name": f"volume-{index}", "mountPath": f"/mnt/volume-{index}"} for index in range(6)]
    return {
        "metadata": {
            "namespace": "team",
            "name": f"{job}-worker-{number % WORKERS}",
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "labels": {JOB_NAME: job, REPLICA_TYPE: "worker", REPLICA_INDEX: str(number % WORKERS), "app": "x"},
            "finalizers": ["training.kubeflow.org/job-tracking"],
            "ownerReferences": [
                {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": job, "uid": f"uid-{job}", "controller": True}
            ],
            "managedFields": [{"manager": "m", "fieldsV1": {f"f:{index}": {"f:x": {}} for index in range(120)}}],
        },
        "spec": {
            "nodeName": f"node-{number % 100}",
            "containers": [{"name": "pytorch", "image": "registry/image:tag", "env": env, "volumeMounts": mounts}],
            "volumes": [{"name": mount["name"], "emptyDir": {}} for mount in mounts],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-11-21T10:00:01Z",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T10:00:02Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "pytorch",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-11-21T10:00:02Z"}},
                }
            ],
        },
    }


def best(action: Callable[[], Any]) -> float:
    """CPU seconds of the fastest of a few rounds."""
    times = []
    for _ in range(ROUNDS):
        start = process_time()
        action()
        times.append(process_time() - start)
    return min(times)


def an_informer() -> Informer[PodView]:
    store: Store[PodView] = Store(owned_indexes(JOB_NAME))
    return Informer(Reflector("/api/v1/pods", pod_view, middle, streamed_lists=False), store)


def list_all(page: bytes) -> Informer[PodView]:
    """An informer that has taken in one long list and watches."""
    informer = an_informer()
    informer.next(0.0)
    informer.received(Response(200, page), 0.0)
    informer.next(0.0)
    return informer


def queue_round(count: int) -> None:
    """Add, take and finish `count` keys."""
    queue: WorkQueue[tuple[str, str]] = WorkQueue(middle)
    for number in range(count):
        queue.add(("team", f"job-{number}"))
    while (key := queue.get(0.0)) is not None:
        queue.done(key)


def main() -> None:
    """Print one line per measurement."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    pods = [json.dumps(a_pod(number)).encode() for number in range(count)]
    page = b'{"metadata": {"resourceVersion": "1"}, "items": [' + b",".join(pods) + b"]}"
    lines = [
        b'{"type": "MODIFIED", "object": ' + pod.replace(b'"resourceVersion": "', b'"resourceVersion": "9') + b"}"
        for pod in pods
    ]

    def report(what: str, seconds: float, number: int = count) -> None:
        print(f"{what:<42}{seconds / number * 1e6:9.1f} us {number / seconds:12,.0f} /s")

    print(f"{count} pods of {len(pods[0]) / 1024:.1f} KB")
    report("json.loads", best(lambda: [json.loads(pod) for pod in pods]))
    report("pod_view", best(lambda: [pod_view(pod) for pod in pods]))
    report("list page decoded and stored", best(lambda: list_all(page)))

    def watch() -> None:
        informer = list_all(page)
        for line in lines:
            informer.line(line, 1.0)

    report("watch event decoded and stored", best(watch) - best(lambda: list_all(page)))
    report("work queue: add, get, done", best(lambda: queue_round(count * 10)), count * 10)

    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    informer = list_all(page)
    gc.collect()
    print(f"{'memory per pod in the cache':<42}{(tracemalloc.get_traced_memory()[0] - before) / count / 1024:9.2f} KB")
    tracemalloc.stop()
    report("full garbage collection, per pod", best(gc.collect))
    lister = Lister(informer.store)
    report(
        "pods of a job", best(lambda: [lister.owned_by(f"uid-job-{job}") for job in range(count // WORKERS)]), count // WORKERS
    )


if __name__ == "__main__":
    main()
