"""The charts, linted and rendered by the real Helm."""

from typing import Any

import kubernetes_validate
import pytest
import yaml

from jobcommon.api.labels import JOB_NAME
from jobcommon.crd import crd_files
from jobcommon.runtime.settings import Settings
from tests.charts.charts import CHARTS, OPERATORS, PRODUCTION, SAMPLE, container, helm, notes, of_kind, render, the
from tests.docs.blocks import blocks


@pytest.mark.parametrize("chart", SAMPLE)
def test_a_chart_passes_helm_lint(chart: str) -> None:
    for values in ({}, {"watchNamespaces": ["team-a"]}, PRODUCTION):
        report = helm.lint(CHARTS / chart, values, strict=True, namespace="operators", kube_version="v1.29.0")
        assert report["total_charts_linted"] == 1
        # Severity 1 is information, such as the advice to have an icon.
        assert not [message for message in report["messages"] if message["severity"] > 1]
        assert not report["errors"]


@pytest.mark.parametrize("chart", OPERATORS)
def test_a_chart_brings_the_crds_of_its_frameworks(chart: str) -> None:
    """The files in charts/crds, which tests/api/test_crd.py compares with the code."""
    brought = {path.name: path.resolve().parent for path in (CHARTS / chart / "crds").iterdir()}
    assert brought == dict.fromkeys(crd_files(OPERATORS[chart]), CHARTS / "crds")


