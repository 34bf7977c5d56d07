"""The kinds of poison: what a schema without rules lets through to the operator, and what must become of it.

The numbers only identify the cases.
"""

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


class Verdict(StrEnum):
    """What must become of a job."""

    INVALID = "Failed with InvalidSpec at the first sync"
    REFUSED = "Failed with InvalidSpec once the API server has refused what it needs"
    RUNS = "Succeeded, as if nothing were wrong with it"
    IGNORED = "left alone, without a status"
    UNDECIDED = "left without a status, and tried again with growing pauses"


@dataclass(frozen=True)
class Poison:
    """One kind. `changes` are made to a healthy job of the framework; `says` is part of the condition's message.

    `name` turns the job's name into an invalid one. `status` is written to the job before the operator sees it, and `beside`
    are labels of a pod that claims the job as its controller.
    """

    row: int
    title: str
    framework: Framework
    verdict: Verdict
    changes: tuple[tuple[Path, Any], ...] = ()
    says: str = ""
    name: str = "{}"
    status: Any = None
    beside: Mapping[str, str] | None = None
    event: str = ""
    replicas: Mapping[str, int] = field(default_factory=dict)

    def job(self, name: str, namespace: str = "default") -> Manifest:
        """The job, to be created under `name` or what the kind makes of it."""
        manifest = healthy(self.framework, self.name.format(name), namespace, self.replicas or HEALTHY[self.framework.kind])
        for path, value in self.changes:
            _put(manifest, path, value)
        return manifest

    def stranger(self, job: Manifest) -> Manifest | None:
        """The pod beside the created `job`, if the kind has one."""
        if self.beside is None:
            return None
        metadata = job["metadata"]
        owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}
        marks = {labels.OPERATOR_NAME: self.framework.operator_name, labels.JOB_NAME: metadata["name"], **self.beside}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{metadata['name']}-stranger",
                "namespace": metadata["namespace"],
                "labels": marks,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"containers": [{"name": "main", "image": "any"}]},
        }


def healthy(framework: Framework, name: str, namespace: str, replicas: Mapping[str, int]) -> Manifest:
    """A job with nothing wrong."""
    specs = {kind: replica_spec(framework, count) for kind, count in replicas.items()}
    return {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {}, "annotations": {}},
        "spec": {"runPolicy": {}, framework.replica_specs: specs},
    }


def _put(manifest: Manifest, path: Path, value: Any) -> None:
    *parents, last = path
    at: Any = manifest
    for part in parents:
        at = at[part]
    if value is GONE:
        del at[last]
    else:
        at[last] = value


def _spec(framework: Framework, *path: str | int) -> Path:
    return ("spec", framework.replica_specs, *path)


def _main(framework: Framework, kind: str, *path: str | int) -> Path:
    return _spec(framework, kind, "template", "spec", "containers", 0, *path)


def _policy(*path: str) -> Path:
    return ("spec", "runPolicy", *path)


def _template(framework: Framework, kind: str, *path: str | int) -> Path:
    return _spec(framework, kind, "template", *path)


def _invalid(row: int, title: str, framework: Framework, path: Path, value: Any, says: str, **more: Any) -> Poison:
    return Poison(row, title, framework, Verdict.INVALID, ((path, value),), says, **more)


def _refused(row: int, title: str, framework: Framework, path: Path, value: Any, says: str) -> Poison:
    return Poison(row, title, framework, Verdict.REFUSED, ((path, value),), says)


def _runs(row: int, title: str, framework: Framework, *changes: tuple[Path, Any], **more: Any) -> Poison:
    return Poison(row, title, framework, Verdict.RUNS, changes, **more)


def _container(name: str) -> Manifest:
    return {"name": name, "image": "any"}


def _volume(name: str) -> Manifest:
    return {"name": name, "emptyDir": {}}


def _ports(*ports: tuple[str, Any]) -> list[Manifest]:
    return [{"name": name, "containerPort": number} for name, number in ports]


def _deep(levels: int) -> Manifest:
    nested: Manifest = {}
    for _ in range(levels):
        nested = {"a": nested}
    return nested


_HOSTILE_TEXT = "$(HOME) %s %d {0} {x} \"a\\c' \u2028 ünïcödé ☃"
_RESERVED = {
    "name": "another",
    "namespace": "kube-system",
    "uid": "made-up",
    "generateName": "x-",
    "finalizers": ["example.com/never"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "boss", "uid": "0", "controller": True}],
    "labels": {labels.JOB_NAME: "another", labels.REPLICA_INDEX: "7", labels.OPERATOR_NAME: "nobody"},
}
_ENV = [{"name": f"V{number}", "value": "x" * 20} for number in range(3000)]
_FORGED = {
    "conditions": [condition("Dancing"), None, 3, {"type": 7}, condition("Running", False)],
    "replicaStatuses": {"Worker": {"active": "many", "succeededIndexes": "0-,x,9-1,-3,99999999999999999999,1-1000000000"}},
    "countedPods": [1, None],
    "restarts": -7,
    "startTime": "9999-12-31T23:59:59Z",
    "completionTime": "tomorrow",
}

