"""What a pod requests, by the scheduler's own rule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcommon.api.resources import pod_resources
from localcluster.rules import defaulted
from tests.reconcile.test_properties import BOUNDED


def container(requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": requests, "limits": limits}, **more}


def of_pod(**resources: Any) -> dict[str, Any]:
    return {"resources": resources}


SIDECAR = container({"cpu": 1}, restartPolicy="Always")
GIB = {"cpu": 1, "memory": "1Gi"}
BIG = {"hugepages-2Mi": "2Mi"}
#: by what it shows: the containers, the init containers, what else the pod's spec has, and what the pod requests
ROWS: dict[str, tuple[Any, Any, dict[str, Any], dict[str, str]]] = {
    "limits stand in for requests": ([container(None, {"cpu": 20})], [], {}, {"cpu": "20"}),
    "for each resource on its own (A9)": ([container({"cpu": 10}, {"gpu": 8, "cpu": 20})], [], {}, {"cpu": "10", "gpu": "8"}),
    "containers add up": ([container({"memory": "20Gi"}), container({"memory": "10Gi"})], [], {}, {"memory": "30Gi"}),
    "the largest init container": ([container({"cpu": 2})], [container({"cpu": 5}), container({"cpu": 3})], {}, {"cpu": "5"}),
    "an init container beside a sidecar": ([container({"cpu": 2})], [SIDECAR, container({"cpu": 4})], {}, {"cpu": "5"}),
    "a sidecar adds up": ([container({"cpu": 2})], [SIDECAR], {}, {"cpu": "3"}),
    "overhead": ([container({"cpu": 2})], [], {"overhead": {"cpu": "250m"}}, {"cpu": "2250m"}),
    "the pod's own": ([container(GIB)], [], of_pod(requests={"cpu": 3}), {"cpu": "3", "memory": "1Gi"}),
    "the pod's limit is no request": ([container(GIB)], [], of_pod(limits={"cpu": 9}), {"cpu": "1", "memory": "1Gi"}),
    "unless no container has one": ([container({"cpu": 0})], [], of_pod(limits={"gpu": 2}), {"cpu": "0", "gpu": "2"}),
    "the pod's huge pages": ([container(BIG, BIG)], [], of_pod(limits={"hugepages-2Mi": "8Mi"}), {"hugepages-2Mi": "8Mi"}),
    "of containers": ([container(BIG, BIG)], [], of_pod(limits={"cpu": 2}), {"hugepages-2Mi": "2Mi", "cpu": "2"}),
    "what cannot be read": ([container({"cpu": "much", "memory": "1Gi"})], [], {}, {"memory": "1Gi"}),
    "junk": (["x", {"resources": 7}, {"resources": {"requests": []}}], 3, {}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("containers", "init", "more", "needed"), ROWS.values(), ids=ROWS)
def test_requests(containers: Any, init: Any, more: dict[str, Any], needed: dict[str, str]) -> None:
    spec = {"containers": containers, "initContainers": init, **more}
    assert {name: str(amount) for name, amount in pod_resources({"spec": spec}).items()} == needed


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": []}])
def test_templates_without_a_spec(template: dict[str, Any]) -> None:
    assert pod_resources(template) == {}


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "hugepages-2Mi"]), st.sampled_from(["0", "2Mi", "4Mi"]))
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.just("main"), "resources": RESOURCES}, optional={"restartPolicy": st.just("Always")}),
    max_size=3,
)
PODS = st.fixed_dictionaries(
    {"containers": CONTAINERS}, optional={"initContainers": CONTAINERS, "resources": RESOURCES, "overhead": AMOUNTS}
)


@BOUNDED
@given(spec=PODS)
def test_a_template_requests_what_its_pods_request_with_the_defaults_of_the_api_server(spec: dict[str, Any]) -> None:
    template, pod = (
        {name: amount.nanos for name, amount in pod_resources({"spec": s}).items()} for s in (spec, defaulted(spec))
    )
    assert template == pod
