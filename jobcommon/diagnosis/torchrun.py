"""Jobs of torchrun whose replicas are restarted one by one, which torchrun does not survive."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from jobcommon.api.template import containers_of
from jobcommon.framework import Job

_NAMES = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_NODES = re.compile(r"--nnodes[= ](\d+)")
SCOPE_ADVICE = (
    "the command is torchrun, whose other agents do not survive the restart of one (pytorch#111646, pytorch#67742): "
    "set spec.runPolicy.restartScope to Job"
)


def partial_restarts(job: Job) -> str | None:
    """What to set, if the job has several replicas that torchrun starts and that are restarted one by one."""
    elastic = getattr(job.spec, "elastic_policy", None) is not None
    if job.restarts_together or elastic or job.total_replicas < 2:
        return None
    return SCOPE_ADVICE if any(name in _command(job) for name in _NAMES) else None


def wanted_nodes(job: Job) -> int:
    """The nodes that torchrun waits for, by its options; 0 without."""
    match = _NODES.search(_command(job))
    return int(match[1]) if match is not None else 0


def _command(job: Job) -> str:
    return " ".join(word for spec in job.replica_specs.values() for word in _words(spec.template))


def _words(template: Mapping[str, Any]) -> Iterator[str]:
    for container in containers_of(template):
        lists = (value for field in ("command", "args") if isinstance(value := container.get(field), list))
        yield from map(str, chain.from_iterable(lists))