INVALID_KINDS: Sequence[Poison] = (
    _invalid(90, "no spec", PYTORCH, ("spec",), GONE, "spec: must be an object"),
    _invalid(90, "replica specs null", TF, _spec(TF), None, "name at least one replica type"),
    _invalid(90, "replica specs empty", MXNET, _spec(MXNET), {}, "name at least one replica type"),
    _invalid(90, "replica specs a list", MPI, _spec(MPI), [{}], "name at least one replica type"),
    _invalid(90, "a replica spec null", PYTORCH, _spec(PYTORCH, "Worker"), None, "Required value: a replica spec"),
    _invalid(90, "a replica spec a list", TF, _spec(TF, "Worker"), [1], "Required value: a replica spec"),
    _invalid(91, "replicas negative", TF, _spec(TF, "Worker", "replicas"), -1, "must be at least 0"),
    _invalid(91, "replicas a fraction", PYTORCH, _spec(PYTORCH, "Worker", "replicas"), 1.5, "must be a whole number"),
    _invalid(91, "replicas in quotes", MPI, _spec(MPI, "Worker", "replicas"), "3", "must be a whole number"),
    _invalid(91, "replicas a billion", MXNET, _spec(MXNET, "Worker", "replicas"), 10**9, "must be at most 10000"),
    _invalid(91, "an unknown restart policy", MXNET, _spec(MXNET, "Worker", "restartPolicy"), "Sometimes", "is not supported"),
    _invalid(92, "no container", TF, _template(TF, "Worker", "spec", "containers"), [], "at least one container"),
    _invalid(92, "containers null", MPI, _template(MPI, "Worker", "spec", "containers"), None, "at least one container"),
    _invalid(92, "a template that is text", PYTORCH, _template(PYTORCH, "Master"), "x", "must be an object"),
    _invalid(48, "a misnamed container", TF, _main(TF, "Worker", "name"), "tensorfow", 'must be named "tensorflow"'),
    _invalid(92, "a command that is text", PYTORCH, _main(PYTORCH, "Worker", "command"), "python x.py", "list of words"),
    _invalid(93, "an unknown replica type", MXNET, _spec(MXNET, "Robot"), replica_spec(MXNET), "use one of Scheduler"),
    _invalid(93, "one type in two spellings", TF, _spec(TF, "worker"), replica_spec(TF), "given twice"),
    _invalid(94, "two chiefs", TF, _spec(TF, "Chief"), replica_spec(TF, 2), "must be at most 1"),
    Poison(94, "a chief and a master", TF, Verdict.INVALID, says="are the same role", replicas={"Chief": 1, "Master": 1}),
    Poison(94, "servers without a worker", MXNET, Verdict.INVALID, says="needs a Worker", replicas={"Server": 1}),
    Poison(94, "a launcher that never ends", MPI, Verdict.INVALID,
           ((_spec(MPI, "Launcher", "restartPolicy"), "Always"),), "use one of OnFailure"),
    Poison(95, "a name too long for its pods", PYTORCH, Verdict.INVALID, says="use a name of at most", name="{:x<60}"),
    Poison(95, "a name of 200 characters", MXNET, Verdict.INVALID, says="use up to 63", name="{:x<200}"),
    Poison(96, "a name with a digit first", TF, Verdict.INVALID, says="a letter first", name="0{}"),
    Poison(96, "a name with a dot", MPI, Verdict.INVALID, says="a letter first", name="a.{}"),
    _invalid(98, "a template's metadata a list", MXNET, _template(MXNET, "Worker", "metadata"), [], "maps of text to text"),
    _invalid(101, "ports that are text", TF, _main(TF, "Worker", "ports"), "80", "must be a list of objects"),
    _invalid(102, "no slots", MPI, ("spec", "slotsPerWorker"), 0, "must be at least 1"),
    _invalid(102, "slots: auto", MPI, ("spec", "slotsPerWorker"), "auto", "must be a whole number"),
    _invalid(102, "junk for nprocPerNode", PYTORCH, ("spec", "nprocPerNode"), "4x", 'use "auto", "cpu", "gpu"'),
    _invalid(102, "an elastic minimum over its maximum", PYTORCH, ("spec", "elasticPolicy"),
             {"minReplicas": 5, "maxReplicas": 2}, "must not exceed maxReplicas"),
    _invalid(54, "backoffLimit negative", MPI, _policy("backoffLimit"), -1, "must be at least 0"),
    _invalid(54, "backoffLimit over 2³¹", TF, _policy("backoffLimit"), 2**31, "must be at most 2147483647"),
    _invalid(104, "a negative time to live", PYTORCH, _policy("ttlSecondsAfterFinished"), -1, "must be at least 0"),
    _invalid(104, "a deadline of no time", TF, _policy("activeDeadlineSeconds"), 0, "must be at least 1"),
    _invalid(104, "a deadline after the end of time", MXNET, _policy("activeDeadlineSeconds"), 10**18, "must be at most"),
    _invalid(104, "a run policy that is a list", MPI, _policy(), [], "must be an object"),
    _invalid(108, "minResources junk", PYTORCH, _policy("schedulingPolicy"), {"minResources": {"cpu": "1x"}}, "minResources"),
    _invalid(109, "managed by a number", TF, _policy("managedBy"), 3, "must be text"),
    _invalid(91, "an override of the replica 10,000", MPI, _spec(MPI, "Worker", "overrides"),
             [{"indices": [10_000], "template": {}}], "must be at most 9999"),
)  # fmt: skip

