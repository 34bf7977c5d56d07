"""The jobs of a long run: of every kind, and each with a fate that its pods bring about."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from benchmarks.kubelet import FAILED, FATE, PERMANENT, SUCCEEDED
from benchmarks.seeds import NAMESPACE, ended_status, running_status, settled, stored
from benchmarks.workloads import IMAGE, Manifest
from jobcommon.api.observed import Observed
from jobcommon.api.pod import pod_view
from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import read_job
from jobcommon.reconcile.children import pod_manifest

FRAMEWORKS = (TF, PYTORCH, MPI, MXNET, XGBOOST, PADDLE, JAX)
#: The replica that decides, and the other one; a JAXJob has workers only.
REPLICAS: Mapping[str, tuple[str, ...]] = {
    TF.kind: ("Chief", "Worker"),
    PYTORCH.kind: ("Master", "Worker"),
    MPI.kind: ("Launcher", "Worker"),
    MXNET.kind: ("Scheduler", "Worker"),
    XGBOOST.kind: ("Master", "Worker"),
    PADDLE.kind: ("Master", "Worker"),
    JAX.kind: ("Worker",),
}
#: The label by which the driver selects the jobs that come and go; the value is `CHURN` or `KEPT`.
LABEL, CHURN, KEPT = "benchmark.example.com/soak", "churn", "kept"
_NAME = "kept-NUMBER"


class Fate(StrEnum):
    """What becomes of a job."""

    SUCCEEDS = "succeeds"
    RESTARTS = "fails once, retryably, then succeeds"
    FAILS = "fails for good"
    SUSPENDED = "is suspended, resumed, and succeeds"
    DELETED = "is deleted while it runs"


_ENDS = {Fate.RESTARTS: f"{FAILED},{SUCCEEDED}", Fate.FAILS: PERMANENT, Fate.DELETED: ""}


#: Of every eight jobs of a kind.
FATES = (
    Fate.SUCCEEDS, Fate.RESTARTS, Fate.SUCCEEDS, Fate.DELETED, Fate.SUCCEEDS, Fate.FAILS, Fate.SUCCEEDS, Fate.SUSPENDED,
)  # fmt: skip


@dataclass(frozen=True)
class SoakJob:
    """One job."""

    framework: Framework
    name: str
    fate: Fate

    @classmethod
    def of(cls, number: int) -> "SoakJob":
        """The job with that number: the kinds take turns, and within a kind the fates."""
        count = len(FRAMEWORKS)
        return cls(FRAMEWORKS[number % count], f"churn-{number}", FATES[number // count % len(FATES)])

    @property
    def pods(self) -> int:
        """The number of its replicas."""
        return len(REPLICAS[self.framework.kind])

    @property
    def end(self) -> str:
        """The condition with which it must end."""
        return "Failed" if self.fate is Fate.FAILS else "Succeeded"

    def manifest(self) -> Manifest:
        """What the user submits."""
        return manifest(self.framework, self.name, CHURN, self.fate, suspend=self.fate is Fate.SUSPENDED)


def manifest(framework: Framework, name: str, label: str, fate: Fate = Fate.SUCCEEDS, *, suspend: bool = False) -> Manifest:
    """A job of one replica of each type. Only the one that decides has the fate; the other one runs until it is deleted."""
    decider, *others = REPLICAS[framework.kind]
    specs = {decider: _replica(framework, fate)} | {other: _replica(framework, None) for other in others}
    # A launcher is run again whatever it ended with, as a batch Job's pod is.
    once = framework is MPI and fate is Fate.FAILS
    policy: dict[str, Any] = {"cleanPodPolicy": "All", "backoffLimit": 0 if once else 3}
    return {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {LABEL: label}},
        "spec": {"runPolicy": policy | ({"suspend": True} if suspend else {}), framework.replica_specs: specs},
    }


def _replica(framework: Framework, fate: Fate | None) -> Manifest:
    container = {"name": framework.container or "main", "image": IMAGE, "command": ["python", "/opt/train.py"]}
    annotations = {FATE: _ENDS.get(fate, SUCCEEDED)} if fate else {}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    return {"replicas": 1, "restartPolicy": "ExitCode", "template": template}


def kept_names(count: int) -> Iterator[tuple[Framework, str]]:
    """The finished jobs beside which a long run takes place, of all kinds in turn."""
    for number in range(count):
        yield FRAMEWORKS[number % len(FRAMEWORKS)], _NAME.replace("NUMBER", str(number))


def kept(count: int) -> Iterator[tuple[str, Manifest]]:
    """Plural and object of each, with its final status."""
    whole = {framework.kind: msgspec.json.encode(_finished(framework)) for framework in FRAMEWORKS}
    for framework, name in kept_names(count):
        yield framework.plural, msgspec.json.decode(whole[framework.kind].replace(_NAME.encode(), name.encode()))


def _finished(framework: Framework) -> Manifest:
    """A job with the status after whose write the operator has nothing more to do: its pods have ended and were deleted."""
    job = manifest(framework, _NAME, KEPT)
    raw = stored(job)
    found = read_job(framework, raw)
    pods = []
    for replica in found.replicas:
        pod = stored(pod_manifest(framework, found, replica))
        decides = replica.type == REPLICAS[framework.kind][0]
        pod["status"] = deepcopy(ended_status(0) if decides else running_status())
        pod["status"]["containerStatuses"][0]["name"] = pod["spec"]["containers"][0]["name"]
        pods.append(pod_view(msgspec.json.encode(pod)))
    return {**job, "status": settled(framework, raw, Observed(pods=tuple(pods)), Observed())}
