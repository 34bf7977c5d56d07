"""A scenario: which jobs there are, how their containers end, and what the user does. Data only; the simulator runs it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobcommon.framework import Framework
from jobcommon.runtime.settings import Settings
from localcluster import ApiServer

Manifest = Mapping[str, Any]

SETTINGS = Settings(metrics_port=None, log_level="critical")
"""No server of the operator's own, and nothing but disasters in the log."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The script of one run of a container.

    It ends by itself `after` seconds (None: never) with `code`; they count from its start or, with a `cue`, from when
    that holds, given the server and the runs so far by pod. On SIGTERM it ends after `stop` seconds with code `term`
    (None: one of `ON_SIGTERM`, by chance), or is killed at the end of its grace period.
    """

    after: float | None = None
    code: int = 0
    message: str = ""
    stop: float = 0.5
    term: int | None = None
    cue: Callable[[ApiServer, Mapping[str, int]], bool] | None = None


ON_SIGTERM = (143, 0, 1)
"""How programs answer SIGTERM: not at all, by ending well (as sshd does), or by ending with an error (as mpirun does)."""
FOREVER = (Exit(),)
"""Runs until it is stopped."""
DONE = (Exit(after=5.0),)
"""Succeeds after five seconds."""


@dataclass(frozen=True, slots=True)
class UserStep:
    """One thing that the user (or another controller) does, once: `after` seconds since `when` held.

    `do` acts through the server and raises `testutil.sim.user.RefusedError` when it is to be tried again a second later.
    """

    name: str
    do: Callable[[ApiServer], None]
    when: Callable[[ApiServer], bool] | None = None
    after: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """One cluster and its users, for the operators to run in.

    `jobs` are created at the beginning. `behaviour` maps a pattern for ``pod`` or ``pod/container`` (fnmatch) to what the n-th
    run of that container does, counted over all pods of that name that belong to the same job UID; the last entry repeats. A
    container that no pattern names succeeds after five seconds if it is an init container and runs without end if not.
    """

    name: str
    frameworks: tuple[Framework, ...]
    jobs: tuple[Manifest, ...]
    behaviour: Mapping[str, Sequence[Exit]] = field(default_factory=dict)
    user: tuple[UserStep, ...] = ()
    horizon: float = 3600.0
    """Virtual seconds in which the fault-free run comes to rest."""
    settings: Settings = SETTINGS
    start_seconds: tuple[float, float] = (0.2, 2.0)
    """Between which bounds the first start of a pod's containers takes, images and all."""
    last_delete_seconds: tuple[float, float] = (0.0, 5.0)
    """Between which bounds the kubelet's DELETE without a grace period follows the final status of a deleted pod."""
    node_skew: float = 60.0
    """By how many seconds the clock of a node may be ahead of the API server's, or behind it; half of the nodes are right."""
