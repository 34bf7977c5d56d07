"""The input of a decision besides the job: the observed state of its children and of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from jobcommon.api.pod import PodView
from jobcommon.api.view import ObjectView

FINALIZERS = "pods/finalizers"
"""Stands for the removal of finalizers among what is backed off."""
IMAGES = "pods/images"
"""Stands for the change of a pod's image among what is backed off."""
IMAGES_LATER = "pods/images later"
"""The same, for a while: the answer says nothing about the image, as that of a webhook which cannot be reached."""
SPARES = "pods/spare"
"""Stands for the creation of pods that the attempt does not need among what is backed off."""
GETS = "/reads"
"""After a plural, stands for the reads of such objects among what is backed off."""
UPDATES = "/updates"
"""After a plural, stands for the updates of such objects among what is backed off."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A create that the API server refused for good, and why. `required`: the job cannot continue without the object."""

    message: str
    required: bool = True


@dataclass(frozen=True)
class Observed:
    """What the controller has seen of a job's children: only objects whose controller is this job's UID.

    `companions` is keyed by plural and name. `last_observed` has, by plural, the kinds that are not watched, and for each
    when its objects were last read (seconds since the epoch), by name, found or not. `rejections` holds, by plural and name,
    creates of the current spec that the API server refused for good, `required` ones before the job had begun; `refusal` says
    what it refuses for now, as a quota does ("" when nothing), and `backed_off` names, by plural, what is not to be created
    until the back-off is over (with `FINALIZERS`, no finalizer is removed; with `IMAGES`, no image is changed; see `GETS` and
    `UPDATES`).
    `quota_refuses_for`: for how many seconds a quota alone has refused pods; None if none does, or another cause does.
    `predecessors` are the names of pods that an earlier job of this name has left behind. `begun`: the job had its start, or
    this process has made objects of it before. `unkept` says why logs of failed replicas cannot be kept ("" if they can).
    `cluster` holds objects of others that features watch, by plural and name: those without a namespace, as priority classes,
    and those of the job's. `missing` says, by plural, why what a feature watches cannot be read now. `same_for`: for how many
    seconds, by a clock that does not jump, this process has seen no sign of life of the job's program
    (`reports.signs_of_life`); None if it has not watched, and then the times in the status count.
    `reachable_for`: for how many seconds, by that clock, this process has taken every report of the job that reached it; None
    if that is not known.
    `reported`: whether a report of the program was recorded while this process watched; one that came before may be lost.
    `taken_services`: names under which the job's Service could not be created, because other owners' Services have them.
    """

    pods: tuple[PodView, ...] = ()
    services: tuple[ObjectView, ...] = ()
    companions: Mapping[tuple[str, str], ObjectView] = field(default_factory=lambda: MappingProxyType({}))
    last_observed: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    rejections: Mapping[tuple[str, str], Rejection] = field(default_factory=lambda: MappingProxyType({}))
    refusal: str = ""
    unkept: str = ""
    backed_off: frozenset[str] = frozenset()
    quota_refuses_for: float | None = None
    predecessors: frozenset[str] = frozenset()
    begun: bool = False
    cluster: Mapping[tuple[str, str], ObjectView] = field(default_factory=lambda: MappingProxyType({}))
    missing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    same_for: float | None = None
    reachable_for: float | None = None
    reported: bool = True
    taken_services: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """A companion under another key would not be found, and be created again and again."""
        for key, companion in self.companions.items():
            if key != (key[0].lower(), companion.name):
                raise ValueError(
                    f"Observed.companions: {key} is {companion.name}; a key is its plural in lower case and its name"
                )
