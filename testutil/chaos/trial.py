"""One trial: start everything, submit the jobs, kill at seeded times, let everything restart, and check the results."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from jobcommon.api.status import read_status
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request
from jobcommon.framework import Framework
from jobcommon.testutil.chaos.jobs import FRAMEWORKS, ChaosJob, make_jobs
from jobcommon.testutil.chaos.ledger import Evidence, RunOf, job_faults, read_ledger, repeated_pods, surplus_runs
from jobcommon.testutil.chaos.processes import Ground, until_none_marked

LOOK = 0.25
ORPHAN_SECONDS = 180.0


@dataclass(frozen=True)
class Plan:
    """How hard a trial is. `operator_every` and `cluster_every` are the bounds in seconds between two kills; None for none."""

    jobs: int = 50
    seed: int = 1
    operator_kills: int = 20
    operator_every: tuple[float, float] = (2.0, 5.0)
    cluster_kills: int = 8
    cluster_every: tuple[float, float] = (6.0, 12.0)
    longest_run: float = 6.0
    submit_every: float = 0.5
    deadline: float = 600.0


@dataclass
class Result:
    """What came of it."""

    plan: Plan
    jobs: list[ChaosJob]
    runs: list[RunOf] = field(default_factory=list)
    evidence: Evidence = field(default_factory=Evidence)
    operator_kills: int = 0
    orphans: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Hold what was seen against what must be."""
        self.surplus += [*surplus_runs(self.runs, self.evidence), *repeated_pods(self.jobs, self.runs, self.evidence)]
        for job in self.jobs:
            found = job_faults(job, self.runs, self.evidence)
            self.faults += [f"{job.framework.kind} {job.name} ({job.script}) {fault}" for fault in found]
        self.faults += self.surplus


async def run_trial(plan: Plan, directory: Path, marker: str) -> Result:
    """Run it. Raises AssertionError when the cluster does not come up; everything else is in the result's faults."""
    ground = Ground(directory, marker)
    chance = Random(plan.seed)  # noqa: S311  reproducibility is the point
    ledger = directory / "ledger"
    result = Result(plan, make_jobs(plan.jobs, ledger, marker, chance, longest=plan.longest_run))
    began = time.monotonic()
    try:
        await ground.open()
        await ground.add_operator().start()
        async with asyncio.timeout(plan.deadline):
            watching = asyncio.create_task(_watch(ground, result))
            try:
                await asyncio.gather(
                    _submit(ground, result.jobs, plan.submit_every),
                    _kill_operators(ground, result, Random(chance.random())),  # noqa: S311
                    _kill_cluster(ground, result, Random(chance.random())),  # noqa: S311
                )
                while not _all_finished(result):  # noqa: ASYNC110  the server, which may be down, is asked by the watch
                    await asyncio.sleep(LOOK)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        result.evidence.statuses = {job.name: await _status(ground, job) for job in result.jobs}
        await _look_at_pods(ground, result.evidence)
        result.faults += await ground.close()
    except TimeoutError:
        result.faults.append(f"not at an end after {plan.deadline:.0f} s")
        result.evidence.statuses = {job.name: await _status(ground, job) for job in result.jobs}
    finally:
        await ground.abandon()
    left = await until_none_marked(marker, set(), ORPHAN_SECONDS)
    result.orphans += len(left)
    result.faults += [f"left behind at the end: {line}" for line in left.values()]
    result.runs = read_ledger(ledger)
    result.seconds = time.monotonic() - began
    result.judge()
    return result


async def _submit(ground: Ground, jobs: Sequence[ChaosJob], every: float) -> None:
    for job in jobs:
        body = json.dumps(job.manifest).encode()
        path = f"/apis/{job.framework.api_version}/namespaces/default/{job.framework.plural}"
        while True:
            try:
                answer = await ground.transport.send(Request("POST", path, body=body))
                # 409: the answer to the first attempt was lost with the cluster.
                assert answer.status in (201, 409), answer.body
                break
            except ClientError:
                await asyncio.sleep(LOOK)
        await asyncio.sleep(every)


async def _kill_operators(ground: Ground, result: Result, chance: Random) -> None:
    for _ in range(result.plan.operator_kills):
        await asyncio.sleep(chance.uniform(*result.plan.operator_every))
        (operator,) = ground.operators
        if operator.died:
            result.faults.append(f"{operator.name} died by itself: {operator.log.read_text()[-500:]}")
        await operator.kill()
        result.operator_kills += 1
        await operator.start()


async def _kill_cluster(ground: Ground, result: Result, chance: Random) -> None:
    for _ in range(result.plan.cluster_kills):
        await asyncio.sleep(chance.uniform(*result.plan.cluster_every))
        if ground.cluster.died:
            result.faults.append(f"the cluster died by itself: {ground.cluster.log.read_text()[-500:]}")
        # Between the two moments processes may still write to the ledger.
        result.evidence.cluster_kills.append(time.time())
        await ground.cluster.kill()
        spared = {o.running.pid for o in ground.operators if o.running is not None}
        left = await until_none_marked(ground.marker, spared, ORPHAN_SECONDS)
        result.orphans += len(left)
        result.faults += [f"left behind by kill -9 of the cluster: {line}" for line in left.values()]
        result.evidence.cluster_kills.append(time.time())
        await ground.cluster.start()
        await ground.until_up()


async def _watch(ground: Ground, result: Result) -> None:
    """Record the statuses while the objects exist."""
    while True:
        try:
            await _look_at_pods(ground, result.evidence)
            for framework in FRAMEWORKS:
                await _look_at_jobs(ground, framework, result.evidence)
        except ClientError:
            pass  # it is down; what it had said stays on record
        await asyncio.sleep(LOOK)


async def _look_at_pods(ground: Ground, evidence: Evidence) -> None:
    asked = time.time()
    for pod in await _list(ground, "/api/v1/namespaces/default/pods"):
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        counts = [container["restartCount"] for container in status.get("containerStatuses") or ()]
        evidence.restarts[uid] = max([evidence.restarts.get(uid, 0), *counts])
        if status.get("phase") == "Succeeded":
            evidence.succeeded.setdefault(uid, asked)


async def _look_at_jobs(ground: Ground, framework: Framework, evidence: Evidence) -> None:
    for job in await _list(ground, f"/apis/{framework.api_version}/namespaces/default/{framework.plural}"):
        status = read_status(job.get("status"))
        name = job["metadata"]["name"]
        evidence.statuses[name] = job.get("status")
        if status.finished:
            evidence.finals.setdefault(name, (status.conditions[-1].type, status.conditions[-1].reason))


def _all_finished(result: Result) -> bool:
    return all(job.name in result.evidence.finals for job in result.jobs)


async def _list(ground: Ground, path: str) -> list[Any]:
    answer = await ground.transport.send(Request("GET", path))
    if answer.status != 200:
        return []
    items: list[Any] = json.loads(answer.body)["items"]
    return items


async def _status(ground: Ground, job: ChaosJob) -> Any:
    path = f"/apis/{job.framework.api_version}/namespaces/default/{job.framework.plural}/{job.name}"
    answer = await ground.transport.send(Request("GET", path))
    return json.loads(answer.body).get("status") if answer.status == 200 else None
