"""An upgrade and its rollback while jobs of every kind run: `make upgrade FROM=REVISION`.

Jobs begin under one version, go on under the other, and end under the first again; it is done in both directions. The
definitions are always the newer ones, as docs/production.md has it: they are applied first, and stay at a rollback.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobcommon.api.status import ConditionType, read_status
from jobcommon.client.list_watch import WatchedObject
from jobcommon.testutil.cluster import TestCluster, cluster_for, has, succeeded
from jobcommon.testutil.real.manifests import KINDS, MPIJOB_V1, Kind
from tests.cli.commands import ROOT
from tests.kinds import KINDS as FRAMEWORKS

OTHER = os.environ.get("OTHER_VERSION", "")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(not OTHER, reason="no other version to compare with: make upgrade FROM=REVISION"),
]
Json = dict[str, Any]
TOGETHER = {"restartScope": "Job", "restartMethod": "Auto"}
# It runs until its job is to end; it fails when it is told to, and stops only at the end of the grace period when told to.
PROGRAM = """
trap '[ -e "$DIR/slow-$JOB" ] || exit 143' TERM
touch /keep/n
while [ ! -e "$DIR/end-$JOB" ]; do
  if rm "$DIR/fail-$POD" 2>/dev/null; then exit 137; fi
  sleep 0.1
