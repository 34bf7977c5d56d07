"""What all generations of polyaxonfiles up to 0.6 say, as one value: an experiment of a master and its companions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobcommon.cli.convert.task import Group, Properties


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment. There is always a master; without workers and servers it is the only task.

    `framework` is one of Polyaxon's, or "" ; `mpi` says whether mpi-operator shall run it, which has no master. `params_name`
    is the variable by which the tasks learn the params in the file's generation.
    """

    name: str
    image: str
    command: str
    framework: str = ""
    mpi: bool = False
    master: Properties = field(default_factory=dict)
    workers: Group = field(default_factory=Group)
    servers: Group = field(default_factory=Group)
    env: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    params_name: str = "POLYAXON_PARAMS"
    info: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "INFO"
    annotations: Mapping[str, str] = field(default_factory=dict)
    run_policy: Mapping[str, Any] = field(default_factory=dict)

    @property
    def distributed(self) -> bool:
        """Whether there are tasks beside the master."""
        return self.workers.count + self.servers.count > 0
