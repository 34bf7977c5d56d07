"""S26: what an attacker can do with an operator's token, as ``kubectl auth can-i --list`` says."""

import asyncio
import os
import re
from pathlib import Path

import pytest
import yaml

from jobcommon.crd import rbac
from jobcommon.crd.rbac import Rule
from jobcommon.testutil.cluster import TestCluster
from tests.charts.charts import NAMESPACE, OPERATORS, Json
from tests.charts.test_install import empty_cluster, install
from tests.cli.commands import Kubectl

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "rights"
CHARTS = [(chart, exec_) for chart in OPERATORS for exec_ in ((False, True) if "mpi-operator" in chart else (False,))]
IDS = [f"{chart}{'-exec' if exec_ else ''}" for chart, exec_ in CHARTS]
FORBIDDEN = {
    *("*", "nodes", "pods/portforward", "pods/attach", "pods/ephemeralcontainers", "secrets [list]", "secrets [watch]"),
    *("customresourcedefinitions", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
}
Right = tuple[str, str, str]


def rights(rules: tuple[Rule, ...]) -> set[Right]:
    """(resource and group, name, verb) of each thing that may be done."""
    return {(named(rule), name, verb) for rule in rules for verb in rule.verbs for name in rule.names or ("",)}


def named(rule: Rule) -> str:
    """The resource as kubectl writes it."""
    resource, slash, subresource = rule.resource.partition("/")
    return f"{resource}.{rule.group}{slash}{subresource}" if rule.group else rule.resource


def written(found: set[Right]) -> str:
    """The rights as text, a line for each resource and name."""
    lines = sorted({(resource, name) for resource, name, _ in found})
    return "".join(
        f"{resource}{f' {name}' if name else ''}: {' '.join(sorted(v for r, n, v in found if (r, n) == (resource, name)))}\n"
        for resource, name in lines
    )


@pytest.mark.parametrize(("chart", "mpi_exec"), CHARTS, ids=IDS)
def test_s26_the_rights_of_an_operator_are_these_and_no_others(chart: str, mpi_exec: bool) -> None:
    """Where its jobs are; a change of the file is a change of what a stolen token is good for."""
    text = written(rights(rbac.operator_rules(OPERATORS[chart], grants=mpi_exec)))
    path = GOLDEN / f"{chart}{'-exec' if mpi_exec else ''}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "if this is meant: make golden"
    for line in text.splitlines():
        resource, _, verbs = line.partition(": ")
        assert resource not in FORBIDDEN
        assert not {"*", "escalate", "bind", "impersonate", "deletecollection"} & set(verbs.split())
        if resource in ("secrets", "configmaps"):
            assert not {"list", "watch"} & set(verbs.split()), "by name only"
    assert ("pods/exec" in text) == mpi_exec
    assert ("secrets" in text) == ("mpi-operator" in chart or chart == "training-operators")


async def can(cluster: TestCluster, directory: Path, account: str, namespace: str) -> set[Right]:
    """What kubectl lists for the token of a ServiceAccount."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token = (await cluster.send("POST", path, {"spec": {"expirationSeconds": 3600}}))["status"]["token"]
    config: Json = yaml.safe_load(cluster.cluster.kubeconfig())
    config["users"][0]["user"] = {"token": token}
    kubeconfig = directory / account
    kubeconfig.write_text(yaml.safe_dump(config))
    said = await asyncio.to_thread(Kubectl(kubeconfig), "auth", "can-i", "--list", "--no-headers", "-n", namespace)
    found = set()
    for line in said.splitlines():
        resource, urls, names, verbs = re.fullmatch(r"(\S*)\s+\[(.*?)\]\s+\[(.*?)\]\s+\[(.*?)\]\s*", line).groups()  # type: ignore[union-attr]
        if not urls:
            found |= {(resource, name, verb) for name in names.split() or [""] for verb in verbs.split()}
    return found


@pytest.mark.cluster
@pytest.mark.parametrize("namespaced", [False, True], ids=["all namespaces", "one namespace"])
@pytest.mark.parametrize("chart", ["mpi-operator", "pytorch-operator"])
async def test_s26_a_stolen_token_is_good_for_no_more_than_the_file_says(chart: str, namespaced: bool, tmp_path: Path) -> None:
    async with empty_cluster(tmp_path) as (cluster, kubeconfig):
        await install(kubeconfig, chart, **({"watchNamespace": "default"} if namespaced else {}))
        account = f"demo-{chart}"
        await cluster.send("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "nobody"}})
        common = await can(cluster, tmp_path, "nobody", "default")
        assert written(await can(cluster, tmp_path, account, "default") - common) == (GOLDEN / f"{chart}.txt").read_text()
        elsewhere = await can(cluster, tmp_path, account, "kube-system") - common
        assert bool(elsewhere) != namespaced, "nothing outside its one namespace"
        leases = rights(rbac.lease_rules(account))
        assert {r for r in await can(cluster, tmp_path, account, NAMESPACE) if r[0].startswith("leases")} == leases
        # What is listed is what holds.
        body = {"metadata": {"name": "of-another"}, "stringData": {"password": "x"}}
        await cluster.send("POST", "/api/v1/namespaces/default/secrets", body)
        stolen = Kubectl(tmp_path / account)
        for where in (("-n", "default"), ("-A",)):
            done = await asyncio.to_thread(stolen.run, "get", "secrets", *where)
            assert (done.returncode, "orbidden" in done.stderr) == (1, True)
        done = await asyncio.to_thread(stolen.run, "get", "secret", "of-another", "-n", "default")
        assert (done.returncode == 0) == (chart == "mpi-operator"), "without MPI no Secret can be read at all"
        for verb in (("exec", "p", "--", "id"), ("get", "nodes"), ("get", "roles"), ("create", "serviceaccount", "x")):
            done = await asyncio.to_thread(stolen.run, *verb)
            assert "orbidden" in done.stderr or "not found" in done.stderr
