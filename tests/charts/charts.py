"""The charts as these tests see them: rendered by the real Helm, and the part of them that is written from the code."""

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO
from jobcommon.cli import rbac
from jobcommon.cli.rbac import Rule
from jobcommon.framework import Framework
from jobcommon.operators.trainjob import TRAINJOB
from tests.kinds import KINDS

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this platform")
Json = dict[str, Any]
CHARTS = Path(__file__).resolve().parents[2] / "charts"
RULES = CHARTS / "jobcommon-lib" / "templates" / "_rules.tpl"
FRAMEWORKS = {framework.name: framework for framework in (*KINDS, TRAINJOB)}
OPERATORS: Mapping[str, tuple[Framework, ...]] = {
    **{f"{'tf' if name == 'tensorflow' else name}-operator": (framework,) for name, framework in FRAMEWORKS.items()},
    "training-operators": KINDS,
}
#: The charts are links to the same files, but for their names: what does not depend on the kinds is seen in two of them.
SAMPLE = ("training-operators", "mxnet-operator")
NAMESPACE = "operators"


#: Values of every kind that a production cluster needs.
PRODUCTION: Json = {
    "watchNamespaces": ["default", "team-b"],
    "image": {"repository": "registry.internal/jobcommon", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "commonLabels": {"team": "ml-platform"},
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "NO_PROXY", "value": "10.96.0.1,127.0.0.1"}],
    "extraArgs": ["--workers=2"],
    "mpiExec": True,
    "mpiKubectlImage": "registry.internal/kubectl-delivery:1",
    "podSecurityContext": {"runAsUser": None, "runAsGroup": None},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "egress": [{"ports": [{"port": 443}, {"port": 6443}]}],
    },
    "progress": {"tlsSecret": "progress-tls"},
}


def render(chart: str, name: str = "demo", namespace: str = NAMESPACE, **values: Any) -> list[Json]:
    """The objects of a release. Raises HelmError."""
    return [dict(found) for found in yaml.safe_load_all(_rendered(chart, name, namespace, json.dumps(values))) if found]


@cache
def _rendered(chart: str, name: str, namespace: str, values: str) -> str:
    with helm.Chart.load(CHARTS / chart) as loaded:
        files = loaded.render(json.loads(values), name=name, namespace=namespace)
    return "---\n".join(
        text for file, text in files.items() if file.startswith(f"{chart}/templates/") and file.endswith(".yaml")
    )


def notes(chart: str, **values: Any) -> str:
    """What Helm prints after an installation."""
    with helm.Chart.load(CHARTS / chart) as loaded:
        return loaded.render(values, name="demo", namespace=NAMESPACE)[f"{chart}/templates/NOTES.txt"]


def of_kind(objects: Iterable[Json], kind: str) -> dict[str, Json]:
    """Those of a kind, by name."""
    return {found["metadata"]["name"]: found for found in objects if found["kind"] == kind}


def the(objects: Iterable[Json], kind: str) -> Json:
    """The only one of its kind."""
    (found,) = of_kind(objects, kind).values()
    return found


def container(objects: Iterable[Json]) -> Json:
    """The operator's container."""
    (found,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def as_json(rules: Iterable[Rule]) -> list[Json]:
    """The rules as they stand in a role."""
    return [rule.to_json() for rule in rules]


def rules_template() -> str:
    """The library chart's file of rules, as the code has them."""
    parts: dict[str, Iterable[Rule]] = {"shared": rbac.SHARED}
    for name, framework in FRAMEWORKS.items():
        parts[name] = rbac.job_rules(framework)
        if rbac.handed_on(framework):
            parts[f"{name}-exec"] = (*rbac.job_rules(framework, grants=True), *rbac.handed_on(framework))
        parts[f"cluster.{name}"] = rbac.cluster_rules([framework])
        parts[f"view.{name}"] = rbac.user_rules(framework, edit=False)
        parts[f"edit.{name}"] = rbac.user_rules(framework, edit=True)
        parts[f"kueue-reads.{name}"] = rbac.kueue_reads([framework])
    parts["gang.volcano"] = rbac.gang_rules(VOLCANO)
    parts["gang.kubernetes"] = rbac.gang_rules(NATIVE)
    parts["gang.coscheduling"] = rbac.gang_rules(COSCHEDULING)
    parts["gang.priorities"] = (rbac.PRIORITIES,)
    parts["kueue"] = rbac.KUEUE
    parts["kueue.cluster"] = rbac.KUEUE_CLUSTER
    # The lease has the release's name, which the template is given.
    parts["leader"] = rbac.lease_rules("{{ . }}")
    texts = [
        f'{{{{- define "jobcommon.rules.{name}" }}}}\n'
        + (yaml.safe_dump(as_json(rules), default_flow_style=None, sort_keys=False, width=120) if rules else "")
        + "{{- end }}\n"
        for name, rules in parts.items()
    ]
    texts += [
        f'{{{{- define "jobcommon.kueue.{name}" }}}}{one.kind}.{one.storage_version}.{one.group}{{{{ end }}}}\n'
        for name, one in FRAMEWORKS.items()
    ]
    return "{{- /* Written from cli/rbac.py by: make golden */}}\n" + "\n".join(texts)


if os.environ.get("GOLDEN") == "write":
    # Before any test renders a chart with it.
    RULES.write_text(rules_template(), encoding="utf-8")
