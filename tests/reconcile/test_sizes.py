"""No job costs the others more than its size: every list and map of the specs, filled up, with and without gang scheduling.

The lists and maps are read from the definition, so that one that is added is attacked, too.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from time import thread_time
from typing import Any

import pytest

from jobcommon.api.gang import VOLCANO
from jobcommon.api.observed import Observed
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.reconcile import plan
from jobcommon.reconcile.plan import Create
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, replica_spec
from tests.sim.bad_jobs import HEALTHY, healthy

Json = dict[str, Any]
ENTRY, VALUE = "[]", "*"
"""Steps of a path: into a list's entry, into a map's value."""
_LEAVES: Mapping[str, Any] = {"integer": 1, "number": 1, "boolean": True, "string": "x"}


@dataclass(frozen=True)
class Attack:
    """One job. `replicas` are as many as the healthy job has that it is compared with."""

    title: str
    framework: Framework
    manifest: Manifest
    replicas: int = 1

    def peer(self) -> Manifest:
        """A job with as many replicas and nothing else out of the ordinary."""
        return _job(self.framework, self.replicas)


def attacks(framework: Framework, entries: int, *, pods: bool = True) -> Iterator[Attack]:
    """Those for one kind, each with `entries` entries, or as many as the definition allows; without `pods` not on templates."""
    versions = custom_resource_definition(framework)["spec"]["versions"]
    schema = next(v for v in versions if v["storage"])["schema"]["openAPIV3Schema"]
    for path in collections(schema["properties"]["spec"], ("spec",)):
        if pods or "template" not in path:
            yield Attack(".".join(path), framework, _filled(framework, schema, path, entries))
    worker = _worker(framework)
    for title, overrides in _overrides(entries):
        manifest = _job(framework, entries)
        manifest["spec"][framework.replica_specs][worker]["overrides"] = overrides
        yield Attack(f"{entries} replicas, {title}", framework, manifest, entries)
    manifest = _job(framework, entries)
    spec = manifest["spec"][framework.replica_specs][worker]
    (container,) = spec["template"]["spec"]["containers"]
    container["resources"] = {"requests": {f"example.com/r{n}": str(n) for n in range(20)}}
    container["env"] = [{"name": f"V{n}", "value": "x"} for n in range(400)]
    spec["overrides"] = [{"indices": [n], "template": _node(n)} for n in range(min(entries, 1000))]
    yield Attack("many overrides of many resources and variables", framework, manifest, entries)


def collections(schema: Json, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of all lists and maps below a schema."""
    if isinstance(schema.get("items"), dict):
        yield path
        yield from collections(schema["items"], (*path, ENTRY))
    if isinstance(schema.get("additionalProperties"), dict):
        yield path
        yield from collections(schema["additionalProperties"], (*path, VALUE))
    for name, below in schema.get("properties", {}).items():
        yield from collections(below, (*path, name))


def _overrides(entries: int) -> Iterator[tuple[str, list[Json]]]:
    every = list(range(entries))
    yield "all in each of 8 overrides", [{"indices": every, "template": _node(n)} for n in range(8)]
    yield "an override each", [{"indices": [n], "template": _node(n)} for n in range(min(entries, 1000))]
    few = every[:20]
    yield "20 of them in 1,000 overrides", [{"indices": few, "template": _node(n)} for n in range(1000)]
    yield (
        "as many sets of overrides as there are",
        [{"indices": [n for n in every if n >> bit & 1] or [0], "template": _node(bit)} for bit in range(14)],
    )
    yield "one index many times", [{"indices": [0] * entries, "template": _node(0)}]


def _node(number: int) -> Json:
    return {"spec": {"nodeSelector": {"rank": str(number)}, "priorityClassName": f"p{number}"}}


def _worker(framework: Framework) -> str:
    """The type of which there may be many."""
    return next(
        kind.name for kind in framework.replica_types if kind.max_replicas is None and kind.name in HEALTHY[framework.kind]
    )


