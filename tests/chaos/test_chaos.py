"""Real processes under kill -9: the embedded cluster, the operator, and pods that write down how they start and end."""

import asyncio
import json
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from time import time
from typing import Any

import pytest

from jobcommon.api.reasons import BACKOFF_LIMIT_EXCEEDED
from jobcommon.api.status import ConditionType, read_status
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.builders import Manifest
from jobcommon.testutil.polling import polled
from jobcommon.testutil.processes import MARKER, Ground, until_none_marked

FRAMEWORKS = (TF, PYTORCH, MPI, MXNET)
TYPES: Mapping[str, tuple[str, ...]] = {
    TF.kind: ("Chief", "Worker"),
    PYTORCH.kind: ("Master", "Worker"),
    MPI.kind: ("Launcher",),
    MXNET.kind: ("Scheduler", "Worker"),
}
LIMIT = 2
#: How the leader's replica ends, as a shell expression of how often it has failed before; the others succeed.
SCRIPTS: Mapping[str, tuple[str, str]] = {
    "succeeds": ("ExitCode", "0"),
    "retries": ("ExitCode", "$(( fails < 1 ? 137 : 0 ))"),
    "exhausts": ("ExitCode", "137"),
    "fails": ("ExitCode", "3"),
    "never": ("Never", "0"),
}
OPERATOR_KILLS, CLUSTER_KILLS = 5, 3


@dataclass
class Run:
    """One run of a pod's script; without an end when it was cut short."""

    pod: str
    uid: str
    started: float
    ended: float | None = None
    code: int | None = None


@dataclass
class Seen:
    """What was seen from outside: spans in which the cluster was dead, and by UID when a pod's success was first on record."""

    dead: list[tuple[float, float]] = field(default_factory=list)
    succeeded: dict[str, float] = field(default_factory=dict)

    def killed_between(self, start: float, end: float) -> bool:
        """Whether the cluster was killed then; until it is known to be gone, processes may still write."""
        return any(start <= moment <= end for span in self.dead for moment in span)


def a_job(framework: Framework, script: str, ledger: Path, marker: str, seconds: float) -> Manifest:
    """A job of one replica of each type, whose leader does what the script says."""
    policy, code = SCRIPTS[script]
    if framework is MPI and policy == "Never":
        policy = "ExitCode"  # a launcher is run again whatever its policy says
    env = [{"name": MARKER, "value": marker}]
    for name, path in (("POD", "metadata.name"), ("POD_UID", "metadata.uid")):
        env.append({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})  # type: ignore[dict-item]
    specs = {}
    for kind in TYPES[framework.kind]:
        ending = code if kind == TYPES[framework.kind][0] else "0"
        # A line is one write, and so whole or not there.
        command = (
            f'echo "start $POD $POD_UID $(date +%s.%N)" >> {ledger}; sleep {seconds:.2f}; '
            f'fails=$(grep -c "^end $POD .* 137$" {ledger}); code={ending}; '
            f'echo "end $POD $POD_UID $(date +%s.%N) $code" >> {ledger}; exit $code'
        )
        container = {"name": framework.container or "main", "image": "any", "command": ["sh", "-c", command], "env": env}
        pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        specs[kind] = {"replicas": 1, "restartPolicy": policy, "template": {"spec": pod}}
    return {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {"name": f"{framework.name}-{script}", "namespace": "default"},
        "spec": {"runPolicy": {"backoffLimit": LIMIT}, framework.replica_specs: specs},
    }


def read_ledger(text: str) -> list[Run]:
    """The runs in the order in which they began."""
    runs: list[Run] = []
    last: dict[str, Run] = {}
    for line in text.splitlines():
        word, pod, uid, moment, *code = line.split(" ")
        if word == "start":
            last[uid] = Run(pod, uid, float(moment))
            runs.append(last[uid])
        else:
            last[uid].ended, last[uid].code = float(moment), int(code[0])
    return runs


