"""The facts about an API server that jobcommon relies on, recorded from Kubernetes 1.36.2: the table of the suite."""

from localcluster.conformance import edge_pods
from localcluster.conformance.case import Case
from localcluster.conformance.cases import deletion, eviction, identity, lists, metadata_only, pods, watches

TABLE: tuple[Case, ...] = (
    *identity.CASES, *deletion.CASES, *eviction.CASES, *pods.CASES, *lists.CASES, *metadata_only.CASES, *watches.CASES,
    *edge_pods.cases(),
)  # fmt: skip
