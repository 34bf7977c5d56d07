"""The pods and jobs of rows. Every container does as it is told: it ends with the code that an annotation of its pod names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.testutil.real.run import IMAGE, JOB
from jobcommon.testutil.real.steps import ENDS, Step, done, end

Manifest = dict[str, Any]
HOLD = "jobcommon.test/hold"
#: The n-th run in a pod waits for the n-th line of the annotation. Only `sleep` is a process: many rows run at once.
SCRIPT = """
trap "$ON_TERM" TERM
n=0; [ -e /keep/n ] && read -r n < /keep/n; n=$((n + 1)); echo $n > /keep/n
echo "run $n of ${WORLD_SIZE:-}${RANK:+, rank $RANK}"
code=
while [ -z "$code" ]; do
  i=0
  while read -r line; do i=$((i + 1)); [ $i = $n ] && code=$line; done < /told/ends
  [ -n "$code" ] || sleep 0.2
done
echo "run $n ends with $code"
exit "$code"
"""


MOUNTS = ({"name": "told", "mountPath": "/told"}, {"name": "keep", "mountPath": "/keep"})
_TOLD = {"path": "ends", "fieldRef": {"fieldPath": f"metadata.annotations['{ENDS}']"}}
VOLUMES = ({"name": "told", "downwardAPI": {"items": [_TOLD]}}, {"name": "keep", "emptyDir": {}})


def container(name: str, on_term: str = "exit 143", **fields: Any) -> Manifest:
    """A container that ends as told, and at SIGTERM as `on_term` says; "" ignores it."""
    env = [{"name": "ON_TERM", "value": on_term}]
    # It counts as started once its trap is set.
    probe = {"exec": {"command": ["test", "-e", "/keep/n"]}, "periodSeconds": 1, "failureThreshold": 60}
    what = {"name": name, "image": IMAGE, "command": ["sh", "-c", SCRIPT], "startupProbe": probe}
    told = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    return {**what, "env": env, "volumeMounts": list(MOUNTS), **told, **fields}


def script(name: str, text: str, **fields: Any) -> Manifest:
    """A container that runs a script of its own."""
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", text], "volumeMounts": [MOUNTS[1]], **fields}


def pod_spec(main: Manifest, *others: Manifest, grace: int = 10, **fields: Any) -> Manifest:
    """The spec of a pod with these containers."""
    common = {"terminationGracePeriodSeconds": grace, "volumes": list(VOLUMES), "automountServiceAccountToken": False}
    return {**common, "containers": [main, *others], **fields}


def held_pod(restart: str = "Never", on_term: str = "exit 143", **fields: Any) -> Manifest:
    """A pod of no job, kept by a finalizer as ours are."""
    spec = {**pod_spec(container("main", on_term)), "restartPolicy": restart, **fields}
    return {"metadata": {"finalizers": [HOLD]}, "spec": spec}


@dataclass(frozen=True)
class Kind:
    """A kind as rows use it: its replicas, the pod that decides on success and another one."""

    name: str
    framework: Framework
    replicas: Mapping[str, int]
    leads: str
    helps: str
    version: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fails(self) -> str:
        """A pod whose failure the job does not get over: a launcher is retried within backoffLimit, as a batch Job's pod is."""
        return self.helps if self.framework is MPI else self.leads

    @property
    def finish(self) -> tuple[Step, ...]:
        """Let the job succeed."""
        pods = (self.leads,) if self.framework is MPI else (self.helps, self.leads)
        return tuple(step for pod in pods for step in (end(0, pod), done(pod)))

    def ends(self, *helps: str, leads: tuple[str, ...] = ()) -> Mapping[str, tuple[str, ...]]:
        """How the pods end: those given first, and each name's last as in a success."""
        last = "Failed 143" if self.framework is MPI else "Succeeded 0"
        return {self.leads: (*leads, "Succeeded 0"), self.helps: (*helps, last)}

    def job(
        self,
        policy: str | None = None,
        *,
        main: Manifest | None = None,
        others: tuple[Manifest, ...] = (),
        on_term: str = "exit 143",
        run_policy: Mapping[str, Any] | None = None,
        replicas: Mapping[str, int] | None = None,
        **pod: Any,
    ) -> Manifest:
        """A job of this kind whose replicas all have that restart policy."""
        first = {**container(self.framework.container or "main", on_term), **(main or {})}
        specs = {}
        for replica, count in (replicas or self.replicas).items():
            specs[replica] = {"replicas": count, "template": {"spec": pod_spec(first, *others, **pod)}}
            if policy is not None:
                specs[replica]["restartPolicy"] = policy
        spec = {"runPolicy": dict(run_policy or {}), self.framework.replica_specs: specs, **self.spec}
        version = self.version or self.framework.storage_version
        what = {"apiVersion": f"{self.framework.group}/{version}", "kind": self.framework.kind}
        return {**what, "metadata": {"name": JOB}, "spec": spec}


TFJOB = Kind("TFJob", TF, {"Worker": 2}, "worker-0", "worker-1")
PYTORCHJOB = Kind("PyTorchJob", PYTORCH, {"Master": 1, "Worker": 1}, "master-0", "worker-0")
MPIJOB = Kind("MPIJob v2beta1", MPI, {"Launcher": 1, "Worker": 1}, "launcher", "worker-0")
MPIJOB_V1 = Kind("MPIJob v1", MPI, MPIJOB.replicas, "launcher", "worker-0", "v1", {"transport": "SSH"})
MXJOB = Kind("MXJob", MXNET, {"Scheduler": 1, "Worker": 1}, "scheduler-0", "worker-0", spec={"jobMode": "MXTrain"})
JAXJOB = Kind("JAXJob", JAX, {"Worker": 2}, "worker-0", "worker-1")
XGBOOSTJOB = Kind("XGBoostJob", XGBOOST, PYTORCHJOB.replicas, "master-0", "worker-0")
PADDLEJOB = Kind("PaddleJob", PADDLE, PYTORCHJOB.replicas, "master-0", "worker-0")
KINDS = (TFJOB, PYTORCHJOB, MPIJOB, MPIJOB_V1, MXJOB, JAXJOB, XGBOOSTJOB, PADDLEJOB)
