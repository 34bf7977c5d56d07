"""A job about to be written down, and its manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobcommon.cli.convert.pod import Template
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of training job: what a manifest needs of it."""

    name: str
    api_version: str
    replica_specs: str
    container: str


def _of(framework: Framework, version: str = "v1") -> Kind:
    return Kind(framework.kind, f"{framework.group}/{version}", framework.replica_specs, framework.container or framework.name)


TFJOB = _of(TF)
PYTORCHJOB = _of(PYTORCH)
MXJOB = _of(MXNET)
# ssh between the tasks, as Polyaxon's own Horovod tasks had it …
MPIJOB_SSH = _of(MPI, "v2beta1")
# … and kubectl exec, as with mpi-operator's v1alpha1 and v1, whose images need no sshd.
MPIJOB_EXEC = _of(MPI)
BATCH_JOB = Kind("Job", "batch/v1", "", "main")


@dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas of one type."""

    template: Template
    count: int = 1
    restart_policy: str = "Never"
    overrides: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A job: its kind, and what its manifest says beside that."""

    kind: Kind
    name: str
    replicas: Mapping[str, Replicas]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    run_policy: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)


def manifest(draft: Draft) -> dict[str, Any]:
    """The manifest."""
    metadata: dict[str, Any] = {"name": draft.name}
    if draft.labels:
        metadata["labels"] = dict(draft.labels)
    if draft.annotations:
        metadata["annotations"] = dict(draft.annotations)
    head = {"apiVersion": draft.kind.api_version, "kind": draft.kind.name, "metadata": metadata}
    return {**head, "spec": _batch_spec(draft) if draft.kind is BATCH_JOB else _spec(draft)}


def _spec(draft: Draft) -> dict[str, Any]:
    spec: dict[str, Any] = dict(draft.spec)
    if draft.run_policy:
        spec["runPolicy"] = dict(draft.run_policy)
    spec[draft.kind.replica_specs] = {name: _replica_spec(replicas) for name, replicas in draft.replicas.items()}
    return spec


def _replica_spec(replicas: Replicas) -> dict[str, Any]:
    found = {"replicas": replicas.count, "restartPolicy": replicas.restart_policy, "template": replicas.template}
    return {**found, "overrides": list(replicas.overrides)} if replicas.overrides else found


def _batch_spec(draft: Draft) -> dict[str, Any]:
    """A batch Job has one task; a pod that fails is not run again unless asked for."""
    (replicas,) = draft.replicas.values()
    pod = {**replicas.template["spec"], "restartPolicy": replicas.restart_policy}
    return {"backoffLimit": 0, **draft.run_policy, "template": {**replicas.template, "spec": pod}}
