"""Front door: the parts from which a simulator makes a cluster with a clock, nodes and controllers of its own."""

from localcluster.apiserver.bootstrap import KEY_NAME, KEY_TABLE
from localcluster.apiserver.registry import resources_of
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.storage import Change, Item, Obj
from localcluster.controllers.access import Access
from localcluster.timestamps import format_time

__all__ = ["KEY_NAME", "KEY_TABLE", "Access", "Change", "Item", "Obj", "Resource", "format_time", "resources_of"]