def _job(framework: Framework, replicas: int) -> Manifest:
    manifest = healthy(framework, "attack")
    manifest["spec"][framework.replica_specs][_worker(framework)] = replica_spec(framework, replicas)
    return manifest


def _filled(framework: Framework, schema: Json, path: tuple[str, ...], entries: int) -> Manifest:
    """A job whose list or map at the path is full."""
    manifest = _job(framework, 1)
    at: Any = manifest
    node = schema
    for step in path:
        if step in (ENTRY, VALUE):
            key: Any = 0 if step == ENTRY else _worker(framework) if _worker(framework) in at else "k0"
            node = node["items" if step == ENTRY else "additionalProperties"]
            if step == ENTRY and not at:
                at.append(_smallest(node, 0))
        else:
            key, node = step, node["properties"][step]
        if step != ENTRY and not isinstance(at.get(key), dict | list):
            at[key] = [] if "items" in node else {}
        at = at[key]
    if "items" in node:
        count = min(entries, node.get("maxItems", entries))
        at += [_smallest(node["items"], number) for number in range(len(at), count)]
    else:
        count = min(entries, node.get("maxProperties", entries))
        at.update({f"k{number}": _smallest(node["additionalProperties"], number) for number in range(len(at), count)})
    return manifest


def _smallest(node: Json, number: int) -> Any:
    """A small value that fits a schema; those of different numbers differ in what a list map is keyed by."""
    if "enum" in node:
        return node["enum"][0]
    if "items" in node:
        return [_smallest(node["items"], number)] if node.get("minItems") else []
    if node.get("type") == "string":
        return f"x{number}"
    if node.get("type") == "integer" and "minimum" in node:
        return node["minimum"] + number % 1000
    if node.get("type") in _LEAVES:
        return _LEAVES[node["type"]]
    if node.get("x-kubernetes-int-or-string"):
        return 1
    wanted = {*node.get("required", ()), *({"name", "value"} & node.get("properties", {}).keys())}
    return {name: _smallest(node["properties"][name], number) for name in sorted(wanted)}


#: The dearest, a map of quantities, is at 26; what is quadratic is at many hundreds.
ALLOWED = 80
ENTRIES = 2000
GANGS = {"alone": None, "volcano": VOLCANO}
CASES = [
    pytest.param(attack, gang, id=f"{framework.name}-{gang}-{attack.title}")
    for framework in (PYTORCH, TF, MPI, MXNET)
    for attack in attacks(framework, ENTRIES, pods=framework is PYTORCH)
    for gang in GANGS
]


def cost(work: Callable[[], object]) -> float:
    """CPU seconds of this thread."""
    began = thread_time()
    work()
    return thread_time() - began


def decide(framework: Framework, manifest: Manifest) -> int:
    decided = plan(framework, read_job(framework, manifest), Observed(), START)
    pods = [action for action in decided.actions if isinstance(action, Create) and action.plural == "pods"]
    for pod in pods[-5:]:
        assert pod.manifest
    return len(pods)


@pytest.mark.parametrize(("attack", "gang"), CASES)
def test_a_job_costs_what_its_size_and_its_replicas_cost(attack: Attack, gang: str) -> None:
    options = replace(attack.framework.options, gang=GANGS[gang])
    framework = replace(attack.framework, options=options)
    fair = found = float("inf")
    for _ in range(3):
        # In turns, and again if it seems too much: what else the machine does is not the job's cost.
        fair = min(fair, cost(lambda: decide(framework, attack.peer())) + cost(lambda: deepcopy(attack.manifest)))
        found = min(found, cost(lambda: decide(framework, attack.manifest)))
        if found < ALLOWED * fair:
            return
    pytest.fail(f"{found:.3f} s, {found / fair:.0f} times what is fair")


def test_the_attacks_are_many_and_most_of_them_are_jobs_that_run() -> None:
    found = list(attacks(PYTORCH, 50))
    valid = [attack for attack in found if not read_job(PYTORCH, attack.manifest).errors]
    assert len(found) > 150
    assert len(valid) > 0.8 * len(found), [a.title for a in found if a not in valid]
