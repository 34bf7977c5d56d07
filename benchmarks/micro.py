"""Micro-benchmarks of what costs CPU time, as ratios to a loop that is measured in between (`jobcommon.testutil.effort`).

::

    python -m benchmarks.micro            # print
    python -m benchmarks.micro --write    # make the new figures the baseline that the tests compare with
"""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec

from benchmarks.workloads import job_manifest
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView, pod_view
from jobcommon.api.replica import Replica
from jobcommon.api.timestamp import format_time
from jobcommon.cache.informer import Informer
from jobcommon.cache.store import Store
from jobcommon.client.request import Response
from jobcommon.controller.orphans import owner_keys
from jobcommon.controller.workqueue import WorkQueue
from jobcommon.diagnosis import Found, diagnose
from jobcommon.framework import Job
from jobcommon.operators.tf import TF
from jobcommon.reconcile import plan
from jobcommon.reconcile.plan import Create
from jobcommon.runtime.writes import request_for
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, services_of
from jobcommon.testutil.effort import effort

BASELINE = Path(__file__).with_name("micro.json")
NAMESPACE, NOW = "default", START + 60
# Beside other work few tries are undisturbed.
TRIES, TRIES_AT_MOST = 32, 640
PODS, FAILED = 200, 1000
# Of 2 kB, as a kubelet keeps it, and of 4 kB, all of which could begin an exception.
TRACEBACK = (
    "Traceback (most recent call last):\n"
    + 30 * '  File "/app/train.py", line 12, in main\n    run()\n'
    + "ValueError: no shard "
)
HOSTILE = 100 * "Traceback (most recent call last):\nE: x\n"
Subject = Callable[[], object]


def _middle() -> float:
    return 0.5


def _job(replicas: int, *, dynamic: bool = True) -> Job:
    raw = job_manifest(NAMESPACE, "job-0", replicas)
    raw["spec"]["enableDynamicWorker"] = dynamic
    raw["metadata"] |= {"uid": "uid-job-0", "resourceVersion": "1", "generation": 1}
    return read_job(TF, raw)


def _running(replicas: int) -> tuple[Job, Observed, list[bytes]]:
    """A job whose pods all run, so that there is nothing to do, and its pods as the API server gives them."""
    job = _job(replicas)
    pods = [msgspec.json.encode(Pod.of(TF, job, "Worker", n).running().raw) for n in range(replicas)]
    observed = Observed(pods=tuple(map(pod_view, pods)), services=services_of(TF, job))
    while (decided := plan(TF, job, observed, NOW)).status is not None:
        job = replace(job, status=decided.status, raw_status=decided.status.to_json())
    assert not decided.actions
    return job, observed, pods


def _failed(text: str) -> Subject:
    """The plan of a job of which 1,000 replicas have failed, each with that text and a number, that of the first always new."""
    job = _job(FAILED, dynamic=False)
    pods = [Pod.of(TF, job, "Worker", n).running().failed(1, START + n / 100).view for n in range(FAILED)]
    numbers = count()

    def printing(pod: PodView) -> PodView:
        (main,) = pod.containers
        state = msgspec.structs.replace(main.state, message=f"{text}{next(numbers)}" if text else "")  # type: ignore[type-var]
        return msgspec.structs.replace(pod, containers=(msgspec.structs.replace(main, state=state),))

    rest = tuple(map(printing, pods[1:]))
    return lambda: plan(TF, job, Observed(pods=(printing(pods[0]), *rest), services=services_of(TF, job)), NOW)


def _watching(pods: list[bytes]) -> Subject:
    """Watch lines decoded and stored: each pod changes once."""
    page = b'{"metadata": {"resourceVersion": "1"}, "items": [' + b",".join(pods) + b"]}"
    newer = [pod.replace(b'"resourceVersion":"1"', b'"resourceVersion":"2"') for pod in pods]
    lines = [b'{"type": "MODIFIED", "object": ' + pod + b"}" for pod in newer]

    def watch() -> Informer[PodView]:
        store: Store[PodView] = Store({"owner": owner_keys})
        informer = Informer("/api/v1/pods", pod_view, store, _middle)
        informer.next(0.0)
        informer.received(Response(200, page), 0.0)
        informer.next(0.0)
        for line in lines:
            informer.line(line, 1.0)
        return informer

    return watch


