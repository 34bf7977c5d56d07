"""Jobs of torchrun whose replicas are restarted one by one, which torchrun does not survive."""

from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.framework import Job

_NAMES = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
ADVICE = (
    "the command is torchrun, whose other agents do not survive the restart of one (pytorch#111646, pytorch#67742): "
    "set spec.runPolicy.restartScope to Job"
)


def partial_restarts(job: Job) -> str | None:
    """What to set, if the job has several replicas that torchrun starts and that are restarted one by one."""
    elastic = getattr(job.spec, "elastic_policy", None) is not None
    if job.restarts_together or elastic or job.total_replicas < 2:
        return None
    words = " ".join(word for spec in job.replica_specs.values() for word in _words(spec.template))
    return ADVICE if any(name in words for name in _NAMES) else None


def _words(template: Mapping[str, Any]) -> Iterator[str]:
    for container in (template.get("spec") or {}).get("containers") or ():
        yield from (str(word) for field in ("command", "args") for word in container.get(field) or ())
