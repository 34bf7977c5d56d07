"""Malformed and hostile jobs that a definition without rules lets in, and what must become of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jobcommon.api import labels
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.builders import Manifest, condition, replica_spec

HEALTHY: Mapping[str, Mapping[str, int]] = {
    TF.kind: {"Worker": 2},
    PYTORCH.kind: {"Master": 1, "Worker": 1},
    MPI.kind: {"Launcher": 1, "Worker": 1},
    MXNET.kind: {"Scheduler": 1, "Worker": 1},
}
FRAMEWORKS = (TF, PYTORCH, MPI, MXNET)
GONE: Any = object()
"""In place of a value: the field is not there."""
Path = tuple[str | int, ...]


class Fate(StrEnum):
    """What must become of a job."""

    INVALID = "Failed with InvalidSpec in its first status"
    REFUSED = "Failed with InvalidSpec once the API server has refused what it needs"
    RUNS = "Succeeded, as if nothing were wrong with it"
    IGNORED = "left alone, without a status"


@dataclass(frozen=True)
class BadJob:
    """One of them. `changes` are made to a healthy job of the framework; `says` is part of the condition's message.

    `named` turns the job's name into an invalid one. `status` is written to the job before the operator sees it, and `beside`
    are labels of a pod that claims the job as its controller, of which an event UnknownPod tells.
    """

    title: str
    framework: Framework
    fate: Fate
    changes: tuple[tuple[Path, Any], ...] = ()
    says: str = ""
    named: str = "{}"
    status: Any = None
    beside: Mapping[str, str] | None = None
    replicas: Mapping[str, int] = field(default_factory=dict)

    def manifest(self, name: str) -> Manifest:
        """The job, under `name` or what is made of it."""
        found = healthy(self.framework, self.named.format(name), self.replicas or HEALTHY[self.framework.kind])
        for (*parents, last), value in self.changes:
            at: Any = found
            for part in parents:
                at = at[part]
            if value is GONE:
                del at[last]
            else:
                at[last] = value
        return found

    def stranger(self, job: Manifest) -> Manifest | None:
        """The pod beside the created `job`, if there is to be one."""
        if self.beside is None:
            return None
        name = job["metadata"]["name"]
        owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": name, "uid": job["metadata"]["uid"]}
        marks = {labels.OPERATOR_NAME: self.framework.operator_name, labels.JOB_NAME: name, **self.beside}
        metadata = {"name": f"{name}-stranger", "labels": marks, "ownerReferences": [{**owner, "controller": True}]}
        return {
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any"}]},
        }  # fmt: skip


def healthy(framework: Framework, name: str, replicas: Mapping[str, int] | None = None) -> Manifest:
    """A job with nothing wrong."""
    specs = {kind: replica_spec(framework, count) for kind, count in (replicas or HEALTHY[framework.kind]).items()}
    return {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {"name": name, "namespace": "default", "labels": {}, "annotations": {}},
        "spec": {"runPolicy": {}, framework.replica_specs: specs},
    }


def _spec(framework: Framework, *path: str | int) -> Path:
    return ("spec", framework.replica_specs, *path)


def _main(framework: Framework, kind: str, *path: str | int) -> Path:
    return _spec(framework, kind, "template", "spec", "containers", 0, *path)


def _policy(*path: str) -> Path:
    return ("spec", "runPolicy", *path)


def _template(framework: Framework, kind: str, *path: str | int) -> Path:
    return _spec(framework, kind, "template", *path)


def _invalid(title: str, framework: Framework, path: Path, value: Any, says: str, **more: Any) -> BadJob:
    return BadJob(title, framework, Fate.INVALID, ((path, value),), says, **more)


def _refused(title: str, framework: Framework, path: Path, value: Any, says: str) -> BadJob:
    return BadJob(title, framework, Fate.REFUSED, ((path, value),), says)


def _runs(title: str, framework: Framework, *changes: tuple[Path, Any], **more: Any) -> BadJob:
    return BadJob(title, framework, Fate.RUNS, changes, **more)


def _container(name: str) -> Manifest:
    return {"name": name, "image": "any"}


_HOSTILE_TEXT = "$(HOME) %s %d {0} {x} \"a\\c' \u2028 ünïcödé ☃"
_RESERVED = {
    "name": "another",
    "namespace": "kube-system",
    "uid": "made-up",
    "generateName": "x-",
    "finalizers": ["example.com/never"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "boss", "uid": "0", "controller": True}],
    "labels": {labels.JOB_NAME: "another", labels.REPLICA_INDEX: "7", labels.OPERATOR_NAME: "another-operator"},
}
_FORGED = {
    "conditions": [condition("Dancing"), None, 3, {"type": 7}, condition("Running", False)],
    "replicaStatuses": {"Worker": {"active": "many", "succeededIndexes": "0-,x,9-1,-3,99999999999999999999,1-1000000000"}},
    "countedPods": [1, None],
    "restarts": -7,
    "startTime": "9999-12-31T23:59:59Z",
}

# What the decision alone makes of a bad spec is shown by tests/reconcile/test_poison.py and the cases of tests/operators.
_INVALID: Sequence[BadJob] = (
    _invalid("a template that is text", PYTORCH, _template(PYTORCH, "Master"), "x", "must be an object"),
    BadJob("a chief and a master", TF, Fate.INVALID, says="are the same role", replicas={"Chief": 1, "Master": 1}),
    BadJob("a name of 200 characters", MXNET, Fate.INVALID, says="use up to 63", named="{:x<200}"),
    _invalid("a run policy that is a list", MPI, _policy(), [], "must be an object"),
)

_REFUSED: Sequence[BadJob] = (
    _refused("two containers of one name", PYTORCH, _template(PYTORCH, "Worker", "spec", "containers"),
             [_container("pytorch"), _container("pytorch")], "Duplicate value"),
    _refused("a label value of 70 characters", TF, _template(TF, "Worker", "metadata"),
             {"labels": {"team": "x" * 70}}, "must be no more than 63"),
    _refused("annotations of 300 KiB", PYTORCH, _template(PYTORCH, "Worker", "metadata"),
             {"annotations": {"a": "x" * 300 * 1024}}, "may have 262,144"),
    _refused("a request over its limit", MXNET, _main(MXNET, "Worker", "resources"),
             {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, "must be less than or equal to cpu limit"),
)  # fmt: skip

_RUNNING: Sequence[BadJob] = (
    _runs("a type in lower case", TF, (_spec(TF, "worker"), replica_spec(TF)), (_spec(TF, "Worker"), GONE)),
    _runs("a pod of index 1.0 claims it", PYTORCH, beside={labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: "1.0"}),
    _runs("a pod of index 10¹² claims it", MXNET,
          beside={labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: str(10**12)}),
    _runs("a template with reserved metadata", PYTORCH, (_template(PYTORCH, "Worker", "metadata"), _RESERVED)),
    _runs("hostile text", TF, (_main(TF, "Worker", "args"), [_HOSTILE_TEXT])),
    _runs("a status of garbage", MXNET, status=_FORGED),
    _runs("a start in the year 9999", PYTORCH, status={"startTime": "9999-12-31T23:59:59Z"}),
    BadJob("managed by another controller", PYTORCH, Fate.IGNORED, ((_policy("managedBy"), "example.com/other"),)),
)  # fmt: skip

BAD_JOBS: Sequence[BadJob] = (*_INVALID, *_REFUSED, *_RUNNING)
