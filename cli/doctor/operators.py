"""The operators that a cluster's Deployments run: ours, and the reference's."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobcommon.cli.doctor.state import Json, names
from jobcommon.framework import Framework

# By the name of the program: the kinds it handles.
_REFERENCE: Mapping[str, tuple[str, ...]] = {
    "training-operator": ("TFJob", "PyTorchJob", "MPIJob", "MXJob", "XGBoostJob", "PaddleJob", "JAXJob"),
    "mpi-operator": ("MPIJob",),
    "tf-operator": ("TFJob",),
    "pytorch-operator": ("PyTorchJob",),
    "mxnet-operator": ("MXJob",),
    "xgboost-operator": ("XGBoostJob",),
}
_IMAGE = re.compile(rf"(?:^|[-_])({'|'.join(_REFERENCE)})$")
# Each holds one while it runs, if it elects a leader.
LEASES: Mapping[str, str] = {
    "1ca428e5.training-operator.kubeflow.org": "training-operator",
    **{name: name for name in _REFERENCE if name != "training-operator"},
}
_PART_OF = "app.kubernetes.io/part-of"


@dataclass(frozen=True, slots=True)
class OwnOperator:
    """One of our Deployments. `kinds` are those it handles, `watched` its only namespaces, empty for all of them."""

    namespace: str
    name: str
    kinds: frozenset[str]
    watched: frozenset[str]
    lease: str
    gang: str
    kueue: str
    account: str
    mpi_exec: bool
    replicas: int
    ready: int

    @property
    def place(self) -> str:
        """For messages."""
        return f"Deployment {self.name} in {self.namespace}"


@dataclass(frozen=True, slots=True)
class ReferenceOperator:
    """A Deployment of another operator for our kinds that has replicas."""

    namespace: str
    name: str
    program: str
    kinds: frozenset[str]


def own_operators(deployments: Iterable[Json], frameworks: Sequence[Framework]) -> list[OwnOperator]:
    """Those of ours that have replicas, and of the others those for a kind that none of them handles."""
    found = [own for one in deployments if (own := _own(one, frameworks)) is not None]
    handled = frozenset[str]().union(*(one.kinds for one in found if one.replicas))
    return [one for one in found if one.replicas or one.kinds - handled]


def reference_operators(deployments: Iterable[Json]) -> list[ReferenceOperator]:
    """Those of the reference that have replicas."""
    return [found for one in deployments if _replicas(one) for found in _reference(one)]


def _own(deployment: Json, frameworks: Sequence[Framework]) -> OwnOperator | None:
    labels = (deployment.get("metadata") or {}).get("labels") or {}
    pod = _pod_spec(deployment)
    for container in pod.get("containers") or ():
        command = [*(container.get("command") or ()), *(container.get("args") or ())]
        if "operator" not in command or not (labels.get(_PART_OF) == "jobcommon" or "jobcommon" in command):
            continue
        namespace, name = names(deployment)
        chosen = set(_values(command, "--framework")) or {framework.name for framework in frameworks}
        watched = (namespace if one.startswith("$(") else one for one in _values(command, "--namespace"))
        return OwnOperator(
            namespace=namespace,
            name=name,
            kinds=frozenset(framework.kind for framework in frameworks if framework.name in chosen),
            watched=frozenset(watched),
            lease=next(iter(_values(command, "--lease-name")), "jobcommon-operator"),
            gang=next(iter(_values(command, "--gang-scheduler-name")), ""),
            kueue=next(iter(_values(command, "--kueue")), ""),
            account=str(pod.get("serviceAccountName") or "default"),
            mpi_exec="--no-mpi-exec" not in command,
            replicas=_replicas(deployment),
            ready=int((deployment.get("status") or {}).get("readyReplicas") or 0),
        )
    return None


def _reference(deployment: Json) -> Iterator[ReferenceOperator]:
    if _own(deployment, ()) is not None:
        return
    for container in _pod_spec(deployment).get("containers") or ():
        image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[0]
        if (match := _IMAGE.search(image)) is None:
            continue
        program = match[1]
        command = [*(container.get("command") or ()), *(container.get("args") or ())]
        schemes = {scheme.lower() for scheme in _values(command, "--enable-scheme")}
        kinds = frozenset(kind for kind in _REFERENCE[program] if not schemes or kind.lower() in schemes)
        namespace, name = names(deployment)
        yield ReferenceOperator(namespace, name, program, kinds)


def _pod_spec(deployment: Json) -> Mapping[str, Any]:
    return ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}


def _replicas(deployment: Json) -> int:
    replicas = (deployment.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def _values(command: Sequence[str], flag: str) -> Iterator[str]:
    """The values of a flag, written with = or as the next argument; Go's programs take one dash, too."""
    for position, text in enumerate(command):
        name, equals, value = str(text).partition("=")
        if name not in (flag, flag[1:]):
            continue
        if equals:
            yield value
        elif position + 1 < len(command):
            yield str(command[position + 1])
