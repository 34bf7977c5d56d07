"""Checks whether an operator acts, by its lease. Which jobs wait for one, `kubectl train list` says."""

from collections.abc import Iterator, Sequence

from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import span
from jobcommon.cli.doctor.finding import Finding, Severity
from jobcommon.cli.doctor.operators import OwnOperator
from jobcommon.cli.doctor.state import ClusterState, names
from jobcommon.cli.rights import LEASE
from jobcommon.diagnosis.reading import OPERATOR_LABEL

# Three times the usual duration of a lease; clocks differ.
_LEASE_SECONDS = 45.0
_WHY = "jobs neither start nor end while no operator acts"
_MEND = "start the operators, or check their log: kubectl get pods --all-namespaces -l " + OPERATOR_LABEL


def check_acting(state: ClusterState, own: Sequence[OwnOperator], now: float) -> Iterator[Finding]:
    """All of them. `now` is the time in seconds since the epoch."""
    renewed = _renewed(state, own)
    if own and not any(one.replicas for one in own):
        return  # Its Deployment says so.
    if renewed is not None and now - renewed[0] > _LEASE_SECONDS:
        yield Finding(
            Severity.ERROR,
            f"Lease {renewed[2]} in {renewed[1]}",
            f"was renewed {span(now - renewed[0])} ago: no leader acts",
            _WHY,
            _MEND,
        )
    elif renewed is None and not own and not state.may_hide_operators and "Leases" not in state.unread:
        yield Finding(
            Severity.WARNING, "operators", "of this project were not found: no Deployment, no lease",
            f"{_WHY}; an operator elsewhere without leader election is not seen", "install them (docs/install.md)",
        )  # fmt: skip


def _renewed(state: ClusterState, own: Sequence[OwnOperator]) -> tuple[float, str, str] | None:
    """When one of our leases was renewed last, and its namespace and name."""
    prefixes = tuple({LEASE, *(one.lease for one in own)})
    found = []
    for lease in state.leases:
        namespace, name = names(lease)
        at = parse_time((lease.get("spec") or {}).get("renewTime"))
        if name.startswith(prefixes) and at is not None:
            found.append((at, namespace, name))
    return max(found, default=None)
