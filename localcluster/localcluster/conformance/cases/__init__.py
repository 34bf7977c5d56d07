"""The facts about an API server that jobcommon relies on, measured on Kubernetes 1.36.2: the table of the suite."""

from localcluster.conformance import edge_pods
from localcluster.conformance.case import Case
from localcluster.conformance.cases import (
    apply,
    custom,
    deletion,
    escalation,
    eviction,
    identity,
    lists,
    metadata_only,
    ownership,
    pod_security,
    pods,
    policies,
    services,
    tables,
    validation,
    watches,
)

TABLE: tuple[Case, ...] = (
    *identity.CASES, *deletion.CASES, *eviction.CASES, *validation.CASES, *pods.CASES, *services.CASES, *custom.CASES,
        *apply.CASES, *lists.CASES, *metadata_only.CASES, *tables.CASES,
    *watches.CASES, *pod_security.CASES, *escalation.CASES, *ownership.CASES,
    *policies.CASES, *edge_pods.cases(),
)  # fmt: skip
