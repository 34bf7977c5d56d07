"""Pods and Services as they are created."""

import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml

from jobcommon.api import labels
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica, format_indexes, parse_indexes
from jobcommon.framework import EnvVar, Job
from jobcommon.manifests.children import other_service_name, with_env
from jobcommon.reconcile import plan
from jobcommon.reconcile.plan import Create
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, job_manifest, observe, pod_manifest, replica_spec, template, view_of
from jobcommon.testutil.frameworks import TEST_JOB

PREFIX = "training.kubeflow.org/"
GOLDEN = Path(__file__).parent.parent / "golden/objects.yaml"


def created(replicas: dict[str, Any], **job: Any) -> dict[str, Manifest]:
    manifest = job_manifest(TEST_JOB, replicas, **job)
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START)
    made = {f"{a.plural}/{a.name}": a.manifest for a in decided.actions if isinstance(a, Create)}
    return cast("dict[str, Manifest]", msgspec.json.decode(msgspec.json.encode(made)))


def test_pods_are_made_when_they_are_sent_but_for_the_first_of_each_type() -> None:
    """To make 5,000 in one go held up all other jobs for a fifth of a second."""
    made: list[str] = []

    def env(_: Job, replica: Replica) -> list[EnvVar]:
        made.append(str(replica))
        return []

    framework = replace(TEST_JOB, env=env)
    job = read_job(framework, job_manifest(framework, {"Master": 1, "Worker": 3}))
    pods = [a for a in plan(framework, job, Observed(), START).actions if isinstance(a, Create) and a.plural == "pods"]
    assert made == ["Master-0", "Worker-0"]
    assert [pod.manifest["metadata"]["name"] for pod in pods] == [pod.name for pod in pods]
    assert made[2:] == ["Worker-1", "Worker-2"]


def test_a_pod_and_services_in_full() -> None:
    """Template's labels, name and spec; our labels, owner, finalizer, address, port and variables. S3: nothing else of it."""
    spec = replica_spec(TEST_JOB, 1, "OnFailure")
    spec["template"]["metadata"] = {
        "labels": {"label1": "1", PREFIX + "job-name": "mine", PREFIX + "replica-index": "-1"}, "annotations": {"note": "1"},
        "name": "mine", "generateName": "mine-", "namespace": "kube-system", "uid": "stolen", "finalizers": ["mine/x"],
        "ownerReferences": [{"uid": "mine"}], "deletionTimestamp": "2020-01-01T00:00:00Z", "managedFields": [{}],
    }  # fmt: skip
    spec["template"]["spec"] |= {"nodeSelector": {"gpu": "yes"}, "restartPolicy": "Always", "hostNetwork": True}
    text = yaml.safe_dump(created({"Worker": spec}, annotations={"training.kubeflow.org/service-per-replica": "true"}))
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "if this is meant: make golden"


OTHER_NAME = other_service_name(read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 1})))


@pytest.mark.parametrize(("recorded", "services", "taken", "pods", "name"), [
    pytest.param("", (), "", 0, "demo", id="the job's own"), pytest.param("", (), "demo", 0, OTHER_NAME, id="taken"),
    pytest.param("", ("demo",), "", 1, "demo", id="made by an earlier pass"),
    pytest.param("", (), "demo", 1, "demo", id="taken when pods have it in their addresses"),
    pytest.param("", (OTHER_NAME,), "", 0, OTHER_NAME, id="the other one exists"),
    pytest.param(OTHER_NAME, (), "", 1, OTHER_NAME, id="the other one is on record"),
    pytest.param("kube-dns", (), "", 0, "demo", id="a status that is not ours"),
])  # fmt: skip
def test_the_name_of_the_service(recorded: str, services: tuple[str, ...], taken: str, pods: int, name: str) -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 2}, status={"serviceName": recorded} if recorded else {})
    made_before = [view_of({"metadata": {"name": one, "namespace": "default", "labels": {}}}, uid=one) for one in services]
    seen = observe(TEST_JOB, manifest, {f"Worker-{index}": "running" for index in range(pods)})
    observed = replace(seen, services=tuple(made_before), taken_services=frozenset({taken}))
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START)
    made = {a.plural: a for a in decided.actions if isinstance(a, Create)}
    assert made["pods"].manifest["spec"]["subdomain"] == name
    assert ("services" in made) is (name not in services)
    if "services" in made:
        assert made["services"].name == name
        assert made["services"].otherwise == (OTHER_NAME if name == "demo" and not pods else "")
    assert decided.status is not None
    assert decided.status.service_name == (None if name == "demo" else OTHER_NAME)


