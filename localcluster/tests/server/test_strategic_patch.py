"""Strategic merge patch: a table of (kind, object, patch, result)."""

import copy
import gzip
import json
from typing import Any

import pytest

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.patch_strategic import StrategicPatchError, strategic_merge
from localcluster.kubernetes_definitions import generate

POD = ("", "v1", "Pod")
DEPLOYMENT = ("apps", "v1", "Deployment")


def containers(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(items), **more}}


def c(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


CASES = {
    "map entries merge, null removes": (POD, {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"b": None, "c": "3"}}}, {"metadata": {"labels": {"a": "1", "c": "3"}}}),
    "containers merge by name": (POD, containers(c("a", image="x"), c("b", image="y")),
        containers(c("b", image="z"), c("n", image="q")), containers(c("a", image="x"), c("b", image="z"), c("n", image="q"))),
    "ports merge by containerPort inside a container": (POD, containers(c("a", ports=[{"containerPort": 80, "name": "web"}])),
        containers(c("a", ports=[{"containerPort": 81}, {"containerPort": 80, "name": "http"}])),
        containers(c("a", ports=[{"containerPort": 80, "name": "http"}, {"containerPort": 81}]))),
    "delete one item": (POD, containers(c("a"), c("b")), containers({"$patch": "delete", "name": "a"}), containers(c("b"))),
    "replace the whole list": (POD, containers(c("a"), c("b")), containers({"$patch": "replace"}, c("n")), containers(c("n"))),
    "atomic list is replaced": (POD, containers(c("a", args=["1", "2"])), containers(c("a", args=["3"])),
        containers(c("a", args=["3"]))),
    "finalizers are a merged primitive list": (POD, {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"]}}, {"metadata": {"finalizers": ["a", "b", "c"]}}),
    "delete from a primitive list": (POD, {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, {"metadata": {"finalizers": ["b"]}}),
    "delete from and add to a primitive list, whose order stays": (POD, {"metadata": {"finalizers": ["a", "b"]}},
        {
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["c", "b"],
                "finalizers": ["c"]}}, {"metadata": {"finalizers": ["b", "c"]}}),
    "an order without a list": (POD, containers(c("a")), {"spec": {"$setElementOrder/volumes": [c("v")]}}, containers(c("a"))),
    "retain keys": (DEPLOYMENT, {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, {"spec": {"strategy": {"type": "Recreate"}}}),
    "volumes merge with retainKeys": (POD, {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "c"}}]}},
        {"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}}),
    "new values lose nulls and directives": (POD, {},
        {"spec": {"containers": [c("a", image=None), {"$patch": "delete", "name": "b"}], "nodeName": None}},
        containers(c("a"))),
    "env by name": (POD, containers(c("a", env=[{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}])),
        containers(c("a", env=[{"name": "Y", "value": "3"}])),
        containers(c("a", env=[{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}]))),
    "selector of a service is granular": (("", "v1", "Service"),
        {"spec": {"selector": {"a": "1"}, "ports": [{"port": 1, "name": "a"}]}},
        {"spec": {"selector": {"b": "2"}, "ports": [{"port": 1, "targetPort": 9}]}},
        {"spec": {"selector": {"a": "1", "b": "2"}, "ports": [{"port": 1, "name": "a", "targetPort": 9}]}}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_merge(name: str) -> None:
    kind, current, patch, expected = CASES[name]
    before = copy.deepcopy((current, patch))
    node = builtin_schemas.root(*kind)
    assert node is not None
    assert strategic_merge(node, current, patch) == expected
    assert (current, patch) == before, "inputs must not change"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"spec": {"$patch": "explode"}}, "unknown patch type: explode"),
        (containers({"image": "x"}), "does not contain declared merge key: name"),
        (containers("text"), "must be an object with the merge key"),  # type: ignore[arg-type]
    ],
)
def test_refused(patch: dict[str, Any], message: str) -> None:
    node = builtin_schemas.root(*POD)
    assert node is not None
    with pytest.raises(StrategicPatchError, match=message.replace("$", r"\$")):
        strategic_merge(node, containers(c("a")), patch)


def test_committed_schemas_are_the_generated_ones() -> None:
    """The artefact holds no stamp of time or machine, so the same definitions give the same JSON."""
    committed = builtin_schemas._document()
    assert json.loads(gzip.decompress(generate())) == committed
