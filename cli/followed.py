"""Jobs and pods that are followed, as they were seen last."""

from collections import deque
from dataclasses import dataclass, field

from jobcommon.api.status import ConditionType, JobCondition, JobStatus
from jobcommon.cli.stalls import State
from jobcommon.diagnosis.reading import TAIL_LINES
from jobcommon.sdk.following import Target

#: Kind, namespace and name of a job.
Key = tuple[str, str, str]


@dataclass
class FollowedJob:
    """The last known state of a job. `wanted`: the number of its pods; `grace`: they may end by themselves after success;
    `warnings`: of its manifest.
    """

    target: Target
    wanted: int = 0
    status: JobStatus = field(default_factory=JobStatus)
    suspended: bool = False
    gone: bool = False
    uid: str = ""
    grace: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What names it."""
        return self.target.framework.kind, self.target.namespace, self.target.name

    @property
    def title(self) -> str:
        """``pytorchjob/digits``."""
        return self.target.title

    @property
    def current(self) -> JobCondition | None:
        """The current condition: the last one."""
        return self.status.conditions[-1] if self.status.conditions else None

    @property
    def over(self) -> bool:
        """Whether the job has ended or was deleted."""
        return self.gone or self.status.finished

    @property
    def succeeded(self) -> bool:
        """Whether it has succeeded."""
        return self.status.has(ConditionType.SUCCEEDED)


@dataclass
class FollowedPod:
    """The last known state of a pod, and the last lines it printed. `cause` is why it does not run, "" if it does."""

    name: str
    job: Key
    state: str = ""
    cause: str = ""
    progress: State = State.WAITS
    restarts: int = 0
    gone: bool = False
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