REFUSED_KINDS: Sequence[Poison] = (
    _refused(92, "two containers of one name", PYTORCH, _template(PYTORCH, "Worker", "spec", "containers"),
             [_container("pytorch"), _container("pytorch")], "Duplicate value"),
    _refused(99, "a label value of 70 characters", TF, _template(TF, "Worker", "metadata"),
             {"labels": {"team": "x" * 70}}, "must be no more than 63"),
    _refused(100, "a volume under our name", MPI, _template(MPI, "Worker", "spec", "volumes"),
             [_volume("ssh-auth")], "Duplicate value"),
    _refused(101, "a port over 65535", PYTORCH, _main(PYTORCH, "Master", "ports"), _ports(("web", 70000)), "must be between"),
    _refused(101, "a port twice", TF, _main(TF, "Worker", "ports"), _ports(("web", 80), ("web", 81)), "Duplicate value"),
    _refused(101, "a port 0", MXNET, _main(MXNET, "Scheduler", "ports"), _ports(("web", 0)), "containerPort"),
    _refused(103, "annotations of 300 KiB", PYTORCH, _template(PYTORCH, "Worker", "metadata"),
             {"annotations": {"a": "x" * 300 * 1024}}, "may not be more than 262144"),
    _refused(108, "a quantity that is none", TF, _main(TF, "Worker", "resources"), {"limits": {"cpu": "1x"}}, "quantit"),
    _refused(108, "a request over its limit", MXNET, _main(MXNET, "Worker", "resources"),
             {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, "must be less than or equal to cpu limit"),
)  # fmt: skip

RUNNING_KINDS: Sequence[Poison] = (
    _runs(91, "an override of no replica", MPI, (_spec(MPI, "Worker", "overrides"), [{"indices": [9], "template": {}}])),
    _runs(91, "replicas null", PYTORCH, (_spec(PYTORCH, "Worker", "replicas"), None)),
    _runs(93, "a type in lower case", TF, (_spec(TF, "worker"), replica_spec(TF)), (_spec(TF, "Worker"), GONE)),
    _runs(94, "only an evaluator", TF, replicas={"Evaluator": 1}),
    _runs(94, "servers alone", TF, replicas={"PS": 1}),
    _runs(97, "a pod of index 1.0 claims it", PYTORCH, event="UnknownPod",
          beside={labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: "1.0"}),
    _runs(97, "a pod of index x claims it", TF, event="UnknownPod",
          beside={labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: "x"}),
    _runs(97, "a pod of index 10¹² claims it", MXNET, event="UnknownPod",
          beside={labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: str(10**12)}),
    _runs(97, "a pod without an index claims it", MPI, event="UnknownPod", beside={}),
    _runs(98, "a template with reserved metadata", PYTORCH, (_template(PYTORCH, "Worker", "metadata"), _RESERVED)),
    _runs(100, "MASTER_ADDR set twice by the user", PYTORCH,
          (_main(PYTORCH, "Worker", "env"), [{"name": "MASTER_ADDR", "value": "a"}, {"name": "MASTER_ADDR", "value": "b"}])),
    _runs(103, "3,000 variables", TF, (_main(TF, "Worker", "env"), _ENV)),
    _runs(104, "a time to live of 68 years", MXNET, (_policy("ttlSecondsAfterFinished"), 2**31 - 1)),
    _runs(104, "100 levels of unknown fields", MXNET, (("spec", "deep"), _deep(100))),
    _runs(105, "hostile text", TF, (_main(TF, "Worker", "args"), [_HOSTILE_TEXT])),
    _runs(107, "unknown fields", MPI, (("spec", "newer"), {"a": [None]}), (_policy("warm"), 3)),
    _runs(110, "an unknown queue and priority class", MXNET,
          (_policy("schedulingPolicy"), {"queue": "none", "priorityClass": "none"})),
    _runs(41, "a status that is a list", TF, status=[1]),
    _runs(41, "a status of garbage", MXNET, status=_FORGED),
    _runs(106, "a start in the year 9999", PYTORCH, status={"startTime": "9999-12-31T23:59:59Z"}),
    _runs(106, "times that are numbers", MPI, status={"startTime": 3, "conditions": "many"}),
    Poison(109, "managed by another controller", PYTORCH, Verdict.IGNORED, ((_policy("managedBy"), "example.com/other"),)),
)  # fmt: skip

KINDS: Sequence[Poison] = (*INVALID_KINDS, *REFUSED_KINDS, *RUNNING_KINDS)