def surplus_runs(runs: Sequence[Run], seen: Seen) -> Iterator[str]:
    """Runs that must not have happened: of a success that is on record, of what had not ended, and twice in one pod."""
    by_pod: Mapping[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_pod[run.pod].append(run)
    for pod, series in by_pod.items():
        for before, after in pairwise(series):
            killed = seen.killed_between(before.ended or before.started, after.started)
            if seen.succeeded.get(before.uid, after.started) < after.started:
                yield f"{pod} ran again after its success was on record"
            elif before.code in (0, None) and not killed:
                yield f"{pod} ran again, though its run {'had succeeded' if before.code == 0 else 'had not ended'}"
            if before.uid == after.uid:
                yield f"{pod} was started twice in one pod"


def wrong_end(name: str, framework: Framework, raw: Any, runs: Sequence[Run]) -> str:
    """What is wrong with the end of a job and with the number of its runs; "" if nothing is."""
    status, script = read_status(raw), name.rpartition("-")[2]
    last = status.conditions[-1] if status.conditions else None
    if last is None or not status.finished or status.completion_time is None:
        return f"{name} has not come to an end"
    told = f"{name} is {last.type} {last.reason}: {last.message}"
    leader = [run for run in runs if run.pod.startswith(f"{name}-{TYPES[framework.kind][0].lower()}")]
    match script:
        case "exhausts":
            lost = status.disruptions or 0
            exact = LIMIT + 1 <= len(leader) <= LIMIT + 1 + lost
            return "" if last.reason == BACKOFF_LIMIT_EXCEEDED and exact else f"{told}; {len(leader)} runs, {lost} disruptions"
        case "fails":
            return "" if last.type == ConditionType.FAILED else told
        case "never" if framework is not MPI and "ContainerStatusUnknown" in (last.message or ""):
            return ""  # a run was lost with the cluster
    return "" if last.type == ConditionType.SUCCEEDED else told


class Trial(Ground):
    """The processes, what is done to them, and what is seen meanwhile."""

    def watch_for(self, jobs: Mapping[str, str], seen: Seen) -> None:
        self.paths, self.seen, self.faults = jobs, seen, list[str]()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self.transport.send(Request(method, path, body=None if body is None else json.dumps(body).encode()))
        return json.loads(answer.body) if answer.status < 300 else None

    async def kill_operators(self, chance: Random) -> None:
        (operator,) = self.operators
        for _ in range(OPERATOR_KILLS):
            await asyncio.sleep(chance.uniform(2.0, 4.0))
            self.faults += ["the operator died by itself"] if operator.died else []
            await operator.kill()
            await operator.start()

    async def kill_cluster(self, chance: Random) -> None:
        for _ in range(CLUSTER_KILLS):
            await asyncio.sleep(chance.uniform(4.0, 6.0))
            self.faults += ["the cluster died by itself"] if self.cluster.died else []
            began = time()
            await self.cluster.kill()
            spared = {operator.running.pid for operator in self.operators if operator.running is not None}
            await until_none_marked(self.marker, spared)
            self.seen.dead.append((began, time()))
            await self.cluster.start()
            await self.until_up()

    async def statuses(self) -> dict[str, Any]:
        return {name: ((await self.ask("GET", path)) or {}).get("status") for name, path in self.paths.items()}

    async def all_finished(self) -> bool:
        """Whether all jobs have ended. The successes of pods are noted while the pods exist."""
        asked = time()
        for pod in ((await self.ask("GET", "/api/v1/namespaces/default/pods")) or {"items": ()})["items"]:
            if (pod.get("status") or {}).get("phase") == "Succeeded":
                self.seen.succeeded.setdefault(pod["metadata"]["uid"], asked)
        return all(read_status(status).finished for status in (await self.statuses()).values())


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_all_jobs_end_right_and_nothing_runs_twice(tmp_path: Path) -> None:
    """A job of every kind and script; operator and cluster are killed while they run."""
    chance, ledger, marker, seen = Random(1), tmp_path / "ledger", uuid.uuid4().hex, Seen()
    made = {}
    for framework in FRAMEWORKS:
        for script in SCRIPTS:
            manifest = a_job(framework, script, ledger, marker, chance.uniform(0.5, 3.0))
            made[manifest["metadata"]["name"]] = framework, manifest
    collections = {f.kind: f"/apis/{f.api_version}/namespaces/default/{f.plural}" for f in FRAMEWORKS}
    ground = Trial(tmp_path / "ground", marker)
    ground.watch_for({name: f"{collections[framework.kind]}/{name}" for name, (framework, _) in made.items()}, seen)
    try:
        await ground.open()
        await ground.add_operator().start()
        for framework, manifest in made.values():
            assert await ground.ask("POST", collections[framework.kind], manifest)
        async with asyncio.TaskGroup() as tasks:
            # While the cluster is down it does not answer; what it had said stays on record.
            tasks.create_task(polled(ground.all_finished, seconds=500, retry_on=ClientError))
            tasks.create_task(ground.kill_operators(chance))
            tasks.create_task(ground.kill_cluster(chance))
        statuses = await ground.statuses()
        ground.faults += await ground.close()
    finally:
        await ground.abandon()
    assert ground.faults == []
    await until_none_marked(marker)
    runs = read_ledger(ledger.read_text())
    assert list(surplus_runs(runs, seen)) == []
    assert [said for name, (framework, _) in made.items() if (said := wrong_end(name, framework, statuses[name], runs))] == []
    assert any(run.ended is None for run in runs), "the kills of the cluster have cut no run short"


def test_runs_that_must_not_have_happened_are_told() -> None:
    ledger = "start a 1 10\nend a 1 12 0\nstart a 2 14\nstart b 3 10\nstart b 3 15\nstart c 4 1\nend c 4 2 137\nstart c 5 3\n"
    runs = read_ledger(ledger)
    assert list(surplus_runs(runs, Seen())) == [
        "a ran again, though its run had succeeded",
        "b ran again, though its run had not ended",
        "b was started twice in one pod",
    ]
    killed = Seen(dead=[(13.0, 13.5)])
    assert list(surplus_runs(runs, killed)) == ["b was started twice in one pod"]
    assert next(iter(surplus_runs(runs, Seen(killed.dead, {"1": 12.5})))) == "a ran again after its success was on record"
