"""`jobcommon release-finalizers`: what an operator that is gone had kept can go."""

from pathlib import Path

import pytest

from jobcommon.api import labels
from jobcommon.cli.errors import UserError
from jobcommon.cli.finalizers import release, release_finalizers
from jobcommon.framework import FINALIZER
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.builders import Manifest
from jobcommon.testutil.cluster import TestCluster, cluster_for
from tests.runtime.fakes import ScriptedTransport, refusal


def pod(name: str, operator: str, *finalizers: str) -> Manifest:
    """A pod that is never scheduled."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {labels.OPERATOR_NAME: operator}, "finalizers": list(finalizers)},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "any"}]},
    }


async def finalizers(cluster: TestCluster) -> dict[str, list[str]]:
    """What each pod still carries."""
    return {p["metadata"]["name"]: p["metadata"].get("finalizers", []) for p in await cluster.pods()}


@pytest.mark.cluster
async def test_ours_goes_and_everything_else_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(operators=False) as cluster:
        kubeconfig.write_text(cluster.cluster.kubeconfig())
        await cluster.create("pods", pod("one", PYTORCH.operator_name, FINALIZER))
        await cluster.create("pods", pod("two", PYTORCH.operator_name, "example.com/theirs", FINALIZER))
        await cluster.create("pods", pod("free", PYTORCH.operator_name))
        await cluster.create("pods", pod("other", TF.operator_name, FINALIZER))
        await cluster.create("pods", pod("deleted", TF.operator_name, FINALIZER))
        await cluster.call("DELETE", cluster.path("pods", "deleted"))
        for name, kind in (("lost", PYTORCH.kind), ("theirs", TF.kind)):
            owner = {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": "j", "uid": "u", "controller": True}
            unlabelled = pod(name, "", FINALIZER)
            unlabelled["metadata"] |= {"labels": {}, "ownerReferences": [owner]}
            await cluster.create("pods", unlabelled)
        await release_finalizers([PYTORCH], None, str(kubeconfig), None)
        await cluster.until_gone("pods", "lost")
        left = {"deleted": [FINALIZER], "free": [], "one": [], "other": [FINALIZER], "theirs": [FINALIZER]}
        assert await finalizers(cluster) == {**left, "two": ["example.com/theirs"]}
        told = [f"pod/{name} in default" for name in ("lost", "one", "two")]
        assert sorted(capsys.readouterr().out.splitlines()) == ["3 released", *told]
        await release_finalizers([PYTORCH, TF], "elsewhere", str(kubeconfig), None)
        assert (await finalizers(cluster))["other"] == [FINALIZER]
        await release_finalizers([PYTORCH, TF], "default", str(kubeconfig), None)
        assert (await finalizers(cluster))["other"] == []
        await cluster.until_gone("pods", "deleted")
        kubeconfig.write_text(kubeconfig.read_text().replace(cluster.cluster.credentials.token, "wrong"))
        with pytest.raises(UserError, match="does not accept the credentials"):
            await release_finalizers([PYTORCH], None, str(kubeconfig), None)


async def test_finalizers_that_change_meanwhile_are_an_error_that_says_what_to_do() -> None:
    held = pod("one", PYTORCH.operator_name, FINALIZER)
    held["metadata"] |= {"namespace": "default", "uid": "u"}
    with pytest.raises(UserError, match="pod/one in default: its finalizers have changed; run this again"):
        await release(ScriptedTransport().on("PATCH", "/", refusal(422)), held)