def _queueing() -> None:
    queue: WorkQueue[tuple[str, str]] = WorkQueue(_middle)
    for number in range(1000):
        queue.add(("team", f"job-{number}"))
    while (key := queue.get(0.0)) is not None:
        queue.done(key)


def _explaining(message: str) -> Subject:
    """Twenty failed jobs are explained, as a list does it, each with a message that was never read."""
    numbers = count()

    def explain() -> None:
        for number in range(20):
            failure = {"replica": "Worker-0", "pod": "job-worker-0", "reason": "Error", "exitCode": 1, "time": format_time(NOW)}
            failure["message"] = f"{message}{next(numbers)}"
            failed = {"type": "Failed", "status": "True", "reason": "TFJobFailed", "message": f"TFJob job-{number} has failed"}
            raw = job_manifest(NAMESPACE, f"job-{number}", 1)
            diagnose(Found(TF, {**raw, "status": {"conditions": [failed], "failures": [failure]}}), NOW)

    return explain


def subjects() -> Mapping[str, Subject]:
    """What is measured, by name."""
    now = NOW
    one, some, many = _running(1), _running(100), _running(5000)
    new, told = _job(PODS), _job(PODS, dynamic=False)
    creates = [action for action in plan(TF, new, Observed(), now).actions if isinstance(action, Create)]
    pods = _running(PODS)[2]
    return {
        "pods decoded: 200": lambda: [pod_view(pod) for pod in pods],
        "list and watch, decoded and stored: 200 pods, 200 changes": _watching(pods),
        "plan, nothing to do: 1 replica, 50 times": lambda: [plan(TF, *one[:2], now) for _ in range(50)],
        "plan, nothing to do: 100 replicas": lambda: plan(TF, *some[:2], now),
        "plan, nothing to do: 5,000 replicas": lambda: plan(TF, *many[:2], now),
        "plan, all to be created: 200 replicas": lambda: plan(TF, new, Observed(), now),
        "plan, 1,000 replicas have failed: without text": _failed(""),
        "plan, 1,000 replicas have failed: a traceback of each": _failed(TRACEBACK),
        "plan, 1,000 replicas have failed: 4 kB of each, hard to read": _failed(HOSTILE),
        "work queue: 1,000 keys added, taken, done": _queueing,
        "pods made and encoded: 200": lambda: [request_for(action, NAMESPACE) for action in creates],
        "failed jobs explained: 20 with a traceback": _explaining(TRACEBACK),
        "failed jobs explained: 20 with a hostile message": _explaining(HOSTILE),
        "TF_CONFIG with all addresses: 200 replicas": lambda: [TF.env(told, Replica("Worker", i)) for i in range(PODS)],
    }


def measure(subjects: Mapping[str, Subject], limits: Mapping[str, float] | None = None) -> dict[str, float]:
    """The effort of each subject. One above its limit is measured for longer, which can only find that it is less."""
    found = {name: effort(subject, -1.0, tries=TRIES) for name, subject in subjects.items()}
    for name, limit in (limits or {}).items():
        if found[name] > limit:
            found[name] = min(found[name], effort(subjects[name], limit, tries=TRIES_AT_MOST))
    return found


def baseline() -> dict[str, float]:
    """The committed figures."""
    return msgspec.json.decode(BASELINE.read_bytes(), type=dict[str, float])


def main() -> None:
    """Print the figures beside the baseline, or make them the baseline."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make these figures the baseline")
    given = parser.parse_args()
    found = measure(subjects())
    known = baseline() if BASELINE.exists() else {}
    for name, ratio in found.items():
        before = f"  baseline {known[name]:8.2f}" if name in known else ""
        print(f"{name:<60}{ratio:8.2f}{before}")
    if given.write:
        BASELINE.write_text(json.dumps({name: round(ratio, 3) for name, ratio in found.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
