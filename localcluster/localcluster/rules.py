"""Front door: the rules of pods, definitions and requests, without a server."""

from collections.abc import Sequence
from typing import Any

from localcluster import kubernetes_definitions, quantity
from localcluster.apiserver import typed
from localcluster.apiserver.crd import validate_crd
from localcluster.apiserver.discovery import version_priority
from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.kinds import pods
from localcluster.apiserver.kinds.pods import defaulted
from localcluster.apiserver.route import RequestInfo
from localcluster.apiserver.route import parse as request_info
from localcluster.apiserver.schema import CompiledSchema
from localcluster.kubelet.node import machine_capacity

__all__ = [
    "CompiledSchema", "RequestInfo", "defaulted", "kubernetes_definitions", "machine_capacity", "pod_errors", "quantity",
    "request_info", "validate_crd", "version_priority",
]  # fmt: skip


def pod_errors(pod: dict[str, Any]) -> Sequence[str]:
    """Why the creation of a pod would be refused: a line for each field. What admission asks of other objects is left out."""
    try:
        decoded, _ = typed.decode("", "v1", "Pod", pod)
    except ApiError as error:
        return [error.message]
    decoded.setdefault("metadata", {})
    pods.default(decoded)
    return [str(cause) for cause in (*pods.validate(decoded), *pods.validate_new(decoded))]