@pytest.mark.parametrize(("own", "policy", "said"), [
    (None, "OnFailure", []), ("OnFailure", "OnFailure", []), ("Never", "ExitCode", []), ("OnFailure", "ExitCode", ["ExitCode"]),
    ("Always", None, ["Never"]),
])  # fmt: skip
def test_a_restart_policy_in_the_template_has_no_effect_and_that_is_said(own: str, policy: str, said: list[str]) -> None:
    spec = replica_spec(TEST_JOB, 1, policy)
    spec["template"]["spec"] |= {"restartPolicy": own} if own else {}
    job = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": spec}))
    decided = plan(TEST_JOB, job, Observed(), START)
    where = "spec.testReplicaSpecs[Worker].restartPolicy"
    assert [e.message for e in decided.events if e.reason == "SetPodTemplateRestartPolicy"] == [
        f"restartPolicy {own} in the pod template of Worker has no effect: set {where}, which is {counts}" for counts in said
    ]


OURS, CUSTOM = {"name": "job-port", "containerPort": 2222}, {"name": "customPort", "containerPort": 1234}
OTHER = {"name": "job-port", "containerPort": 99}


@pytest.mark.parametrize(("ports", "made"), [([OURS], [OURS]), ([], [OURS]), ([CUSTOM], [CUSTOM, OURS]), ([OTHER], [OTHER])])
@pytest.mark.parametrize("key", ["Worker", "WORKER", "worker"])
def test_defaults(key: str, ports: list[Manifest], made: list[Manifest]) -> None:
    fields = {"template": template(TEST_JOB, ports=ports)}
    manifest = job_manifest(TEST_JOB, {key: fields})
    job = read_job(TEST_JOB, manifest)
    assert (job.errors, list(job.replica_specs)) == ((), ["Worker"])
    assert (job.replica_specs["Worker"].replicas, job.replica_specs["Worker"].restart_policy) == (1, "Never")
    assert pod_manifest(TEST_JOB, job, Replica("Worker", 0))["spec"]["containers"][0]["ports"] == made
    assert manifest["spec"]["testReplicaSpecs"][key] is fields, "what the user wrote is not rewritten"


def test_precedence_of_variables() -> None:
    """What defines the cluster replaces the user's variable; a default gives way; each name stands once.

    $(RANK) works in what stands after RANK, so the user's come last, but before ours that name one of them.
    """
    own = {"RANK": "7", "LOG": "x", "URL": "tcp://$(RANK)"}
    container = {"name": "c", "env": [{"name": "RANK", "value": "8"}, *({"name": n, "value": v} for n, v in own.items())]}
    ours = [EnvVar("AT", "$(URL):1"), EnvVar("RANK", "0"), EnvVar("LOG", "y", default=True), EnvVar("NEW", "z", default=True)]
    result = [(entry["name"], entry["value"]) for entry in with_env(container, ours)["env"]]
    assert result == [("RANK", "0"), ("NEW", "z"), ("LOG", "x"), ("URL", "tcp://$(RANK)"), ("AT", "$(URL):1")]


SEARCH = "demo.default.svc.cluster.local"


