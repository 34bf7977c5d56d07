"""The facts about an API server that jobcommon relies on, recorded from Kubernetes 1.36.2: the table of the suite."""

from localcluster.conformance import edge_pods
from localcluster.conformance.case import TABLE
from localcluster.conformance.cases import deletion, eviction, identity, lists, metadata_only, pods, watches

__all__ = ["TABLE", "deletion", "eviction", "identity", "lists", "metadata_only", "pods", "watches"]

TABLE += edge_pods.cases()
