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


@pytest.mark.parametrize(("spec", "needed"), [
    pytest.param({"containers": []}, {}, id="nothing"),
    pytest.param({"containers": [{"name": "main"}]}, {}, id="no resources"),
    pytest.param({"containers": [container({"cpu": 20})]}, {"cpu": "20"}, id="requests"),
    pytest.param({"containers": [container(None, {"cpu": 20})]}, {"cpu": "20"}, id="limits stand in for requests"),
    pytest.param(
        {"containers": [container({"cpu": 10, "memory": "16Gi"}, {"nvidia.com/gpu": 8, "cpu": 20, "memory": "32Gi"})]},
        {"cpu": "10", "memory": "16Gi", "nvidia.com/gpu": "8"}, id="for each resource on its own (A9)",
    ),
    pytest.param(
        {"containers": [container({"memory": "20Gi"}), container({"memory": "10Gi"})]}, {"memory": "30Gi"},
        id="containers add up",
    ),
    pytest.param(
        {
            "containers": [container({"cpu": 2})],
            "initContainers": [container({"cpu": 5, "memory": "1Gi"}), container({"cpu": 3})],
        },
        {"cpu": "5", "memory": "1Gi"},
        id="the largest init container, if it is larger",
    ),
    pytest.param(
        {
            "containers": [container({"cpu": 2})],
            "initContainers": [container({"cpu": 1}, restartPolicy="Always"), container({"cpu": 4})],
        },
        {"cpu": "5"},
        id="an init container beside a sidecar",
    ),
    pytest.param(
        {"containers": [container({"cpu": 2})], "initContainers": [container({"cpu": 1}, restartPolicy="Always")]},
        {"cpu": "3"}, id="a sidecar adds up with the containers",
    ),
    pytest.param({"containers": [container({"cpu": 2})], "overhead": {"cpu": "250m"}}, {"cpu": "2250m"}, id="overhead"),
    pytest.param(
        {"containers": [container({"cpu": 2, "memory": "1Gi"})], "resources": {"requests": {"cpu": 3}}},
        {"cpu": "3", "memory": "1Gi"}, id="the pod's own figures",
    ),
    pytest.param(
        {
            "containers": [container({"cpu": 1}), container(None, {"memory": "1Gi"})],
            "resources": {"limits": {"cpu": 10, "memory": "64Gi"}},
        },
        {"cpu": "1", "memory": "1Gi"},
        id="the pod's limit is no request where a container has one",
    ),
    pytest.param(
        {"containers": [container({"cpu": 0})], "resources": {"limits": {"cpu": 10, "memory": "64Gi"}}},
        {"cpu": "0", "memory": "64Gi"}, id="the pod's limit where no container has a request",
    ),
    pytest.param(
        {
            "containers": [container({"cpu": 1})],
            "initContainers": [container({"memory": "2Gi"}), container({"cpu": 2}, restartPolicy="Always")],
            "resources": {"limits": {"cpu": 10, "memory": "64Gi"}},
            "overhead": {"cpu": 1},
        },
        {"cpu": "4", "memory": "2Gi"},
        id="the pod's limit beside init containers and overhead",
    ),
    pytest.param(
        {
            "containers": [container({"cpu": 1}), container(None, {"memory": "1Gi"})],
            "resources": {"limits": {"cpu": 10}, "requests": {"cpu": 3}},
        },
        {"cpu": "3", "memory": "1Gi"},
        id="the pod's limit beside its request",
    ),
    pytest.param(
        {
            "containers": [container({"hugepages-2Mi": "2Mi", "cpu": 1}, {"hugepages-2Mi": "2Mi"})],
            "resources": {"limits": {"hugepages-2Mi": "8Mi", "cpu": 2}},
        },
        {"cpu": "1", "hugepages-2Mi": "8Mi"},
        id="the pod's huge pages, of which there is no less than the limit",
    ),
    pytest.param(
        {
            "containers": [container({"hugepages-2Mi": "2Mi", "cpu": 1}, {"hugepages-2Mi": "2Mi"})],
            "resources": {"limits": {"cpu": 2}},
        },
        {"cpu": "1", "hugepages-2Mi": "2Mi"},
        id="huge pages of containers",
    ),
    pytest.param({"containers": [container({"cpu": "much", "memory": "1Gi"})]}, {"memory": "1Gi"}, id="what cannot be read"),
    pytest.param({"containers": ["x", {"resources": 7}, {"resources": {"requests": []}}], "initContainers": 3}, {}, id="junk"),
])  # fmt: skip
def test_requests(spec: dict[str, Any], needed: dict[str, str]) -> None:
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
