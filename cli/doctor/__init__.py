"""``jobcommon doctor``: what is wrong with a cluster for our operators. Reading is in `reading`, all checks are pure."""

from collections.abc import Mapping, Sequence

from jobcommon.cli.doctor.acting import check_acting
from jobcommon.cli.doctor.definitions import check_definitions, our_definitions
from jobcommon.cli.doctor.finding import Finding, Severity
from jobcommon.cli.doctor.operators import own_operators
from jobcommon.cli.doctor.other_operators import check_other_operators
from jobcommon.cli.doctor.platform import check_platform
from jobcommon.cli.doctor.state import ClusterState, Json
from jobcommon.framework import Framework

__all__ = ["ClusterState", "Finding", "Severity", "examine", "our_definitions"]


def examine(state: ClusterState, frameworks: Sequence[Framework], ours: Mapping[str, Json], now: float) -> list[Finding]:
    """All findings about what was read, the worst first.

    `ours` are the definitions that there should be (`our_definitions`). `now` is the time in seconds since the epoch.
    """
    own = own_operators(state.deployments, frameworks)
    unread = [
        Finding(Severity.UNREAD, what, "could not be read", why, "ask with more rights, or let an administrator run this")
        for what, why in state.unread.items()
    ]
    # In the order in which they are to be fixed: while another operator runs, nothing is to be changed under it.
    found = [
        *check_other_operators(state, frameworks, own, now),
        *check_acting(state, own, now),
        *check_definitions(state, frameworks, own, ours),
        *check_platform(state, frameworks, own),
        *unread,
    ]
    return sorted(dict.fromkeys(found), key=lambda finding: finding.severity)