@pytest.mark.parametrize("chart", SAMPLE)
def test_the_operator_has_probes_resources_and_time_to_end(chart: str) -> None:
    main = container(render(chart))
    assert main["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert main["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert main["ports"] == [{"name": "metrics", "containerPort": 8080}]
    assert main["resources"]["requests"]
    assert main["resources"]["limits"]
    rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    assert main["securityContext"] == rights
    assert "--metrics-host=0.0.0.0" in main["args"], "without the flag it is loopback"
    assert f"--workers={Settings().workers}" in main["args"]
    # Settings.shutdown_seconds for the writes, and twice CLOSING_SECONDS.
    assert the(render(chart), "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= 20 + 2 * 3


@pytest.mark.parametrize("chart", OPERATORS)
def test_the_operator_is_told_its_frameworks_and_its_lease(chart: str) -> None:
    args = container(render(chart))["args"]
    names = [framework.name for framework in OPERATORS[chart]]
    assert [a.removeprefix("--framework=") for a in args if a.startswith("--framework=")] == sorted(names)
    assert args[0] == "operator"
    assert {"--leader-elect", "--lease-namespace=$(POD_NAMESPACE)", f"--lease-name=demo-{chart}"} <= set(args)
    assert not any(a.startswith("--namespace") for a in args)
    assert "--namespace=team-a" in container(render(chart, watchNamespaces=["team-a"]))["args"]
    assert "--namespace=$(POD_NAMESPACE)" in container(render(chart, watchNamespaces=["operators"]))["args"]


def test_a_set_of_frameworks_runs_in_one_process_and_a_single_chart_runs_its_own_only() -> None:
    objects = render("training-operators", frameworks=["mxnet", "jax"])
    assert len(of_kind(objects, "Deployment")) == 1
    assert [a for a in container(objects)["args"] if a.startswith("--framework=")] == ["--framework=jax", "--framework=mxnet"]
    with pytest.raises(helm.HelmError, match=r"frameworks: tf-operator runs .*, not mpi"):
        render("tf-operator", frameworks=["mpi"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"frameworks": ["caffe"]}, "frameworks"),
        ({"framework": {"module": "my_package"}}, "framework"),
        ({"framework": {"module": "my_package:MINE"}}, "framework"),
        ({"replicas": -1}, "replicas"),
        ({"replica": 1}, "replica"),
        ({"watchNamespaces": ["Team A"]}, "watchNamespaces"),
        ({"watchNamespaces": [""]}, "watchNamespaces"),
        ({"extraArgs": ["workers"]}, "extraArgs"),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topologySpreadConstraints"),
        ({"image": {"digest": "sha256:short"}}, "digest"),
        ({"metrics": {"port": 80}}, "port"),
        ({"metrics": {"tokenSecret": {"name": "No/Name"}}}, "tokenSecret"),
        ({"progress": {"tlsSecret": "No/Name"}}, "tlsSecret"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"qps": 0}, "qps"),
        ({"burst": 40}, "qps"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
        ({"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}}, "metrics.serviceMonitor"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_values_that_make_no_sense_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(helm.HelmError, match=said):
        render("training-operators", **values)


@pytest.mark.parametrize(
    ("values", "argument"),
    [
        ({"qps": 20}, "--qps=20"),
        ({"qps": 20, "burst": 2_000_000}, "--burst=2000000"),
        ({"workers": 3}, "--workers=3"),
        ({"clusterDomain": "cluster.local"}, "--cluster-domain=cluster.local"),
        ({"trackingFinalizer": False}, "--no-tracking-finalizer"),
        ({"gangScheduler": "volcano"}, "--gang-scheduler-name=volcano"),
        ({"kueue": "own"}, "--kueue=own"),
        ({"metrics": {"port": 9000}}, "--metrics-port=9000"),
        ({"metrics": {"tokenSecret": {"name": "mine"}}}, "--metrics-token-file=/etc/jobcommon/metrics/token"),
        ({"progress": {"tlsSecret": "mine", "port": 9443}}, "--progress-port=9443"),
        ({"progress": {"tlsSecret": "mine"}}, "--progress-tls=/etc/jobcommon/progress"),
        ({"progress": {"tlsSecret": "mine"}}, "--progress-host=0.0.0.0"),
        ({"mpiKubectlImage": "here/kubectl:1"}, "--mpi-kubectl-image=here/kubectl:1"),
        ({"extraArgs": ["--metrics-host=::"]}, "--metrics-host=::"),
        ({"logLevel": "debug"}, "--log-level=debug"),
        ({"logFormat": "console"}, "--log-format=console"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_becomes_an_argument(values: dict[str, Any], argument: str) -> None:
    assert argument not in container(render("training-operators"))["args"]
    assert argument in container(render("training-operators", **values))["args"]


def test_every_argument_is_one_that_the_command_knows() -> None:
    from jobcommon.cli.main import app

    operator = next(command.callback for command in app.registered_commands if command.name == "operator")
    assert operator is not None
    known = {f"--{parameter.replace('_', '-')}" for parameter in operator.__annotations__}
    assert "--mpi-exec" in known, "an option of a framework's own"
    known |= {"--no-tracking-finalizer", "--no-mpi-exec"}
    everything: dict[str, Any] = {**PRODUCTION, "metrics": {"tokenSecret": {"name": "mine"}}}
    everything |= {
        "qps": 1,
        "burst": 1,
        "clusterDomain": "x",
        "trackingFinalizer": False,
        "gangScheduler": "auto",
        "kueue": "own",
    }
    args = container(render("training-operators", **everything))["args"]
    assert {a.partition("=")[0] for a in args if a.startswith("--")} <= known


def test_the_image_is_a_tag_or_a_digest() -> None:
    digest = "sha256:" + "0" * 64
    assert container(render("tf-operator"))["image"] == "jobcommon:0.1.0"
    assert container(render("tf-operator", image={"repository": "x/y", "tag": "2"}))["image"] == "x/y:2"
    assert container(render("tf-operator", image={"digest": digest}))["image"] == f"jobcommon@{digest}"


def test_what_a_production_cluster_needs_is_rendered() -> None:
    objects = render("training-operators", **PRODUCTION)
    pod = the(objects, "Deployment")["spec"]["template"]
    spec, selector = pod["spec"], the(objects, "Deployment")["spec"]["selector"]
    assert all(found["metadata"]["labels"]["team"] == "ml-platform" for found in (*objects, pod))
    assert "team" not in selector["matchLabels"], "a selector cannot be changed"
    assert container(objects)["env"][1:] == PRODUCTION["env"]
    assert spec["topologySpreadConstraints"] == [{**PRODUCTION["topologySpreadConstraints"][0], "labelSelector": selector}]
    # A null takes the field out; what is left is still "restricted".
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    own = {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True, "runAsUser": 7}
    changed = render("tf-operator", securityContext={"runAsUser": 7}, podSecurityContext={"fsGroup": 3})
    assert container(changed)["securityContext"] == {**own, "allowPrivilegeEscalation": False}
    assert the(changed, "Deployment")["spec"]["template"]["spec"]["securityContext"]["fsGroup"] == 3


def test_the_page_for_production_has_values_of_the_charts_and_a_policy() -> None:
    found = [
        yaml.safe_load(block.text) for block in blocks() if block.document.name == "production.md" and block.language == "yaml"
    ]
    values, policy = found
    kubernetes_validate.validate(policy, "1.36", strict=True)
    rendered = {found["kind"] for found in render("training-operators", **values)}
    assert {"NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "ServiceMonitor"} <= rendered


def test_a_network_policy_admits_who_scrapes_and_the_pods_of_jobs() -> None:
    assert "NetworkPolicy" not in {found["kind"] for found in render("training-operators")}
    objects = render("training-operators", **PRODUCTION)
    spec = the(objects, "NetworkPolicy")["spec"]
    assert spec["podSelector"] == the(objects, "Deployment")["spec"]["selector"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == PRODUCTION["networkPolicy"]["egress"]
    scrapes, reports = spec["ingress"]
    assert scrapes == {"ports": [{"port": 8080}], "from": PRODUCTION["networkPolicy"]["metricsFrom"]}
    (peer,) = reports["from"]
    assert reports["ports"] == [{"port": 8443}]
    assert peer["podSelector"] == {"matchExpressions": [{"key": JOB_NAME, "operator": "Exists"}]}
    named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": PRODUCTION["watchNamespaces"]}
    assert peer["namespaceSelector"] == {"matchExpressions": [named]}
    everywhere = the(render("tf-operator", networkPolicy={"enabled": True}, progress={"tlsSecret": "x"}), "NetworkPolicy")
    assert everywhere["spec"]["policyTypes"] == ["Ingress"]
    assert everywhere["spec"]["ingress"][0] == {"ports": [{"port": 8080}]}
    assert everywhere["spec"]["ingress"][1]["from"][0]["namespaceSelector"] == {}


def test_pods_can_report_their_progress() -> None:
    objects = render("pytorch-operator", progress={"tlsSecret": "certificate"})
    (service,) = (o for o in objects if o["kind"] == "Service" and o["metadata"]["name"].endswith("-progress"))
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert f"--progress-url=https://{name}.{namespace}.svc:8443" in container(objects)["args"]
    pod = the(objects, "Deployment")["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert {"name": port["targetPort"], "containerPort": 8443} in container(objects)["ports"]
    (mount,), (volume,) = container(objects)["volumeMounts"], pod["spec"]["volumes"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/etc/jobcommon/progress")
    assert volume["secret"]["secretName"] == "certificate"
    assert not any(o["metadata"]["name"].endswith("-progress") for o in render("pytorch-operator"))


def test_metrics_can_be_scraped() -> None:
    objects = render("pytorch-operator", metrics={"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}})
    service, monitor, deployment = (the(objects, kind) for kind in ("Service", "ServiceMonitor", "Deployment"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["ports"] == [{"name": "metrics", "port": 8080, "targetPort": "metrics"}]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "interval": "30s"}]


def test_a_token_for_the_metrics_comes_from_a_secret_and_goes_to_who_scrapes() -> None:
    secret = {"name": "scrape.token", "key": "bearer"}
    objects = render("tf-operator", metrics={"tokenSecret": secret, "serviceMonitor": {"enabled": True}})
    spec = the(objects, "Deployment")["spec"]["template"]["spec"]
    (volume,), (mount,) = spec["volumes"], container(objects)["volumeMounts"]
    assert volume["secret"]["secretName"] == "scrape.token"
    assert volume["secret"]["items"] == [{"key": "bearer", "path": "token"}]
    assert volume["secret"]["defaultMode"] == 0o440
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    assert mount == {"name": volume["name"], "mountPath": "/etc/jobcommon/metrics", "readOnly": True}
    assert the(objects, "ServiceMonitor")["spec"]["endpoints"][0]["authorization"] == {"credentials": secret}


def test_kubectl_exec_is_off_unless_wanted() -> None:
    assert "--no-mpi-exec" in container(render("mpi-operator"))["args"]
    assert "--no-mpi-exec" not in container(render("mpi-operator", mpiExec=True))["args"]


def test_optional_objects_are_off_by_default() -> None:
    kinds = {found["kind"] for found in render("training-operators")}
    assert not kinds & {"PodDisruptionBudget", "ServiceMonitor"}
    budget = the(render("training-operators", podDisruptionBudget={"enabled": True}), "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1


def test_an_account_and_roles_of_ones_own() -> None:
    objects = render("tf-operator", serviceAccount={"create": False, "name": "mine"}, rbac={"create": False})
    assert {found["kind"] for found in objects} == {"Deployment", "Service"}
    assert the(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


def test_the_notes_name_the_kinds_and_namespaces() -> None:
    assert "in all namespaces" in notes("training-operators")
    assert "jax, mpi, mxnet, paddle, pytorch, tensorflow, xgboost jobs" in notes("training-operators")
    two = notes("tf-operator", watchNamespaces=["team-a", "team-b"])
    assert "in namespace team-a, team-b" in two
    assert all(f"  jobcommon release-finalizers --namespace {one}" in two.splitlines() for one in ("team-a", "team-b"))
    assert "release-finalizers" not in notes("tf-operator", trackingFinalizer=False)


@pytest.mark.parametrize("chart", OPERATORS)
def test_versions_go_together(chart: str) -> None:
    library = yaml.safe_load((CHARTS / "jobcommon-lib" / "Chart.yaml").read_text())
    own = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    assert own["version"] == library["version"] == own["dependencies"][0]["version"]


@pytest.mark.parametrize("chart", SAMPLE)
def test_a_packaged_chart_renders_the_same(chart: str, tmp_path: Any) -> None:
    with helm.Chart.load(CHARTS / chart) as loaded:
        archive = loaded.save(tmp_path)
        expected = loaded.render({}, name="demo", namespace="operators")
    with helm.Chart.load(archive) as packed:
        assert packed.render({}, name="demo", namespace="operators") == expected
