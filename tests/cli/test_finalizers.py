"""`jobcommon release-finalizers`: what an operator that is gone had kept can go."""

import asyncio
from pathlib import Path

import pytest

from jobcommon.api import labels
from jobcommon.cli.errors import UserError
from jobcommon.cli.finalizers import release_finalizers
from jobcommon.client.request import MERGE_PATCH
from jobcommon.framework import FINALIZER
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.builders import Manifest
from jobcommon.testutil.cluster import TestCluster, cluster_for

pytestmark = pytest.mark.cluster


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


async def test_ours_goes_and_everything_else_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(operators=False) as cluster:
        kubeconfig.write_text(cluster.cluster.kubeconfig())
        await cluster.create("pods", pod("one", PYTORCH.operator_name, FINALIZER))
        await cluster.create("pods", pod("two", PYTORCH.operator_name, "example.com/theirs", FINALIZER))
        await cluster.create("pods", pod("free", PYTORCH.operator_name))
        await cluster.create("pods", pod("other", TF.operator_name, FINALIZER))
        await release_finalizers([PYTORCH], None, str(kubeconfig), None)
        assert await finalizers(cluster) == {"free": [], "one": [], "other": [FINALIZER], "two": ["example.com/theirs"]}
        assert sorted(capsys.readouterr().out.splitlines()) == ["2 released", "pod/one in default", "pod/two in default"]
        await release_finalizers([PYTORCH, TF], "elsewhere", str(kubeconfig), None)
        assert (await finalizers(cluster))["other"] == [FINALIZER]
        await release_finalizers([PYTORCH, TF], "default", str(kubeconfig), None)
        assert (await finalizers(cluster))["other"] == []


async def test_a_pod_that_was_being_deleted_is_gone_then(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(operators=False) as cluster:
        kubeconfig.write_text(cluster.cluster.kubeconfig())
        await cluster.create("pods", pod("one", PYTORCH.operator_name, FINALIZER))
        await cluster.send("DELETE", cluster.path("pods", "one"))
        assert "deletionTimestamp" in (await cluster.pods())[0]["metadata"]
        await release_finalizers([PYTORCH], None, str(kubeconfig), None)
        await cluster.until_gone("pods", "one")


async def test_finalizers_that_change_meanwhile_are_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobcommon.cli import finalizers as module

    kubeconfig, seen = tmp_path / "kubeconfig", asyncio.Event()
    async with cluster_for(operators=False) as cluster:
        kubeconfig.write_text(cluster.cluster.kubeconfig())
        await cluster.create("pods", pod("one", PYTORCH.operator_name, FINALIZER))
        release = module._release

        async def after_somebody_else(transport: object, found: Manifest) -> None:
            await cluster.send(
                "PATCH", cluster.path("pods", "one"), {"metadata": {"finalizers": [FINALIZER, "example.com/new"]}}, MERGE_PATCH
            )
            seen.set()
            await release(transport, found)  # type: ignore[arg-type]

        monkeypatch.setattr(module, "_release", after_somebody_else)
        await release_finalizers([PYTORCH], None, str(kubeconfig), None)
        assert seen.is_set()
        assert await finalizers(cluster) == {"one": ["example.com/new"]}


async def test_a_refused_request_is_reported(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(operators=False) as cluster:
        text = cluster.cluster.kubeconfig().replace(cluster.cluster.credentials.token, "wrong")
        kubeconfig.write_text(text)
        with pytest.raises(UserError, match="does not accept the credentials"):
            await release_finalizers([PYTORCH], None, str(kubeconfig), None)
