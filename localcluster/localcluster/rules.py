"""Front door: the rules of pods and definitions, without a server."""

from localcluster import quantity
from localcluster.apiserver.crd import validate_crd
from localcluster.apiserver.kinds.pod_defaults import defaulted
from localcluster.apiserver.schema import CompiledSchema, compile_schema
from localcluster.apiserver.version_priority import version_priority
from localcluster.kubelet.node import machine_capacity
from localcluster.pod_check import pod_errors
from localcluster.schemas import kubernetes_definitions

__all__ = [
    "CompiledSchema", "compile_schema", "defaulted", "kubernetes_definitions", "machine_capacity", "pod_errors", "quantity",
    "validate_crd", "version_priority",
]  # fmt: skip
