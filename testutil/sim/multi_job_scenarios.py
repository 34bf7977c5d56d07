"""Scenarios with many jobs: random combinations of lifecycles that do not interfere with each other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from random import Random

from jobcommon.testutil.sim.job_templates import JOB_TEMPLATES
from jobcommon.testutil.sim.lifecycles import LIFECYCLES, common_lifecycles
from jobcommon.testutil.sim.scenario import Exit, Manifest, Scenario, UserStep

PREFIX = "crowd-"
#: These affect all jobs (nodes, quotas, the pod garbage collector, gang schedulers, the queue), or depend on timing so much
#: that nothing could be compared.
_ALONE = (
    "L12-node", "L12-drained", "L12-pod-gc", "L14", "L15", "L13-pod-and-finalizer", "L4-in-place",
    "L16-suspended-for-a-moment", "L16-scaled-down-and-up",
)  # fmt: skip


def multi_job_scenario(seed: int) -> Scenario:
    """One to twenty jobs of one or two operators, few more often than many, beginning together."""
    random = Random(f"{PREFIX}{seed}")  # noqa: S311 - reproducibility is the point
    templates = random.sample(JOB_TEMPLATES, random.choice((1, 2)))
    parts = []
    for number in range(int(20 ** random.random())):
        template = replace(random.choice(templates), job_name=f"a{number}")
        fitting = [s for s in common_lifecycles(template) if not s.name.partition("/")[2].startswith(_ALONE)]
        parts.append(random.choice(fitting))
    return combined(f"{PREFIX}{seed}", parts)


def combined(name: str, parts: Sequence[Scenario]) -> Scenario:
    """All of `parts` in one cluster. Their jobs must have different names, and their settings and objects the defaults."""
    frameworks = {framework.kind: framework for part in parts for framework in part.frameworks}
    jobs: tuple[Manifest, ...] = tuple(chain.from_iterable(part.jobs for part in parts))
    behaviour: Mapping[str, Sequence[Exit]] = dict(chain.from_iterable(part.behaviour.items() for part in parts))
    steps = [replace(step, chain=str(number)) for number, part in enumerate(parts) for step in part.user]
    user: tuple[UserStep, ...] = tuple(steps)
    loose = frozenset(chain.from_iterable(part.loose_paths for part in parts))
    return Scenario(name, tuple(frameworks.values()), jobs, behaviour, user, loose_paths=loose)


def scenario_named(name: str) -> Scenario:
    """A lifecycle or a scenario with many jobs. Raises KeyError for an unknown name."""
    if name.startswith(PREFIX) and name.removeprefix(PREFIX).isdecimal():
        return multi_job_scenario(int(name.removeprefix(PREFIX)))
    return LIFECYCLES[name]