@pytest.mark.parametrize(("own", "domain", "searches"), [
    pytest.param({}, "", [SEARCH], id="none of the user's"),
    pytest.param(
        {"searches": ["a.example"]}, "corp.local", ["a.example", "demo.default.svc.corp.local"], id="after the user's",
    ),
    pytest.param({}, "|corp.local", ["demo.default.svc.corp.local"], id="the domain of the operator's pod"),
    pytest.param({"searches": [SEARCH, "a.example"]}, "", [SEARCH, "a.example"], id="there already"),
    pytest.param({"searches": ["a.b"] * 32}, "", ["a.b"] * 32, id="as many as there may be"),
    pytest.param({"searches": ["a" * 203] * 10}, "", ["a" * 203] * 10, id="as long as they may be"),
    pytest.param({"searches": None, "options": [{"name": "ndots"}]}, "", [SEARCH], id="options are kept"),
])  # fmt: skip
def test_a_peer_s_plain_name_resolves(own: Manifest, domain: str, searches: list[str]) -> None:
    """By a search domain, under every dnsPolicy: programs for the reference use the names of its Services per replica."""
    spec = replica_spec(TEST_JOB, 1)
    spec["template"]["spec"] |= {"dnsConfig": own, "dnsPolicy": "None"} if own else {}
    given, _, found = domain.partition("|")
    framework = replace(TEST_JOB, options=replace(TEST_JOB.options, cluster_domain=given, search_domain=found))
    pod = pod_manifest(framework, read_job(framework, job_manifest(framework, {"Worker": spec})), Replica("Worker", 0))
    assert pod["spec"]["dnsConfig"] == {**own, "searches": searches}


def test_overrides_are_merged_by_name() -> None:
    spec = replica_spec(TEST_JOB, 3)
    spec["template"]["spec"] |= {"nodeSelector": {"a": "1", "b": "2"}, "tolerations": [{"key": "x"}]}
    spec["template"]["spec"]["containers"].append({"name": "sidecar", "image": "side"})
    spec["overrides"] = [
        {"indices": [1, 2], "template": {"spec": {"nodeSelector": {"b": None, "c": "3"}, "tolerations": [{"key": "y"}]}}},
        {"indices": [2], "template": {"spec": {"containers": [{"name": "test-container", "image": "other"}]}}},
    ]
    job = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": spec}))
    assert job.errors == ()
    specs = [pod_manifest(TEST_JOB, job, Replica("Worker", index))["spec"] for index in range(3)]
    assert [s["nodeSelector"] for s in specs] == [{"a": "1", "b": "2"}, {"a": "1", "c": "3"}, {"a": "1", "c": "3"}]
    assert [s["tolerations"] for s in specs] == [[{"key": "x"}], [{"key": "y"}], [{"key": "y"}]]
    assert [[c["image"] for c in s["containers"]] for s in specs] == [["image", "side"], ["image", "side"], ["other", "side"]]


@pytest.mark.parametrize(
    ("indexes", "text"),
    [(set(), None), ({0}, "0"), ({0, 1, 2}, "0-2"), ({0, 2}, "0,2"), ({3, 1, 2, 7, 9, 8}, "1-3,7-9")],
)
def test_indexes_as_ranges(indexes: set[int], text: str | None) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 10) == indexes


@pytest.mark.parametrize("text", ["", "-", "x", "1-", "-1", "3-1", "1.5", " 1", "1-2-3", "9" * 30, "²"])
def test_an_invalid_range_of_indexes_is_ignored(text: str) -> None:
    assert parse_indexes(text, 10) <= {1}


@pytest.mark.parametrize("run_policy", [{}, {"restartScope": "Job", "restartMethod": "Auto"}], ids=["Pod", "in place"])
def test_no_label_or_annotation_of_ours_comes_from_a_template(run_policy: dict[str, Any]) -> None:
    """With earlier-runs no failed run would count, with job-role a worker would be a master."""
    foreign = {"example.com/x": "y"}
    ours = {
        value: "999"
        for name, value in vars(labels).items()
        if name.isupper() and isinstance(value, str) and value.startswith(labels.PREFIX)
    }
    assert len(ours) >= 12
    plain = job_manifest(TEST_JOB, {"Worker": 1}, run_policy=run_policy)
    given = deepcopy(plain)
    template = given["spec"][TEST_JOB.replica_specs]["Worker"]["template"]
    template["metadata"] = {"labels": {**ours, **foreign}, "annotations": {**ours, **foreign}}
    made, usual = (pod_manifest(TEST_JOB, read_job(TEST_JOB, one), Replica("Worker", 0))["metadata"] for one in (given, plain))
    changed = {labels.TEMPLATE: made.get("annotations", {}).get(labels.TEMPLATE)} if run_policy else {}
    assert made["labels"] == {**usual["labels"], **foreign}
    assert made["annotations"] == {**usual.get("annotations", {}), **foreign, **changed}