done
"""


@dataclass(frozen=True)
class Scene:
    """The jobs of one kind, whose programs are steered by files in `directory`."""

    cluster: TestCluster
    kind: Kind
    directory: Path

    def name(self, what: str) -> str:
        return f"{self.kind.framework.name}-{what}"

    def pod(self, what: str) -> str:
        return f"{self.name(what)}-{self.kind.helps}"

    async def create(self, what: str, **run_policy: Any) -> None:
        name = self.name(what)
        env = [{"name": "DIR", "value": str(self.directory)}, {"name": "JOB", "value": name}]
        env.append({"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
        main = {"command": ["sh", "-c", PROGRAM], "env": env}
        job = self.kind.job("ExitCode", main=main, run_policy=run_policy, terminationGracePeriodSeconds=3)
        await self.cluster.create(self.kind.framework, {**job, "metadata": {"name": name}})

    def tell(self, file: str) -> None:
        (self.directory / file).touch()

    async def until(self, what: str, holds: Callable[[WatchedObject], bool]) -> Json:
        return await self.cluster.until(self.kind.framework, self.name(what), holds)

    async def runs(self, what: str, **status: int) -> Json:
        """The job once all of it runs and its status has these counts."""

        def holds(seen: WatchedObject) -> bool:
            found = seen.body.get("status") or {}
            active = sum(one.get("active") or 0 for one in (found.get("replicaStatuses") or {}).values())
            same = all(found.get(field) == value for field, value in status.items())
            return same and active == 2 and found["conditions"][-1]["type"] == "Running"

        return await self.until(what, holds)

    async def begin(self) -> None:
        """`steady` and `again` run, the latter in its second attempt; `held` is suspended, `ended` over; `midway` restarts."""
        await asyncio.gather(*(self.create(what) for what in ("steady", "ended")))
        await asyncio.gather(*(self.create(what, **TOGETHER) for what in ("again", "midway")))
        await self.create("held", suspend=True)
        await self.until("held", has(ConditionType.SUSPENDED))
        await asyncio.gather(*(self.runs(what) for what in ("steady", "ended", "again", "midway")))
        self.tell(f"fail-{self.pod('again')}")
        self.tell(f"end-{self.name('ended')}")
        await self.runs("again", attempt=1)
        await self.until("ended", succeeded)

    async def interrupt(self) -> None:
        """`midway` fails, and takes its time to stop."""
        self.tell(f"slow-{self.name('midway')}")
        self.tell(f"fail-{self.pod('midway')}")
        await self.until("midway", lambda seen: seen.body["status"]["conditions"][-1]["type"] == "Restarting")

    async def steady_state(self) -> Json:
        """What a change of the version alone must not change."""
        path = self.cluster.path(self.kind.framework)
        jobs = (await self.cluster.send("GET", path))["items"]
        pods = await self.cluster.pods()
        return {
            job["metadata"]["name"]: (
                [(one["type"], one["status"], one["reason"]) for one in job["status"]["conditions"]],
                {key: job["status"].get(key) for key in ("restarts", "attempt", "startTime", "completionTime")},
                sorted(
                    (pod["metadata"]["name"], pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["containerID"])
                    for pod in pods
                    if pod["metadata"]["name"].startswith(job["metadata"]["name"])
                ),
            )
            for job in jobs
            if not job["metadata"]["name"].endswith("midway")
        }

    async def go_on(self) -> None:
        """Under the other version: what was interrupted is done once, what fails is counted once, what is resumed runs."""
        await self.runs("midway", attempt=1)
        self.tell(f"fail-{self.pod('steady')}")
        self.tell(f"fail-{self.pod('again')}")
        await self.cluster.merge(self.kind.framework, self.name("held"), {"spec": {"runPolicy": {"suspend": False}}})
        await self.runs("steady", restarts=1)
        await self.runs("again", attempt=2)
        await self.runs("held")

    async def end(self) -> None:
        """Back under the first version: all of it succeeds."""
        for what in ("steady", "again", "held", "midway"):
            self.tell(f"end-{self.name(what)}")
            job = await self.until(what, succeeded)
            counts = {"steady": 1, "again": 2, "held": None, "midway": 1}
            charged = sum(one.charged for one in read_status(job["status"]).replica_statuses.values())
            assert (job["status"].get("restarts"), charged) == (counts[what], counts[what] or 0)

    async def probe(self, number: int) -> None:
        """A job that begins and ends now: when it has, this version has seen all jobs that were there."""
        await self.create(f"probe-{number}")
        self.tell(f"end-{self.name(f'probe-{number}')}")
        await self.until(f"probe-{number}", succeeded)
        await self.cluster.send("DELETE", self.cluster.path(self.kind.framework, self.name(f"probe-{number}")))


@asynccontextmanager
async def operator(version: str, directory: Path, kubeconfig: Path) -> AsyncIterator[None]:
    """The operators from the tree of a version, until the context ends."""
    command = (sys.executable, "-c", "from jobcommon.cli.main import main; main()", "operator", "--metrics-port=-1")
    env = {**os.environ, "PYTHONPATH": version, "KUBECONFIG": str(kubeconfig)}
    with (directory / "operators.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command, "--leader-elect", "--lease-namespace=default", cwd=version, env=env, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            assert await process.wait() == 0


@pytest.mark.parametrize("back", [False, True], ids=["upgraded and back", "downgraded and back"])
async def test_jobs_of_every_kind_go_on_under_another_version(back: bool, tmp_path: Path) -> None:
    first, second = (str(ROOT), OTHER) if back else (OTHER, str(ROOT))
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(*FRAMEWORKS, operators=False) as cluster:
        kubeconfig.write_text(cluster.cluster.kubeconfig())
        scenes = [Scene(cluster, kind, tmp_path) for kind in KINDS if kind is not MPIJOB_V1]

        async def all_of(step: Callable[[Scene], Any]) -> list[Any]:
            return await asyncio.gather(*map(step, scenes))

        async def changed() -> Json:
            pairs = zip(before, await all_of(Scene.steady_state), strict=True)
            return {name: (old[name], new.get(name)) for old, new in pairs for name in old if old[name] != new.get(name)}

        async with operator(first, tmp_path, kubeconfig):
            await all_of(Scene.begin)
            before = await all_of(Scene.steady_state)
            await all_of(Scene.interrupt)
        async with operator(second, tmp_path, kubeconfig):
            await all_of(lambda scene: scene.probe(1))
            assert await changed() == {}
            await all_of(Scene.go_on)
            before = await all_of(Scene.steady_state)
        async with operator(first, tmp_path, kubeconfig):
            await all_of(lambda scene: scene.probe(2))
            assert await changed() == {}
            await all_of(Scene.end)
