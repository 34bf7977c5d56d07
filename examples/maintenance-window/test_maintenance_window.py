"""The feature through the library's front door, without a cluster."""

import json
from datetime import datetime
from typing import Any

import pytest
from maintenance_window import PYTORCH_IN_WINDOWS

from jobcommon import ObjectView, Observed, custom_resource_definition, plan, read_job
from jobcommon.controller import object_view

NIGHT = {"starts": "2026-12-01T22:00:00Z", "ends": "2026-12-02T04:00:00Z"}
NOW = datetime.fromisoformat("2026-12-01T23:00:00Z").timestamp()


def job(window: Any = None, **status: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "train:1"}]}}
    policy = {} if window is None else {"maintenanceWindow": window}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "demo", "namespace": "team", "uid": "u", "generation": 1},
        "spec": {"runPolicy": policy, "pytorchReplicaSpecs": {"Master": {"template": template}}},
        "status": status,
    }


def config_map(data: dict[str, str]) -> dict[tuple[str, str], ObjectView]:
    manifest = {"kind": "ConfigMap", "metadata": {"name": "night", "namespace": "team"}, "data": data}
    return {("configmaps", "night"): object_view(json.dumps(manifest).encode())}


EARLIER = {**NIGHT, "ends": "2026-12-01T22:30:00Z"}


# The window of the job, that of its namespace, and the job's start -> whether it waits at 23:00
@pytest.mark.parametrize(("own", "shared", "started", "waits"), [
    pytest.param(None, {}, None, False, id="no window"),
    pytest.param(NIGHT, {}, None, True, id="its own"),
    pytest.param(EARLIER, {}, None, False, id="its own is over"),
    pytest.param(None, NIGHT, None, True, id="the namespace's"),
    pytest.param(EARLIER, NIGHT, None, False, id="its own counts"),
    pytest.param(None, {"starts": "at night"}, None, False, id="unreadable"),
    pytest.param(NIGHT, {}, "2026-12-01T21:00:00Z", False, id="it has started"),
])  # fmt: skip
def test_a_job_does_not_start_in_a_window(own: Any, shared: dict[str, str], started: str | None, waits: bool) -> None:
    read = read_job(PYTORCH_IN_WINDOWS, job(own, **({"startTime": started} if started else {})))
    decided = plan(PYTORCH_IN_WINDOWS, read, Observed(cluster=config_map(shared) if shared else {}), NOW)
    assert (not [action for action in decided.actions if action.plural == "pods"]) == waits
    assert decided.status is not None
    recorded = decided.status.to_json().get("features", {}).get("maintenanceWindow", {})
    assert ("maintenance until 2026-12-02T04:00:00Z" in decided.status.conditions[-1].message) == waits
    assert (recorded, decided.wake_at) == ({"until": NIGHT["ends"]}, NOW + 5 * 3600) if waits else ({}, decided.wake_at)


def test_what_is_on_record_goes_when_the_job_starts() -> None:
    read = read_job(PYTORCH_IN_WINDOWS, job(NIGHT, features={"maintenanceWindow": {"until": NIGHT["ends"]}, "other": {"a": 1}}))
    decided = plan(PYTORCH_IN_WINDOWS, read, Observed(), NOW + 6 * 3600)
    assert decided.status is not None
    assert decided.status.features == {"other": {"a": 1}}, "that of a feature which is not installed here stays"


@pytest.mark.parametrize(("window", "error"), [
    ({**NIGHT, "ends": NIGHT["starts"]}, "maintenanceWindow.ends: must be after starts"),
    ({**NIGHT, "starts": "2026-12-01T22:00:00"}, "maintenanceWindow.starts: 2026-12-01T22:00:00 has no time zone; append Z"),
    ({"ends": NIGHT["ends"]}, "maintenanceWindow.starts: Required value"),
    ("tonight", "maintenanceWindow: must be an object"),
])  # fmt: skip
def test_an_error_names_the_field(window: Any, error: str) -> None:
    assert [str(one) for one in read_job(PYTORCH_IN_WINDOWS, job(window)).errors] == [f"spec.runPolicy.{error}"]


def test_the_definition_has_its_fields() -> None:
    (version,) = custom_resource_definition(PYTORCH_IN_WINDOWS)["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    policy, recorded = fields["spec"]["properties"]["runPolicy"], fields["status"]["properties"]["features"]
    assert policy["properties"]["maintenanceWindow"]["required"] == ["ends", "starts"]
    assert recorded["properties"]["maintenanceWindow"]["properties"].keys() == {"until"}
