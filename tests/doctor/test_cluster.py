"""`jobcommon doctor` as a command, against an embedded cluster in which several things are wrong."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.api.timestamp import format_time
from jobcommon.cli.doctor_command import doctor
from jobcommon.cli.errors import UserError
from jobcommon.crd import custom_resource_definition
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil import kueue
from jobcommon.testutil.cluster import TestCluster, cluster_for

pytestmark = pytest.mark.cluster
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FRAMEWORKS = (PYTORCH, TF)


async def seed(cluster: TestCluster, now: float) -> None:
    """An older PyTorchJob and no TFJob; a lease of training-operator; our operator and Kueue, without rights."""
    definition = custom_resource_definition(PYTORCH)
    del definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["restarts"]
    await cluster.send("POST", DEFINITIONS, definition)
    await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": "kubeflow"}})
    lease = {"holderIdentity": "host_1", "leaseDurationSeconds": 3600, "renewTime": f"{format_time(now)[:-1]}.000000Z"}
    await cluster.send(
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/kubeflow/leases",
        {"metadata": {"name": "1ca428e5.training-operator.kubeflow.org"}, "spec": lease},
    )
    container = {"name": "operator", "image": "any/jobcommon", "command": ["jobcommon"], "args": ["operator"]}
    labels = {"app": "ours"}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "ours", "containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/kubeflow/deployments"
    await cluster.send("POST", path, {"metadata": {"name": "ours"}, "spec": spec})
    for definition in kueue.definitions():
        await cluster.send("POST", DEFINITIONS, definition)
    await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    integrations = {"frameworks": ["kubeflow.org/tfjob", "pod"], "externalFrameworks": ["PyTorchJob.v1.kubeflow.org"]}
    data = {"controller_manager_config.yaml": yaml.safe_dump({"integrations": integrations})}
    configuration = {"metadata": {"name": "kueue-manager-config"}, "data": data}
    await cluster.send("POST", "/api/v1/namespaces/kueue-system/configmaps", configuration)


async def findings(kubeconfig: Path, capsys: pytest.CaptureFixture[str], output: str = "json") -> tuple[int, Any]:
    code = await doctor(FRAMEWORKS, str(kubeconfig), None, output)
    text = capsys.readouterr().out
    return code, json.loads(text) if output == "json" else text


async def test_each_seeded_fault_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(operators=False) as cluster:
        kubeconfig.write_text(cluster.cluster.kubeconfig())
        await seed(cluster, time.time())
        code, found = await findings(kubeconfig, capsys)
        assert code == 1
        said = {(one["severity"], one["subject"]) for one in found}
        account = "system:serviceaccount:kubeflow:ours"
        assert said == {
            ("error", "CustomResourceDefinition pytorchjobs.kubeflow.org"),
            ("error", "CustomResourceDefinition tfjobs.kubeflow.org"),
            ("error", "Lease 1ca428e5.training-operator.kubeflow.org in kubeflow"),
            ("error", "Deployment ours in kubeflow"),
            ("error", account),
            ("error", "system:serviceaccount:kueue-system:kueue-controller-manager"),
            ("warning", "Kueue"),
        }
        assert any(one["what"] == "may not get, list, watch, create, delete, patch pods in all namespaces" for one in found)
        code, text = await findings(kubeconfig, capsys, "text")
        assert code == 1
        assert f"{len(found) - 1} errors, 1 warning, 0 notes, 0 not readable" in text
        assert text.count("    fix: ") == len(found)


async def test_a_user_who_may_read_nothing_is_told_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(PYTORCH, operators=False) as cluster:
        account = "/api/v1/namespaces/default/serviceaccounts"
        await cluster.send("POST", account, {"metadata": {"name": "reader"}})
        token = (await cluster.send("POST", f"{account}/reader/token", {"spec": {"expirationSeconds": 3600}}))["status"][
            "token"
        ]
        config = yaml.safe_load(cluster.cluster.kubeconfig())
        config["users"][0]["user"] = {"token": token}
        kubeconfig.write_text(yaml.safe_dump(config))
        code, found = await findings(kubeconfig, capsys)
        unread = {one["subject"] for one in found if one["severity"] == "unread"}
        assert {"Leases", "Deployments", "batch Jobs", "CustomResourceDefinition pytorchjobs.kubeflow.org"} <= unread
        # What the user may do as the operator is asked of the server, and it is nothing.
        assert any(one["severity"] == "warning" and "may not" in one["what"] for one in found)
        assert code == 0
        config["users"][0]["user"] = {"token": "unknown"}
        kubeconfig.write_text(yaml.safe_dump(config))
        with pytest.raises(UserError, match="does not accept the credentials"):
            await findings(kubeconfig, capsys)
