"""What a pod requests, by the scheduler's own rule."""

from typing import Any

import pytest

from jobcommon.reconcile.resources import pod_resources


def container(requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": requests, "limits": limits}, **more}


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param({"containers": []}, {}, id="nothing"),
        pytest.param({"containers": [{"name": "main"}]}, {}, id="no resources"),
        pytest.param({"containers": [container({"cpu": 20})]}, {"cpu": "20"}, id="requests"),
        pytest.param({"containers": [container(None, {"cpu": 20})]}, {"cpu": "20"}, id="limits stand in for requests"),
        pytest.param(
            {"containers": [container({"cpu": 10, "memory": "16Gi"}, {"nvidia.com/gpu": 8, "cpu": 20, "memory": "32Gi"})]},
            {"cpu": "10", "memory": "16Gi", "nvidia.com/gpu": "8"},
            id="for each resource on its own (A9)",
        ),
        pytest.param(
            {"containers": [container({"memory": "20Gi"}), container({"memory": "10Gi"})]},
            {"memory": "30Gi"},
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
            {"cpu": "3"},
            id="a sidecar adds up with the containers",
        ),
        pytest.param({"containers": [container({"cpu": 2})], "overhead": {"cpu": "250m"}}, {"cpu": "2250m"}, id="overhead"),
        pytest.param(
            {"containers": [container({"cpu": 2, "memory": "1Gi"})], "resources": {"requests": {"cpu": 3}}},
            {"cpu": "3", "memory": "1Gi"},
            id="the pod's own figures",
        ),
        pytest.param(
            {"containers": [container({"cpu": "much", "memory": "1Gi"})]}, {"memory": "1Gi"}, id="what cannot be read"
        ),
        pytest.param(
            {"containers": ["x", {"resources": 7}, {"resources": {"requests": []}}], "initContainers": 3}, {}, id="junk"
        ),
    ],
)
def test_requests(spec: dict[str, Any], needed: dict[str, str]) -> None:
    assert {name: str(amount) for name, amount in pod_resources({"spec": spec}).items()} == needed


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": []}])
def test_templates_without_a_spec(template: dict[str, Any]) -> None:
    assert pod_resources(template) == {}
