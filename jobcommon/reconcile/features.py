"""The optional features of jobs, in the order in which they are asked."""

from jobcommon.reconcile.in_place import InPlace
from jobcommon.reconcile.node_loss import NodeLoss
from jobcommon.reconcile.situation import Feature

FEATURES: tuple[Feature, ...] = (NodeLoss, InPlace)
