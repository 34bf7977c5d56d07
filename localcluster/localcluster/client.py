"""Front door: requests, errors and connections, and what the users of a cluster keep on their side."""

from localcluster.apiserver import ADMIN, ApiError
from localcluster.apiserver.authentication import MASTERS
from localcluster.apiserver.inprocess import InProcessTransport
from localcluster.cluster import EMBEDDED, REAL, background
from localcluster.credentials import self_signed, write_secret
from localcluster.http_client import Endpoint
from localcluster.kubeconfig import KubeconfigError, check_free, kubeconfig, written
from localcluster.kubelet.api import Api
from localcluster.pod_backend import LogOptions, PodBackend
from localcluster.request import JSON, MERGE_PATCH, ClientError, Request, Response, StatusError, Transport, TransportError
from localcluster.scratch import scratch_directory

__all__ = [
    "ADMIN", "EMBEDDED", "JSON", "MASTERS", "MERGE_PATCH", "REAL", "Api", "ApiError", "ClientError",
    "Endpoint", "InProcessTransport", "KubeconfigError", "LogOptions", "PodBackend",
    "Request", "Response", "StatusError", "Transport", "TransportError", "background", "check_free", "kubeconfig",
    "scratch_directory", "self_signed", "write_secret", "written",
]  # fmt: skip
