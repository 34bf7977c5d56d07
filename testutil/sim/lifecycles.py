"""The lifecycles of every operator: L1-L14 and the framework's own, as scenarios of two to four pods.

Each is built so that its end does not depend on how long the operator was away: what runs while nobody watches either runs
until it is stopped, or ends the same way whenever that is seen. `LIFECYCLES` holds them all by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobcommon.framework import Framework
from operators.mpi import MPI
from operators.mxnet import MXNET
from operators.pytorch import PYTORCH
from operators.tf import TF
from testutil.sim.scenario import Exit, Scenario

Obj = dict[str, Any]
JOB = "demo"
SOON = (Exit(after=10.0),)
"""Succeeds ten seconds after its start."""
LATER = (Exit(after=30.0),)
RETRYABLE = Exit(after=5.0, code=137)
PERMANENT = Exit(after=5.0, code=3, message="no such file")


@dataclass(frozen=True)
class Shape:
    """How one operator's jobs look: a leader whose end decides, and workers that serve it until they are stopped."""

    name: str
    framework: Framework
    leader: str
    worker: str
    version: str = ""
    spec: Mapping[str, Any] | None = None

    @property
    def leader_pod(self) -> str:
        """The name of the leader's pod."""
        indexed = next(kind.indexed for kind in self.framework.replica_types if kind.name == self.leader)
        return f"{JOB}-{self.leader.lower()}" + ("-0" if indexed else "")

    def worker_pod(self, index: int) -> str:
        """The name of a worker's pod."""
        return f"{JOB}-{self.worker.lower()}-{index}"

    def job(self, *, policy: str | None = None, workers: int = 2, run: Mapping[str, Any] | None = None, **more: Any) -> Obj:
        """A job with a leader and so many workers, all of restart policy `policy`."""
        specs = {self.leader: self.replicas(1, policy), self.worker: self.replicas(workers, policy)}
        return self.manifest(specs, run=run, **more)

    def manifest(self, specs: Mapping[str, Obj], *, run: Mapping[str, Any] | None = None, **more: Any) -> Obj:
        """A job with these replica specs."""
        framework = self.framework
        return {
            "apiVersion": f"{framework.group}/{self.version or framework.storage_version}",
            "kind": framework.kind,
            "metadata": {"name": JOB, "namespace": "default", **more},
            "spec": {**({"runPolicy": dict(run)} if run else {}), **(self.spec or {}), framework.replica_specs: dict(specs)},
        }

    def replicas(self, count: int, policy: str | None = None, **spec: Any) -> Obj:
        """A replica spec."""
        container = {"name": self.framework.container or "main", "image": "image", "command": ["run"]}
        found: Obj = {"replicas": count, "template": {"spec": {"containers": [container], **spec}}}
        return {**found, "restartPolicy": policy} if policy else found

    def scenario(self, name: str, job: Obj, behaviour: Mapping[str, Sequence[Exit]], **more: Any) -> Scenario:
        """A scenario with one job."""
        return Scenario(f"{self.name}/{name}", (self.framework,), (job,), behaviour, **more)


SHAPES = (
    Shape("tensorflow", TF, "Chief", "Worker"),
    Shape("pytorch", PYTORCH, "Master", "Worker"),
    Shape("mpi-v1", MPI, "Launcher", "Worker", version="v1"),
    Shape("mpi", MPI, "Launcher", "Worker"),
    Shape("mxnet", MXNET, "Scheduler", "Worker"),
)


def _common(shape: Shape) -> Iterator[Scenario]:
    leader = shape.leader_pod
    yield shape.scenario("L1-success", shape.job(), {leader: SOON})
    yield shape.scenario("L2-retryable-exit", shape.job(policy="ExitCode"), {leader: (RETRYABLE, *SOON)})


LIFECYCLES: Mapping[str, Scenario] = {s.name: s for shape in SHAPES for s in _common(shape)}

__all__ = ["JOB", "LIFECYCLES", "SHAPES", "Shape"]
