"""Front door: the parts from which a simulator makes a cluster with a clock, nodes and controllers of its own."""

from localcluster.apiserver.bootstrap import KEY_NAME, KEY_TABLE
from localcluster.apiserver.errors import expired, too_large_version, unauthorized
from localcluster.apiserver.registry import CRD_TABLE, resources_of
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.storage import ADDED, DELETED, MODIFIED, Change, Item, Obj, Storage
from localcluster.controllers.access import Access
from localcluster.controllers.cleanup import DefinitionController
from localcluster.controllers.controllers import Controller
from localcluster.kubelet import images
from localcluster.kubelet.lifecycle import TERMINAL, ContainerState, Decision, Run, Settings, decide
from localcluster.kubelet.options import KubeletOptions
from localcluster.kubelet.server import serve_node
from localcluster.kubelet.status import pod_status
from localcluster.timestamps import format_time, parse_time

__all__ = [
    "ADDED", "CRD_TABLE", "DELETED", "KEY_NAME", "KEY_TABLE", "MODIFIED", "TERMINAL", "Access",
    "Change", "ContainerState", "Controller", "Decision", "DefinitionController", "Item", "KubeletOptions",
    "Obj", "Resource", "Run", "Settings", "Storage", "decide", "expired", "format_time", "images",
    "parse_time", "pod_status", "resources_of", "serve_node", "too_large_version", "unauthorized",
]  # fmt: skip
