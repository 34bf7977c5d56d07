"""The alerts and the Grafana dashboard of the charts use what an operator really exposes, and nothing else."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from jobcommon.api.pod import STOPPING_TAG
from tests.architecture.source import ROOT
from tests.charts.charts import SAMPLE, of_kind, render, the
from tests.docs.blocks import blocks
from tests.runtime.fakes import a_job
from tests.runtime.world import ELECTING, JOBS, PODS, Process, processes, world_with_testjobs

ON = {"metrics": {"prometheusRule": {"enabled": True}, "grafanaDashboard": {"enabled": True}}}
# What Prometheus adds to each series that it scrapes through the ServiceMonitor.
OF_THE_TARGET = {"job", "namespace", "pod", "instance"}
# Labels whose values are the operator's own; those of the others are written by a cluster.
ENUMERATED = {"state", "stage", "result"}
Labels = dict[str, set[str]]


@dataclass
class Selector:
    """One selector of an expression, and the labels by which the expression groups."""

    name: str
    matchers: list[tuple[str, str, str]]
    grouped: set[str]


async def exposed() -> dict[str, Labels]:
    """The series that a process has exposed after a restart, a success and a failure: their labels, with their values."""
    world = world_with_testjobs()
    process = Process(world, settings=ELECTING)
    async with processes(world, process):
        world.ok("POST", JOBS, a_job(restart="ExitCode"))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.play_all("Running")
        await world.clock.until(lambda: "Running" in world.conditions())
        world.play("train-worker-1", "Failed", 137)
        await world.clock.until(lambda: "Restarting" in world.conditions())
        await world.clock.until(lambda: [p["status"]["phase"] for p in world.pods()].count("Failed") == 0, step=1)
        world.play_all("Succeeded", 0)
        await world.clock.until(lambda: "Succeeded" in world.conditions())
        world.ok("POST", JOBS, a_job("second", workers=1))
        await world.clock.until(lambda: world.call("GET", f"{PODS}/second-worker-0").status == 200)
        world.play("second-worker-0", "Failed", 1)
        await world.clock.until(lambda: "Failed" in world.conditions("second"))
        await world.clock.advance(1)
        text = process.manager.metrics.render().decode()
    found: dict[str, Labels] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                values.setdefault(label, set()).add(value)
    return found


def selectors(expression: str) -> Iterator[Selector]:
    """Every selector in an expression. Raises ValueError if it is no PromQL."""
    promql_parser.parse(expression.replace("$__rate_interval", "5m"))
    groupings = re.findall(r"\bby \(([^)]*)\)", expression)
    grouped = {label for labels in groupings for label in re.findall(r"\w+", labels)}
    for name, text in re.findall(r"\b([a-z]\w*_\w+|up)\b(?!\()(?:{([^}]*)})?", re.sub(r"\bby \([^)]*\)|\$\w+", "", expression)):
        yield Selector(name, re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', text), grouped)


def complaints(expression: str, series: dict[str, Labels]) -> list[str]:
    """What an expression uses that no operator exposes. Raises ValueError if it is no PromQL."""
    found = []
    for selector in selectors(expression):
        if selector.name == "up":  # Prometheus' own, of each target
            continue
        if selector.name not in series:
            found.append(f"{selector.name} is not exposed")
            continue
        known = series[selector.name]
        used = {label for label, _, _ in selector.matchers} | selector.grouped
        found += [f"{selector.name} has no label {label}" for label in sorted(used - set(known) - OF_THE_TARGET)]
        for label, operator, text in selector.matchers:
            if label in ENUMERATED:
                wanted = text.split("|") if "~" in operator else [text]
                found += [f"{selector.name}: {label} is never {value}" for value in wanted if value not in known.get(label, ())]
    return found


def alerts(chart: str) -> dict[str, str]:
    """The expressions of a chart's alerts, by name."""
    groups = the(render(chart, **ON), "PrometheusRule")["spec"]["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def dashboard(chart: str) -> dict[str, Any]:
    """A chart's dashboard."""
    (found,) = of_kind(render(chart, **ON), "ConfigMap").values()
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    return dict(json.loads(found["data"]["training-operators.json"]))


async def test_alerts_and_dashboard_use_what_is_exposed() -> None:
    series = await exposed()
    expressions = {**alerts("training-operators")}
    for panel in dashboard("training-operators")["panels"]:
        expressions |= {f"{panel['title']} {t['refId']}": t["expr"] for t in panel.get("targets", ())}
    assert len(expressions) > 30
    assert {name: found for name, text in expressions.items() if (found := complaints(text, series))} == {}
    used = {selector.name for text in expressions.values() for selector in selectors(text)}
    ours = {name for name in series if name.startswith("training_operator_") and not name.endswith(("_sum", "_bucket"))}
    told = {name.removesuffix("_bucket").removesuffix("_count") for name in used}
    # A job that is restarted is in the restarts of its pods; what is refused is in the condition of its job.
    untold = {"training_operator_jobs_restarted_total", "training_operator_reports_refused_total"}
    assert {name for name in ours if name.removesuffix("_count") not in told} == untold


def test_every_alert_is_explained_where_it_links_to() -> None:
    text = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
    rows = re.findall(r'^\| <a id="(\w+)"></a>`(\w+)` \|', text, re.MULTILINE)
    assert [(name.lower(), name) for name in alerts("training-operators")] == rows


def test_the_rule_that_leaves_out_restarts_in_place() -> None:
    (block,) = (b for b in blocks() if b.document.name == "production.md" and b.language == "promql")
    promql_parser.parse(block.text)
    (image,) = re.findall(r'image_spec=~"(.*?)"', block.text)
    assert re.fullmatch(image, f"registry/train:1{STOPPING_TAG}12")


async def test_the_rules_that_keep_mpi_operators_names() -> None:
    (block,) = (b for b in blocks() if b.document.name == "migration.md" and b.language == "yaml")
    (group,) = yaml.safe_load(yaml.safe_load(block.text)["data"]["mpi-operator.yaml"])["groups"]
    rules, series = {rule["record"]: rule["expr"] for rule in group["rules"]}, await exposed()
    assert {name for name in rules if not name.startswith("mpi_operator_")} == set()
    assert {name: found for name, text in rules.items() if (found := complaints(text, series))} == {
        "mpi_operator_job_info": ["kube_pod_owner is not exposed"]  # kube-state-metrics does
    }


async def test_no_label_names_a_job_or_a_pod() -> None:
    series = await exposed()
    values = {value for labels in series.values() for found in labels.values() for value in found}
    assert not {value for value in values if "train" in value}
    assert {label for labels in series.values() for label in labels} <= {
        "code", "framework", "job_namespace", "le", "name", "reason", "resource", "result", "stage", "state", "verb",
    }  # fmt: skip


@pytest.mark.parametrize("chart", SAMPLE)
def test_every_chart_selects_its_own_operator(chart: str) -> None:
    for name, text in alerts(chart).items():
        for selector in selectors(text):
            own = {("namespace", "=", "operators"), ("job", "=", the(render(chart), "Service")["metadata"]["name"])}
            assert own <= set(selector.matchers), name
    assert dashboard(chart)["uid"]


def test_rules_have_labels_and_thresholds_of_the_values() -> None:
    rule = {"enabled": True, "labels": {"release": "prometheus"}, "launchDelaySeconds": 77, "restartsPerHour": 5}
    rule["runbookUrl"] = "https://wiki/production"
    found = the(render("tf-operator", metrics={"prometheusRule": rule}), "PrometheusRule")
    assert found["metadata"]["labels"]["release"] == "prometheus"
    text = json.dumps(found)
    assert "> 77" in text
    assert "> 5" in text
    assert all(f"https://wiki/production#{name.lower()}" in text for name in alerts("tf-operator"))
    assert re.search(r"\{\{ \$labels\.framework \}\}", text), "Prometheus' templates are left to Prometheus"
