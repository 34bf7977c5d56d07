"""A job as the clients return it: a dictionary that a prompt and a notebook show as a job."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from yaml.representer import Representer, SafeRepresenter

from jobcommon.api.text import clean
from jobcommon.api.timestamp import human_duration
from jobcommon.framework import Job
from jobcommon.sdk.build import framework_of
from jobcommon.sdk.progress import described
from jobcommon.spec import read_job


class ShownJob(dict[str, Any]):
    """The job as the API server has it. Only its representation is that of a job; ``dict(job)`` shows all of it."""

    def __init__(self, job: Mapping[str, Any], wall: Callable[[], float] = time.time) -> None:
        super().__init__(job)
        self._wall = wall

    def __repr__(self) -> str:
        read = self._read()
        if read is None:
            return super().__repr__()
        text = f"{read.kind} {read.key}, {self._age(read)} old: {described(read)}"
        return clean("; ".join(filter(None, (text, read.status.reported_progress))))

    def _read(self) -> Job | None:
        """None if it cannot be shown as a job: its kind is not installed, or it has no name."""
        try:
            framework = framework_of(str(self.get("kind")))
        except ValueError:
            return None
        read = read_job(framework, self)
        return read if read.name else None

    def _age(self, job: Job) -> str:
        return human_duration(max(self._wall() - job.creation_time, 0.0)) if job.creation_time is not None else "0s"


# PyYAML writes subclasses of dict only if it is told how.
for _writer in (SafeRepresenter, Representer):
    _writer.add_representer(ShownJob, SafeRepresenter.represent_dict)
