"""Pod Security: warnings, which the conformance suite does not compare. What is refused is in its table."""

from typing import Any

import pytest

from tests.server.api import Api, pod

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
NAMESPACE = "/api/v1/namespaces/default"
PREFIX = "pod-security.kubernetes.io/"
LACKS = "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"


@pytest.fixture
def api() -> Api:
    return Api()


def label(api: Api, **levels: str | None) -> str:
    labels = {PREFIX + mode.replace("_", "-"): level for mode, level in levels.items()}
    answer = api.patch(NAMESPACE, {"metadata": {"labels": labels}})
    assert answer.code == 200
    return answer.headers.get("Warning", "")


def shared(name: str) -> Json:
    made = pod(name)
    return {**made, "spec": {**made["spec"], "hostPID": True}}


def test_a_pod_and_a_template_that_the_level_would_not_admit_are_warned_of(api: Api) -> None:
    assert label(api, warn="baseline", warn_version="v1.30") == ""
    told = '299 - "would violate PodSecurity \\"baseline:v1.30\\": host namespaces (hostPID=true)"'
    assert api.post(PODS, shared("a")).headers["Warning"] == told
    template = {"metadata": {"labels": {"a": "b"}}, "spec": shared("x")["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    answer = api.post("/apis/apps/v1/namespaces/default/deployments", deployment)
    # The other warning is that nothing makes pods of it here.
    assert (answer.code, answer.headers["Warning"].split(", 299 ")[0]) == (201, told)
    assert "Warning" not in api.post(PODS, pod("b")).headers


def test_templates_are_warned_of_by_the_level_that_is_enforced(api: Api) -> None:
    label(api, enforce="baseline")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": shared("x")["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    answer = api.post("/apis/apps/v1/namespaces/default/deployments", deployment)
    assert answer.code == 201
    assert "baseline:latest" in answer.headers["Warning"]


def test_pods_that_are_there_when_the_level_rises_are_named(api: Api) -> None:
    for name in "cab":
        api.post(PODS, pod(name))
    api.post(PODS, shared("d"))
    heading = '299 - "existing pods in namespace \\"default\\" violate the new PodSecurity enforce level \\"{}\\""'
    assert label(api, enforce="baseline") == ", ".join((heading.format("baseline:latest"), '299 - "d: host namespaces"'))
    assert label(api, enforce="restricted") == ", ".join((
        heading.format("restricted:latest"), f'299 - "a (and 2 other pods): {LACKS}"', f'299 - "d: host namespaces, {LACKS}"',
    ))  # fmt: skip
    assert label(api, enforce="baseline") == "", "a lower level needs no warning"
    assert label(api, enforce=None) == ""
