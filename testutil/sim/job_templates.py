"""Jobs with a leader whose end decides, and workers that serve it until they are stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobcommon.framework import Framework
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.sim.scenario import Exit, Scenario

Obj = dict[str, Any]
JOB = "demo"


@dataclass(frozen=True)
class JobTemplate:
    """The jobs of one operator in one version, under one name."""

    name: str
    framework: Framework
    leader: str
    worker: str = "Worker"
    version: str = ""
    job_name: str = JOB
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def leader_pod(self) -> str:
        """The name of the leader's pod."""
        return self.pod(self.leader, 0)

    def pod(self, kind: str, index: int) -> str:
        """The name of a pod."""
        indexed = next(one.indexed for one in self.framework.replica_types if one.name == kind)
        return f"{self.job_name}-{kind.lower()}" + (f"-{index}" if indexed else "")

    def workers(self, count: int = 2) -> tuple[str, ...]:
        """The names of the workers' pods."""
        return tuple(self.pod(self.worker, index) for index in range(count))

    @property
    def counts(self) -> Mapping[str, int]:
        """The replicas of the usual job by type."""
        return {self.leader: 1, self.worker: 2}

    @property
    def pods(self) -> tuple[str, ...]:
        """The pods of the usual job: the leader's and two workers'."""
        return (self.leader_pod, *self.workers())

    def job(self, policy: str | None = None, *, workers: int = 2, run: Mapping[str, Any] | None = None, **metadata: Any) -> Obj:
        """A job with a leader and `workers` workers, all of restart policy `policy`."""
        specs = {self.leader: self.replicas(1, policy), self.worker: self.replicas(workers, policy)}
        return self.manifest(specs, run=run, **metadata)

    def manifest(
        self,
        specs: Mapping[str, Obj],
        *,
        run: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        **metadata: Any,
    ) -> Obj:
        """A job with these replica specs, this run policy and these further fields of its spec."""
        framework = self.framework
        fields = {**self.spec, **(spec or {}), framework.replica_specs: dict(specs)}
        return {
            "apiVersion": f"{framework.group}/{self.version or framework.storage_version}",
            "kind": framework.kind,
            "metadata": {"name": self.job_name, "namespace": "default", **metadata},
            "spec": {**({"runPolicy": dict(run)} if run else {}), **fields},
        }

    def replicas(self, count: int, policy: str | None = None, **pod_spec: Any) -> Obj:
        """A replica spec."""
        container = {"name": self.framework.container or "main", "image": "image", "command": ["run"]}
        found: Obj = {"replicas": count, "template": {"spec": {"containers": [container], **pod_spec}}}
        return {**found, "restartPolicy": policy} if policy else found

    def scenario(self, name: str, job: Obj, behaviour: Mapping[str, Sequence[Exit]] | None = None, **more: Any) -> Scenario:
        """A scenario with one job."""
        return Scenario(f"{self.name}/{name}", (self.framework,), (job,), behaviour or {}, **more)


TORCH = JobTemplate("pytorch", PYTORCH, "Master")
